/* SPDX-License-Identifier: Apache-2.0 */
/* A job of --tune spends one call in 100 on a comparison (tuner/trial.h). Between jobs the verdicts
 * are kept by run_trial.c. Where no rule holds there is nothing to compare, so the file "explore"
 * lists one other choice per size for this very layout and release: Tree, and on one node Ring from
 * 4 MiB on, where NCCL tends to prefer NVLS (docs/internals/models.md). It is a profile as any
 * other, of predicted rows; NCCL's own choice decides all other calls. Where a choice was found to bring
 * nothing, the next job tries Tree with another protocol. */
#include <sys/wait.h>

#include "core/base/among.h"
#include "analysis/job/figures.h"
#include "analysis/steps/job_steps.h"
#include "capo/algorithms.h"
#include "capo/collectives.h"
#include "capo/env.h"
#include "capo/msg.h"
#include "cli/base/cli_job.h"
#include "cli/base/cli_machine.h"
#include "cli/base/install_paths.h"
#include "cli/run/profile_auto.h"
#include "cli/run/run_loader.h"
#include "cli/run/run_trial.h"
#include "cli/run/run_tune.h"
#include "core/profile/profile_find.h"
#include "profiles/fit/fit_trial.h"

/* ---- before the job ---- */

/* The name of this machine, by its links; "": none of those that capo knows. */
static void name_machine(const struct run_tune *run, char *name, size_t room)
{
        static const char *const shapes[] = {"pcie", "nvlink", "xgmi", "nvswitch"};
        struct capo_topology *t = NULL;
        struct cli_machine_words words = {0};
        struct cli_machine_source source;

        snprintf(name, room, "%s", run->platform ? run->platform : "");
        if (*name || access("/proc/driver/nvidia/gpus", F_OK) ||
            cli_machine_load("run", &words, &t, &source) < 0)
                return;
        snprintf(name, room, "%s", t->platform);
        if (ANY_OF(shape, shapes, N_ELEMENTS(shapes), !strcmp(name, *shape)))
                *name = 0;
        capo_topology_free(t);
}

enum { LONG_JOB = 1000 }; /* calls, of all ranks: one without a turn is short */
enum { TURNS = 3 };       /* choices that are tried one after the other where one brought nothing */

/* What @turn tries, in the rows of @learned that were left to NCCL; NULL: everywhere. Other rows are copied.
 * Return: how many rows are new; -ENOMEM. */
static int add_alternatives(struct capo_profile *p, const struct capo_profile *learned, int turn,
                            bool network)
{
        static const struct capo_row all = {.upto = UINT64_MAX, .coll = CAPO_COLL_ALLREDUCE};
        static const struct {
                uint64_t upto;
                uint8_t protos[TURNS];
        } ranges[] = {{64 << 10, {CAPO_PROTO_LL, CAPO_PROTO_SIMPLE, CAPO_PROTO_LL128}},
                      {4 << 20, {CAPO_PROTO_SIMPLE, CAPO_PROTO_LL128, CAPO_PROTO_LL}},
                      {UINT64_MAX, {CAPO_PROTO_SIMPLE, CAPO_PROTO_LL128}}};
        uint64_t done = 0;
        size_t i = 0;
        int added = 0, e = 0;

        for (uint32_t k = 0; e == 0 && k < (learned ? learned->n_rows : 1); k++) {
                const struct capo_row *from = learned ? &learned->rows[k] : &all;

                for (; e == 0 && done < from->upto; i += done == ranges[i].upto) {
                        uint8_t proto = ranges[i].protos[turn];
                        bool tree = network || proto != CAPO_PROTO_SIMPLE ||
                                    ranges[i].upto < UINT64_MAX;
                        struct capo_row row = *from;

                        row.upto = done = from->upto < ranges[i].upto ? from->upto : ranges[i].upto;
                        if (!from->algo && proto) {
                                row.algo = tree ? CAPO_ALGO_TREE : CAPO_ALGO_RING;
                                row.proto = proto;
                                row.predicted = true;
                                row.samples = 0;
                                row.us = row.spread_us = row.gain = NAN;
                                added++;
                        }
                        e = capo_profile_row(p, &row);
                }
        }
        return e < 0 ? e : added;
}

/* Write what @turn tries for this layout and release, after @learned. Return: is there something? */
static bool write_turn(const struct run_expected *x, const struct capo_profile *learned, int turn,
                       char *path, size_t room)
{
        _cleanup_(capo_profile_freep) struct capo_profile *p =
                capo_profile_new("NCCL's other choices, to be measured");
        uint32_t minor = (uint32_t)x->reach.version / 100 * 100;
        struct capo_rule *rule =
                p ? capo_profile_rule(p, learned ? CAPO_BASIS_MEASURED : CAPO_BASIS_MODELLED)
                  : NULL;
        char name[64 + CAPO_LAYOUT_TEXT], of_turn[8] = "";
        int n;

        if (!rule || !x->launch.layout.n_nodes || !minor || x->launch.layout.n_ranks < 2)
                return false;
        rule->when.ranks = (struct capo_range){x->shape.n_ranks, x->shape.n_ranks};
        rule->when.nodes = (struct capo_range){x->shape.n_nodes, x->shape.n_nodes};
        rule->when.nccl = (struct capo_range){minor, minor + 99};
        if (x->shape.n_nodes > 1)
                rule->when.layout = capo_profile_keep(p, x->layout);
        if (turn)
                snprintf(of_turn, sizeof of_turn, "-%d", turn + 1);
        n = snprintf(name, sizeof name, "explore-%s-%u.%u%s", x->layout, minor / 10000,
                     minor / 100 % 100, of_turn);
        for (int i = 0; i < n; i++)
                name[i] = name[i] == ' ' || name[i] == '.' ? '_' : name[i];
        return add_alternatives(p, learned, turn, x->shape.n_nodes > 1) > 0 &&
               run_trial_store(p, name, path, room) == 0;
}

/* Write the alternatives that are tried next. Another one follows where jobs found that one brings
 * nothing, or where NCCL offered none. Return: false: not possible. */
static bool write_explore(const struct run_expected *x, char *path, size_t room)
{
        char learned[PATH_MAX], key[RUN_TRIAL_KEY];

        if (!write_turn(x, NULL, 0, path, room))
                return false;
        for (int turn = 1; turn < TURNS; turn++) {
                _cleanup_(capo_profile_freep) struct capo_profile *p = NULL;

                snprintf(learned, sizeof learned, "%s", path);
                run_trial_learn(learned, sizeof learned, key);
                if (strcmp(learned, path) ? capo_profile_load(learned, &p, NULL) < 0
                                          : !run_trial_empty(key, false))
                        break;
                if (!write_turn(x, p, turn, path, room))
                        break;
        }
        return true;
}

int run_tune_profile(const struct run_tune *run, const struct run_expected *x, char *path,
                     size_t room)
{
        _cleanup_(capo_profile_freep) struct capo_profile *p = NULL;
        char machine[64], why[CAPO_NEAREST_TEXT] = "", line[PATH_MAX + 1536];
        struct capo_fault fault;
        bool known;

        *path = 0;
        known = x->launch.layout.n_nodes && x->reach.version;
        if (run->profile && strcmp(run->profile, "auto")) {
                if (capo_profile_find(run->profile, cli_shipped_profiles(), path, room, &fault) <
                            0 ||
                    capo_profile_load(path, &p, &fault) < 0)
                        return capo_fail(-EINVAL, "%s", fault.text);
        } else {
                name_machine(run, machine, sizeof machine);
                if (capo_profile_auto(cli_shipped_profiles(), NULL, *machine ? machine : NULL, path,
                                      room, &fault) < 0 ||
                    capo_profile_load(path, &p, &fault) < 0)
                        *path = 0;
        }
        if (p && p->n_rules && !(known && *capo_match_nearest(p, &x->shape, why, sizeof why))) {
                snprintf(line, sizeof line,
                         "the rules of %s are compared with NCCL's choice in one call of %.0f, and "
                         "what is faster is kept for the next job",
                         path, 100 / run->budget);
        } else if (write_explore(x, path, room)) {
                snprintf(line, sizeof line,
                         "%s%s for layout %s with NCCL %s%s%s: this job measures another choice in "
                         "one call of %.0f",
                         p ? "no rule of " : "no stored rule", p ? capo_base_name(p->file) : "",
                         x->layout, x->nccl, *why ? ", by " : "", why, 100 / run->budget);
        } else {
                *path = 0;
                snprintf(line, sizeof line, "nothing is tried, because %s%s",
                         !x->launch.layout.n_nodes ? x->why
                         : !x->reach.version ? "the release of NCCL is not known before the start"
                         : x->shape.n_ranks < 2 ? "one rank has nothing to choose"
                                                : "no state can be kept",
                         x->launch.layout.n_nodes
                                 ? ""
                                 : "; --layout with the ranks of each node does (4, or 3+5)");
        }
        if (!run->quiet)
                capo_info("--tune: %s", line);
        return 0;
}

/* ---- after the job ---- */

static void say_nothing_compared(const struct capo_job *job)
{
        uint64_t ruled = 0, timed = 0;

        for (const struct capo_job_row *r = job->rows; r < PAST_OF(job->rows, job->n_rows); r++) {
                ruled += r->rule ? r->count : 0;
                timed += !r->rule ? 0
                                  : r->time[CAPO_CLOCK_EVENT].count +
                                            r->time[CAPO_CLOCK_KERNEL].count;
        }
        capo_info("--tune: nothing was compared: %s",
                  !job->calls ? "no call was recorded"
                  : !ruled    ? "no rule decided a call"
                  : !timed    ? "no call that a rule decided was timed on the GPU"
                              : "at the sizes of the rules no call was left to NCCL");
}

/* Return: how many comparisons there were. */
static int say_gain(struct capo_job *job, const struct capo_profile *p)
{
        _cleanup_(capo_fit_freep) struct capo_fit *fit = NULL;
        _cleanup_free_ struct capo_trial_found *found = NULL;
        static const struct capo_fit_options options = {.min_gain = 0.01, .force = true};
        struct capo_job_steps steps = {0};
        struct capo_samples set = {0};
        struct capo_fault fault;
        char error[512], per_step[80] = "";
        uint64_t captured = capo_trial_captured(job);
        double saved_s = 0;
        int n = 0;

        if (captured)
                capo_info("--tune: %s captured into CUDA graphs on each rank: not timed, so not "
                          "compared; the graph keeps the choice",
                          capo_text_plural(captured, "call by the rules was",
                                           "calls by the rules were"));
        if (capo_import_job(job, NULL, &set, error, sizeof error) == 0 &&
            capo_fit_make(&set, &options, &fit, &fault) == 0)
                n = capo_fit_trials(&set, fit, p, &found);
        capo_samples_free(&set);
        for (uint32_t i = 0; n > 0 && i < job->n_rows; i++) {
                const struct capo_job_row *row = &job->rows[i];
                const struct capo_trial_found *f = found;

                while (f < found + n &&
                       (f->row + 1 != row->rule || row->flags & CAPO_RECORD_CAPTURED ||
                        f->bytes != row->bytes || f->call != row->call))
                        f++;
                if (f < found + n)
                        saved_s += (f->own_us - f->row_us) * (double)row->count / 1e6;
        }
        if (n <= 0) {
                say_nothing_compared(job);
                return 0;
        }
        capo_job_steps(job, &steps);
        if (steps.total)
                snprintf(per_step, sizeof per_step, ", %.3g ms per step of %.3g ms",
                         1e3 * fabs(saved_s) / (double)steps.total, steps.steps.p50_ns / 1e6);
        capo_info("--tune: calls by the rules took %.3g s %s than NCCL's choices would have%s, by "
                  "the calls' own times (%s)%s",
                  fabs(saved_s), saved_s < 0 ? "more" : "less", per_step,
                  capo_text_plural((uint64_t)n, "comparison", NULL),
                  *per_step ? "" : "; steps are not known");
        capo_job_steps_finish(&steps);
        return n;
}

static volatile sig_atomic_t child_pid;

static void pass_on(int signal)
{
        if (child_pid > 0)
                kill((pid_t)child_pid, signal);
}

int run_tune_wait(char **command, const char *dir, const char *asked, bool quiet)
{
        static const int passed[] = {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
        _cleanup_(capo_profile_freep) struct capo_profile *p = NULL;
        struct capo_job *job;
        char path[PATH_MAX], key[RUN_TRIAL_KEY];
        bool nothing = false;
        int status;
        pid_t child = run_trial_one_rank() ? -1 : fork(); /* each would say it */

        if (child < 0)
                return run_become_command(command);
        if (child == 0)
                _exit(run_become_command(command));
        child_pid = child;
        signal(SIGINT, SIG_IGN);
        signal(SIGQUIT, SIG_IGN);
        for (size_t i = 0; i < N_ELEMENTS(passed); i++)
                signal(passed[i], pass_on);
        while (waitpid(child, &status, 0) < 0 && errno == EINTR)
                ;
        child_pid = 0;
        if (!quiet && access(dir, F_OK) == 0 &&
            capo_profile_load(getenv(CAPO_ENV_profile), &p, NULL) == 0 &&
            (job = cli_job_load(dir))) {
                nothing = say_gain(job, p) == 0 && job->calls > LONG_JOB;
                capo_job_free(job);
        }
        snprintf(path, sizeof path, "%s", asked);
        run_trial_learn(path, sizeof path, key);
        if (nothing)
                run_trial_empty(key, true);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
