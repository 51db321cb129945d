/* SPDX-License-Identifier: Apache-2.0 */
/*
 * capo sweep: runs a command like capo run, with every call traced and timed; the tuner tries
 * candidates by the schedule of tuner/sweep.c. Everything is decided before the job starts: the
 * plan is text in the environment.
 */
#include "capo/collectives.h"
#include "capo/env.h"
#include "capo/msg.h"
#include "cli/base/cli_inputs.h"
#include "cli/run/cmd_run.h"
#include "cli/run/sweep_search.h"
#include "core/base/calls.h"
#include "core/base/size.h"

struct sweep {
        struct run run;
        char plan[32768]; /* CAPO_SWEEP */
        const char *refine;
        bool print;
};

/* @text begins with what separates it. */
static int append_plan(struct sweep *s, const char *text)
{
        if (strlen(s->plan) + strlen(text) >= sizeof s->plan)
                return capo_fail(-EINVAL, "sweep: too much to say in one plan");
        strcat(s->plan, text);
        return 0;
}

/* Add @value to the plan as @key's, if that understands it. Return: NULL; else what it expects. */
static const char *take_value(struct sweep *s, const char *key, const char *value,
                              const char *expected)
{
        static struct capo_sweep_plan plan;
        char field[512], why[128];
        char *dots;

        snprintf(field, sizeof field, " %s=%s", key, value);
        for (char *p = field; *p; p++)
                *p = *p == ',' ? '+' : *p;
        if (!strcmp(key, "sizes") && (dots = strstr(field, ".."))) {
                *dots = '-';
                memmove(dots + 1, dots + 2, strlen(dots + 1));
        }
        return !*value || strchr(value, ' ') || strlen(value) + 16 > sizeof field ||
                               capo_sweep_plan_parse(field, &plan, why, sizeof why) < 0
                       ? expected
               : append_plan(s, field) < 0 ? "a shorter plan"
                                           : NULL;
}

#define TAKE(key, ...)                                            \
        static const char *take_##key(void *s, const char *value) \
        {                                                         \
                static char words[80];                            \
                                                                  \
                (void)words;                                      \
                return take_value(s, #key, value, __VA_ARGS__);   \
        }
TAKE(colls, "all_reduce, all_gather, reduce_scatter, broadcast or reduce, with commas between")
TAKE(algos, capo_algo_words(" or ", words, sizeof words))
TAKE(protos, capo_proto_words(" or ", words, sizeof words))
TAKE(channels, "16 numbers from 0 to 64, with commas between")
TAKE(chunks, "16 sizes from 16 to 64M or 0, with commas between")
TAKE(sizes, "A..B, such as 1K..64M")
TAKE(slower, "a number from 0 on")

static const char *take_calls(void *s, const char *value)
{
        const char *expected = "a whole number from 1 on";

        return value[strspn(value, "0123456789")] || !strtoull(value, NULL, 10)
                       ? expected
                       : take_value(s, "calls", value, expected);
}

/* ---- --refine ---- */

static int append_list(struct sweep *s, const struct capo_sweep_list *list, const char *name,
                       int *n)
{
        const char *sign = *n ? "+" : " keep=";
        char item[64];
        int e = 0;

        for (unsigned i = 0; list->any && e == 0 && i < CAPO_SWEEP_CANDIDATES; i++) {
                if (!(list->bit[i / 64] >> i % 64 & 1))
                        continue;
                snprintf(item, sizeof item, "%s%s%u", sign, name, i + 1);
                e = append_plan(s, item);
                sign = "+";
                name = "";
                (*n)++;
        }
        return e;
}

/* Have the plan try what the search wants to know next. */
static int refine_plan(struct sweep *s, struct capo_sweep_plan *plan)
{
        struct capo_samples set = {0};
        struct sweep_round round;
        char left[160];
        size_t bare = strlen(s->refine);
        int n = 0;
        bool first = access(s->refine, F_OK) != 0;
        int e;

        while (bare > 1 && s->refine[bare - 1] == '/')
                bare--;
        if (first &&
            !(s->run.dir && !strncmp(s->run.dir, s->refine, bare) && s->run.dir[bare] == '/'))
                return capo_fail(-EINVAL,
                                 "sweep: --refine %s: no such folder. The first round makes it: "
                                 "--dir %.*s/1",
                                 s->refine, (int)bare, s->refine);
        e = first || cli_input_read(s->refine, NULL, &set) == 0 ? 0 : -EINVAL;

        if (e == 0) {
                sweep_search(plan, &set, &round);
                e = append_list(s, &plan->base, "base:", &n);
        }
        for (unsigned i = 0; e == 0 && i < 64 * CAPO_COLLS; i++) {
                char name[48];

                snprintf(name, sizeof name, "%s:%u:", capo_coll_word((enum capo_coll)(i / 64)),
                         i % 64);
                e = append_list(s, &plan->keep[i / 64][i % 64], name, &n);
        }
        capo_samples_free(&set);
        if (e < 0)
                return e;
        snprintf(left, sizeof left, "; for %u of %u sizes only the fastest are measured again",
                 round.settled, round.classes);
        if (round.tied)
                snprintf(left + strlen(left), sizeof left - strlen(left),
                         ", and for %u of them noise does not tell which is the fastest yet",
                         round.tied);
        capo_info(
                "--refine: %s%s: at most %u candidates of one size are tried; 20 times each takes %u "
                "calls of that size%s",
                first ? "first round, nothing is measured in " : "next round after ", s->refine,
                round.most, 20 * (round.most + 2), first ? "" : left);
        return 0;
}

static void print_plan(const char *text, const struct capo_sweep_plan *plan)
{
        puts(text);
        for (unsigned i = 0; i < plan->n; i++) {
                const struct capo_sweep_candidate *c = &plan->candidate[i];
                char size[16];

                printf("%u %s %s", i + 1, capo_algo_name(c->algo), capo_proto_name(c->proto));
                if (c->channels)
                        printf(", channels %u", c->channels);
                if (c->chunk)
                        printf(", chunks of %s", capo_size_print(c->chunk, size, sizeof size));
                puts("");
        }
}

static int finish_plan(struct sweep *s)
{
        static struct capo_sweep_plan plan;
        char why[128];

        /* Try what is named: the experiment is there to check NCCL's prediction. */
        if (strstr(s->plan, "algos=") && strstr(s->plan, "protos=") &&
            !strstr(s->plan, "slower=") && append_plan(s, " slower=0") < 0)
                return -EINVAL;
        if (capo_sweep_plan_parse(s->plan, &plan, why, sizeof why) < 0)
                return capo_fail(-EINVAL, "sweep: %s", why);
        if (s->refine && refine_plan(s, &plan) < 0)
                return -EINVAL;
        if (!*s->plan && append_plan(s, "calls=20000") < 0)
                return -EINVAL;
        if (s->print)
                print_plan(s->plan + (*s->plan == ' '), &plan);
        return 0;
}

static int sweep_run(void *options, int n, char **words)
{
        struct sweep *s = options;
        char library[PATH_MAX];

        if (!n && !s->print)
                return capo_fail(
                        CAPO_EXIT_USAGE,
                        "sweep: no command given, expected -- COMMAND [ARG...]; capo sweep --help");
        if (finish_plan(s) < 0)
                return CAPO_EXIT_FAIL;
        if (s->print)
                return CAPO_EXIT_OK;
        if (run_library(library, sizeof library) < 0)
                return CAPO_EXIT_FAIL;
        run_take_plugin("NCCL_TUNER_PLUGIN", CAPO_ENV_chain_tuner, library);
        run_setenv(CAPO_ENV_sweep, s->plan);
        s->run.trace = "all";
        unsetenv(CAPO_ENV_profile);
        return run_exec(&s->run, words);
}

static const struct sweep defaults = {.run = {.sample = 1}};

static const struct cli_option options[] = {
        {"coll", CLI_WHOLE("LIST", take_colls),
         "collectives: all_reduce,all_gather,...; default all five that have a choice",
         .example = "all_reduce,all_gather"},
        {"sizes", CLI_WHOLE("A..B", take_sizes), "sizes to try on, such as 1K..64M; default all",
         .example = "1K..64M"},
        {"algos", CLI_WHOLE("LIST", take_algos), "ring,tree,nvls,...; default all that NCCL offers",
         .example = "ring,tree"},
        {"protos", CLI_WHOLE("LIST", take_protos), "ll,ll128,simple; default all that NCCL offers",
         .example = "ll,ll128"},
        {"channels", CLI_WHOLE("LIST", take_channels),
         "numbers of channels, 0 for NCCL's own; default 0", .example = "0,4"},
        {"chunks", CLI_WHOLE("LIST", take_chunks),
         "chunk sizes, 0 for NCCL's own; default 0; others need NCCL 2.30", .example = "0,64K,256K",
         .rare = true},
        {"calls", CLI_WHOLE("N", take_calls),
         "calls per communicator to spend; afterwards NCCL chooses (default 20000)",
         .example = "500"},
        {"slower", CLI_WHOLE("X", take_slower),
         "leave out what NCCL predicts to be X times slower than its choice (default 4; 0, also with --algos and --protos: try all)",
         .example = "4", .rare = true},
        {"refine", CLI_FILE(struct sweep, refine, "DIR"),
         "search in rounds: try next to what is fastest in these logs of earlier rounds"},
        {"print", CLI_FLAG(struct sweep, print), "print the plan and its candidates, run nothing"},
        {"sample", CLI_COUNT(struct sweep, run.sample, "N", 0, INT_MAX),
         "time one in N calls on the GPU (default 1: every call)"},
        {CLI_TABLE(struct sweep, run, run_options), "and as in capo run:"},
        {0}};

const struct cli_command sweep_command = {
        .usage = "[OPTIONS] -- COMMAND [ARG...]",
        .about = "Measures what NCCL could have chosen. Runs COMMAND, any NCCL program from "
                 "nccl-tests to the training job itself, and lets each collective try another "
                 "candidate, the same on every rank; NCCL's own choice is among them. Results do "
                 "not change beyond the order of additions. What NCCL marks as impossible is not "
                 "tried. Afterwards: capo fit DIR -o profile.json. Stopping the job early is "
                 "fine.",
        .options = options,
        .after =
                "Every call is kept; a profile is not used, because candidates are compared with NCCL's own choices.\n"
                "\n"
                "examples:\n"
                "  capo sweep -- mpirun -n 8 ./all_reduce_perf -b 1K -e 1G -f 2 -n 200\n"
                "  capo sweep --algos ring,tree --channels 0,4,8 --calls 5000 -- torchrun --nproc-per-node 8 train.py\n"
                "  capo sweep --refine sweep --dir sweep/2 -- srun python train.py",
        .status =
                "COMMAND's; 127 there is no such command, 126 it cannot be run; 1 capo failed, 2 wrong command line.",
        .most = UINT_MAX,
        .command = true,
        .size = sizeof(struct sweep),
        .defaults = &defaults,
        .run = sweep_run,
};
