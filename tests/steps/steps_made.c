/* SPDX-License-Identifier: Apache-2.0 */
/* usage: steps_made COUNT [SEED [KIND]]   COUNT made-up jobs of each kind: how many steps are found
 * right, and none that is wrong without saying that it is uncertain. KIND alone prints what fails.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/steps/made_jobs.h"

struct result {
        unsigned jobs, right, unsure, wrong, silent; /* wrong: and uncertain; silent: and sure */
};

static void judge(const struct made_job *job, const struct capo_steps *s, uint64_t seed,
                  struct result *r)
{
        uint32_t off = s->period > job->period ? s->period - job->period : job->period - s->period;
        /* small calls that belong to none of the steps may be counted into a long one */
        bool right = s->known == CAPO_STEPS_NONE ? !job->period
                                                 : job->period && off <= job->period / 200;

        r->jobs++;
        r->right += right;
        r->unsure += right && s->known == CAPO_STEPS_UNCERTAIN;
        r->wrong += !right && s->known == CAPO_STEPS_UNCERTAIN;
        r->silent += !right && s->known != CAPO_STEPS_UNCERTAIN;
        if (!right || getenv("STEPS_ALL"))
                printf("%s seed %llu: %s, period %u, not %u (%.2f of %u calls): %s; %s\n",
                       made_name(job->kind), (unsigned long long)seed,
                       s->known == CAPO_STEPS_NONE        ? "none"
                       : s->known == CAPO_STEPS_UNCERTAIN ? "uncertain"
                                                          : "found",
                       s->period, job->period, s->covered, job->n, s->why, job->what);
}

int main(int argc, char **argv)
{
        unsigned count = argc > 1 ? (unsigned)atoi(argv[1]) : 0;
        uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
        struct result all = {0};

        if (!count) {
                fputs("usage: steps_made COUNT [SEED [KIND]]\n", stderr);
                return 2;
        }
        for (enum made_kind kind = 0; kind < MADE_KINDS; kind++) {
                struct result r = {0};

                if (argc > 3 && strcmp(argv[3], made_name(kind)) != 0)
                        continue;
                for (uint64_t i = seed; i < seed + count; i++) {
                        struct made_job job = made_job(kind, i);
                        struct capo_steps steps;

                        if (capo_steps_find(job.call, job.n, &steps) < 0)
                                return 1;
                        judge(&job, &steps, i, &r);
                        capo_steps_finish(&steps);
                        free(job.call);
                }
                printf("%-8s %4u jobs, right %4u (%u of them uncertain), wrong and uncertain %u, wrong %u\n",
                       made_name(kind), r.jobs, r.right, r.unsure, r.wrong, r.silent);
                all.jobs += r.jobs;
                all.right += r.right;
                all.unsure += r.unsure;
                all.wrong += r.wrong;
                all.silent += r.silent;
        }
        printf("all      %4u jobs, right %4u (%u of them uncertain), wrong and uncertain %u, wrong %u\n",
               all.jobs, all.right, all.unsure, all.wrong, all.silent);
        return all.right < 0.99 * all.jobs || all.silent > 0;
}
