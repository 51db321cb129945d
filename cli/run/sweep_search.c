/* SPDX-License-Identifier: Apache-2.0 */
/* A search in rounds has no state of its own: what was measured says how far each class is. */
#include <math.h>

#include "cli/run/sweep_search.h"
#include "core/base/calls.h"
#include "core/base/nccl_facts.h"
#include "core/base/xalloc.h"

#define SURE     2.0   /* standard errors: what is behind by more has lost */
#define ROUNDING 0.003 /* of ln us: two rounds differ by so much at least */
#define NEARLY   0.05  /* of ln us */
enum { CONTENDERS = 3, LONG_LIST = 4 };

/* Which pairs of algorithm and protocol go on in a direction from their best candidate: so many, and those that
 * are so far behind the best one at most. */
enum { ALGO, PROTO, CHANNELS, CHUNK, BOTH };
static const struct {
        double behind; /* of ln us */
        int most;
} go_on[] = {[ALGO] = {0.15, 2},
             [PROTO] = {0.15, 2},
             [CHANNELS] = {0.3, 2},
             [CHUNK] = {0.2, 2},
             [BOTH] = {0.1, 2}}; /* channels x chunk or their ratio is kept */

struct search {
        const struct capo_sweep_plan *plan;
        unsigned each; /* candidates of a pair */
        bool chunks;   /* this NCCL asks for them, or its release is not known */
        struct measured {
                double weight, sum;
        } of[64 * CAPO_NCCL_COLLS][CAPO_SWEEP_CANDIDATES]; /* classes as in plan->keep */
        /* Of one class; ln: of a time over that of NCCL's own choice, NAN: not measured. pair: was anything
         * of it measured? Else NCCL does not offer it. */
        double ln[CAPO_SWEEP_CANDIDATES], se[CAPO_SWEEP_CANDIDATES];
        bool pair[CAPO_SWEEP_CANDIDATES];
        int lead[CAPO_SWEEP_CANDIDATES], n_lead; /* the best candidate of each pair, best first */
};

/* ---- what was measured ---- */

struct timed {
        double ln;
        uint64_t bytes, what; /* @what: candidate's key; 0 NCCL's own */
        uint32_t run;
        uint8_t coll;
};

CAPO_ORDERED(by_place, struct timed, CAPO_ORDER(a->run, b->run), CAPO_ORDER(a->coll, b->coll),
             CAPO_ORDER(a->bytes, b->bytes), CAPO_ORDER(a->what, b->what),
             CAPO_ORDER(a->ln, b->ln));

static uint64_t key_of(unsigned algo_proto, unsigned channels, uint32_t chunk)
{
        return algo_proto || channels || chunk ? (uint64_t)chunk << 32 | channels << 8 | algo_proto
                                               : 0;
}

static int candidate_of(const struct capo_sweep_plan *plan, uint64_t key)
{
        for (unsigned i = 0; i < plan->n; i++) {
                if (key ==
                    key_of(CAPO_ALGO_PROTO(plan->candidate[i].algo, plan->candidate[i].proto),
                           plan->candidate[i].channels, plan->candidate[i].chunk))
                        return (int)i;
        }
        return -1;
}

/* The times of one size in one run: [v, end), NCCL's own first. @ranks: their logs have the same calls. */
static void add_block(struct search *s, struct timed *v, struct timed *end, int ranks)
{
        unsigned class = v->coll * 64u + 63u - (unsigned)__builtin_clzll(v->bytes);
        _cleanup_free_ double *off = xmalloc((size_t)(end - v) * sizeof *off);
        double own = NAN, own_n = 0, sigma;
        struct timed *next;
        size_t n_off = 0;

        for (struct timed *t = v; t < end; t = next) {
                for (next = t; next < end && next->what == t->what; next++)
                        ;
                for (struct timed *k = t; next - t > 1 && k < next; k++)
                        off[n_off++] = fabs(k->ln - t[(next - t) / 2].ln);
                if (!t->what) {
                        own = t[(next - t) / 2].ln;
                        own_n = (double)(next - t);
                }
        }
        if (isnan(own))
                return;
        sigma = n_off ? fmax(1.4826 * capo_middle(off, n_off), ROUNDING) : 0.05;
        for (struct timed *t = v; t < end; t = next) {
                int c = t->what ? candidate_of(s->plan, t->what) : -1;
                double w;

                for (next = t; next < end && next->what == t->what; next++)
                        ;
                if (c < 0)
                        continue;
                w = 1 /
                    (1.57 * sigma * sigma * (1 / (double)(next - t) + 1 / own_n) +
                     ROUNDING * ROUNDING) /
                    ranks;
                s->of[class][c].weight += w;
                s->of[class][c].sum += w * (t[(next - t) / 2].ln - own);
        }
}

static void gather_times(struct search *s, const struct capo_samples *set)
{
        _cleanup_free_ struct timed *v = xmalloc((set->n + 1) * sizeof *v);
        size_t n = 0;

        for (size_t i = 0; i < set->n; i++) {
                const struct capo_sample *x = &set->v[i];
                int coll = capo_coll_of_call(x->call);

                if (coll >= 0 && x->bytes && x->us > 0 && !set->runs[x->run].left_out)
                        v[n++] = (struct timed){log(x->us), x->bytes,
                                                key_of(x->want, x->want_channels, x->want_chunk),
                                                x->run, (uint8_t)coll};
        }
        for (size_t i = 0; i < set->n_runs; i++)
                s->chunks |= !set->runs[i].nccl ||
                             capo_nccl_has((int)set->runs[i].nccl, CAPO_NCCL_CHUNK);
        qsort(v, n, sizeof *v, by_place);
        for (size_t i = 0, k; i < n; i = k) {
                for (k = i; k < n && v[k].run == v[i].run && v[k].coll == v[i].coll &&
                            v[k].bytes == v[i].bytes;
                     k++)
                        ;
                add_block(s, v + i, v + k,
                          set->runs[v[i].run].n_ranks > 0 ? set->runs[v[i].run].n_ranks : 1);
        }
}

/* ---- one class ---- */

static int by_time(const void *a, const void *b, void *ln)
{
        const double *v = ln;

        return CAPO_ORDER(v[*(const int *)a], v[*(const int *)b])
                       ?: CAPO_ORDER(*(const int *)a, *(const int *)b);
}

static void set_class(struct search *s, unsigned class)
{
        s->n_lead = 0;
        for (unsigned pair = 0; pair * s->each < s->plan->n; pair++) {
                int best = -1;

                for (unsigned i = pair * s->each; i < (pair + 1) * s->each; i++) {
                        const struct measured *m = &s->of[class][i];

                        s->ln[i] = m->weight > 0 ? m->sum / m->weight : NAN;
                        s->se[i] = 1 / sqrt(m->weight);
                        if (m->weight > 0 && (best < 0 || s->ln[i] < s->ln[best]))
                                best = (int)i;
                }
                s->pair[pair] = best >= 0;
                if (best >= 0)
                        s->lead[s->n_lead++] = best;
        }
        qsort_r(s->lead, (size_t)s->n_lead, sizeof *s->lead, by_time, s->ln);
}

static bool is_explicit(const struct capo_sweep_candidate *c) { return c->channels && c->chunk; }

/* What NCCL takes where a list says 0 is not known: that is near to all. */
static bool is_near(double a, double b, double factor)
{
        return a == 0 || b == 0 || (a <= factor * b && b <= factor * a);
}

/* Does candidate @i lie in @direction from @x? */
static bool is_beside(const struct capo_sweep_plan *p, unsigned x, unsigned i, int direction)
{
        const struct capo_sweep_candidate *a = &p->candidate[x], *b = &p->candidate[i];
        bool algo = a->algo == b->algo, proto = a->proto == b->proto,
             channels = a->channels == b->channels, chunk = a->chunk == b->chunk;

        switch (direction) {
        case ALGO: return proto && channels && chunk;
        case PROTO: return algo && channels && chunk;
        case CHANNELS: return algo && proto && chunk && is_near(a->channels, b->channels, 2);
        case CHUNK: return algo && proto && channels && is_near(a->chunk, b->chunk, 2);
        default:
                return algo && proto && is_explicit(a) && is_explicit(b) &&
                       is_near(a->channels, b->channels, 4) &&
                       (is_near((double)a->channels * a->chunk, (double)b->channels * b->chunk,
                                1.35) ||
                        is_near((double)a->channels * b->chunk, (double)b->channels * a->chunk,
                                1.35));
        }
}

static unsigned count_open(const struct capo_sweep_plan *plan, const struct capo_sweep_list *list)
{
        unsigned n = 0;

        for (unsigned i = 0; i < plan->n; i++)
                n += list->bit[i / 64] >> i % 64 & 1;
        return n;
}

/* The best candidate of @x's pair of which channels and chunk are both known, if it is nearly as good. */
static unsigned explicit_of(const struct search *s, unsigned x)
{
        unsigned first = x / s->each * s->each, best = x;

        for (unsigned i = first; i < first + s->each; i++) {
                if (is_explicit(&s->plan->candidate[i]) && s->ln[i] - s->ln[x] < NEARLY &&
                    (!is_explicit(&s->plan->candidate[best]) || s->ln[i] < s->ln[best]))
                        best = i;
        }
        return best;
}

/* What the class tries next. Return: 0 if something is open that was not measured; else how many may be the
 * fastest. */
static int open_class(struct search *s, struct capo_sweep_list *list)
{
        int may[CAPO_SWEEP_CANDIDATES], n = 0; /* may be the best */

        for (int at = 0; at < s->n_lead * (int)N_ELEMENTS(go_on); at++) {
                int r = at / (int)N_ELEMENTS(go_on), d = at % (int)N_ELEMENTS(go_on);
                unsigned x = explicit_of(s, (unsigned)s->lead[r]);

                if (r >= go_on[d].most || s->ln[x] - s->ln[s->lead[0]] > go_on[d].behind)
                        continue;
                for (unsigned i = 0; i < s->plan->n; i++) {
                        if (isnan(s->ln[i]) && s->pair[i / s->each] &&
                            (s->chunks || !s->plan->candidate[i].chunk) &&
                            is_beside(s->plan, x, i, d))
                                capo_sweep_put(list, i);
                }
        }
        if (list->any)
                return 0;
        for (unsigned i = 0; i < s->plan->n; i++) {
                if (s->ln[i] - s->ln[s->lead[0]] <= SURE * hypot(s->se[i], s->se[s->lead[0]]))
                        may[n++] = (int)i;
        }
        qsort_r(may, (size_t)n, sizeof *may, by_time, s->ln);
        for (int i = 0; i < n && i < CONTENDERS; i++)
                capo_sweep_put(list, (unsigned)may[i]);
        return n;
}

/* Of the values but 0 that a long list has, sorted: the one at @share; else that of its first entry. */
static double value_at(const double *list, unsigned n, double share)
{
        double v[CAPO_SWEEP_VALUES];
        unsigned m = 0;

        for (unsigned i = 0; i < n; i++) {
                if (list[i] > 0)
                        v[m++] = list[i];
        }
        return m < LONG_LIST ? list[0] : capo_nth(v, m, (size_t)(share * m));
}

/* The first round: the first channels and chunk, and four corners of long lists. A fast point far from
 * NCCL's own choice looks slow from there. */
static void open_base(struct capo_sweep_plan *plan, struct sweep_round *round)
{
        double channels[CAPO_SWEEP_VALUES], chunks[CAPO_SWEEP_VALUES];
        unsigned nc = plan->n_channels, nk = plan->n_chunks, pairs = 0;

        for (unsigned i = 0; i < nc * nk; i++) {
                channels[i / nk] = plan->candidate[i].channels;
                chunks[i % nk] = plan->candidate[i].chunk;
        }
        for (unsigned i = 0; i < nc * nk; i++) {
                double c = channels[i / nk], k = chunks[i % nk];

                if (i == 0 ||
                    ((c == value_at(channels, nc, 0.2) || c == value_at(channels, nc, 0.8)) &&
                     (k == value_at(chunks, nk, 0.1) || k == value_at(chunks, nk, 0.9))))
                        capo_sweep_put(&plan->base, i);
        }
        for (unsigned i = 0; i < plan->n; i += nc * nk) {
                unsigned coll = 0;

                while (coll < CAPO_NCCL_COLLS &&
                       !(plan->colls >> coll & 1 && capo_pair_offered(coll, plan->candidate[i].algo,
                                                                      plan->candidate[i].proto)))
                        coll++;
                pairs += coll < CAPO_NCCL_COLLS;
        }
        round->most = pairs * count_open(plan, &plan->base);
}

static struct search *search_new(const struct capo_sweep_plan *plan, const struct capo_samples *set)
{
        struct search *s = xcalloc(1, sizeof *s);

        s->plan = plan;
        s->each = plan->n_channels * plan->n_chunks;
        gather_times(s, set);
        return s;
}

void sweep_search(struct capo_sweep_plan *plan, const struct capo_samples *set,
                  struct sweep_round *round)
{
        _cleanup_free_ struct search *s = search_new(plan, set);

        *round = (struct sweep_round){0};
        open_base(plan, round);
        for (unsigned class = 0; class < 64 * CAPO_NCCL_COLLS; class ++) {
                struct capo_sweep_list *list = &plan->keep[class / 64][class % 64];
                unsigned open;
                int may;

                set_class(s, class);
                if (!s->n_lead)
                        continue;
                may = open_class(s, list);
                round->settled += may > 0;
                round->tied += may > 1;
                open = count_open(plan, list);
                if (!round->classes++ || open > round->most)
                        round->most = open;
        }
}

int sweep_search_best(const struct capo_sweep_plan *plan, const struct capo_samples *set,
                      unsigned coll, unsigned log2)
{
        _cleanup_free_ struct search *s = search_new(plan, set);

        set_class(s, coll * 64 + log2);
        return s->n_lead ? s->lead[0] : -1;
}
