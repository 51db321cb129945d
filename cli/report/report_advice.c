/* SPDX-License-Identifier: Apache-2.0 */
/* What to try on an uneven or reduced allocation: the answers of capo fit --model for the size that
 * moves the most data, so that both name the same experiment. */

#include "capo/collectives.h"
#include "cli/report/report_advice.h"
#include "core/base/calls.h"
#include "core/base/nccl_release.h"
#include "core/base/size.h"
#include "core/base/xalloc.h"
#include "profiles/fit/fit_model.h"
#include "profiles/fragment/bound.h"

static void __attribute__((format(printf, 2, 3)))
add_advice(struct capo_page_allocation *a, const char *words, ...)
{
        va_list args;

        if (a->n_advice == N_ELEMENTS(a->advice))
                return;
        va_start(args, words);
        a->advice[a->n_advice++] = xvprintf(words, args);
        va_end(args);
}

/* The AllReduce on the largest communicator that moved the most; NULL: none. */
static const struct capo_job_row *find_row(const struct capo_job *job)
{
        const struct capo_job_row *most = NULL;

        for (uint32_t i = 0; i < job->n_rows; i++) {
                const struct capo_job_row *row = &job->rows[i];

                if (row->comm == 0 && capo_coll_of_call(row->call) == CAPO_COLL_ALLREDUCE &&
                    (!most || (double)row->bytes * (double)row->calls >
                                      (double)most->bytes * (double)most->calls))
                        most = row;
        }
        return most;
}

/* The choice for row 0: a rule, an experiment, or nothing. */
static void add_choice(struct capo_page_allocation *a, const struct capo_fit_fragment *f,
                       const char *gpus, int n, uint8_t ran)
{
        const struct capo_fit_decision *d = &f->decided[0];
        const struct capo_plan_row *r = &f->model.nccl.rows[0];
        char text[CAPO_FIT_SETTLE_TEXT], command[CAPO_FIT_SETTLE_TEXT], size[24], nccl[16];

        capo_size_print(r->bytes, size, sizeof size);
        if (d->settle) {
                add_advice(a, "%s", capo_fit_settle_text(f, n, 0, 0, text, command));
                add_advice(a, "one experiment: %s", command);
                a->experiment = xstrdup(command);
        } else if (d->choice) {
                add_advice(a,
                           "predicted at %s: %s %s takes %.0f %% less time than NCCL's %s %s; capo "
                           "fit --model '%s' %s -o rules.json writes the rule",
                           size, capo_ran_algo(d->choice), capo_ran_proto(d->choice), 100 * d->gain,
                           capo_algo_name(r->algo), capo_proto_name(r->proto), gpus, a->machine);
        } else if (d->gain >= 0) {
                capo_nccl_text((uint32_t)f->model.nccl.version, nccl, sizeof nccl);
                add_advice(a,
                           "nothing to gain by choice (at most %.0f %%): at %s NCCL %s picks %s %s",
                           100 * d->gain, size, nccl, capo_algo_name(r->algo),
                           capo_proto_name(r->proto));
                if (ran >> 4 && ran & 15 && ran != CAPO_ALGO_PROTO(r->algo, r->proto))
                        add_advice(a,
                                   "this job ran %s %s: by a setting, a tuner or another release",
                                   capo_ran_algo(ran), capo_ran_proto(ran));
        }
}

void report_advise(struct capo_page *r, const struct cli_machine_words *where,
                   const struct capo_plan_gpu *gpus, uint32_t n)
{
        _cleanup_(capo_topology_freep) struct capo_topology *t = NULL;
        _cleanup_free_ struct cli_machine_asker *asker = xcalloc(1, sizeof *asker);
        struct capo_page_allocation *allocation = &r->allocation;
        const struct capo_job_row *row = find_row(r->job);
        const struct capo_plan_ask ask = {CAPO_COLL_ALLREDUCE, row ? row->bytes : 0};
        struct cli_machine_source source;
        struct capo_fit_fragment f;
        struct fragment_beyond beyond;
        struct capo_alloc a = {0};
        char why[512], text[1024];
        const char *measured_in;

        for (uint32_t i = 1; i < n; i++) {
                if (gpus[i].node < gpus[i - 1].node) /* ranks go around the nodes */
                        return;
        }
        if (!ask.bytes || cli_machine_measured("report", where, &t, &source, &measured_in) < 0)
                return;
        if (capo_alloc_of_gpus(t, gpus, n, &a) == 0 &&
            cli_machine_asker(&source, t, NULL, asker, why, sizeof why) == 0 &&
            capo_fit_fragment(&asker->machine, &a, true, &ask, 1, NULL, NULL, &f, why,
                              sizeof why) == 0) {
                allocation->asked = true;
                if (*fragment_orders_text(&f.orders, &f.model, (int)n, text, sizeof text))
                        add_advice(allocation, "%s; %s", text, FRAGMENT_ORDER_HOW);
                add_choice(allocation, &f, capo_alloc_print(t, &a, text, sizeof text), (int)n,
                           row->algo_proto);
                fragment_beyond(&asker->machine, &a, &f.model, 0, &beyond);
                for (int i = 0; i < beyond.n; i++)
                        add_advice(allocation, "%s", beyond.text[i]);
                capo_fit_fragment_finish(&f);
        }
        capo_alloc_free(&a);
}
