/* SPDX-License-Identifier: Apache-2.0 */
/* capo diagnose: finds the cause of an earlier failure from whatever files remain. */
#include "capo/call_ids.h"
#include "capo/msg.h"
#include "cli/base/cli.h"
#include "cli/base/cli_screen.h"
#include "cli/diagnose/diagnose_inputs.h"
#include "core/base/calls.h"
#include "core/base/nccl_release.h"
#include "analysis/diagnose/page_form.h"
#include "profiles/fragment/expected.h"

struct options {
        bool json, markdown;
        const char *bugs;
};

/* Of what links carry: what is missing has a cause beside the protocol. */
static const double FAR_BELOW = 0.5;

/* Is what @run measured normal? Its finding @f then says so. */
static void judge_rate(struct capo_evidence *e, const struct capo_tests_run *run,
                       struct capo_diagnose_finding *f)
{
        const char *asked =
                capo_evidence_has("via ", e)
                        ? "the ways of NCCL's channels here (via ...): are they those of nvidia-smi topo -m?"
                        : "the same run with NCCL_DEBUG=INFO: which way does each channel go (via P2P, SHM, NET/IB, NET/Socket)?";
        struct capo_expected_shape shape = {.platform = ""};
        uint8_t call = *run->test ? (uint8_t)capo_call_find(run->test) : 0;
        struct capo_expected_row row = {.call = call ? call : (uint8_t)CAPO_CALL_ALLREDUCE,
                                        .bytes = run->bytes,
                                        .measured = run->busbw};
        /* NVLinks between nodes make a rack one node */
        bool one = run->n_nodes == 1 || (capo_evidence_has("MNNVL 1", e) && strstr(run->gpu, "GB"));
        uint32_t nodes = one ? 1 : run->n_nodes > 2 ? (uint32_t)run->n_nodes : 2;

        if (run->n_ranks < 2 || !run->bytes ||
            capo_layout_add(&shape.layout, (uint32_t)run->n_ranks / nodes, nodes) < 0)
                return;
        if (!one && run->expected > 0) {
                row.normal = run->expected;
                return;
        }
        if (strcmp(f->kind, "healthy") != 0 || !capo_expected_by_gpu(run->gpu, &shape, &row))
                return;
        ADD(f->detail, "\n%d x %s: %.4g GB/s by %s", run->n_ranks, run->gpu, row.normal,
            row.by == CAPO_BY_PUBLIC ? "public measurements"
                                     : "the links, which no software reaches");
        if (row.verdict == CAPO_EXPECTED_NORMAL) {
                ADD(f->headline, ": ITS BANDWIDTH IS NORMAL");
                f->sure = row.by == CAPO_BY_PUBLIC ? f->sure : "likely";
                SAY(f->next, "nothing");
        } else if (row.by != CAPO_BY_PUBLIC && row.measured < FAR_BELOW * row.normal) {
                capo_finding_is(f, CAPO_RANK_SLOW, "slow", shape.nvlink ? "likely" : "unsure");
                SAY(f->headline,
                    "NCCL-TESTS REACHES %.4g GB/s; the links of such a GPU carry at most %.4g",
                    row.measured, row.normal);
                f->measured = true;
                SAY(f->next, "%s", asked);
        } else if (row.verdict == CAPO_EXPECTED_LOW || row.verdict == CAPO_EXPECTED_NOT_NORMAL) {
                capo_finding_is(f, CAPO_RANK_SLOW, "slow", "likely");
                SAY(f->headline, "NCCL-TESTS IS SLOW: %.4g OF %.4g GB/s for these GPUs",
                    row.measured, row.normal);
                f->measured = true;
                SAY(f->next, "%s", asked);
        }
}

/* The numbers of nccl-tests. */
static void judge_rates(struct capo_evidence *e)
{
        for (uint32_t i = 0; i < e->n_runs; i++) {
                const struct capo_tests_run *run = &e->runs[i];

                for (uint32_t k = 0; k < e->n_findings; k++) {
                        struct capo_diagnose_finding *f = &e->findings[k];

                        if (run->line && f->n_marks && f->marks[0].text == run->text &&
                            f->marks[0].line == run->line)
                                judge_rate(e, run, f);
                }
        }
}

/* With only capo logs, run capo hang, which knows more about them. A single word may be their
 * folder. */
static int hand_to_hang(const struct diagnose_inputs *in, int n, char **words, bool json)
{
        const char *argv[CLI_OPTIONS_MAX + 3] = {"hang"};
        int argc = 1;

        if (json)
                argv[argc++] = "--json";
        if (n == 1)
                argv[argc++] = words[0];
        for (size_t i = 0; n > 1 && i < in->logs.n && argc < CLI_OPTIONS_MAX; i++)
                argv[argc++] = in->logs.v[i];
        return cli_run(cli_verb_find("hang", NULL), argc, (char **)(uintptr_t)argv);
}

/* Name the files beside logs that proved nothing. */
static void tell_unused(const struct diagnose_inputs *in, int n, char **words)
{
        for (uint32_t i = 0; i < in->evidence.n_texts && n > 1; i++) {
                const struct capo_evidence_text *t = &in->evidence.texts[i];

                for (int k = 0; k < n && !t->n[CAPO_EVIDENCE_LOG]; k++) {
                        if (!strcmp(words[k], t->name))
                                capo_warn(
                                        "not used: %s: no line is one that capo knows as an error; the logs alone are judged",
                                        t->name);
                }
        }
}

static int run_diagnose(void *options, int n, char **words)
{
        const struct options *o = options;
        struct diagnose_inputs in = {0};
        int release = 0, last, r, status;
        bool together;

        if (o->bugs) {
                if (strcmp(o->bugs, "all") != 0 &&
                    (capo_nccl_parse(o->bugs, &release, &last, NULL) < 0 || release != last)) {
                        capo_error("--bugs: expected a release such as 2.28.9, or all; found %s",
                                   o->bugs);
                        return CAPO_EXIT_USAGE;
                }
                r = diagnose_bugs(release, o->json, o->json ? stdout : cli_screen_begin(stdout));
                return r < 0                          ? CAPO_EXIT_FAIL
                       : release > capo_bugs_newest() ? CAPO_EXIT_UNKNOWN
                                                      : CAPO_EXIT_OK;
        }
        if (!n) {
                capo_error("which files? Logs, dumps, folders of them, or - for standard input");
                return CAPO_EXIT_USAGE;
        }
        r = diagnose_read(&in, n, words);
        if (r == 0) {
                capo_evidence_judge(&in.evidence);
                diagnose_flight(&in);
                judge_rates(&in.evidence);
                capo_evidence_settle(&in.evidence);
        }
        status = r < 0 ? CAPO_EXIT_UNKNOWN : diagnose_exit(&in);
        together = r == 0 && in.logs.n && capo_evidence_verdict(&in.evidence);
        if (together) {
                diagnose_logs(&in);
                status = diagnose_exit(&in);
        }
        if (r == 0 && in.logs.n && !together) {
                tell_unused(&in, n, words);
                status = hand_to_hang(&in, n, words, o->json);
        } else if (r == 0)
                r = o->json ? diagnose_json(&in, stdout) : diagnose_page(&in, o->markdown, stdout);
        diagnose_finish(&in);
        if (fflush(stdout) != 0 || ferror(stdout)) /* main() prints why */
                return CAPO_EXIT_FAIL;
        return r < 0 ? CAPO_EXIT_UNKNOWN : status;
}

static const struct cli_option options[] = {
        {"bugs", CLI_TEXT(struct options, bugs, "RELEASE"),
         "the known bugs of that NCCL release, or all; takes no operands", .example = "2.28.9"},
        {"json", CLI_FLAG(struct options, json), "for programs"},
        {"markdown", CLI_FLAG(struct options, markdown),
         "the page as Markdown, to paste into an issue"},
        CLI_WIDE,
        {0}};

const struct cli_command diagnose_command = {
        .usage = "[OPTION...] FILE|DIR|-... | --bugs RELEASE",
        .about =
                "Says what went wrong from what is left of a failed job. The job need not have run under capo. "
                "Give all files that you have in one command: together they say more.\n"
                "Files are recognised by their content:\n"
                "  PyTorch watchdog lines, flight recorder dumps (JSON or the pickle)\n"
                "  NCCL_DEBUG lines of one or many ranks, answers of NCCL's RAS\n"
                "  kernel log lines, lines of torchrun, MPI, Slurm, Kubernetes and Ray\n"
                "  output of nccl-tests, stacks of py-spy and gdb, topologies, capo logs\n"
                "The page has what was recognised, the verdict with the lines it is from, and one next step. "
                "A rank is never accused because its lines are missing.",
        .options = options,
        .after = "  capo diagnose job.log\n"
                 "  capo diagnose job.log ras.txt /tmp/nccl_trace_rank_*\n"
                 "  dmesg | capo diagnose -\n"
                 "  capo diagnose --bugs 2.28.9",
        .status =
                "0 it is proved that nothing failed; 1 a fault was found, 2 wrong command line, 3 not enough to say.",
        .most = UINT_MAX,
        .size = sizeof(struct options),
        .run = run_diagnose,
};
