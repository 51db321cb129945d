/* SPDX-License-Identifier: Apache-2.0 */
/* Which rows are shown, which are merged, and their order. */
#include <fnmatch.h>

#include "capo/call_ids.h"
#include "core/base/among.h"
#include "core/base/calls.h"
#include "core/base/order.h"
#include "core/base/xalloc.h"
#include "analysis/report/job_judge.h"

static bool row_is_wanted(const struct capo_page *r, const struct capo_job_row *row)
{
        return (!r->only_call || row->call == r->only_call) &&
               (!r->only_comm || (row->comm != CAPO_NO_COMM &&
                                  fnmatch(r->only_comm, r->job->comms[row->comm].name, 0) == 0));
}

static bool moves_data(const struct capo_job_row *row)
{
        return capo_call_kind(row->call) != CAPO_KIND_OTHER;
}

enum { MANY_SIZES = 16, NEAR = 256, MANY_COMMS = 8 };

/* Communicators with the same role for other ranks are equal: they have one size and one given name,
 * or the same position among their processes' communicators (for example each rank's second is its
 * tensor-parallel group). */
static int compare_roles(const struct capo_job_comm *a, const struct capo_job_comm *b)
{
        size_t na = strcspn(a->name, "#"), nb = strcspn(b->name, "#");
        int r = CAPO_ORDER(a->n_ranks, b->n_ranks) ?: CAPO_ORDER(a->named, b->named);

        if (r || a->named)
                return r ?: CAPO_ORDER(na, nb) ?: strncmp(a->name, b->name, na);
        return CAPO_ORDER(a->members[0].id, b->members[0].id)
                       ?: CAPO_ORDER(a->parent == CAPO_NO_COMM, b->parent == CAPO_NO_COMM);
}

static int by_role(const void *one, const void *two)
{
        const struct capo_job_comm *const *a = one, *const *b = two;

        return compare_roles(*a, *b) ?: CAPO_ORDER(*a, *b);
}

/* @class_of: for each communicator the first similar one; itself if not @together or if there are
 * few. */
static void classify_comms(const struct capo_job *job, bool together, uint32_t *class_of)
{
        _cleanup_free_ const struct capo_job_comm **of = xcalloc(job->n_comms + 1, sizeof *of);
        uint32_t n = 0;

        for (uint32_t i = 0; i < job->n_comms; i++) {
                class_of[i] = i;
                if (job->comms[i].n_members)
                        of[n++] = &job->comms[i];
        }
        if (!together || job->n_comms <= MANY_COMMS)
                return;
        qsort(of, n, sizeof *of, by_role);
        for (uint32_t i = 1; i < n; i++) {
                if (!compare_roles(of[i - 1], of[i]))
                        class_of[of[i] - job->comms] = class_of[of[i - 1] - job->comms];
        }
}

/* A row of the job, and the communicator under which it is shown. */
struct place {
        const struct capo_job_row *row;
        uint32_t comm;
};

/* finally the job's own order, which is by key */
CAPO_ORDERED(by_place, struct place, CAPO_ORDER(a->comm, b->comm),
             CAPO_ORDER(a->row->call, b->row->call), CAPO_ORDER(a->row->bytes, b->row->bytes),
             CAPO_ORDER(a->row, b->row));

/* Is the row merged into that place? With @ranges, sizes of one power of two are. */
static bool belongs_to_place(const struct capo_job_row *a, const struct place *place, bool ranges)
{
        const struct capo_job_row *b = place->row;
        bool same_size = a->bytes == b->bytes;

        if (ranges && a->bytes && b->bytes)
                same_size = __builtin_clzll(a->bytes) == __builtin_clzll(b->bytes);
        return same_size && a->comm == place->comm && a->call == b->call &&
               a->algo_proto == b->algo_proto && a->channels == b->channels && a->flags == b->flags;
}

/* Number of different sizes in the merged call at places[i]; *end is set past its last row. */
static uint32_t count_sizes(const struct place *places, uint32_t n_places, uint32_t i,
                            uint32_t *end)
{
        uint32_t n = 1, k = i + 1;

        for (; k < n_places && places[k].comm == places[i].comm &&
               places[k].row->call == places[i].row->call;
             k++)
                n += places[k].row->bytes != places[k - 1].row->bytes;
        *end = k;
        return n;
}

/* @first: rows before it belong to other calls. */
static void add_row(struct capo_page_rows *rows, uint32_t first, bool ranges,
                    const struct place *place)
{
        const struct capo_job_row *row = place->row;
        struct capo_page_row *to = NULL;

        /* rows are sorted by size, so a matching one is near */
        for (uint32_t i = rows->n; i-- > first && rows->n - i <= NEAR && !to;) {
                if (belongs_to_place(&rows->row[i].row, place, ranges))
                        to = &rows->row[i];
        }
        if (!to) {
                to = &rows->row[rows->n++];
                *to = (struct capo_page_row){.row = *row};
                to->row.comm = place->comm;
                memset(to->row.time, 0, sizeof to->row.time);
                to->row.calls = to->row.count = to->row.failed = 0;
                to->row.inferred_calls = 0;
                to->row.inferred_ns = 0;
        }
        to->bytes_max = row->bytes > to->bytes_max ? row->bytes : to->bytes_max;
        for (unsigned c = 0; c < CAPO_TIMES; c++)
                to->timed_bytes[c] += (double)row->bytes * (double)row->time[c].count;
        capo_job_row_merge(&to->row, row);
}

static bool on_gpu(enum capo_clock clock)
{
        return clock == CAPO_CLOCK_EVENT || clock == CAPO_CLOCK_KERNEL;
}

static void rate_row(const struct capo_page *r, struct capo_page_row *row)
{
        row->clock = capo_job_row_clock(&row->row);
        row->total_ns = capo_job_row_total_ns(&row->row);
        row->has_bandwidth = capo_job_row_bandwidth(r->job, &row->row, &row->algbw, &row->busbw);
        if (row->has_bandwidth && row->row.bytes != row->bytes_max) {
                const struct capo_hist *timed = &row->row.time[row->clock],
                                       *once = &row->row.time[CAPO_TIMES_CHOSEN];
                bool drawn = row->clock == CAPO_CLOCK_EVENT && timed->count > once->count;
                double factor = row->busbw / row->algbw;

                row->algbw = drawn ? (row->timed_bytes[row->clock] -
                                      row->timed_bytes[CAPO_TIMES_CHOSEN]) /
                                             (double)(timed->sum_ns - once->sum_ns)
                                   : row->timed_bytes[row->clock] / (double)timed->sum_ns;
                row->busbw = row->algbw * factor;
        }
        row->has_algbw = row->has_bandwidth;
        if (row->row.call == CAPO_CALL_GROUP && row->row.bytes && on_gpu(row->clock)) {
                struct capo_sampled s = capo_job_row_sampled(&row->row);
                double ns = row->row.bytes == row->bytes_max
                                    ? capo_sampled_quantile(&s, 0.5) * (double)s.timed->count
                                    : (double)s.timed->sum_ns;

                row->has_algbw = ns > 0;
                row->algbw = ns > 0 ? row->timed_bytes[row->clock] / ns : 0;
        }
        row->ceiling = r->ceiling && row->row.comm != CAPO_NO_COMM
                               ? r->ceiling[row->row.comm].busbw_gbs[row->row.call]
                               : 0;
        row->reached = row->has_bandwidth && row->ceiling > 0 ? row->busbw / row->ceiling : -1;
}

/* Compute the figures of each row, and shares: of GPU time if the job has any, else of host time.
 */
static void rate_rows(struct capo_page *r, struct capo_page_rows *rows)
{
        double sum = 0;

        for (uint32_t i = 0; i < rows->n; i++) {
                rate_row(r, &rows->row[i]);
                r->gpu |= on_gpu(rows->row[i].clock);
        }
        for (uint32_t i = 0; i < rows->n; i++)
                sum += on_gpu(rows->row[i].clock) || !r->gpu ? rows->row[i].total_ns : 0;
        for (uint32_t i = 0; i < rows->n; i++) {
                struct capo_page_row *row = &rows->row[i];
                bool counts = (on_gpu(row->clock) || !r->gpu) && row->clock != CAPO_CLOCK_NONE;

                row->share = counts && sum > 0 ? row->total_ns / sum : -1;
        }
}

/* Upper bound in ns over all ranks for stalls that the sample missed. The calls of all rows are
 * drawn by one rule, so they are one sample. @drawn: calls of one rank that were drawn; @rest:
 * untimed calls of all ranks; @inferred_ns: known time of some of them. */
static double unseen_time(const struct capo_job *job, double drawn, double rest, double inferred_ns)
{
        double gpus = capo_job_gpus(job), ns = 0;

        for (uint32_t i = 0; i < job->n_processes; i++)
                ns += gpus / job->n_processes *
                      capo_sampled_unseen(&job->processes[i].silent, rest / gpus, drawn);
        return fmax(0, ns - inferred_ns);
}

/* The job's share of GPU time, from the rows that are the same in every format. A group of several
 * communicators is timed on one stream: in a process with several GPUs it counts for each of its
 * ranks. */
static void rate_job(struct capo_page *r)
{
        double gpus = capo_job_gpus(r->job),
               there_was = (double)capo_job_duration_ns(r->job) * gpus, ns = 0, sq = 0;
        double drawn = 0, rest = 0, inferred_ns = 0;
        for (uint32_t i = 0; i < r->judged.n; i++) {
                const struct capo_page_row *row = &r->judged.row[i];
                bool of_all = row->row.call == CAPO_CALL_GROUP && row->row.comm == CAPO_NO_COMM;
                double times = !on_gpu(row->clock) ? 0 : of_all ? gpus / r->job->n_processes : 1;
                struct capo_sampled s = capo_job_row_sampled(&row->row);
                double doubt = times * capo_sampled_doubt(&s, row->row.count);

                ns += times * row->total_ns;
                sq += doubt * doubt;
                if (times > 0) {
                        r->gpu_timed += s.timed->count;
                        r->gpu_calls += s.calls;
                        drawn += (double)(s.timed->count - s.chosen->count) / (double)s.calls *
                                 (double)row->row.count;
                        rest += fmax(0, (double)s.calls - (double)s.timed->count);
                        inferred_ns += s.inferred_ns;
                }
        }
        r->gpu_share = r->gpu_sum = -1;
        if (!r->gpu || there_was <= 0)
                return;
        r->gpu_sum = ns / there_was;
        r->gpu_share = fmin(1, r->gpu_sum);
        r->gpu_range = capo_interval_within(
                r->gpu_share,
                (sqrt(sq) + unseen_time(r->job, drawn, rest, inferred_ns)) / there_was, 1);
        if (capo_interval_is_wide(r->gpu_range, 1))
                r->gpu_share = -1;
}

/* Rows without a share come last. */
static double cost_of(const struct capo_page_row *row)
{
        return row->share >= 0 ? row->share : row->total_ns / 1e30 - 1;
}

CAPO_ORDERED(by_cost, struct capo_page_row, CAPO_ORDER(cost_of(b), cost_of(a)),
             CAPO_ORDER(a->row.comm, b->row.comm), CAPO_ORDER(a->row.call, b->row.call),
             CAPO_ORDER(a->row.bytes, b->row.bytes),
             CAPO_ORDER(a->row.algo_proto, b->row.algo_proto),
             CAPO_ORDER(a->row.channels, b->row.channels), CAPO_ORDER(a->row.flags, b->row.flags));

/* The rows that are wanted, by @class_of and key: those that move data, or the others. */
static uint32_t find_places(const struct capo_page *r, const uint32_t *class_of, bool moving,
                            bool members, struct place *places)
{
        uint32_t n = 0;

        for (uint32_t i = 0; i < r->job->n_rows; i++) {
                const struct capo_job_row *row = &r->job->rows[i];

                if (row_is_wanted(r, row) && moves_data(row) == moving &&
                    (members || !(row->flags & CAPO_RECORD_MEMBER)))
                        places[n++] = (struct place){row, row->comm == CAPO_NO_COMM
                                                                  ? CAPO_NO_COMM
                                                                  : class_of[row->comm]};
        }
        qsort(places, n, sizeof *places, by_place);
        return n;
}

/* Make one list of rows: communicators merged by class_of, sizes merged to ranges or not. */
static void choose_rows(struct capo_page *r, struct place *places, const uint32_t *class_of,
                        bool ranges, struct capo_page_rows *rows)
{
        /* if all groups tell what their members are, these need no rows of their own, which would
         * have no times */
        bool members = rows != &r->rows || r->exact || r->only_call ||
                       ANY_OF(row, r->job->rows, r->job->n_rows,
                              row->call == CAPO_CALL_GROUP && row->flags & CAPO_RECORD_GROUP &&
                                      !capo_page_group_of(row));
        uint32_t n = find_places(r, class_of, true, members, places), end;

        rows->row = xcalloc(r->job->n_rows + 1, sizeof *rows->row);
        for (uint32_t i = 0; i < n; i = end) {
                bool many = count_sizes(places, n, i, &end) > MANY_SIZES;
                uint32_t first = rows->n;

                for (uint32_t k = i; k < end; k++)
                        add_row(rows, first, many && ranges, &places[k]);
        }
        rate_rows(r, rows);
        qsort(rows->row, rows->n, sizeof *rows->row, by_cost);
}

/* Calls that move no data, unmerged. */
static void choose_others(struct capo_page *r, struct place *places)
{
        uint32_t n = find_places(r, r->class_of, false, true, places);

        r->others.row = xcalloc(r->job->n_rows + 1, sizeof *r->others.row);
        for (uint32_t i = 0; i < n; i++) {
                struct capo_page_row *row = &r->others.row[r->others.n++];

                row->row = *places[i].row;
                memset(row->row.time, 0, sizeof row->row.time);
                row->clock = capo_job_row_clock(places[i].row);
                capo_hist_merge(&row->row.time[CAPO_CLOCK_HOST],
                                &places[i].row->time[CAPO_CLOCK_HOST]);
        }
}

void capo_judge_rows(struct capo_page *r)
{
        _cleanup_free_ struct place *places = xcalloc(r->job->n_rows + 1, sizeof *places);
        _cleanup_free_ uint32_t *together = xcalloc(r->job->n_comms + 1, sizeof *together);

        r->class_of = xcalloc(r->job->n_comms + 1, sizeof *r->class_of);
        r->class_size = xcalloc(r->job->n_comms + 1, sizeof *r->class_size);
        classify_comms(r->job, true, together);
        classify_comms(r->job, !r->exact, r->class_of);
        for (uint32_t i = 0; i < r->job->n_comms; i++)
                r->class_size[r->class_of[i]]++;
        for (uint32_t i = 0; i < r->job->n_rows; i++) {
                const struct capo_job_row *row = &r->job->rows[i];

                if (!row_is_wanted(r, row) || !moves_data(row) || row->flags & CAPO_RECORD_GROUP)
                        continue;
                r->collectives += row->count;
                r->moved_bytes += row->count * row->bytes;
        }
        choose_rows(r, places, together, true, &r->judged);
        choose_rows(r, places, r->class_of, !r->exact, &r->rows);
        rate_job(r);
        choose_others(r, places);
}
