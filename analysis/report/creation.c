/* SPDX-License-Identifier: Apache-2.0 */
/* How long the creation of communicators took. A creation ends on all ranks together, so its
 * duration on the rank that came first is the total, and the difference to the rank that came last
 * was waiting. */

#include "capo/call_ids.h"
#include "analysis/report/job_judge.h"
#include "core/base/among.h"
#include "core/base/xalloc.h"

void capo_judge_creation(struct capo_page *page)
{
        const struct capo_job *job = page->job;
        struct capo_page_creation *c = &page->creation;

        *c = (struct capo_page_creation){.comm = CAPO_NO_COMM};
        page->created = xcalloc(job->n_comms + 1, sizeof *page->created);
        for (uint32_t i = 0; i < job->n_rows; i++) {
                const struct capo_job_row *r = &job->rows[i];
                const struct capo_hist *h = &r->time[CAPO_CLOCK_HOST];
                struct capo_page_created *to;

                if (r->comm == CAPO_NO_COMM || !h->count ||
                    (r->call != CAPO_CALL_COMMINIT && r->call != CAPO_CALL_COMMSPLIT &&
                     r->call != CAPO_CALL_COMMSHRINK && r->call != CAPO_CALL_COMMGROW) ||
                    ANY_OF(m, job->comms[r->comm].members, job->comms[r->comm].n_members,
                           m->flags & CAPO_COMM_NONBLOCKING))
                        continue;
                to = &page->created[r->comm];
                if (to->least_ns <= 0 || (double)h->min_ns < to->least_ns)
                        to->least_ns = (double)h->min_ns;
                if ((double)h->max_ns > to->ns)
                        to->ns = (double)h->max_ns;
        }
        for (uint32_t i = 0; i < job->n_comms; i++) {
                const struct capo_page_created *k = &page->created[i];

                c->n += k->ns > 0;
                c->ns += k->ns;
                if (k->ns > 0 && (c->comm == CAPO_NO_COMM || k->ns > page->created[c->comm].ns))
                        c->comm = i;
        }
}
