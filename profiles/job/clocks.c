/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Offset and drift of a host's clock against another's: every all-reduce gives an interval [low, high] that the
 * correction must lie in at its time. For a trial drift b, the largest low - b t and the smallest high - b t leave a
 * band for the offset; its width is a concave function of b (a minimum of lines minus a maximum of lines), so a ternary
 * search finds the widest band, and its middle line is the correction. The idea of bounding clocks by causality is old
 * (V. Paxson, "On calibrating measurements of packet transit times", SIGMETRICS 1998).
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "core/base/array.h"
#include "core/base/util.h"
#include "profiles/job/clocks.h"

#define MAX_DRIFT 200e-6 /* quartz is good to +-100 ppm each */

struct bound {
        double t, low, high;
};

static double on_host(const struct capo_clocks *s, uint32_t process, uint64_t t)
{
        return s->processes[process].offset + (double)t * s->processes[process].scale;
}

double capo_clocks_ns(const struct capo_clocks *s, uint32_t process, uint64_t t)
{
        const struct capo_host_clock *h = &s->hosts[s->job->processes[process].clock];
        double local = on_host(s, process, t);

        return local + h->a + h->b * local;
}

/* All processes of a host use the host's first process' idea of what CLOCK_MONOTONIC is in real time. */
static void clocks_of_processes(struct capo_clocks *s)
{
        for (uint32_t i = 0; i < s->job->n_processes; i++) {
                const struct capo_job_process *p = &s->job->processes[i], *first = p;
                struct capo_process_clock *c = &s->processes[i];

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
static struct capo_host_clock fit_line(const struct bound *bounds, size_t n)
{
        double from = -MAX_DRIFT, to = MAX_DRIFT, middle, flat, width;
        struct capo_host_clock h = {0};

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

/* Bounds that the calls of one communicator put on host @b's correction, @a being corrected already. */
static int bounds_from(const struct capo_clocks *s, uint32_t comm, uint32_t a, uint32_t b, struct bound **bounds,
                       size_t *n)
{
        const struct capo_job_comm *c = &s->job->comms[comm];
        const struct capo_meet *m = s->meets[comm];

        for (uint32_t i = 0; i < m->n_rows; i++) {
                double begin[2] = {-INFINITY, -INFINITY}, end[2] = {INFINITY, INFINITY};

                if (!capo_meet_is_barrier(&m->rows[i]))
                        continue;
                for (uint32_t k = 0; k < c->n_members; k++) {
                        uint32_t process = c->members[k].process, host = s->job->processes[process].clock;
                        const struct capo_meet_arrival *at;

                        if ((host != a && host != b) || (uint32_t)c->members[k].rank >= m->n_ranks)
                                continue;
                        at = &m->arrivals[(size_t)i * m->n_ranks + c->members[k].rank];
                        if (at->begin == CAPO_MEET_ABSENT || !at->gpu_begin)
                                continue;
                        begin[host == b] = fmax(begin[host == b], capo_clocks_ns(s, process, at->gpu_begin));
                        end[host == b] = fmin(end[host == b], capo_clocks_ns(s, process, at->gpu_begin + at->gpu_ns));
                }
                if (isinf(begin[0]) || isinf(begin[1]))
                        continue;
                if (capo_array_room(bounds, *n, sizeof **bounds) < 0)
                        return -ENOMEM;
                (*bounds)[(*n)++] = (struct bound){.t = begin[1], .low = begin[0] - end[1], .high = end[0] - begin[1]};
        }
        return 0;
}

/* Calls that hosts a and b have in common, for choosing which host is aligned with which. */
static uint32_t *count_common(const struct capo_clocks *s)
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
static int align(struct capo_clocks *s)
{
        uint32_t n = s->job->n_clocks;
        _cleanup_free_ uint32_t *common = n > 1 ? count_common(s) : NULL;
        _cleanup_free_ struct bound *bounds = NULL;
        _cleanup_free_ bool *done = calloc(n + 1, sizeof *done);

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
                        if (s->meets[i] && bounds_from(s, i, from, to, &bounds, &n_bounds) < 0)
                                return -ENOMEM;
                }
                if (n_bounds && s->hosts[from].uncertain >= 0) {
                        s->hosts[to] = fit_line(bounds, n_bounds);
                        s->hosts[to].uncertain += s->hosts[from].uncertain;
                }
        }
        for (uint32_t i = 0; i < n && s->uncertain_ns >= 0; i++)
                s->uncertain_ns = s->hosts[i].uncertain < 0 ? -1 : fmax(s->uncertain_ns, s->hosts[i].uncertain);
        return 0;
}

int capo_clocks_make(struct capo_clocks *c, const struct capo_job *job, struct capo_meet *const *meets)
{
        *c = (struct capo_clocks){.job = job,
                                  .meets = meets,
                                  .processes = calloc(job->n_processes + 1, sizeof *c->processes),
                                  .hosts = calloc(job->n_clocks + 1, sizeof *c->hosts)};
        if (!c->processes || !c->hosts)
                return -ENOMEM;
        clocks_of_processes(c);
        return align(c);
}

void capo_clocks_finish(struct capo_clocks *c)
{
        free(c->processes);
        free(c->hosts);
}
