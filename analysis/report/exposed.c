/* SPDX-License-Identifier: Apache-2.0 */
/* Upper bound for exposed communication: the time in which at least one call was on the GPU. On one
 * stream, that is the sum of the calls' times; calls of several streams overlap. The overlap is
 * measured in the single calls of the logs, each placed behind its predecessor on the stream
 * (gpu_spans.h). There is no lower bound, because capo does not see what the program computed
 * meanwhile. */

#include "capo/record.h"
#include "core/base/calls.h"
#include "core/base/xalloc.h"
#include "analysis/job/gpu_spans.h"
#include "analysis/report/job_judge.h"
#include "analysis/job/log_calls.h"

enum { SPANS_MOST = 1 << 16, DEVICES = 64 }; /* spans counted at a time; devices */

struct kept {
        struct capo_gpu_span *spans;
        uint8_t *device; /* by span.nth */
        size_t n;
        const uint8_t *device_of; /* by id of the communicator in the process */
        unsigned n_devices;       /* number of devices */
        double once, sum;         /* of those counted so far */
};

/* Time in which one device had at least one call; @sum: the sum of their times. */
static double covered_time(const struct kept *k, unsigned device, double *sum)
{
        uint64_t until = 0;
        double ns = 0;

        for (size_t i = 0; i < k->n; i++) {
                const struct capo_gpu_span *s = &k->spans[i];

                if (!s->gpu_ns || k->device[s->nth] != device)
                        continue;
                *sum += (double)(s->end - s->begin);
                ns += s->end <= until ? 0
                                      : (double)(s->end - (s->begin > until ? s->begin : until));
                until = s->end > until ? s->end : until;
        }
        return ns;
}

/* Count the spans collected so far. An overlap with an earlier batch counts twice: at most one in
 * SPANS_MOST. */
static void count_spans(struct kept *k)
{
        capo_gpu_spans(k->spans, k->n);
        for (unsigned d = 0; d < k->n_devices; d++)
                k->once += covered_time(k, d, &k->sum);
        k->n = 0;
}

static int keep_span(const struct capo_record *r, unsigned thread, void *arg)
{
        struct kept *k = arg;

        if (r->flags & CAPO_RECORD_MEMBER || capo_call_kind(r->call) == CAPO_KIND_OTHER)
                return 0;
        k->spans[k->n] = capo_gpu_span_of(r, (uint32_t)k->n);
        k->device[k->n] = k->device_of[r->comm];
        if (++k->n == SPANS_MOST)
                count_spans(k);
        return 0;
}

/* Share of the sum of a process's GPU times that is left if overlapping calls count once; 1: not
 * known. */
static void overlap_of(const struct capo_job *job, uint32_t process, double *part)
{
        struct capo_log *log = capo_job_log(job, process);
        const struct capo_job_use *use;
        _cleanup_free_ struct capo_gpu_span *spans = xmalloc(SPANS_MOST * sizeof *spans);
        _cleanup_free_ uint8_t *device = xmalloc(SPANS_MOST), *device_of = xcalloc(65536, 1);
        struct kept k = {spans, device, 0, device_of, 1, 0, 0};
        uint32_t n_uses;

        *part = 1;
        use = capo_job_uses(job, process, &n_uses);
        for (; n_uses--; use++) {
                const struct capo_job_member *member = &job->comms[use->comm].members[use->member];

                if (member->device > 0) {
                        device_of[member->id] = (uint8_t)(member->device % DEVICES);
                        k.n_devices = DEVICES;
                }
        }
        if (!log)
                return;
        capo_log_calls_each(log, keep_span, &k);
        capo_log_park(log);
        count_spans(&k);
        if (k.sum > 0)
                *part = k.once / k.sum;
}

void capo_judge_exposed(struct capo_page *r)
{
        double part = 0, pm;

        r->exposed_most = -1;
        if (r->gpu_share < 0 ||
            capo_page_is_filtered(r)) /* with a filter, the overlap of all calls does not apply */
                return;
        for (uint32_t i = 0; i < r->job->n_processes; i++) {
                double of_one = 1;

                if (r->job->processes[i].many_streams && r->job->processes[i].n_records)
                        overlap_of(r->job, i, &of_one);
                part += of_one;
        }
        r->overlapping = part < 0.995 * r->job->n_processes;
        r->exposed_most = fmin(1, r->gpu_sum * part / r->job->n_processes);
        if (r->overlapping) {
                pm = capo_interval_pm(r->gpu_range, r->gpu_share) * part / r->job->n_processes;
                r->gpu_share = r->exposed_most;
                r->gpu_range = capo_interval_within(r->gpu_share, pm, 1);
        }
}
