/* SPDX-License-Identifier: Apache-2.0 */
/* capo plan: makes a question from the command line, and asks it without and with the profile. */
#include <math.h>
#include <signal.h>

#include "capo/msg.h"
#include "cli/base/cli.h"
#include "cli/base/cli_json.h"
#include "cli/base/cli_machine.h"
#include "cli/base/cli_screen.h"
#include "cli/plan/cmd_plan.h"
#include "core/base/util.h"
#include "profiles/machine/platform.h"

static int print_plan(struct plan_options *o, const struct capo_plan_answer *own,
                      const struct capo_plan_answer *with)
{
        _cleanup_(capo_profile_freep) struct capo_profile *profile = NULL;
        char layout[CAPO_LAYOUT_TEXT];
        struct capo_plan_by by = {.layout = cli_question_layout(&o->q, layout, sizeof layout),
                                  .class = o->q.class,
                                  .allow_modelled = o->q.allow_modelled,
                                  .n_ranks = (unsigned)o->q.n_ranks};
        struct capo_plan_comparison c;
        bool agree;

        o->by_rules = with && o->q.profile && !o->q.tuner &&
                      capo_profile_load(o->q.profile_path, &profile, NULL) == 0;
        by.profile = profile;
        if (capo_plan_compare(own, with, &by, &c) < 0)
                return CAPO_EXIT_FAIL;
        /* by that release's own model */
        for (size_t i = 0; o->q.nccl_2 && with && i < with->n_rows; i++)
                c.rows[i].with = with->rows[i];
        if (c.modelled_left)
                capo_info(
                        "modelled rules of the profile that are not used: %u; --allow-modelled uses them",
                        c.modelled_left);
        CLI_FORM_PRINT(o->form, plan_page(o, own, with, &c), plan_json(o, own, with, &c), PLAN_JSON,
                       "rows");
        if (o->form == CLI_FORM_TEXT && o->q.log && (with ? with : own)->log)
                printf("\nLOG         NCCL's own words\n%s", (with ? with : own)->log);
        agree = c.agree;
        capo_plan_comparison_finish(&c);
        if (agree)
                return CAPO_EXIT_OK;
        return capo_fail(CAPO_EXIT_FAIL,
                         "plan: ranks decided differently: such a job hangs or computes nonsense");
}

static int answer_question(struct plan_options *o)
{
        struct capo_plan_answer answers[2] = {0};
        int status = cli_question_ask(&o->q, "plan", true, answers);

        if (status == CAPO_EXIT_OK && o->q.n_topo < 2 && o->q.domain < 2 && !o->q.nccl_2)
                cli_machine_advise(&(struct cli_machine_words){.topo = o->q.topo[0],
                                                               .platform = o->q.platform},
                                   o->q.gpus    ? o->q.gpus
                                   : o->q.alloc ? o->q.alloc
                                                : "",
                                   !o->q.gpus, o->q.nccl, &o->advice);
        if (status == CAPO_EXIT_OK)
                status = print_plan(o, &answers[0],
                                    o->q.profile || o->q.tuner || o->q.nccl_2 ? &answers[1] : NULL);
        capo_plan_answer_finish(&answers[0]);
        capo_plan_answer_finish(&answers[1]);
        return status;
}

static int plan_run(void *options, int n, char **words)
{
        struct plan_options *o = options;
        int status;

        if (o->every && (o->q.profile || o->q.tuner))
                return capo_fail(
                        CAPO_EXIT_USAGE,
                        "plan: --every shows what NCCL does by itself; ask one allocation with --profile or --tuner");
        if (o->q.nccl_2 && (o->every || o->q.profile || o->q.tuner))
                return capo_fail(
                        CAPO_EXIT_USAGE,
                        "plan: two --libnccl compare releases by themselves, without --every, --profile and --tuner");
        if (o->q.alloc && o->q.gpus)
                return capo_fail(CAPO_EXIT_USAGE,
                                 "plan: --alloc and --gpus say the same thing; give one");
        for (size_t i = 0; i < 3; i++) {
                static const int signals[] = {SIGINT, SIGTERM, SIGHUP};

                if (signal(signals[i], capo_plan_interrupt) == SIG_IGN) /* for nohup */
                        signal(signals[i], SIG_IGN);
        }
        if (o->q.log) /* NCCL's lines are not folded */
                cli_screen_wide();
        if (!o->q.colls)
                o->q.colls = "allreduce";
        if (!o->q.sizes)
                o->q.sizes = o->every ? "1M,256M" : "1K..1G*4";
        o->q.timeout_ms = (unsigned)(o->timeout_s * 1000);
        status = cli_question_prepare(&o->q, "plan");
        if (status == CAPO_EXIT_OK && !o->every)
                status = cli_question_ranks(&o->q, "plan");
        if (status == CAPO_EXIT_OK)
                status = o->every ? plan_every(o) : answer_question(o);
        return status;
}

static void finish_question(void *options)
{
        cli_question_finish(&((struct plan_options *)options)->q);
}

static void print_platforms(FILE *out)
{
        const struct capo_platform *p;

        fputs("\nplatforms:\n", out);
        for (size_t i = 0; (p = capo_platform_at(i)); i++) {
                if (p->from != CAPO_PLATFORM_SHAPE)
                        fprintf(out, "  %-11s %s\n", p->name, p->what);
        }
}

static const char *take_every(void *options, const char *value)
{
        struct plan_options *o = options;
        char rest;

        if (sscanf(value, "%d+%d%c", &o->every, &o->every_2, &rest) != 2) {
                o->every_2 = 0;
                if (sscanf(value, "%d%c", &o->every, &rest) != 1)
                        o->every = 0;
        }
        if (o->every < 1 || o->every > CAPO_PLAN_GPUS_MAX || o->every_2 < 0 ||
            o->every_2 > CAPO_PLAN_GPUS_MAX)
                return "a number of GPUs, or two for all splits over two nodes, such as 3+5";
        return NULL;
}

static const char *take_nccl(void *options, const char *value)
{
        struct plan_options *o = options;

        if (o->q.nccl_2)
                return "two files at most";
        *(o->q.nccl ? &o->q.nccl_2 : &o->q.nccl) = value;
        return NULL;
}

static const struct cli_option options[] = {
        {"topo", CLI_LIST(struct plan_options, q.topo, q.n_topo, "FILE,..."),
         "NCCL topology XML (capo topo capture writes one), or the text of nvidia-smi topo -m; with several, one per node"},
        {"platform", CLI_TEXT(struct plan_options, q.platform, "NAME"),
         "a machine by its name: dgx1v, dgxa100, p5, hgxh100, gb200-nvl72, ... (--help=all lists them); with --topo it completes the file"},
        {"alloc", CLI_TEXT(struct plan_options, q.alloc, "3+5"),
         "the first 3 GPUs of one node and the first 5 of another, or 4x8; default: every GPU of one machine"},
        {"gpus", CLI_TEXT(struct plan_options, q.gpus, "LIST"),
         "these GPUs of these nodes: 0:1,2,3;1:0-4 or 1,2,3+0-4; 1,4,6 of one node"},
        {"domain", CLI_COUNT(struct plan_options, q.domain, "N", 1, 4096),
         "N nodes at a time share an NVLink domain (MNNVL), as trays of GB200 and GB300; default: as the platform has it "
         "(gb200-nvl72: 18), 1: NVLink ends at the node",
         .rare = true},
        {"coll", CLI_TEXT(struct plan_options, q.colls, "LIST"),
         "allreduce, broadcast, reduce, allgather, reducescatter, with commas between, or all; default allreduce"},
        {"sizes", CLI_TEXT(struct plan_options, q.sizes, "1K..1G*2"),
         "from..to times step (or +step), or a list; default 1K..1G*4"},
        {"nccl", CLI_WHOLE("FILE", take_nccl), NULL},
        {"libnccl", CLI_WHOLE("FILE", take_nccl),
         "the libnccl.so.2 to ask; default CAPO_NCCL or the one found here; given twice, both are compared"},
        {"windows", CLI_FLAG(struct plan_options, q.windows),
         "the buffers are symmetric windows (ncclMemAlloc, ncclCommWindowRegister): symmetric kernels may run",
         .rare = true},
        {"whole", CLI_FLAG(struct plan_options, q.whole),
         "ask every rank, up to 256, also of nodes that are alike. Without it two nodes of each kind are asked where there are "
         "more than 32 ranks, and the others stood in for",
         .rare = true},
        {"profile", CLI_FILE(struct plan_options, q.profile, "P"),
         "ask again with capo's tuner plugin and this profile, and show where they differ"},
        {"allow-modelled", CLI_FLAG(struct plan_options, q.allow_modelled),
         "with its modelled rules too, which no clock has seen", .rare = true},
        {"layout", CLI_TAKE(struct plan_options, q.layout, "L", cli_question_take_layout),
         "what a launcher tells capo's tuner of the ranks per node (CAPO_LAYOUT); default: the truth; none: nothing",
         .example = "3+5", .rare = true},
        {"tuner", CLI_FILE(struct plan_options, q.tuner, "FILE.so"),
         "ask again with another tuner plugin", .rare = true},
        {"spy", CLI_FLAG(struct plan_options, q.spy),
         "print what NCCL gives a tuner: init arguments, model constants, cost tables",
         .rare = true},
        {"graph", CLI_FLAG(struct plan_options, graph),
         "also the rings, trees and bandwidths that NCCL found"},
        {"log", CLI_FLAG(struct plan_options, q.log),
         "also NCCL's own lines of INIT, GRAPH and TUNING, as NCCL_DEBUG=INFO prints them",
         .rare = true},
        CLI_FORM_JSON_OPTION(struct plan_options, form),
        CLI_FORM_CSV_OPTION(struct plan_options, form),
        CLI_FORM_MARKDOWN_OPTION(struct plan_options, form),
        {"every", CLI_WHOLE("3", take_every),
         "all 3-GPU subsets of the machine, grouped by what NCCL makes of them; 3+5: all splits",
         .example = "3+5"},
        {"all", CLI_FLAG(struct plan_options, all),
         "with --every i+j: ask every split, also those that symmetry makes equal", .rare = true},
        {"jobs", CLI_COUNT(struct plan_options, q.jobs, "N", 1, 64),
         "questions asked at a time with --every; default: one per processor", .rare = true},
        {"timeout", CLI_SECONDS(struct plan_options, timeout_s, "S", 0.1, 3600),
         "kill NCCL after S seconds; default 60, and 1 per rank, more on a busy machine",
         .rare = true},
        CLI_WIDE,
        {0}};

const struct cli_command plan_command = {
        .usage = "--topo FILE[,FILE...] [--alloc 3+5 | --gpus 0:1,2,3;1:0-4] [OPTIONS]\n"
                 "--platform NAME ...",
        .about = "Asks the real, unmodified libnccl, on virtual GPUs, what it will do on a machine "
                 "that is not here. No GPU is needed. Decisions are NCCL's own. Times are NCCL's "
                 "model; nothing is measured.",
        .options = options,
        .after = "NCCL_* settings of the environment hold for the NCCL that is asked.\n"
                 "\n"
                 "  capo plan --platform dgx1v --gpus '0:1,2,3;1:0-4' --sizes 64K..1G*4\n"
                 "  capo plan --topo node.xml --alloc 3+5 --profile mycluster.json\n"
                 "  capo plan --platform dgx1v --every 3",
        .list = print_platforms,
        .status = "0; 1 it could not be asked, or ranks disagree; 2 wrong command line",
        .size = sizeof(struct plan_options),
        .run = plan_run,
        .finish = finish_question,
};
