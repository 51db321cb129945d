/* SPDX-License-Identifier: Apache-2.0 */
/* When each rank started a call.
 *
 * "The rank that was shortest in the call came last" holds only if the call ends on all ranks
 * together. A tree ends earlier at its root, and a rank that has all its data may go on while the
 * others wait for theirs. So the starts are asked as well where the ranks have one clock, and a
 * rank is taken to be last only by as much as both say:
 *
 *      the starts on the GPUs say so, too   -> the smaller of both differences
 *      its host makes the next call earlier, by about as much as its call was shorter
 *                                           -> it ended earlier, and was not last
 *      neither is known                     -> by durations, unless the algorithm is known to end
 *                                              apart; then this call tells nothing
 *
 * A start on the GPU is never too late, but can be too early for a rank whose stream is never idle
 * (shim/gpu/anchor.h). So a start that does not agree alone says nothing. */
#include <math.h>

#include "analysis/job/skew_starts.h"

#define ALIKE_NS 20000.0 /* differences of durations below this accuse nobody worth a question */

/* Start of member @k in row @i, from the source @from; NAN: not in the row, or not known. */
static double start_of(const struct skew_comm *of, uint32_t i, uint32_t k, enum capo_skew_from from)
{
        const struct capo_job_member *member = &of->c->members[k];
        const struct capo_meet *m = of->m;
        const struct capo_meet_arrival *at;

        if ((uint32_t)member->rank >= m->n_ranks)
                return NAN;
        at = &m->arrivals[(size_t)i * m->n_ranks + member->rank];
        if (at->begin == CAPO_MEET_ABSENT)
                return NAN;
        if (from == CAPO_SKEW_KERNEL_WAIT)
                return m->told && m->told[at - m->arrivals].waited
                               ? -(double)(m->told[at - m->arrivals].waited - 1)
                               : NAN;
        if (from == CAPO_SKEW_HOST_START)
                return capo_clocks_ns(of->clocks, member->process, at->begin);
        return at->gpu_ns && capo_meet_is_barrier(&m->rows[i]) ? -(double)at->gpu_ns : NAN;
}

bool capo_comm_has_one_clock(const struct capo_job *job, const struct capo_job_comm *c)
{

        for (uint32_t k = 1; k < c->n_members; k++) {
                if (job->processes[c->members[k].process].clock !=
                    job->processes[c->members[0].process].clock)
                        return false;
        }
        return true;
}

/* One member in one call; times of the host's clock, NAN: not known. */
struct part {
        double host, begin, next; /* the host made the call; the GPU began; the host's next call */
        double ns;                /* on the GPU */
};

static struct part part_of(const struct skew_comm *of, uint32_t i, uint32_t k)
{
        const struct capo_job_member *member = &of->c->members[k];
        const struct capo_meet *m = of->m;
        const struct capo_meet_arrival *at = &m->arrivals[(size_t)i * m->n_ranks + member->rank];
        uint32_t after = m->told ? m->told[at - m->arrivals].gpu_after : 0;

        return (struct part){
                .host = capo_clocks_ns(of->clocks, member->process, at->begin),
                .begin = after ? capo_clocks_ns(of->clocks, member->process,
                                                at->begin + (after - 1) * UINT64_C(100))
                               : NAN,
                .next = at->next_after
                                ? capo_clocks_ns(of->clocks, member->process,
                                                 at->begin + (at->next_after - 1) * UINT64_C(1000))
                                : NAN,
                .ns = (double)at->gpu_ns,
        };
}

/* Did its host wait for the call? Else its next call says nothing of the end of this one. */
static bool has_waited(const struct part *p) { return p->next >= p->host + p->ns; }

/* Take only that part of each difference by which the others also began earlier than @last. */
static void bound_by_begins(const struct skew_comm *of, uint32_t i, uint32_t last, double *to)
{
        double begin = part_of(of, i, last).begin, from = to[last];

        for (uint32_t k = 0; k < of->c->n_members; k++) {
                struct part p = part_of(of, i, k);

                if (!isnan(p.begin) && !isnan(begin))
                        to[k] = from - fmax(0, fmin(from - to[k], begin - p.begin));
        }
}

/* The member that began last on its GPU; of equal ones the first. */
static uint32_t find_last_begin(const struct skew_comm *of, uint32_t i)
{
        uint32_t last = 0;

        for (uint32_t k = 1; k < of->c->n_members; k++) {
                if (part_of(of, i, k).begin > part_of(of, i, last).begin)
                        last = k;
        }
        return last;
}

/* @to has the durations, below 0. Make starts of them on which the clocks agree. False: this call
 * does not tell who came last. */
static bool agree_starts(const struct skew_comm *of, uint32_t i, double *to)
{
        uint32_t n = of->c->n_members, last = 0, first = 0;
        bool known = capo_comm_has_one_clock(of->clocks->job, of->c), apart = of->m->rows[i].apart;
        struct part of_last, of_first;
        double by;

        for (uint32_t k = 1; k < n; k++) {
                last = to[k] > to[last] ? k : last;
                first = to[k] < to[first] ? k : first;
        }
        by = to[last] - to[first];
        of_last = part_of(of, i, last);
        of_first = part_of(of, i, first);
        if (by < ALIKE_NS)
                return true;
        if (known && of_last.begin - of_first.begin >= by / 2) {
                bound_by_begins(of, i, last, to);
                return true;
        }
        if (known && has_waited(&of_last) && has_waited(&of_first)) {
                if (of_first.next - of_last.next >= by / 2)
                        bound_by_begins(of, i, find_last_begin(of, i), to);
                return true;
        }
        return !apart;
}

bool skew_row_tells(const struct skew_comm *of, uint32_t i, enum capo_skew_from from, double *to)
{
        uint32_t n = of->c->n_members, k = 0;

        while (k < n && !isnan(to[k] = start_of(of, i, k, from)))
                k++;
        if (k < n || of->m->rows[i].mismatch)
                return false;
        return from != CAPO_SKEW_GPU_DURATION || agree_starts(of, i, to);
}

bool skew_row_starts(const struct skew_comm *of, uint32_t i, enum capo_skew_from from, double *to)
{
        return (from == CAPO_SKEW_GPU_DURATION &&
                skew_row_tells(of, i, CAPO_SKEW_KERNEL_WAIT, to)) ||
               skew_row_tells(of, i, from, to);
}
