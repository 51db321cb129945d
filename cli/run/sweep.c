/* SPDX-License-Identifier: Apache-2.0 */
/*
 * capo sweep: runs a command as capo run does, every call traced and timed, the tuner trying candidates by the schedule
 * of tuner/sweep.c. All thinking happens before the job starts: the plan is text in the environment.
 */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dirent.h>

#include "capo/msg.h"
#include "cli/base/cli.h"
#include "cli/base/inputs.h"
#include "cli/run/run.h"
#include "cli/base/where.h"
#include "core/base/calls.h"
#include "core/log/read.h"
#include "core/base/size.h"
#include "core/base/util.h"
#include "profiles/fit/fit.h"
#include "tuner/sweep_plan.h"

static void help(void)
{
        printf("usage: capo sweep [OPTIONS] -- COMMAND [ARG...]\n\n"
               "Measures what NCCL could have chosen: runs COMMAND, any NCCL program from nccl-tests to the training "
               "job\n"
               "itself, and lets each collective try another candidate, the same on every rank, NCCL's own choice "
               "among\n"
               "them. Results do not change beyond the order of additions. What NCCL marks as impossible is not "
               "tried.\n"
               "Afterwards: capo fit DIR -o profile.json. Stopping the job early is fine.\n\n"
               "  --coll LIST      collectives: all_reduce,all_gather,...; default all five that have a choice\n"
               "  --sizes A..B     sizes to try on, such as 1K..64M; default all\n"
               "  --algos LIST     ring,tree,nvls,...; default all that NCCL offers\n"
               "  --protos LIST    ll,ll128,simple; default all that NCCL offers\n"
               "  --channels LIST  numbers of channels, 0 for NCCL's own; default 0\n"
               "  --calls N        calls per communicator to spend; afterwards NCCL chooses (default 20000)\n"
               "  --seconds S      the same as a time; needs --refine, whose logs tell how many calls that is\n"
               "  --slower X       leave out what NCCL predicts to be X times slower than its choice (default 4; 0: "
               "try all)\n"
               "  --refine DIR     leave out what has clearly lost in these earlier logs\n"
               "  --print          print the plan, run nothing\n"
               "  --sample N       time one in N calls on the GPU (default 1: every call)\n"
               "and as in capo run: --dir, --names, --layout, --topo, --platform, --gpus, --graph, --quiet. Every call "
               "is "
               "kept;\n"
               "a profile is not used, because candidates are compared with NCCL's own choices.\n\n"
               "examples:\n"
               "  capo sweep -- mpirun -n 8 ./all_reduce_perf -b 1K -e 1G -f 2 -n 200\n"
               "  capo sweep --algos ring,tree --channels 0,4,8 --calls 5000 -- torchrun --nproc-per-node 8 train.py\n"
               "  capo sweep --refine capo-logs/first -- srun python train.py\n\n"
               "Exit status: COMMAND's; 127 there is no such command, 126 it cannot be run; 1 capo failed, 2 wrong "
               "command line.\n");
}

struct sweep {
        struct capo_run run;
        char plan[32768]; /* CAPO_SWEEP */
        const char *refine;
        double seconds;
        bool print;
};

static int bad(const char *option, const char *expected, const char *found)
{
        capo_error("sweep: %s: expected %s, found \"%s\"", option, expected, found);
        return -EINVAL;
}

static int append(struct sweep *s, const char *format, const char *a, const char *b)
{
        size_t n = strlen(s->plan);

        if (snprintf(s->plan + n, sizeof s->plan - n, format, n ? " " : "", a, b) >= (int)(sizeof s->plan - n)) {
                capo_error("sweep: too much to say in one plan");
                return -EINVAL;
        }
        return 0;
}

static int add_list(struct sweep *s, const char *option, const char *key, const char *value)
{
        char list[512] = "", item[64], words[80];

        for (const char *p = value; *p;) {
                size_t n = strcspn(p, ",+");
                const char *word = item;
                size_t used = strlen(list);

                if (n == 0 || n >= sizeof item)
                        return bad(option, "a list separated by commas", value);
                memcpy(item, p, n);
                item[n] = 0;
                if (!strcmp(key, "colls")) {
                        int coll = capo_coll_of_call(capo_call_find(item));

                        if (coll < 0)
                                return bad(option, "all_reduce, all_gather, reduce_scatter, broadcast or reduce", item);
                        word = capo_coll_word((enum capo_coll)coll);
                } else if (!strcmp(key, "algos")) {
                        if (!capo_algo_find(item))
                                return bad(option, capo_algo_words(" or ", words, sizeof words), item);
                        word = capo_algo_name(capo_algo_find(item));
                } else if (!strcmp(key, "protos")) {
                        if (!capo_proto_find(item))
                                return bad(option, capo_proto_words(" or ", words, sizeof words), item);
                        word = capo_proto_name(capo_proto_find(item));
                } else {
                        char *end;
                        long v = strtol(item, &end, 10);

                        if (*end || v < 0 || v > CAPO_CHANNELS_MAX)
                                return bad(option, "numbers from 0 to 64", item);
                }
                snprintf(list + used, sizeof list - used, "%s%s", used ? "+" : "", word);
                p += n + (p[n] != 0);
        }
        return append(s,
                      key[0] == 'c' && key[1] == 'o' ? "%scolls=%s"
                      : key[0] == 'c'                ? "%schannels=%s"
                      : key[0] == 'a'                ? "%salgos=%s"
                                                     : "%sprotos=%s",
                      list, "");
}

static int add_sizes(struct sweep *s, const char *value)
{
        const char *dots = strstr(value, "..");
        size_t n = dots ? (size_t)(dots - value) : 0;
        uint64_t lo, hi;
        char from[24], a[24], b[24];

        if (!dots || n >= sizeof from)
                return bad("--sizes", "A..B, such as 1K..64M", value);
        memcpy(from, value, n);
        from[n] = 0;
        if (capo_size_parse(from, &lo) < 0 || capo_size_parse(dots + 2, &hi) < 0 || lo > hi)
                return bad("--sizes", "A..B, such as 1K..64M", value);
        snprintf(a, sizeof a, "%llu", (unsigned long long)lo);
        snprintf(b, sizeof b, "%llu", (unsigned long long)hi);
        return append(s, "%ssizes=%s-%s", a, b);
}

/* Return: 1 taken; 0 not one of ours; -EINVAL. */
static int option(struct sweep *s, int argc, char **argv, int *i)
{
        static const char *const names[] = {"--coll",  "--sizes",  "--algos",  "--protos", "--channels",
                                            "--calls", "--slower", "--refine", "--seconds"};
        const char *name = NULL, *value;
        char *end;

        for (size_t k = 0; k < N_ELEMENTS(names); k++)
                name = strcmp(argv[*i], names[k]) ? name : names[k];
        if (!name)
                return 0;
        if (*i + 1 >= argc) {
                capo_error("sweep: %s needs a value", name);
                return -EINVAL;
        }
        value = argv[++*i];
        if (!strcmp(name, "--sizes"))
                return add_sizes(s, value) < 0 ? -EINVAL : 1;
        if (!strcmp(name, "--refine")) {
                s->refine = value;
                return 1;
        }
        if (!strcmp(name, "--calls") || !strcmp(name, "--slower") || !strcmp(name, "--seconds")) {
                double v = strtod(value, &end);

                if (*end || end == value || !(v >= 0) || (name[3] == 'a' && (v < 1 || v != floor(v))))
                        return bad(name, "a number", value);
                if (!strcmp(name, "--seconds")) {
                        s->seconds = v;
                        return 1;
                }
                return append(s, name[2] == 'c' ? "%scalls=%s" : "%sslower=%s", value, "") < 0 ? -EINVAL : 1;
        }
        return add_list(s, name, !strcmp(name, "--coll") ? "colls" : name + 2, value) < 0 ? -EINVAL : 1;
}

/* ---- --refine and --seconds ---- */

/* Collectives per second of the busiest process in a folder of logs; 0 when there is none. */
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
                    plan->candidate[i].channels == c->channels)
                        return i + 1;
        }
        return 0;
}

/* Clearly lost: at every size measured in the class of sizes, in every allocation, its interval is above 1.1 times the
 * best one's. */
static int refine(struct sweep *s, const struct capo_sweep_plan *plan)
{
        struct capo_samples set = {0};
        struct capo_fit_options options = {.min_gain = 0.01};
        struct capo_fit *fit = NULL;
        struct capo_fault fault;
        static uint8_t lost[CAPO_COLLS][64][CAPO_SWEEP_CANDIDATES + 1], won[CAPO_COLLS][64][CAPO_SWEEP_CANDIDATES + 1];
        int e = cli_input_read(s->refine, NULL, &set) < 0 ? -EINVAL : 0, n = 0;

        if (e == 0 && capo_fit_make(&set, &options, &fit, &fault) < 0) {
                capo_error("sweep: --refine %s: %s", s->refine, fault.text);
                e = -EINVAL;
        }
        for (int i = 0; e == 0 && i < fit->n_series; i++) {
                const struct capo_fit_series *f = &fit->series[i];
                int coll = capo_coll_of_call(f->call);

                for (int p = 0; p < f->n_points; p++) {
                        const struct capo_fit_cell *best = capo_fit_cell_of(f, p, f->points[p].best);
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
                                snprintf(item, sizeof item, "%s:%d:%u", capo_coll_word((enum capo_coll)coll), class,
                                         id);
                                e = append(s, n == 0 ? "%sdrop=%s" : "%.0s+%s", item, "");
                                n++;
                        }
                }
        }
        if (e == 0)
                capo_info("%d candidates (of a collective and a class of sizes) have clearly lost and are left out", n);
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
                if (rate <= 0) {
                        capo_error("sweep: --seconds needs earlier logs of this job (--refine DIR) to tell how many "
                                   "calls that is; or "
                                   "say --calls N");
                        return -EINVAL;
                }
                snprintf(calls, sizeof calls, "%.0f", fmax(1, rate * s->seconds));
                if (append(s, "%scalls=%s", calls, "") < 0)
                        return -EINVAL;
        }
        if (capo_sweep_plan_parse(s->plan, &plan, why, sizeof why) < 0) {
                capo_error("sweep: %s", why);
                return -EINVAL;
        }
        if (s->refine && refine(s, &plan) < 0)
                return -EINVAL;
        if (!s->plan[0])
                strcpy(s->plan, "calls=20000");
        return 0;
}

int capo_verb_sweep(int argc, char **argv)
{
        struct sweep *s = calloc(1, sizeof *s);
        char library[PATH_MAX];
        const char *other;
        int i, status = CAPO_EXIT_USAGE;

        if (!s)
                return CAPO_EXIT_FAIL;
        for (i = 1; i < argc && *argv[i] == '-'; i++) {
                int r;

                if (!strcmp(argv[i], "--")) {
                        i++;
                        break;
                }
                if (!strcmp(argv[i], "--help")) {
                        help();
                        free(s);
                        return CAPO_EXIT_OK;
                }
                if (!strcmp(argv[i], "--print")) {
                        s->print = true;
                        continue;
                }
                r = option(s, argc, argv, &i);
                if (r == 0)
                        r = capo_run_option(&s->run, argc, argv, &i);
                if (r == 0)
                        capo_error("sweep: unknown option \"%s\"; capo sweep --help", argv[i]);
                if (r <= 0)
                        goto end;
        }
        if (s->run.profile) {
                capo_error("sweep: --profile: a sweep compares with NCCL's own choices, not with a profile's");
                goto end;
        }
        if (i >= argc && !s->print) {
                capo_error("sweep: no command given; capo sweep [OPTIONS] -- COMMAND [ARG...]");
                goto end;
        }
        status = CAPO_EXIT_FAIL;
        if (finish_plan(s) < 0)
                goto end;
        if (s->print) {
                puts(s->plan);
                status = CAPO_EXIT_OK;
                goto end;
        }
        if (capo_where("shim/libcapo.so", CAPO_LIBDIR "/libcapo.so", library, sizeof library)) {
                capo_error("libcapo.so is neither in the build tree nor in the prefix of this capo; reinstall");
                goto end;
        }
        other = getenv("NCCL_TUNER_PLUGIN");
        if (other && *other && strcmp(other, library))
                capo_run_setenv("CAPO_CHAIN_TUNER", other);
        capo_run_setenv("NCCL_TUNER_PLUGIN", library);
        capo_run_setenv("CAPO_SWEEP", s->plan);
        s->run.trace = "all";
        if (!s->run.sample)
                s->run.sample = "1";
        unsetenv("CAPO_PROFILE");
        status = capo_run_exec(&s->run, argv + i);
end:
        free(s);
        return status;
}
