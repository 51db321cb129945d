/* SPDX-License-Identifier: Apache-2.0 */
/* From samples to rows: sorts and groups the samples, and calls the steps of fit_private.h for each
 * series. docs/internals/fit-statistics.md explains the steps. */
#include "capo/algorithms.h"
#include "capo/call_ids.h"
#include "capo/msg.h"
#include "core/base/calls.h"
#include "core/base/xalloc.h"
#include "profiles/fit/fit_private.h"

/* Sort by key, size, candidate, run, place, order and time. */
static void sort_items(struct capo_fit_item **items, size_t n)
{
        _cleanup_free_ struct capo_fit_key *v = xmalloc((n + 1) * sizeof *v);
        struct capo_fit_item *sorted = xmalloc((n + 1) * sizeof *sorted);

        for (size_t i = 0; i < n; i++)
                v[i].at = i;
        for (int by = 0; by < 6; by++) { /* the last one first */
                for (size_t i = 0; i < n; i++) {
                        const struct capo_fit_item *x = &(*items)[v[i].at];
                        uint64_t us;

                        memcpy(&us, &x->us, sizeof us); /* above 0: its bits rise with it */
                        v[i].key = by == 0   ? us
                                   : by == 1 ? x->order
                                   : by == 2 ? (uint64_t)x->run << 8 | x->place
                                   : by == 3 ? x->candidate
                                   : by == 4 ? x->bytes
                                             : x->key;
                }
                capo_fit_sort(v, n);
        }
        for (size_t i = 0; i < n; i++)
                sorted[i] = (*items)[v[i].at];
        free(*items);
        *items = sorted;
}

/* ---- classes ---- */

static int by_class(const void *a, const void *b, void *runs)
{
        uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
        const struct capo_trial *v = runs;

        return capo_trial_order(&v[x], &v[y]) ?: CAPO_ORDER(x, y);
}

/* class_of[run]: number of its class; like[class]: one of its runs. */
static void group_classes(const struct capo_samples *set, uint32_t *class_of, uint32_t *like)
{
        _cleanup_free_ uint32_t *order = xmalloc((set->n_runs + 1) * sizeof *order);
        int n = 0;

        for (size_t i = 0; i < set->n_runs; i++)
                order[i] = (uint32_t)i;
        qsort_r(order, set->n_runs, sizeof *order, by_class, set->runs);
        for (size_t i = 0; i < set->n_runs; i++) {
                if (i == 0 || capo_trial_order(&set->runs[order[i]], &set->runs[order[i - 1]]))
                        like[n++] = order[i];
                class_of[order[i]] = (uint32_t)n - 1;
        }
}

/* The candidate: the forced choice, completed by what ran and by what NCCL has. NVLS, CollNet and
 * PAT exist only with Simple, broadcast and reduce only with Ring (NCCL 2.30.7
 * src/graph/tuning.cc). */
static uint64_t candidate_of(const struct capo_sample *s)
{
        unsigned algo = CAPO_ALGO_OF(s->want), proto = CAPO_PROTO_OF(s->want);

        if (!s->want && !s->want_channels)
                return 0;
        if (!algo)
                algo = CAPO_ALGO_OF(s->ran);
        if (!algo && (s->call == CAPO_CALL_BROADCAST || s->call == CAPO_CALL_BCAST ||
                      s->call == CAPO_CALL_REDUCE))
                algo = CAPO_ALGO_RING;
        if (!proto)
                proto = CAPO_PROTO_OF(s->ran);
        if (!proto && algo && algo != CAPO_ALGO_RING && algo != CAPO_ALGO_TREE)
                proto = CAPO_PROTO_SIMPLE;
        return (uint64_t)CAPO_ALGO_PROTO(algo, proto) << 40 | (uint64_t)s->want_channels << 32 |
               s->want_chunk;
}

/* First and last run of each side: by time stamp if all have one, else by position in the one file
 * that has them all. */
struct turns_side {
        int64_t first[2], last[2]; /* by time stamp, by line */
        uint32_t run;
};

/* A run with both choices at one size, like a sweep, has them in turn. */
static enum capo_fit_turns find_turns(const struct capo_samples *set,
                                      const struct capo_fit_item *items, size_t n)
{
        struct turns_side of[2] = {{{INT64_MAX, INT64_MAX}, {0, 0}, UINT32_MAX},
                                   {{INT64_MAX, INT64_MAX}, {0, 0}, UINT32_MAX}};
        const struct capo_trial *one = n ? &set->runs[items[0].run] : NULL;
        bool stamped = true, one_file = true;
        struct turns_side *side;
        int by;

        for (size_t i = 0; i < n; i++) {
                const struct capo_trial *t = &set->runs[items[i].run];
                int forced = items[i].candidate != 0;

                if (i && items[i].bytes != items[i - 1].bytes)
                        of[0].run = of[1].run = UINT32_MAX;
                if (of[!forced].run == items[i].run)
                        return CAPO_FIT_IN_TURN;
                side = &of[forced];
                side->run = items[i].run;
                for (by = 0; by < 2; by++) {
                        int64_t at = by ? t->line : t->began.at;

                        side->first[by] = at < side->first[by] ? at : side->first[by];
                        side->last[by] = at > side->last[by] ? at : side->last[by];
                }
                stamped &= t->began.at && t->began.local == one->began.local;
                one_file &= t->line && !strcmp(t->source, one->source);
        }
        by = stamped ? 0 : 1;
        if ((!stamped && !one_file) || of[0].first[0] == INT64_MAX || of[1].first[0] == INT64_MAX)
                return CAPO_FIT_TURNS_UNKNOWN;
        return of[0].last[by] < of[1].first[by] || of[1].last[by] < of[0].first[by]
                       ? CAPO_FIT_APART
                       : CAPO_FIT_IN_TURN;
}

static void series_finish(struct capo_fit_series *s)
{
        xfree(s->candidates, s->points, s->cells, s->rows, s->blocks);
}

static int make_series(struct capo_fit_maker *m, struct capo_fit_series *s,
                       const struct capo_fit_item *items, size_t n,
                       const struct capo_fit_options *o, struct capo_fault *fault)
{
        int e;

        s->turns = find_turns(m->set, items, n);
        e = capo_fit_gather(m, s, items, n, fault);
        if (e < 0)
                return e;
        capo_fit_labels(s);
        capo_fit_estimate(s, CAPO_FIT_ALL, s->cells);
        capo_fit_decide(s, o, s->cells, -1, s->points);
        s->n_rows = capo_fit_rows(s, s->cells, -1, s->points, s->rows);
        capo_fit_judge(s, o);
        capo_fit_check(s, o);
        return 0;
}

/* If a class and collective has times of several clocks, keep the clock with most samples; others
 * cannot be compared. */
static uint64_t one_clock(struct capo_fit_item *items, size_t *n)
{
        size_t kept = 0;
        uint64_t dropped = 0;

        for (size_t i = 0, k; i < *n;
             i = k) { /* key: class and call, in the bits above the clock */
                size_t best = i, best_n = 0;

                for (k = i; k < *n && items[k].key >> 8 == items[i].key >> 8;) {
                        size_t j = k;

                        while (j < *n && items[j].key == items[k].key)
                                j++;
                        if (j - k > best_n) {
                                best = k;
                                best_n = j - k;
                        }
                        k = j;
                }
                dropped += k - i - best_n;
                if (kept != best)
                        memmove(&items[kept], &items[best], best_n * sizeof *items);
                kept += best_n;
        }
        *n = kept;
        return dropped;
}

int capo_fit_make(const struct capo_samples *set, const struct capo_fit_options *o,
                  struct capo_fit **out, struct capo_fault *fault)
{
        _cleanup_(capo_fit_freep) struct capo_fit *fit = xcalloc(1, sizeof *fit);
        _cleanup_free_ struct capo_fit_item *items = xmalloc((set->n + 1) * sizeof *items);
        _cleanup_free_ uint32_t *class_of = xmalloc((set->n_runs + 1) * sizeof *class_of);
        _cleanup_free_ uint32_t *like = xmalloc((set->n_runs + 1) * sizeof *like);
        _cleanup_free_ double *v = xmalloc((set->n + 1) * 2 * sizeof *v);
        struct capo_fit_maker m = {.set = set, .fit = fit, .v = v, .scratch = v + set->n};
        size_t n = 0;
        int e;

        fault->text[0] = 0;
        group_classes(set, class_of, like);
        for (size_t i = 0; i < set->n; i++) {
                const struct capo_sample *s = &set->v[i];
                unsigned call = s->call == CAPO_CALL_BCAST ? CAPO_CALL_BROADCAST : s->call;

                if (capo_coll_of_call(call) < 0 || set->runs[s->run].n_ranks < 2 ||
                    set->runs[s->run].left_out)
                        continue;
                if (capo_ran_beside(s->ran)) {
                        fit->n_beside++;
                        continue;
                }
                items[n++] = (struct capo_fit_item){.key = (uint64_t)class_of[s->run] << 16 |
                                                           call << 8 | s->make,
                                                    .bytes = s->bytes,
                                                    .run = s->run,
                                                    .order = s->order,
                                                    .us = s->us,
                                                    .candidate = candidate_of(s),
                                                    .place = s->place,
                                                    .ran = s->ran,
                                                    .ran_channels = s->ran_channels};
        }
        if (n == 0 && !fit->n_beside)
                return capo_why(
                        -ENODATA, fault->text, sizeof fault->text,
                        "no samples of a collective that a tuner decides (all-reduce, all-gather, reduce-scatter, "
                        "broadcast, reduce) whose choice is certain; capo fit --runs says what was made of each run");
        if (o->progress)
                o->progress("sorting, percent", 0.1);
        sort_items(&items, n);
        fit->n_other_clock = one_clock(items, &n);
        for (size_t i = 0, k; i < n; i = k) {
                struct capo_fit_series *s;

                for (k = i + 1; k < n && items[k].key == items[i].key; k++)
                        ;
                s = xput(fit->series, fit->n_series, .like = set->runs[like[items[i].key >> 16]],
                         .call = (uint8_t)(items[i].key >> 8), .make = (uint8_t)items[i].key);
                s->like.source = NULL;
                s->links = o->links.gpu_gbs > 0 || o->links.node_gbs > 0
                                   ? o->links
                                   : capo_fit_links_of_gpu(s->like.gpu);
                e = make_series(&m, s, &items[i], k - i, o, fault);
                if (e == -EINVAL) {
                        *xadd(fit->faults, fit->n_faults) = xstrdup(fault->text);
                        series_finish(&fit->series[--fit->n_series]);
                        continue;
                }
                if (e < 0)
                        return e;
                fit->n_samples += k - i;
                if (o->progress)
                        o->progress("fitting, percent", (double)k / (double)n);
        }
        if (!fit->n_series && !fit->n_beside)
                return -EINVAL;
        *out = steal(&fit);
        return 0;
}

void capo_fit_free(struct capo_fit *fit)
{
        if (!fit)
                return;
        for (int i = 0; i < fit->n_series; i++)
                series_finish(&fit->series[i]);
        for (size_t i = 0; i < fit->n_faults; i++)
                free(fit->faults[i]);
        xfree(fit->faults, fit->series, fit);
}

void capo_fit_freep(struct capo_fit **fit) { capo_fit_free(*fit); }
