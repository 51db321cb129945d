/* SPDX-License-Identifier: Apache-2.0 */
/* capo advise: predicts the effect of a framework's bucket size, from a recording. */

#include "capo/msg.h"
#include "cli/base/cli_job.h"
#include "cli/base/cli_inputs.h"
#include "cli/base/cli_screen.h"
#include "cli/base/cli_table.h"
#include "analysis/steps/job_steps.h"
#include "profiles/fit/advise.h"

/* One unit for a whole table of times below a second. */
static char *format_seconds(double s, char text[32])
{
        if (s >= 0.9995)
                return capo_text_duration(1e9 * s, text);
        snprintf(text, 32, "%.3g ms", s * 1e3);
        return text;
}

static void print_advice(const struct capo_advice *a, const char *from, bool found)
{
        char t[32], u[32];
        const struct capo_advice_bucket *best = a->best < 0 ? NULL : &a->bucket[a->best];

        cli_screen_begin(stdout);
        printf("\n%s (%u ranks): %llu steps%s, per step %llu all-reduces of %s to %s, %s in all\n",
               a->comm, a->n_ranks, (unsigned long long)a->steps,
               a->steps_found ? " (found from the counts; --steps tells better)"
               : found        ? " (found in the calls)"
                              : "",
               (unsigned long long)a->calls, TEXT_SIZE(a->smallest), TEXT_SIZE(a->largest),
               capo_size_print(a->step_bytes, t, sizeof t));
        printf("now: %s per step modelled (%s)", format_seconds(a->now_seconds, t), from);
        if (a->recorded_seconds > 0)
                printf("; %s recorded, waiting for other ranks included",
                       format_seconds(a->recorded_seconds, u));
        printf("\n\n  %-12s %10s %8s %14s %10s\n", "bucket cap", "buckets of", "each", "per step",
               "change");
        for (size_t i = 0; i < a->n_buckets; i++) {
                const struct capo_advice_bucket *b = &a->bucket[i];

                printf("  %-12s %10llu %8s %14s %+9.1f %%%s%s\n", TEXT_SIZE(b->cap),
                       (unsigned long long)b->n, TEXT_SIZE(b->bucket),
                       format_seconds(b->seconds, t), 100 * (b->seconds / a->now_seconds - 1),
                       b->beyond ? "  (beyond the sizes measured)" : "",
                       (int)i == a->best ? "  <- modelled best" : "");
        }
        putchar('\n');
        if (best)
                printf("try: DDP(bucket_cap_mb=%llu), or HOROVOD_FUSION_THRESHOLD=%llu: %s less per step, %s per 1,000 "
                       "steps (modelled, nothing overlapped)\n",
                       (unsigned long long)(best->cap >> 20), (unsigned long long)best->cap,
                       format_seconds(a->now_seconds - best->seconds, t),
                       format_seconds(1000 * (a->now_seconds - best->seconds), u));
        else if (a->within >= 1)
                puts("buckets: whether another size is better cannot be told: the times differ among themselves by more "
                     "than a step takes (modelled; more calls timed would tell more: CAPO_GPU_SAMPLE=1)");
        else
                printf("buckets: as good as any other size, within %.0f %% (modelled%s)\n",
                       ceil(100 * a->within),
                       a->within > 0.03 ? "; more calls timed would tell more: CAPO_GPU_SAMPLE=1"
                                        : "");
        printf("gradient accumulation over 2 steps: %s less per step; over 4: %s (modelled; it changes the batch "
               "size)\n",
               format_seconds(a->now_seconds / 2, t), format_seconds(a->now_seconds * 3 / 4, u));
}

struct options {
        const char *with[64];
        size_t n_with;
        unsigned steps; /* 0: find it */
};

static int fit_of(const struct options *o, struct capo_samples *set, struct capo_fit **fit)
{
        static const struct capo_fit_options options = {.min_gain = 0.01};
        struct cli_inputs with = {0};
        struct capo_fault fault;

        for (size_t i = 0; i < o->n_with; i++)
                cli_inputs_add(&with, o->with[i]);
        if (cli_inputs_read(&with, set) < 0)
                return -1;
        cli_inputs_notes(set);
        if (o->n_with && capo_fit_make(set, &options, fit, &fault) < 0)
                return capo_fail(-1, "advise: --with: %s", fault.text);
        return 0;
}

static int run_advise(void *options, int n, char **words)
{
        const struct options *o = options;
        struct capo_samples set = {0};
        struct capo_fit *fit = NULL;
        struct capo_job *job = NULL;
        const char *dir = words[0];
        uint64_t steps = o->steps;
        bool benchmark = false;
        int shown = 0;

        if (fit_of(o, &set, &fit) < 0 || !(job = cli_job_load(dir)))
                return CAPO_EXIT_FAIL;
        if (!steps) { /* the number in the report, if it is certain */
                struct capo_job_steps s;

                capo_job_steps(job, &s);
                steps = s.steps.known == CAPO_STEPS_FOUND ? s.total : 0;
        }
        for (uint32_t c = 0; c < job->n_comms; c++) {
                struct capo_curve curve;
                struct capo_advice advice;
                const char *from = fit ? "times measured in --with" : "times of this recording";
                int e = fit ? capo_curve_of_fit(fit, (uint32_t)job->comms[c].n_ranks, &curve)
                            : capo_curve_of_job(job, c, &curve);

                if (e == 0)
                        e = capo_advise(job, c, &curve, steps, &advice);
                benchmark |= e == -EDOM;
                if (e == 0 && advice.step_bytes >= 1024) {
                        if (!shown++)
                                printf("capo advise  %s   predictions are modelled, not measured\n",
                                       dir);
                        print_advice(&advice, from, !o->steps && steps);
                }
        }
        if (!shown)
                capo_error(
                        benchmark
                                ? "%s: these are the sizes of a benchmark, not the steps of a training job; --steps N if they are"
                        : o->n_with
                                ? "%s: no all-reduces of a training step on as many ranks as --with was measured on"
                                : "%s: no all-reduces of a training step in two sizes, timed on the GPU "
                                  "(CAPO_GPU_SAMPLE=1, or --with measurements)",
                        dir);
        return shown ? CAPO_EXIT_OK : CAPO_EXIT_FAIL;
}

static const struct cli_option options[] = {
        {"with", CLI_WORDS(struct options, with, n_with, "INPUT"),
         "times from these measurements (a sweep's logs, nccl-tests output, store:FILE), each size at what the profile "
         "fitted to them would choose; may be repeated; default: the recording's own times"},
        {"steps", CLI_COUNT(struct options, steps, "N", 2, INT_MAX),
         "steps in the recording; default: as capo report finds them, else from how often each size was called"},
        CLI_WIDE,
        {0}};

const struct cli_command advise_command = {
        .usage = "[OPTIONS] DIR",
        .about = "Reads the all-reduces of a recorded training job and predicts what other "
                 "bucket sizes would cost per step, and what gradient accumulation would save. "
                 "The bucket size is DDP(bucket_cap_mb=N) in PyTorch, HOROVOD_FUSION_THRESHOLD "
                 "in Horovod, allreduce_bucket_size in DeepSpeed. The prediction takes buckets "
                 "one after another, with measured times and no overlap with the backward pass.",
        .options = options,
        .after = "  capo advise capo-logs/training\n"
                 "  capo advise --with sweep/ capo-logs/training",
        .status =
                "0; 1 the recording holds no all-reduces of a training loop, or cannot be read; 2 wrong command line.",
        .missing = "which recording?",
        .least = 1,
        .most = 1,
        .size = sizeof(struct options),
        .run = run_advise,
};
