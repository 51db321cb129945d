/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/base/cli.h"
#include "cli/base/cli_fields.h"
#include "cli/base/cli_json.h"
#include "cli/base/cli_screen.h"
#include "cli/doctor/doctor.h"

static void add_count(char text[128], unsigned n, const char *what)
{
        if (n)
                capo_append(text, 128, "%s%s", *text ? ", " : "", capo_text_plural(n, what, NULL));
}

/* Print one line per finding, then the verdict. @unknown: the words of a command of which it is not
 * known whether it calls NCCL; or NULL. */
static void print_text(const struct capo_findings *f, char **unknown)
{
        _cleanup_(capo_table_freep) struct capo_table *t = capo_table_new("ll.l~");
        unsigned n[CAPO_FINDING_FAIL + 1] = {0};
        FILE *out = cli_screen_begin(stdout);
        char counts[128] = "";

        for (size_t i = 0; i < f->n; i++) {
                const struct capo_finding *row = &f->rows[i];

                n[row->level]++;
                capo_table_row(t, "%-4s\t%-10s\t%s", capo_finding_word(row->level), row->topic,
                               row->text);
        }
        capo_table_print(t, out, 0);
        add_count(counts, n[CAPO_FINDING_FAIL], "failure");
        capo_append(counts, sizeof counts, "%s%u ok", *counts ? ", " : "", n[CAPO_FINDING_OK]);
        add_count(counts, n[CAPO_FINDING_WARN], "warning");
        add_count(counts, n[CAPO_FINDING_NOTE], "note");
        if (n[CAPO_FINDING_FAIL] || !unknown)
                fprintf(out, "%s: %s\n", n[CAPO_FINDING_FAIL] ? "NOT READY" : "READY", counts);
        else
                fprintf(out,
                        "UNKNOWN: %s. Whether %s calls NCCL is only known after a run: capo run --",
                        counts, capo_base_name(*unknown));
        for (; unknown && !n[CAPO_FINDING_FAIL] && *unknown; unknown++)
                fprintf(out, strpbrk(*unknown, " \t\n\"'\\$;&|<>()*?") ? " '%s'" : " %s", *unknown);
        if (unknown && !n[CAPO_FINDING_FAIL])
                fputc('\n', out);
}

struct answer {
        struct capo_reach reach;
        const char *verdict;
};

#define FINDING_FIELDS(F)                              \
        F("level", WORD, capo_finding_word(of->level)) \
        F("topic", TEXT, of->topic)                    \
        F("text", TEXT, of->text)
CLI_ENTITY_SHARED(capo_finding_fields, struct capo_finding, void, FINDING_FIELDS);

#define PAGE_FIELDS(F)                        \
        F("capo_doctor", COUNT, 1)            \
        F("verdict", WORD, in->verdict)       \
        F("libnccl", TEXT, in->reach.library) \
        F("nccl", RANK, in->reach.version)    \
        F("findings", JSON, CLI_ENTITIES(capo_finding_fields, NULL, of->rows, of->n))
CLI_ENTITY(doctor, struct capo_findings, struct answer, PAGE_FIELDS);

struct options {
        bool json;
};

static int run_doctor(void *options, int n, char **words)
{
        const struct options *o = options;
        struct capo_findings f = {0};
        struct answer a = {0};
        char **unknown;
        bool fail = false;

        capo_doctor_command(&f, n ? words : NULL, &a.reach);
        if (!capo_doctor_node(&f, &a.reach) && !capo_doctor_pci_gpus())
                capo_finding_add(&f, CAPO_FINDING_NOTE, "gpu",
                                 "no NVIDIA GPU is here: the GPUs of other nodes were "
                                 "not checked");
        for (size_t i = 0; i < f.n; i++)
                fail |= f.rows[i].level == CAPO_FINDING_FAIL;
        unknown = n && !a.reach.shown ? words : NULL;
        a.verdict = fail ? "not-ready" : unknown ? "unknown" : "ready";
        if (o->json)
                cli_json_print(stdout, cli_entity_json(&doctor, &a, &f), JSON_INDENT(2));
        else
                print_text(&f, unknown);
        return fail ? CAPO_EXIT_FAIL : CAPO_EXIT_OK;
}

static const struct cli_option options[] = {
        {"json", CLI_FLAG(struct options, json), "for programs"}, CLI_WIDE, {0}};

const struct cli_command doctor_command = {
        .usage = "[OPTIONS] [-- COMMAND [ARG...]]",
        .about =
                "Checks before a job what would go wrong:\n"
                "  whether capo will see this program's NCCL (linked, opened at run time, or "
                "static)\n"
                "  which tuner, profiler and net plugin NCCL would load, and what capo does "
                "beside them\n"
                "  settings that have no effect, contradict each other or are dangerous for "
                "this NCCL release\n"
                "  fast networks that would stay unused, and whether there is room to record\n"
                "COMMAND is not run; a Python interpreter is asked for its search path. READY: no FAIL, "
                "and COMMAND can call NCCL. UNKNOWN: nothing shows before a run that it can.\n"
                "\n"
                "  ok    fine            note  worth knowing\n"
                "  warn  probably wrong  FAIL  will not work",
        .options = options,
        .after = "  capo doctor -- python train.py\n"
                 "  NCCL_TREE_THRESHOLD=0 capo doctor -- ./all_reduce_perf",
        .status = "0 no FAIL, 1 at least one FAIL, 2 wrong command line.",
        .most = UINT_MAX,
        .command = true,
        .size = sizeof(struct options),
        .run = run_doctor,
};
