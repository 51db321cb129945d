/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two halves. The meeting table gathers, while logs stream by, when each rank was in each sampled call; a row is a
 * call, a column a rank. The solver then puts all times on one clock and reads the rows.
 *
 * Offset and drift of a host's clock against another's: every all-reduce gives an interval [low, high] that the
 * correction must lie in at its time (profiles/job/skew.h). For a trial drift b, the largest low - b t and the smallest
 * high - b t leave a band for the offset; its width is a concave function of b (a minimum of lines minus a maximum of
 * lines), so a ternary search finds the widest band, and its middle line is the correction. The idea of bounding clocks
 * by causality is old (V. Paxson, "On calibrating measurements of packet transit times", SIGMETRICS 1998).
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/calls.h"
#include "profiles/job/skew.h"
#include "core/base/util.h"

#define ABSENT    UINT64_MAX
#define FEW       8
#define MAX_DRIFT 200e-6 /* quartz is good to +-100 ppm each */

/* All ns since the epoch of the log they come from. */
struct arrival {
        uint64_t begin;     /* ABSENT: this rank is not in the row */
        uint64_t gpu_begin; /* 0 not known */
        uint64_t gpu_ns;    /* 0 not known */
};

struct row {
        uint64_t bytes;
        uint32_t seq;
        uint32_t n_seen;
        uint8_t call;
        bool mismatch;
};

struct capo_meet {
        uint32_t n_ranks, limit, n_rows, max_rows, n_slots;
        struct row *rows;
        struct arrival *arrivals; /* [row * n_ranks + rank] */
        uint32_t *slots;          /* hash -> 1 + row */
};

struct capo_meet *capo_meet_new(uint32_t n_ranks)
{
        struct capo_meet *m = calloc(1, sizeof *m);

        if (!m)
                return NULL;
        m->n_ranks = n_ranks;
        m->limit = UINT32_MAX;
        m->max_rows = (1u << 18) / n_ranks;
        m->max_rows = m->max_rows > 2048 ? 2048 : m->max_rows < 64 ? 64 : m->max_rows;
        m->n_slots = 8192;
        m->rows = malloc(m->max_rows * sizeof *m->rows);
        m->arrivals = malloc((size_t)m->max_rows * n_ranks * sizeof *m->arrivals);
        m->slots = calloc(m->n_slots, sizeof *m->slots);
        if (!m->rows || !m->arrivals || !m->slots) {
                capo_meet_free(m);
                return NULL;
        }
        return m;
}

void capo_meet_free(struct capo_meet *m)
{
        if (!m)
                return;
        free(m->rows);
        free(m->arrivals);
        free(m->slots);
        free(m);
}

uint32_t capo_meet_limit(const struct capo_meet *m)
{
        return m->limit;
}

/* The slot that names @seq's row, or the empty one where it would be named. */
static uint32_t *slot_of(struct capo_meet *m, uint32_t seq)
{
        uint32_t i = (seq ^ seq >> 13) * 0x85ebca6bu >> 19; /* 13 bits: 8192 slots */

        while (m->slots[i] && m->rows[m->slots[i] - 1].seq != seq)
                i = (i + 1) % m->n_slots;
        return &m->slots[i];
}

/* Halve the sample until there is room; keeps the order of rows. */
static void thin(struct capo_meet *m)
{
        while (m->n_rows == m->max_rows && m->limit) {
                uint32_t kept = 0;

                m->limit >>= 1;
                memset(m->slots, 0, m->n_slots * sizeof *m->slots);
                for (uint32_t i = 0; i < m->n_rows; i++) {
                        if (capo_meet_hash(m->rows[i].seq) > m->limit)
                                continue;
                        if (kept != i) {
                                m->rows[kept] = m->rows[i];
                                memcpy(m->arrivals + (size_t)kept * m->n_ranks, m->arrivals + (size_t)i * m->n_ranks,
                                       m->n_ranks * sizeof *m->arrivals);
                        }
                        kept++;
                        *slot_of(m, m->rows[kept - 1].seq) = kept;
                }
                m->n_rows = kept;
        }
}

static void set_gpu(struct arrival *a, const struct capo_record *r)
{
        if (r->clock != CAPO_CLOCK_EVENT && r->clock != CAPO_CLOCK_KERNEL)
                return;
        a->gpu_ns = r->gpu_ns;
        a->gpu_begin = r->gpu_begin && r->gpu_ns ? r->t_begin + 16 * (uint64_t)r->gpu_begin : 0;
}

int64_t capo_meet_add(struct capo_meet *m, uint32_t rank, const struct capo_record *r)
{
        struct arrival *a;
        struct row *row;
        uint32_t *slot;

        if (!r->seq || rank >= m->n_ranks || capo_meet_hash(r->seq) > m->limit)
                return -1;
        slot = slot_of(m, r->seq);
        if (!*slot) {
                if (m->n_rows == m->max_rows) {
                        thin(m);
                        if (m->n_rows == m->max_rows || capo_meet_hash(r->seq) > m->limit)
                                return -1;
                        slot = slot_of(m, r->seq);
                }
                m->rows[m->n_rows] = (struct row){.seq = r->seq, .bytes = r->bytes, .call = r->call};
                a = m->arrivals + (size_t)m->n_rows * m->n_ranks;
                for (uint32_t i = 0; i < m->n_ranks; i++)
                        a[i] = (struct arrival){.begin = ABSENT};
                *slot = ++m->n_rows;
        }
        row = &m->rows[*slot - 1];
        a = m->arrivals + (size_t)(*slot - 1) * m->n_ranks + rank;
        if (a->begin != ABSENT)
                return -1;
        if (row->call != r->call || row->bytes != r->bytes)
                row->mismatch = true;
        *a = (struct arrival){.begin = r->t_begin};
        set_gpu(a, r);
        row->n_seen++;
        return (int64_t)(*slot - 1) * m->n_ranks + rank;
}

void capo_meet_set_gpu(struct capo_meet *m, int64_t handle, uint32_t seq, const struct capo_record *group)
{
        if (handle < 0 || handle / m->n_ranks >= m->n_rows || m->rows[handle / m->n_ranks].seq != seq)
                return; /* thinned away in between */
        set_gpu(&m->arrivals[handle], group);
}

void capo_skew_free(struct capo_skew *skew)
{
        if (skew)
                free(skew->ranks);
        free(skew);
}

/* ---- the solver ---- */

/* How times of a process become ns on its host's real-time clock, less job->t_begin_ns. */
struct process_clock {
        double offset, scale;
};

/* Correction of one host's clock, added to its times: a + b t. */
struct host_clock {
        double a, b, uncertain; /* uncertain < 0: not aligned */
};

struct bound {
        double t, low, high;
};

struct solver {
        struct capo_job *job;
        struct capo_meet *const *meets;
        struct process_clock *processes;
        struct host_clock *hosts;
};

static double on_host(const struct solver *s, uint32_t process, uint64_t t)
{
        return s->processes[process].offset + (double)t * s->processes[process].scale;
}

static double aligned(const struct solver *s, uint32_t process, uint64_t t)
{
        const struct host_clock *h = &s->hosts[s->job->processes[process].clock];
        double local = on_host(s, process, t);

        return local + h->a + h->b * local;
}

/* All processes of a host use the host's first process' idea of what CLOCK_MONOTONIC is in real time. */
static void clocks_of_processes(struct solver *s)
{
        for (uint32_t i = 0; i < s->job->n_processes; i++) {
                struct capo_job_process *p = &s->job->processes[i], *first = p;
                struct process_clock *c = &s->processes[i];

                for (uint32_t k = 0; k < i; k++) {
                        if (s->job->processes[k].clock == p->clock) {
                                first = &s->job->processes[k];
                                break;
                        }
                }
                c->scale = 1;
                if (p->has_end && p->end.t_ns > 1000000000 && p->end.mono_ns > p->header.t0_mono_ns) {
                        double scale = (double)(p->end.mono_ns - p->header.t0_mono_ns) / (double)p->end.t_ns;

                        if (fabs(scale - 1) < 1e-3)
                                c->scale = scale;
                }
                c->offset = (double)(int64_t)(p->header.t0_mono_ns - first->header.t0_mono_ns) +
                            (double)(int64_t)(first->header.t0_real_ns - s->job->t_begin_ns);
        }
}

static double band(const struct bound *bounds, size_t n, double b, double *middle)
{
        double low = -INFINITY, high = INFINITY;

        for (size_t i = 0; i < n; i++) {
                low = fmax(low, bounds[i].low - b * bounds[i].t);
                high = fmin(high, bounds[i].high - b * bounds[i].t);
        }
        *middle = (low + high) / 2;
        return high - low;
}

/* The correction that fits @bounds best; half the width of the band left is its uncertainty. */
static struct host_clock fit_line(const struct bound *bounds, size_t n)
{
        double from = -MAX_DRIFT, to = MAX_DRIFT, middle, flat, width;
        struct host_clock h = {0};

        for (int i = 0; i < 64; i++) {
                double b1 = from + (to - from) / 3, b2 = to - (to - from) / 3;

                if (band(bounds, n, b1, &middle) < band(bounds, n, b2, &middle))
                        from = b1;
                else
                        to = b2;
        }
        h.b = (from + to) / 2;
        width = band(bounds, n, h.b, &h.a);
        flat = band(bounds, n, 0, &middle);
        if (flat >= width) { /* no drift explains as much */
                h.b = 0;
                h.a = middle;
                width = flat;
        }
        h.uncertain = fabs(width) / 2; /* a negative width: the clocks did not drift in a straight line */
        return h;
}

/* A call that nobody leaves before everybody has come. */
static bool is_barrier(const struct row *row)
{
        enum capo_call_kind kind = capo_call_kind(row->call);

        return row->bytes && !row->mismatch &&
               (kind == CAPO_KIND_ALLREDUCE || kind == CAPO_KIND_ALLGATHER || kind == CAPO_KIND_REDUCESCATTER ||
                kind == CAPO_KIND_ALLTOALL);
}

/* Bounds that the calls of one communicator put on host @b's correction, @a being corrected already. */
static int bounds_from(const struct solver *s, uint32_t comm, uint32_t a, uint32_t b, struct bound **bounds, size_t *n,
                       size_t *room)
{
        const struct capo_job_comm *c = &s->job->comms[comm];
        const struct capo_meet *m = s->meets[comm];

        for (uint32_t i = 0; i < m->n_rows; i++) {
                double begin[2] = {-INFINITY, -INFINITY}, end[2] = {INFINITY, INFINITY};

                if (!is_barrier(&m->rows[i]))
                        continue;
                for (uint32_t k = 0; k < c->n_members; k++) {
                        uint32_t process = c->members[k].process, host = s->job->processes[process].clock;
                        const struct arrival *at;

                        if ((host != a && host != b) || (uint32_t)c->members[k].rank >= m->n_ranks)
                                continue;
                        at = &m->arrivals[(size_t)i * m->n_ranks + c->members[k].rank];
                        if (at->begin == ABSENT || !at->gpu_begin)
                                continue;
                        begin[host == b] = fmax(begin[host == b], aligned(s, process, at->gpu_begin));
                        end[host == b] = fmin(end[host == b], aligned(s, process, at->gpu_begin + at->gpu_ns));
                }
                if (isinf(begin[0]) || isinf(begin[1]))
                        continue;
                if (*n == *room) {
                        size_t more = *room ? 2 * *room : 1024;
                        void *larger = realloc(*bounds, more * sizeof **bounds);

                        if (!larger)
                                return -ENOMEM;
                        *bounds = larger;
                        *room = more;
                }
                (*bounds)[(*n)++] = (struct bound){.t = begin[1], .low = begin[0] - end[1], .high = end[0] - begin[1]};
        }
        return 0;
}

/* Calls that hosts a and b have in common, for choosing which host is aligned with which. */
static uint32_t *count_common(const struct solver *s)
{
        uint32_t n = s->job->n_clocks, *common = calloc((size_t)n * n, sizeof *common);
        _cleanup_free_ uint32_t *in = calloc(n, sizeof *in);

        if (!common || !in) {
                free(common);
                return NULL;
        }
        for (uint32_t i = 0; i < s->job->n_comms; i++) {
                const struct capo_job_comm *c = &s->job->comms[i];
                uint32_t n_in = 0;

                if (!s->meets[i])
                        continue;
                for (uint32_t k = 0; k < c->n_members; k++) {
                        uint32_t host = s->job->processes[c->members[k].process].clock, j = 0;

                        while (j < n_in && in[j] != host)
                                j++;
                        if (j == n_in)
                                in[n_in++] = host;
                }
                for (uint32_t j = 0; j < n_in; j++) {
                        for (uint32_t k = 0; k < n_in; k++)
                                common[(size_t)in[j] * n + in[k]] += s->meets[i]->n_rows;
                }
        }
        return common;
}

/* Host 0 is the reference; the rest are aligned one by one, each with the aligned host it shares most calls with. */
static int align(struct solver *s)
{
        uint32_t n = s->job->n_clocks;
        _cleanup_free_ uint32_t *common = n > 1 ? count_common(s) : NULL;
        _cleanup_free_ struct bound *bounds = NULL;
        _cleanup_free_ bool *done = calloc(n + 1, sizeof *done);
        size_t room = 0;

        if (!done || (n > 1 && !common))
                return -ENOMEM;
        for (uint32_t i = 1; i < n; i++)
                s->hosts[i].uncertain = -1;
        if (n)
                done[0] = true;
        for (uint32_t round = 1; round < n; round++) {
                uint32_t best = 0, from = 0, to = 0;
                size_t n_bounds = 0;

                for (uint32_t b = 1; b < n; b++) {
                        for (uint32_t a = 0; a < n && !done[b]; a++) {
                                if (done[a] && common[(size_t)a * n + b] > best) {
                                        best = common[(size_t)a * n + b];
                                        from = a;
                                        to = b;
                                }
                        }
                }
                if (!best)
                        break;
                done[to] = true;
                for (uint32_t i = 0; i < s->job->n_comms; i++) {
                        if (s->meets[i] && bounds_from(s, i, from, to, &bounds, &n_bounds, &room) < 0)
                                return -ENOMEM;
                }
                if (n_bounds && s->hosts[from].uncertain >= 0) {
                        s->hosts[to] = fit_line(bounds, n_bounds);
                        s->hosts[to].uncertain += s->hosts[from].uncertain;
                }
        }
        s->job->clock_uncertain_ns = 0;
        for (uint32_t i = 0; i < n; i++) {
                if (s->hosts[i].uncertain < 0) {
                        s->job->clock_uncertain_ns = -1;
                        break;
                }
                s->job->clock_uncertain_ns = fmax(s->job->clock_uncertain_ns, s->hosts[i].uncertain);
        }
        return 0;
}

static int by_value(const void *a, const void *b)
{
        double x = *(const double *)a, y = *(const double *)b;

        return x < y ? -1 : x > y;
}

/* Sorts @v. */
static double quantile(double *v, size_t n, double q)
{
        if (!n)
                return 0;
        qsort(v, n, sizeof *v, by_value);
        return v[(size_t)(q * (double)(n - 1) + 0.5)];
}

/* Start of member @k in row @i on the common clock, by @from; NAN when it is not in, or that is not known of it. */
static double start_of(const struct solver *s, uint32_t comm, uint32_t i, uint32_t k, enum capo_skew_from from)
{
        const struct capo_job_member *member = &s->job->comms[comm].members[k];
        const struct capo_meet *m = s->meets[comm];
        const struct arrival *at;

        if ((uint32_t)member->rank >= m->n_ranks)
                return NAN;
        at = &m->arrivals[(size_t)i * m->n_ranks + member->rank];
        if (at->begin == ABSENT)
                return NAN;
        switch (from) {
        case CAPO_SKEW_GPU_START: return at->gpu_begin ? aligned(s, member->process, at->gpu_begin) : NAN;
        case CAPO_SKEW_GPU_DURATION: return at->gpu_ns && is_barrier(&m->rows[i]) ? -(double)at->gpu_ns : NAN;
        default: return aligned(s, member->process, at->begin);
        }
}

/* Fill starts[row * n_members + member] with the rows that all members are in. Returns how many. */
static uint32_t complete_rows(const struct solver *s, uint32_t comm, enum capo_skew_from from, double *starts)
{
        uint32_t n = s->job->comms[comm].n_members, n_rows = 0;

        for (uint32_t i = 0; i < s->meets[comm]->n_rows; i++) {
                uint32_t k = 0;

                if (s->meets[comm]->rows[i].mismatch)
                        continue;
                while (k < n && !isnan(starts[(size_t)n_rows * n + k] = start_of(s, comm, i, k, from)))
                        k++;
                n_rows += k == n;
        }
        return n_rows;
}

static void uncertainty_of(const struct solver *s, const struct capo_job_comm *c, struct capo_skew *skew)
{
        uint32_t first = s->job->processes[c->members[0].process].clock;
        bool one = true;

        for (uint32_t k = 0; k < c->n_members; k++) {
                const struct host_clock *h = &s->hosts[s->job->processes[c->members[k].process].clock];

                one &= s->job->processes[c->members[k].process].clock == first;
                if (h->uncertain < 0 || skew->uncertain_ns < 0)
                        skew->uncertain_ns = -1;
                else
                        skew->uncertain_ns = fmax(skew->uncertain_ns, h->uncertain);
        }
        if (one || skew->from == CAPO_SKEW_GPU_DURATION)
                skew->uncertain_ns = 0;
}

enum among { EVERYBODY, OTHERS, AT_HOME };

/*
 * Over the calls in which skew->worst was last, the median of: how far it was behind the first; how far the last of the
 * others was; how far it was behind the last of the others on its own host (0 when it is alone there).
 */
static double when_last(const struct solver *s, const struct capo_job_comm *c, const struct capo_skew *skew,
                        const double *starts, double *column, enum among among)
{
        uint32_t n = c->n_members, n_last = 0, home = s->job->processes[c->members[skew->worst].process].clock;

        for (uint32_t i = 0; i < skew->n_calls; i++) {
                const double *t = starts + (size_t)i * n;
                double first = INFINITY, last = -INFINITY, neighbour = -INFINITY;
                bool is_last = true;

                for (uint32_t k = 0; k < n; k++) {
                        is_last &= t[k] <= t[skew->worst];
                        if (k == skew->worst && among != EVERYBODY)
                                continue;
                        first = fmin(first, t[k]);
                        last = fmax(last, t[k]);
                        if (s->job->processes[c->members[k].process].clock == home)
                                neighbour = fmax(neighbour, t[k]);
                }
                if (!is_last)
                        continue;
                if (among == AT_HOME)
                        column[n_last++] = isinf(neighbour) ? 0 : t[skew->worst] - neighbour;
                else
                        column[n_last++] = last - first;
        }
        return quantile(column, n_last, 0.5);
}

/* What the rows say; @column has room for a value per row. */
static void read_rows(const struct solver *s, struct capo_job_comm *c, struct capo_skew *skew, const double *starts,
                      double *column)
{
        uint32_t n = c->n_members;
        double waited = 0;

        for (uint32_t i = 0; i < skew->n_calls; i++) {
                const double *t = starts + (size_t)i * n;
                uint32_t last = 0;
                double first = t[0];

                for (uint32_t k = 1; k < n; k++) {
                        last = t[k] > t[last] ? k : last;
                        first = fmin(first, t[k]);
                }
                column[i] = t[last] - first;
                skew->ranks[last].last++;
                for (uint32_t k = 0; k < n; k++)
                        skew->ranks[k].wait_ns += (t[last] - t[k]) / skew->n_calls;
        }
        skew->p50_ns = quantile(column, skew->n_calls, 0.5);
        skew->p95_ns = quantile(column, skew->n_calls, 0.95);
        skew->max_ns = quantile(column, skew->n_calls, 1);
        for (uint32_t k = 0; k < n; k++) {
                skew->ranks[k].seen = skew->n_calls;
                waited += skew->ranks[k].wait_ns / n;
                if (skew->ranks[k].last > skew->ranks[skew->worst].last)
                        skew->worst = k;
                for (uint32_t i = 0; i < skew->n_calls; i++) {
                        const double *t = starts + (size_t)i * n;
                        double first = t[0];

                        for (uint32_t j = 1; j < n; j++)
                                first = fmin(first, t[j]);
                        column[i] = t[k] - first;
                }
                skew->ranks[k].late_p50_ns = quantile(column, skew->n_calls, 0.5);
        }
        skew->worst_p50_ns = when_last(s, c, skew, starts, column, EVERYBODY);
        skew->others_p50_ns = when_last(s, c, skew, starts, column, OTHERS);
        skew->worst_home_ns = when_last(s, c, skew, starts, column, AT_HOME);
        skew->wait_share = -1;
        if (skew->from != CAPO_SKEW_HOST_START && capo_job_duration_ns(s->job))
                skew->wait_share = waited * (double)c->n_calls / (double)capo_job_duration_ns(s->job);
}

static int solve_comm(const struct solver *s, uint32_t comm)
{
        struct capo_job_comm *c = &s->job->comms[comm];
        const struct capo_meet *m = s->meets[comm];
        _cleanup_free_ double *starts = NULL, *column = NULL;
        struct capo_skew *skew;
        uint32_t n_rows;
        enum capo_skew_from from;

        if (!m || !m->n_rows || c->n_members < 2)
                return 0;
        starts = malloc((size_t)m->n_rows * c->n_members * sizeof *starts + sizeof *starts * c->n_members);
        column = malloc(m->n_rows * sizeof *column);
        skew = calloc(1, sizeof *skew);
        if (skew)
                skew->ranks = calloc(c->n_members, sizeof *skew->ranks);
        if (!starts || !column || !skew || !skew->ranks) {
                capo_skew_free(skew);
                return -ENOMEM;
        }
        for (from = CAPO_SKEW_GPU_START;; from++) { /* the best source that has a few calls on all ranks */
                n_rows = complete_rows(s, comm, from, starts);
                if (n_rows >= FEW || from == CAPO_SKEW_HOST_START)
                        break;
        }
        for (uint32_t i = 0; i < m->n_rows; i++) {
                if (!m->rows[i].mismatch)
                        continue;
                skew->mismatched++;
                if (!skew->mismatch_seq || m->rows[i].seq < skew->mismatch_seq)
                        skew->mismatch_seq = m->rows[i].seq;
        }
        if (!n_rows && !skew->mismatched) {
                capo_skew_free(skew);
                return 0;
        }
        skew->n_calls = n_rows;
        skew->from = from;
        uncertainty_of(s, c, skew);
        if (n_rows)
                read_rows(s, c, skew, starts, column);
        c->skew = skew;
        return 0;
}

int capo_skew_solve(struct capo_job *job, struct capo_meet *const *meets)
{
        _cleanup_free_ struct process_clock *processes = calloc(job->n_processes + 1, sizeof *processes);
        _cleanup_free_ struct host_clock *hosts = calloc(job->n_clocks + 1, sizeof *hosts);
        struct solver s = {.job = job, .meets = meets, .processes = processes, .hosts = hosts};
        int r;

        if (!processes || !hosts)
                return -ENOMEM;
        clocks_of_processes(&s);
        r = align(&s);
        for (uint32_t i = 0; r == 0 && i < job->n_comms; i++)
                r = solve_comm(&s, i);
        return r;
}
