/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "analysis/job/stops.h"
#include "core/log/info.h"

#define MOST_OF 0.8
#define SOON_NS 0.5e9

/* Recovery can write a stop again that the process wrote itself: what overlaps is one stop. */
static uint32_t add_stop(struct capo_stop *to, uint32_t n, double from, double ns)
{
        for (uint32_t i = 0; i < n; i++) {
                if (from <= to[i].to && from + ns >= to[i].from) {
                        to[i].from = fmin(to[i].from, from);
                        to[i].to = fmax(to[i].to, from + ns);
                        return n;
                }
        }
        to[n] = (struct capo_stop){from, from + ns};
        return n + 1;
}

uint32_t capo_stops_of(const struct capo_job_process *p, struct capo_stop *to, uint32_t room)
{
        const char *line = capo_job_info(p, CAPO_INFO_STOPPED);
        unsigned long long from, ns;
        uint32_t n = 0;

        for (; line && *line && n < room; line += strcspn(line, "\n"), line += *line == '\n') {
                if (sscanf(line, "%llu %llu", &from, &ns) == 2)
                        n = add_stop(to, n, (double)p->header.t0_real_ns + (double)from,
                                     (double)ns);
        }
        return n;
}

static double common_ns(double from, double to, double other_from, double other_to)
{
        return fmax(0, fmin(to, other_to) - fmax(from, other_from));
}

bool capo_stops_covers(const struct capo_job_process *p, double from, double to)
{
        struct capo_stop stop[CAPO_STOPS_MOST];
        uint32_t n = capo_stops_of(p, stop, CAPO_STOPS_MOST);
        double both = 0;

        for (uint32_t i = 0; i < n; i++)
                both += common_ns(from, to, stop[i].from, stop[i].to);
        return both > (to - from) / 2;
}

/* The silence of @p that covers the stop @s and that @p ended soon after it; 0: none. */
static double find_wait(const struct capo_job_process *p, const struct capo_stop *s)
{
        for (uint32_t i = 0; i < p->still.n; i++) {
                double from = (double)p->header.t0_real_ns + (double)p->still.v[i].from;
                double to = from + (double)p->still.v[i].ns;
                double both = common_ns(from, to, s->from, s->to);

                if (both > MOST_OF * (s->to - s->from) && both > MOST_OF * (to - from) &&
                    to < s->to + (s->to - s->from) / 10 + SOON_NS)
                        return both;
        }
        return 0;
}

double capo_stop_waiting(const struct capo_job *job, const struct capo_job_comm *c, uint32_t k,
                         const struct capo_stop *s)
{
        double sum = 0;

        for (uint32_t i = 0; i < c->n_members; i++) {
                const struct capo_job_process *p = &job->processes[c->members[i].process];
                double ns = find_wait(p, s);

                if (c->members[i].process == c->members[k].process)
                        continue;
                if (!ns || capo_stops_covers(p, s->from, s->to))
                        return 0;
                sum += ns;
        }
        return sum;
}
