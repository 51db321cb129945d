/* SPDX-License-Identifier: Apache-2.0 */
#include "profiles/plan/plan_alike.h"

static void sort_ranks(struct plan_job *job)
{
        uint32_t at = 0;

        for (uint32_t r = 0; r < job->n_ranks; r++)
                job->units[job->node_unit[job->ranks[r].node]].n++;
        for (uint32_t u = 0; u < job->n_units; u++) {
                job->units[u].first = at;
                at += job->units[u].n;
                job->units[u].n = 0;
        }
        for (uint32_t r = 0; r < job->n_ranks; r++) {
                struct plan_unit *u = &job->units[job->node_unit[job->ranks[r].node]];

                job->by_unit[u->first + u->n++] = (uint16_t)r;
        }
}

static uint32_t rank_at(const struct plan_job *job, const struct plan_unit *u, uint32_t i)
{
        return job->by_unit[u->first + i];
}

/* Do both have the same GPUs of the same machines, with the same neighbours on one node? */
static bool units_match(const struct plan_job *job, const struct plan_unit *a,
                        const struct plan_unit *b)
{
        if (a->n != b->n)
                return false;
        for (uint32_t i = 0; i < a->n; i++) {
                const struct capo_plan_gpu *x = &job->ranks[rank_at(job, a, i)];
                const struct capo_plan_gpu *y = &job->ranks[rank_at(job, b, i)];

                if (x->dev != y->dev || job->node_machine[x->node] != job->node_machine[y->node])
                        return false;
                for (uint32_t k = 0; k < i; k++) {
                        if ((job->ranks[rank_at(job, a, k)].node == x->node) !=
                            (job->ranks[rank_at(job, b, k)].node == y->node))
                                return false;
                }
        }
        return true;
}

static void find_kinds(struct plan_job *job)
{
        for (uint32_t u = 0; u < job->n_units; u++) {
                struct plan_unit *unit = &job->units[u];

                unit->like[0] = unit->like[1] = (uint16_t)u;
                for (uint32_t k = 0; k < u; k++) {
                        struct plan_unit *kind = &job->units[k];

                        if (kind->like[0] != k || !units_match(job, kind, unit))
                                continue;
                        if (kind->like[1] == k) /* the second one of its kind */
                                kind->like[1] = (uint16_t)u;
                        unit->like[0] = (uint16_t)k;
                        unit->like[1] = kind->like[1];
                        break;
                }
                unit->real = unit->like[0] == u || unit->like[1] == u;
        }
}

int plan_alike_find(struct plan_job *job, bool whole, uint32_t *n)
{
        uint16_t heard = job->node_unit[job->ranks[0].node];

        *n = 0;
        sort_ranks(job);
        find_kinds(job);
        for (uint32_t u = 0; u < job->n_units; u++) {
                job->units[u].real |= whole;
                *n += job->units[u].real ? job->units[u].n : 0;
        }
        if (*n > CAPO_PLAN_WHOLE_MAX)
                return -E2BIG;
        job->n_asked = *n;
        job->n_heard = whole || job->one_domain ? *n : job->units[heard].n;
        *n = 0;
        if (whole) {
                while (*n < job->n_ranks) {
                        job->asked[*n] = *n;
                        ++*n;
                }
                return 0;
        }
        for (uint32_t i = 0; i < job->units[heard].n; i++)
                job->asked[(*n)++] = rank_at(job, &job->units[heard], i);
        for (uint32_t u = 0; u < job->n_units; u++) {
                for (uint32_t i = 0; u != heard && job->units[u].real && i < job->units[u].n; i++)
                        job->asked[(*n)++] = rank_at(job, &job->units[u], i);
        }
        return 0;
}

double plan_alike_available(void)
{
        unsigned long long kb = 0;
        char line[128];
        _cleanup_fclose_ FILE *f = fopen("/proc/meminfo", "re");

        while (f && fgets(line, sizeof line, f)) {
                if (sscanf(line, "MemAvailable: %llu", &kb) == 1)
                        break;
        }
        return (double)kb * 1024;
}

/* Memory of a rank whose NVLink domain has n ranks: in each of them NCCL keeps the paths between
 * all GPUs and NICs of the domain (measured: 4 to 18 trays of GB200 with 2.28.9, 4 and 9 with
 * 2.30.7). */
double plan_alike_bytes(const struct plan_job *job, bool twice)
{
        double bytes = 0;

        for (uint32_t u = 0; u < job->n_units; u++) {
                double n = job->units[u].n, all = job->one_domain ? job->n_ranks : n;

                if (job->units[u].real)
                        bytes += n * (7e6 + all * all * (twice ? 66e3 : 37e3));
        }
        return bytes;
}
