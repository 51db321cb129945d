/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was posted to leave and has not completed, of each queue: what capo hang asks.
 *
 * The drain thread works it out from the counters that are there anyway: posts less completions.
 * Completions that belong to no transmit (receives, remote writes with data) are known by their
 * flags, and injects make none. The two counts do not fit where a queue's format has no flags and
 * receives come to it, where an endpoint asks for silence (FI_SELECTIVE_COMPLETION without
 * FI_COMPLETION), and where it completes into counters only. There the number is not known.
 */
#include "core/base/clock.h"
#include "shim/fabric/shim_fabric.h"
#include "shim/record/shim.h"

#define EVERY_NS    20000000u
#define COST_ONE_IN 400 /* a count takes at most one 400th of a core: else counts are rarer */
#define QUIET_NS \
        1000000000u /* a queue that has been still for so long has nothing outstanding but what is \
                       lost */
#define BELOW_ZERO    (-8) /* a post is counted after it was made: a few may complete earlier */
#define BEYOND_BELIEF (1 << 20) /* operations no transmit queue holds */

static uint64_t counted_ns;   /* CLOCK_MONOTONIC of the last count; 0 none yet */
static uint64_t next_ns;      /* of the next one */
static bool unknown_for_good; /* in this process the two counts do not fit */

static uint64_t count_posts(const struct fi_ep *e)
{
        uint64_t n = 0;

        for (int s = 0; s < FI_SETS; s++) {
                /* the sets fill in order, and the shared one only after all others are taken */
                if (!e->set[s < FI_SETS - 1 ? s : s - 1].owner)
                        break;
                for (int k = 0; k < CAPO_FI_KINDS; k++) {
                        if (!capo_fi_transmits[k] || k == CAPO_FI_INJECT)
                                continue;
                        for (int b = 0; b < CAPO_FI_SIZES; b++)
                                n += e->set[s].sizes[k][b];
                }
        }
        return n;
}

static uint64_t count_errors(const struct fi_errors *e)
{
        uint64_t n = e->other;

        for (int i = 0; i < FI_ERRORS; i++)
                n += e->row[i].count;
        return n;
}

/* What the last count noted of this object; all 0 if it was not there then. NULL: it is being
 * made. */
static struct fi_noted *find_notes(struct fi_object *o)
{
        uint32_t id = o->id;

        if (o->noted.id != id)
                o->noted = (struct fi_noted){.id = id};
        return id ? &o->noted : NULL;
}

static void read_queue(struct fi_cq *c, uint64_t now)
{
        struct fi_noted *noted = find_notes(&c->o);
        uint64_t completions = 0, received = 0, errors = count_errors(&c->o.errors);

        for (int s = 0; s < FI_SETS; s++) {
                received += c->set[s].received + c->set[s].unposted;
                completions += c->set[s].completions;
        }
        if (!noted || c->o.id != noted->id)
                return;
        if (completions != noted->cq.completions || errors != noted->cq.errors)
                noted->cq.t_moved = now;
        if (completions != noted->cq.completions) {
                noted->cq.t_completed = now;
                noted->cq.forgotten = false;
        }
        if (errors != noted->cq.errors) /* of a transmit or of a receive: nobody noted */
                noted->cq.unsure = true;
        noted->cq.outstanding -=
                (int64_t)(completions - noted->cq.completions - (received - noted->cq.received));
        noted->cq.completions = completions;
        noted->cq.received = received;
        noted->cq.errors = errors;
        noted->cq.open = 0;
        noted->cq.receives = false;
}

static void read_endpoint(struct fi_ep *e, uint64_t now)
{
        struct fi_noted *noted = find_notes(&e->o), *tx, *rx;
        uint64_t posts = count_posts(e);
        struct fi_cq *sends = e->cq[0], *receives = e->cq[1];
        bool open = e->o.fid, silent = e->silent;

        if (!noted || e->o.id != noted->id)
                return;
        tx = sends ? find_notes(&sends->o) : NULL;
        rx = receives ? find_notes(&receives->o) : NULL;
        if (posts != noted->ep.posts && tx) {
                tx->cq.outstanding += (int64_t)(posts - noted->ep.posts);
                tx->cq.t_moved = now;
        }
        if (posts && (!sends || silent))
                unknown_for_good = true;
        noted->ep.posts = posts;
        if (open && tx)
                tx->cq.open++;
        if (open && rx)
                rx->cq.receives = true;
        if (!open && noted->ep.open && tx &&
            tx->cq.outstanding > 0) /* of this endpoint, or of another? */
                tx->cq.unsure = true;
        noted->ep.open = open;
}

static void judge_queue(struct fi_cq *c, uint64_t now)
{
        struct fi_noted *noted = find_notes(&c->o);
        bool there = c->o.fid;

        if (!noted)
                return;
        if (!there || !noted->cq.open || (noted->cq.unsure && now - noted->cq.t_moved > QUIET_NS)) {
                noted->cq.forgotten |= there && noted->cq.unsure && noted->cq.outstanding;
                noted->cq.outstanding = 0;
                noted->cq.unsure = false;
        }
        if ((!c->lengths && noted->cq.receives && noted->cq.open && noted->cq.completions) ||
            noted->cq.outstanding < BELOW_ZERO || noted->cq.outstanding > BEYOND_BELIEF)
                unknown_for_good = true;
}

void capo_fi_outstanding_count(void)
{
        struct fi_object *all = atomic_load_explicit(&capo_fi_objects, memory_order_acquire);
        uint64_t now = capo_clock_mono(), took;

        if (now < next_ns)
                return;
        /* Completions before posts: an operation that comes and goes meanwhile is then outstanding
         * rather than less than none. */
        for (struct fi_object *o = all; o; o = o->next) {
                if (o->type == FI_T_CQ)
                        read_queue((struct fi_cq *)o, now);
        }
        for (struct fi_object *o = all; o; o = o->next) {
                if (o->type == FI_T_EP)
                        read_endpoint((struct fi_ep *)o, now);
        }
        for (struct fi_object *o = all; o; o = o->next) {
                if (o->type == FI_T_CQ)
                        judge_queue((struct fi_cq *)o, now);
        }
        counted_ns = now;
        took = capo_clock_mono() - now;
        next_ns = now + (took * COST_ONE_IN > EVERY_NS ? took * COST_ONE_IN : EVERY_NS);
}

uint64_t capo_fi_outstanding(const struct fi_cq *c, bool *unsure)
{
        const struct fi_noted *noted = &c->o.noted;
        bool valid = noted->id == c->o.id;

        *unsure = counted_ns &&
                  ((valid && (noted->cq.unsure || noted->cq.forgotten)) || unknown_for_good);
        return valid && !*unsure && noted->cq.outstanding > 0 ? (uint64_t)noted->cq.outstanding : 0;
}

uint64_t capo_fi_outstanding_at(void)
{
        return counted_ns;
}

void capo_fi_outstanding_forget(void)
{
        counted_ns = next_ns = 0;
        unknown_for_good = false;
        for (struct fi_object *o = capo_fi_objects; o; o = o->next)
                o->noted = (struct fi_noted){0};
}
