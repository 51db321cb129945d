/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's predictions for the sizes of a communicator, from virtual GPUs: the picture of the HTML
 * page shows them beside the measurements. */
#include <math.h>
#include <stdlib.h>

#include "cli/base/cli_machine.h"
#include "cli/report/cmd_report.h"
#include "core/base/calls.h"
#include "core/base/nccl_release.h"
#include "core/base/util.h"
#include "core/base/xalloc.h"

enum { ASKS_MOST = 128 };

/* Each size of each collective of @comm, once. */
static size_t gather_asks(const struct capo_job *job, uint32_t comm, struct capo_plan_ask *asks)
{
        size_t n = 0, k;

        for (uint32_t i = 0; i < job->n_rows && n < ASKS_MOST; i++) {
                const struct capo_job_row *row = &job->rows[i];
                int coll = row->comm == comm ? capo_coll_of_call(row->call) : -1;

                for (k = 0; k < n; k++) {
                        if ((int)asks[k].coll == coll && asks[k].bytes == row->bytes)
                                break;
                }
                if (coll >= 0 && row->bytes && k == n)
                        asks[n++] = (struct capo_plan_ask){coll, row->bytes};
        }
        return n;
}

int report_predict(struct capo_page *r, uint32_t comm, const struct capo_plan_gpu *gpus,
                   const struct capo_topology *t, const struct cli_machine_source *source)
{
        _cleanup_free_ struct cli_machine_asker *asker = xcalloc(1, sizeof *asker);
        struct capo_plan_ask asks[ASKS_MOST];
        struct capo_plan_answer answer;
        size_t n = gather_asks(r->job, comm, asks);
        char release[16];
        int e;

        if (!n)
                return 0;
        e = cli_machine_asker(source, t, NULL, asker, r->predicted_by, sizeof r->predicted_by);
        if (e == 0)
                e = fragment_ask(&asker->machine, gpus, r->job->comms[comm].n_ranks, asks, n,
                                 &answer, r->predicted_by, sizeof r->predicted_by);
        if (e != 0)
                return 0;
        snprintf(r->predicted_by, sizeof r->predicted_by, "NCCL %s",
                 capo_nccl_text((uint32_t)answer.version, release, sizeof release));
        for (size_t i = 0; i < answer.n_rows && e == 0; i++) {
                if (!(answer.rows[i].busbw_gbs > 0) || isinf(answer.rows[i].busbw_gbs))
                        continue;
                xarray_room(&r->predicted, r->n_predicted, sizeof *r->predicted);
                e = 0;
                if (e == 0)
                        r->predicted[r->n_predicted++] = (struct capo_page_predicted){
                                .comm = comm,
                                .call = (uint8_t)capo_coll_call(answer.rows[i].coll),
                                .bytes = answer.rows[i].bytes,
                                .busbw_gbs = answer.rows[i].busbw_gbs};
        }
        capo_plan_answer_finish(&answer);
        return e;
}
