/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/log/segment_calls.h"
#include "shim/record/watch.h"

enum { CHECKS = 16 }; /* per limit, so that one check at a bad moment says nothing */
#define EARLY_NS      UINT64_C(30000000000)
#define CHECK_MOST_NS 1000000000u

void capo_watch_init(struct capo_watch *w, uint64_t limit_ns)
{
        *w = (struct capo_watch){.limit_ns = limit_ns,
                                 .early_ns = limit_ns < EARLY_NS ? limit_ns : EARLY_NS};
}

static uint64_t compute_interval(const struct capo_watch *w)
{
        uint64_t ns = w->limit_ns / CHECKS;

        return ns < CHECK_MOST_NS ? ns : CHECK_MOST_NS;
}

struct check {
        const struct capo_watch *before;
        struct capo_stand stands[CAPO_WATCH_STANDS];
        uint32_t n;
};

static bool same_call(const struct capo_stand *a, const struct capo_stand *b)
{
        return a->begin == b->begin && a->seq == b->seq && a->comm == b->comm &&
               a->thread == b->thread && a->call == b->call;
}

static void add_stand(enum capo_unfinished_where where, const struct capo_record *r, void *arg)
{
        struct check *c = arg;
        struct capo_stand s = {.begin = r->t_begin,
                               .since = c->before->watched_ns,
                               .seq = r->seq,
                               .comm = r->comm,
                               .thread = r->thread,
                               .where = (uint8_t)where,
                               .call = r->call};

        /* of an open group the last member is said once more, and that one moves when there is
         * another; so is the GPU's oldest */
        if (where == CAPO_UNFINISHED_MEMBER || where == CAPO_UNFINISHED_GPU ||
            where == CAPO_UNFINISHED_IDLE || where >= CAPO_UNFINISHED_ENDED ||
            c->n == CAPO_WATCH_STANDS)
                return;
        for (uint32_t i = 0; i < c->before->n; i++) {
                const struct capo_stand *before = &c->before->stands[i];

                if (!same_call(before, &s))
                        continue;
                s.warned = before->warned; /* one line for a call, wherever it stands */
                if (before->where == s.where) {
                        s.since = before->since;
                        s.framed = before->framed;
                }
        }
        c->stands[c->n++] = s;
}

const struct capo_stand *capo_watch_check(struct capo_watch *w, const struct capo_segment *seg,
                                          uint64_t now_ns)
{
        uint64_t most = 2 * compute_interval(w), passed = now_ns - w->last_ns;
        struct check check = {.before = w};
        struct capo_stand *longest = NULL;
        bool warned = false, framed = false;

        w->early = NULL;
        if (!w->limit_ns || now_ns < w->next_ns)
                return NULL;
        if (w->last_ns)
                w->watched_ns += passed < most ? passed : most;
        w->last_ns = now_ns;
        w->next_ns = now_ns + compute_interval(w);
        capo_unfinished_each(seg, add_stand, &check);
        memcpy(w->stands, check.stands, check.n * sizeof *check.stands);
        w->n = check.n;
        for (uint32_t i = 0; i < w->n; i++) {
                warned |= w->stands[i].warned;
                framed |= w->stands[i].framed;
                if (!longest || w->stands[i].since < longest->since)
                        longest = &w->stands[i];
        }
        if (!longest || w->watched_ns - longest->since < w->early_ns)
                return NULL;
        if (!framed)
                w->early = longest;
        for (uint32_t i = 0; i < w->n; i++)
                w->stands[i].framed = true;
        if (warned || w->watched_ns - longest->since < w->limit_ns)
                return NULL;
        for (uint32_t i = 0; i < w->n; i++)
                w->stands[i].warned = true;
        return longest;
}
