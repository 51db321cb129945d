/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

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

static void add_stand(enum capo_unfinished_where where, const struct capo_record *r, void *arg)
{
        struct check *c = arg;
        struct capo_stand s = {.begin = r->t_begin,
                               .since = c->before->watched_ns,
                               .seq = r->seq,
                               .stream = r->stream,
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

                if (before->begin != s.begin || before->seq != s.seq || before->comm != s.comm ||
                    before->thread != s.thread || before->call != s.call)
                        continue;
                s.warned = before->warned; /* one line for a call, wherever it stands */
                if (before->where == s.where) {
                        s.since = before->since;
                        s.framed = before->framed;
                }
        }
        c->stands[c->n++] = s;
}

/* Is a stream busy with a later call than @s? Communicators can share a stream, and the earlier
 * call has then ended, as far as anybody knows. */
static bool is_behind_later(const struct capo_watch *w, const struct capo_stand *s)
{
        bool later = false;

        for (uint32_t i = 0; i < w->n; i++)
                later |= w->stands[i].stream == s->stream && w->stands[i].begin > s->begin;
        return s->where == CAPO_UNFINISHED_BUSY && later;
}

/* Does @a say more than @b of what stands? */
static bool says_more(const struct capo_stand *a, const struct capo_stand *b)
{
        bool a_busy = a->where == CAPO_UNFINISHED_BUSY, b_busy = b->where == CAPO_UNFINISHED_BUSY;

        return a_busy != b_busy ? b_busy : a->since < b->since;
}

/* Of what has stood for @least_ns of watched time, what is known best; NULL: nothing has. */
static const struct capo_stand *choose_stand(const struct capo_watch *w, uint64_t least_ns)
{
        const struct capo_stand *best = NULL;

        for (uint32_t i = 0; i < w->n; i++) {
                const struct capo_stand *s = &w->stands[i];

                if (w->watched_ns - s->since >= least_ns && !is_behind_later(w, s) &&
                    (!best || says_more(s, best)))
                        best = s;
        }
        return best;
}

const struct capo_stand *capo_watch_check(struct capo_watch *w, const struct capo_segment *seg,
                                          uint64_t now_ns)
{
        uint64_t most = 2 * compute_interval(w), passed = now_ns - w->last_ns;
        struct check check = {.before = w};
        const struct capo_stand *stand;
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
        }
        stand = choose_stand(w, w->early_ns);
        if (!stand)
                return NULL;
        if (!framed)
                w->early = stand;
        for (uint32_t i = 0; i < w->n; i++)
                w->stands[i].framed = true;
        stand = warned ? NULL : choose_stand(w, w->limit_ns);
        for (uint32_t i = 0; i < w->n && stand; i++)
                w->stands[i].warned = true;
        return stand;
}
