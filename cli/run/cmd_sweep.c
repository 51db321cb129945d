/* SPDX-License-Identifier: Apache-2.0 */
/*
 * capo sweep: runs a command like capo run, with every call traced and timed; the tuner tries
 * candidates by the schedule of tuner/sweep.c. Everything is decided before the job starts: the
 * plan is text in the environment.
 */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dirent.h>

#include "capo/collectives.h"
#include "capo/env.h"
#include "capo/frame_types.h"
#include "capo/msg.h"
#include "cli/base/cli.h"
#include "cli/base/cli_inputs.h"
#include "cli/run/cmd_run.h"
#include "core/base/calls.h"
#include "core/base/text.h"
#include "analysis/log/log_read.h"
#include "core/base/size.h"
#include "core/base/util.h"
#include "profiles/fit/fit.h"
#include "tuner/sweep_plan.h"

struct sweep {
        struct run run;
        char plan[32768]; /* CAPO_SWEEP */
        const char *refine;
        double seconds;
        bool print;
};

static int append_plan(struct sweep *s, const char *format, const char *a, const char *b)
{
        size_t n = strlen(s->plan);

        if (snprintf(s->plan + n, sizeof s->plan - n, format, n ? " " : "", a, b) >=
            (int)(sizeof s->plan - n))
                return capo_fail(-EINVAL, "sweep: too much to say in one plan");
        return 0;
}

/* ---- lists of words, in the plan's spelling ---- */

static const char *coll_word(const char *item)
{
        int coll = capo_coll_of_call(capo_call_find(item));

        return coll < 0 ? NULL : capo_coll_word((enum capo_coll)coll);
}

static const char *algo_word(const char *item)
{
        return capo_algo_find(item) ? capo_algo_name(capo_algo_find(item)) : NULL;
}

static const char *proto_word(const char *item)
{
        return capo_proto_find(item) ? capo_proto_name(capo_proto_find(item)) : NULL;
}

static const char *channels_word(const char *item)
{
        char *end;
        long v = strtol(item, &end, 10);

        return *end || v < 0 || v > CAPO_CHANNELS_MAX ? NULL : item;
}

/* Return: false: @value is not a list of words that @word knows. */
static bool add_list(struct sweep *s, const char *format, const char *value,
                     const char *(*word)(const char *item))
{
        char list[512] = "", item[64];

        for (const char *p = value; *p;) {
                size_t n = strcspn(p, ",+");
                const char *spelt;

                snprintf(item, sizeof item, "%.*s", (int)n, p);
                spelt = n > 0 && n < sizeof item ? word(item) : NULL;
                if (!spelt)
                        return false;
                capo_append(list, sizeof list, "%s%s", *list ? "+" : "", spelt);
                p += n + (p[n] != 0);
        }
        return append_plan(s, format, list, "") == 0;
}

static const char *take_colls(void *s, const char *value)
{
        return add_list(s, "%scolls=%s", value, coll_word)
                       ? NULL
                       : "all_reduce, all_gather, reduce_scatter, broadcast or reduce, with commas between";
}

static const char *take_algos(void *s, const char *value)
{
        static char words[80];

        return add_list(s, "%salgos=%s", value, algo_word)
                       ? NULL
                       : capo_algo_words(" or ", words, sizeof words);
}

static const char *take_protos(void *s, const char *value)
{
        static char words[80];

        return add_list(s, "%sprotos=%s", value, proto_word)
                       ? NULL
                       : capo_proto_words(" or ", words, sizeof words);
}

static const char *take_channels(void *s, const char *value)
{
        return add_list(s, "%schannels=%s", value, channels_word)
                       ? NULL
                       : "numbers from 0 to 64, with commas between";
}

static const char *chunk_word(const char *item)
{
        uint64_t bytes;

        return capo_size_parse(item, &bytes) < 0 || (bytes && bytes < CAPO_CHUNK_MIN) ||
                               bytes > CAPO_CHUNK_MAX
                       ? NULL
                       : item;
}

static const char *take_chunks(void *s, const char *value)
{
        return add_list(s, "%schunks=%s", value, chunk_word)
                       ? NULL
                       : "sizes from 16 to 64M or 0, with commas between";
}

static const char *take_sizes(void *s, const char *value)
{
        const char *dots = strstr(value, "..");
        uint64_t lo, hi;
        char from[24], a[24], b[24];

        if (!dots ||
            snprintf(from, sizeof from, "%.*s", (int)(dots - value), value) >= (int)sizeof from ||
            capo_size_parse(from, &lo) < 0 || capo_size_parse(dots + 2, &hi) < 0 || lo > hi)
                return "A..B, such as 1K..64M";
        snprintf(a, sizeof a, "%llu", (unsigned long long)lo);
        snprintf(b, sizeof b, "%llu", (unsigned long long)hi);
        return append_plan(s, "%ssizes=%s-%s", a, b) < 0 ? "a shorter plan" : NULL;
}

/* Check a number, and put it into the plan as written. */
static const char *take_number(struct sweep *s, const char *format, const char *value, double least,
                               bool whole)
{
        char *end;
        double v = strtod(value, &end);

        if (*end || end == value || !(v >= least) || (whole && v != floor(v)))
                return whole ? "a whole number from 1 on" : "a number from 0 on";
        return append_plan(s, format, value, "") < 0 ? "a shorter plan" : NULL;
}

static const char *take_calls(void *s, const char *value)
{
        return take_number(s, "%scalls=%s", value, 1, true);
}

static const char *take_slower(void *s, const char *value)
{
        return take_number(s, "%sslower=%s", value, 0, false);
}

/* ---- --refine and --seconds ---- */

/* Collectives per second of the busiest process in a folder of logs; 0: none. */
static double calls_per_second(const char *dir)
{
        DIR *d = opendir(dir);
        double most = 0;

        for (struct dirent *e; d && (e = readdir(d));) {
                _cleanup_(capo_log_closep) struct capo_log *log = NULL;
                struct capo_log_frame f;
                struct capo_log_end end;
                char path[PATH_MAX], why[160];

                snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
                if (e->d_name[0] == '.' || capo_log_open(path, &log, why, sizeof why) < 0)
                        continue;
                while (capo_log_next(log, &f) > 0) {
                        if (f.type == CAPO_FRAME_END && capo_log_end(&f, &end) == 0 && end.t_ns > 0)
                                most = fmax(most, (double)end.calls / ((double)end.t_ns / 1e9));
                }
        }
        if (d)
                closedir(d);
        return most;
}

static unsigned candidate_id(const struct capo_sweep_plan *plan, const struct capo_fit_candidate *c)
{
        for (unsigned i = 0; i < plan->n; i++) {
                if (plan->candidate[i].algo == c->algo && plan->candidate[i].proto == c->proto &&
                    plan->candidate[i].channels == c->channels &&
                    plan->candidate[i].chunk == c->chunk)
                        return i + 1;
        }
        return 0;
}

/* Drop candidates that clearly lost: at every measured size of the class, in every allocation, the
 * interval is above 1.1 times the best one's. */
static int refine_plan(struct sweep *s, const struct capo_sweep_plan *plan)
{
        struct capo_samples set = {0};
        struct capo_fit_options options = {.min_gain = 0.01};
        struct capo_fit *fit = NULL;
        struct capo_fault fault;
        static uint8_t lost[CAPO_COLLS][64][CAPO_SWEEP_CANDIDATES + 1],
                won[CAPO_COLLS][64][CAPO_SWEEP_CANDIDATES + 1];
        int e = cli_input_read(s->refine, NULL, &set) < 0 ? -EINVAL : 0, n = 0;

        if (e == 0 && capo_fit_make(&set, &options, &fit, &fault) < 0)
                e = capo_fail(-EINVAL, "sweep: --refine %s: %s", s->refine, fault.text);
        for (int i = 0; e == 0 && i < fit->n_series; i++) {
                const struct capo_fit_series *f = &fit->series[i];
                int coll = capo_coll_of_call(f->call);

                for (int p = 0; p < f->n_points; p++) {
                        const struct capo_fit_cell *best =
                                capo_fit_cell_of(f, p, f->points[p].best);
                        int class = 63 - __builtin_clzll(f->points[p].bytes);

                        for (int c = 1; c < f->n_candidates; c++) {
                                const struct capo_fit_cell *cell = capo_fit_cell_of(f, p, c);
                                unsigned id = candidate_id(plan, &f->candidates[c]);

                                if (!id || !cell->n_blocks || cell->n_samples < 8)
                                        continue;
                                (cell->lo > 1.1 * best->hi ? lost : won)[coll][class][id] = 1;
                        }
                }
        }
        for (int coll = 0; e == 0 && coll < CAPO_COLLS; coll++) {
                for (int class = 0; class < 64; class ++) {
                        for (unsigned id = 1; e == 0 && id <= plan->n; id++) {
                                char item[48];

                                if (!lost[coll][class][id] || won[coll][class][id])
                                        continue;
                                snprintf(item, sizeof item, "%s:%d:%u",
                                         capo_coll_word((enum capo_coll)coll), class, id);
                                e = append_plan(s, n == 0 ? "%sdrop=%s" : "%.0s+%s", item, "");
                                n++;
                        }
                }
        }
        if (e == 0)
                capo_info(
                        "%d candidates (of a collective and a class of sizes) have clearly lost and are left out",
                        n);
        capo_fit_free(fit);
        capo_samples_free(&set);
        return e;
}

static int finish_plan(struct sweep *s)
{
        static struct capo_sweep_plan plan;
        char why[128], calls[32];
        double rate;

        if (s->seconds > 0) {
                rate = s->refine ? calls_per_second(s->refine) : 0;
                if (rate <= 0)
                        return capo_fail(
                                -EINVAL,
                                "sweep: --seconds needs earlier logs of this job (--refine DIR) to tell how many "
                                "calls that is; or say --calls N");
                snprintf(calls, sizeof calls, "%.0f", fmax(1, rate * s->seconds));
                if (append_plan(s, "%scalls=%s", calls, "") < 0)
                        return -EINVAL;
        }
        /* Try what is named: the experiment is there to check NCCL's prediction. */
        if (strstr(s->plan, "algos=") && strstr(s->plan, "protos=") &&
            !strstr(s->plan, "slower=") && append_plan(s, "%sslower=0", "", "") < 0)
                return -EINVAL;
        if (capo_sweep_plan_parse(s->plan, &plan, why, sizeof why) < 0)
                return capo_fail(-EINVAL, "sweep: %s", why);
        if (s->refine && refine_plan(s, &plan) < 0)
                return -EINVAL;
        if (!s->plan[0])
                strcpy(s->plan, "calls=20000");
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
        if (s->print) {
                puts(s->plan);
                return CAPO_EXIT_OK;
        }
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
        {"seconds", CLI_SECONDS(struct sweep, seconds, "S", 0, INT_MAX),
         "the same as a time; needs --refine, whose logs tell how many calls that is",
         .rare = true},
        {"slower", CLI_WHOLE("X", take_slower),
         "leave out what NCCL predicts to be X times slower than its choice (default 4; 0, also with --algos and --protos: try all)",
         .example = "4", .rare = true},
        {"refine", CLI_FILE(struct sweep, refine, "DIR"),
         "leave out what has clearly lost in these earlier logs"},
        {"print", CLI_FLAG(struct sweep, print), "print the plan, run nothing"},
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
                "  capo sweep --refine capo-logs/first -- srun python train.py",
        .status =
                "COMMAND's; 127 there is no such command, 126 it cannot be run; 1 capo failed, 2 wrong command line.",
        .operand = "COMMAND",
        .most = UINT_MAX,
        .command = true,
        .size = sizeof(struct sweep),
        .defaults = &defaults,
        .run = sweep_run,
};
