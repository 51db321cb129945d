/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/job/figures.h"
#include "analysis/report/job_diff.h"
#include "analysis/report/job_judge.h"
#include "cli/diff_steps.h"
#include "core/base/order.h"

struct side {
        double p50, nccl;
        uint64_t total;
        uint32_t period;
        bool known, uncertain;
};

static void read_side(struct capo_job *const *jobs, size_t n, struct side *out)
{
        double p50[CAPO_DIFF_RUNS];
        size_t found = 0;

        *out = (struct side){.known = true};
        for (size_t i = 0; i < n; i++) {
                struct capo_job_steps s;

                capo_job_steps(jobs[i], &s);
                out->known &= s.steps.n_plain > 0 && (i == 0 || s.steps.period == out->period);
                out->uncertain |= s.steps.known == CAPO_STEPS_UNCERTAIN;
                out->period = s.steps.period;
                if (i == 0) {
                        out->total = s.total;
                        out->nccl = capo_known_nccl_share(jobs[i], &s);
                }
                p50[found++] = s.steps.p50_ns;
                capo_job_steps_finish(&s);
        }
        qsort(p50, found, sizeof *p50, capo_order_double);
        out->p50 = found ? (p50[(found - 1) / 2] + p50[found / 2]) / 2 : 0;
}

void diff_steps_make(struct capo_job *const *a, size_t n_a, struct capo_job *const *b, size_t n_b,
                     struct diff_steps *out)
{
        struct side x, y;

        read_side(a, n_a, &x);
        read_side(b, n_b, &y);
        *out = (struct diff_steps){.known = x.known && y.known && x.period == y.period && x.p50 > 0,
                                   .uncertain = x.uncertain || y.uncertain,
                                   .n_a = x.total,
                                   .n_b = y.total,
                                   .p50_a = x.p50,
                                   .p50_b = y.p50,
                                   .nccl_a = x.nccl,
                                   .nccl_b = y.nccl};
}

char *diff_steps_text(const struct diff_steps *s, double seconds, char *text, size_t room)
{
        *text = 0;
        if (!s->known)
                return text;
        snprintf(text, room, "steps%s: p50 %s -> %s (%+.1f %%)", s->uncertain ? " (uncertain)" : "",
                 TEXT_DURATION(s->p50_a), TEXT_DURATION(s->p50_b), 100 * (s->p50_b / s->p50_a - 1));
        if (s->nccl_a >= 0 && s->nccl_b >= 0)
                capo_append(text, room, ", NCCL on the GPU %s -> %s", TEXT_PERCENT(s->nccl_a),
                            TEXT_PERCENT(s->nccl_b));
        if (s->n_a && s->n_b && seconds != 0)
                capo_append(text, room, "; the calls: %+.3f ms per step",
                            seconds * 1e3 / (double)(s->n_a < s->n_b ? s->n_a : s->n_b));
        return text;
}
