/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks: a sampling profiler of the network.
 *
 * How much of a collective's time the network takes is a question about durations, and the data
 * path reads no clock. So the drain thread looks, at random moments some milliseconds apart, at the
 * counters that are there anyway, and notes in eight bytes what it saw:
 *
 *   waiting   something was posted to leave (a send, write, read, atomic) and its completion has
 *             not been read
 *   moving    nothing waits, but within the next 50 us something is posted to leave or a completion
 *             read
 *
 * Moments are drawn without regard to what the job does, so of the looks that fall into a call the
 * part that saw the network busy estimates the part of the call's time that it was, however long or
 * short calls and transfers are; and how many looks that were says how sure the estimate is.
 * Receives that merely stand posted are neither: they wait for the peer as much as for the network.
 *
 * Waiting is posts less completions, of each queue, which is as good as these two counts are:
 * completions that belong to no transmit (receives, remote writes with data) are known by their
 * flags, injects make none. Where a queue's format has no flags and receives come to it, where an
 * endpoint asks for silence (FI_SELECTIVE_COMPLETION without FI_COMPLETION), or where it completes
 * into counters only, the two counts do not fit, and waiting is not known: from then on looks are
 * "unsure", and those already taken lose what they said about waiting.
 *
 * The table has FI_LOOKS places. When it is full every second look of the older half goes, and
 * those that stay stand for twice the time.
 */
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "shim/fabric/shim_fabric.h"
#include "shim/record/shim.h"

#define EARLY_LOOKS 400
#define EARLY_SHIFT 2 /* their distance is a fourth of what the setting says */
#define LEAST_MS    1
#define MOST_MS     1000
#define LATE_NS     500000u /* on a machine whose cores are all busy */
#define QUIET_NS                                                                                   \
        1000000000u /* a queue that has been still for so long has nothing outstanding but what is \
                       lost */
#define BELOW_ZERO    (-8) /* a post is counted after it was made: a few may complete earlier */
#define BEYOND_BELIEF (1 << 20) /* operations no transmit queue holds */
#define COST_ONE_IN \
        400 /* readings take at most about one 400th of a core: else looks become rarer */
#define COST_MOST_SHIFT 10

static struct fi_look looks[FI_LOOKS];
static unsigned n_looks;
static uint64_t n_taken, n_late; /* ever; of them more than LATE_NS after their time */
static uint64_t every_ns;        /* mean distance at level 0 */
static uint64_t t_next;          /* CLOCK_MONOTONIC of the next look */
static uint64_t t_since;         /* from when on those in the table were due */
static unsigned level;
static uint64_t reading_ns; /* running mean of what one reading of all counters takes */
static uint64_t dice;
static bool hopeless; /* waiting cannot be known in this process */

struct reading {
        uint64_t moved;       /* posts and completions since the reading before */
        bool waiting, unsure; /* unsure: there may be more waiting than is known */
};

/* ---- reading the counters
 * ---------------------------------------------------------------------------------------- */

static uint64_t posts_of(const struct fi_ep *e, uint64_t *injects)
{
        uint64_t n[2] = {0};

        for (int s = 0; s < FI_SETS; s++) {
                /* the sets fill in order, and the shared one only after all others are taken */
                if (!e->set[s < FI_SETS - 1 ? s : s - 1].owner)
                        break;
                for (int k = 0; k < CAPO_FI_KINDS; k++) {
                        for (int b = 0; capo_fi_transmits[k] && b < CAPO_FI_SIZES; b++)
                                n[k == CAPO_FI_INJECT] += e->set[s].sizes[k][b];
                }
        }
        *injects = n[1];
        return n[0];
}

static uint64_t errors_of(const struct fi_errors *e)
{
        uint64_t n = e->other;

        for (int i = 0; i < FI_ERRORS; i++)
                n += e->row[i].count;
        return n;
}

/* What was noted of this object; all 0 of one that was not there at the last reading. NULL: it is
 * being made. */
static struct fi_looked *find_notes(struct fi_object *o)
{
        uint32_t id = o->id;

        if (o->look.id != id)
                o->look = (struct fi_looked){.id = id};
        return id ? &o->look : NULL;
}

static void read_queue(struct fi_cq *c, struct reading *r, uint64_t now)
{
        struct fi_looked *look = find_notes(&c->o);
        uint64_t completions = 0, received = 0, errors = errors_of(&c->o.errors);

        for (int s = 0; s < FI_SETS; s++) {
                received += c->set[s].received + c->set[s].unposted;
                completions += c->set[s].completions;
        }
        if (!look || c->o.id != look->id)
                return;
        if (completions != look->cq.completions || errors != look->cq.errors)
                look->cq.t_moved = now;
        if (completions != look->cq.completions) {
                look->cq.t_completed = now;
                look->cq.forgotten = false;
        }
        if (errors != look->cq.errors) /* of a transmit or of a receive: nobody noted */
                look->cq.unsure = true;
        r->moved += completions - look->cq.completions;
        look->cq.outstanding -=
                (int64_t)(completions - look->cq.completions - (received - look->cq.received));
        look->cq.completions = completions;
        look->cq.received = received;
        look->cq.errors = errors;
        look->cq.open = 0;
        look->cq.receives = false;
}

static void read_counter(struct fi_cntr *n, struct reading *r)
{
        struct fi_looked *look = find_notes(&n->o);
        uint64_t last = n->last;

        if (!look || n->o.id != look->id)
                return;
        r->moved += last != look->cntr;
        look->cntr = last;
}

static void read_endpoint(struct fi_ep *e, struct reading *r, uint64_t now)
{
        struct fi_looked *look = find_notes(&e->o), *tx, *rx;
        uint64_t injects, posts = posts_of(e, &injects);
        struct fi_cq *sends = e->cq[0], *receives = e->cq[1];
        bool open = e->o.fid, silent = e->silent;

        if (!look || e->o.id != look->id)
                return;
        tx = sends ? find_notes(&sends->o) : NULL;
        rx = receives ? find_notes(&receives->o) : NULL;
        if (posts != look->ep.posts && tx) {
                tx->cq.outstanding += (int64_t)(posts - look->ep.posts);
                tx->cq.t_moved = now;
        }
        if (posts && (!sends || silent))
                hopeless = true;
        r->moved += posts - look->ep.posts + (injects - look->ep.injects);
        look->ep.posts = posts;
        look->ep.injects = injects;
        if (open && tx)
                tx->cq.open++;
        if (open && rx)
                rx->cq.receives = true;
        if (!open && look->ep.open && tx &&
            tx->cq.outstanding > 0) /* of this endpoint, or of another? */
                tx->cq.unsure = true;
        look->ep.open = open;
}

static void judge_queue(struct fi_cq *c, struct reading *r, uint64_t now)
{
        struct fi_looked *look = find_notes(&c->o);
        bool there = c->o.fid;

        if (!look)
                return;
        if (!there || !look->cq.open || (look->cq.unsure && now - look->cq.t_moved > QUIET_NS)) {
                look->cq.forgotten |= there && look->cq.unsure && look->cq.outstanding;
                look->cq.outstanding = 0;
                look->cq.unsure = false;
        }
        if ((!c->lengths && look->cq.receives && look->cq.open && look->cq.completions) ||
            look->cq.outstanding < BELOW_ZERO || look->cq.outstanding > BEYOND_BELIEF)
                hopeless = true;
        r->unsure |= look->cq.unsure;
        r->waiting |= !look->cq.unsure && look->cq.outstanding > 0;
}

/* Completions before posts: an operation that comes and goes meanwhile is then outstanding rather
 * than less than none.
 */
static struct reading read_all(uint64_t now)
{
        struct fi_object *all = atomic_load_explicit(&capo_fi_objects, memory_order_acquire);
        struct reading r = {0};

        for (struct fi_object *o = all; o; o = o->next) {
                if (o->type == FI_T_CQ)
                        read_queue((struct fi_cq *)o, &r, now);
                if (o->type == FI_T_CNTR)
                        read_counter((struct fi_cntr *)o, &r);
        }
        for (struct fi_object *o = all; o; o = o->next) {
                if (o->type == FI_T_EP)
                        read_endpoint((struct fi_ep *)o, &r, now);
        }
        for (struct fi_object *o = all; o; o = o->next) {
                if (o->type == FI_T_CQ)
                        judge_queue((struct fi_cq *)o, &r, now);
        }
        if (hopeless) {
                r.waiting = false;
                r.unsure = true;
        }
        now = capo_clock_mono() - now;
        if (reading_ns &&
            now > 4 * reading_ns) /* not the reading took so long: something else ran meanwhile */
                now = 4 * reading_ns;
        reading_ns = reading_ns ? (15 * reading_ns + now) / 16 : now;
        return r;
}

/* ---- the table
 * ---------------------------------------------------------------------------------------------------
 */

static void thin_older_half(void)
{
        unsigned out = 0;

        for (unsigned i = 0; i < FI_LOOKS / 2; i += 2) {
                looks[out] = looks[i];
                looks[out++].level++;
        }
        memmove(&looks[out], &looks[FI_LOOKS / 2], (n_looks - FI_LOOKS / 2) * sizeof looks[0]);
        n_looks -= FI_LOOKS / 2 - out;
}

/* xorshift64 (Marsaglia, 2003) */
static uint64_t dice_throw(void)
{
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        return dice;
}

/*
 * Distances are anything from nothing to twice the mean, so no rhythm of the job keeps step with
 * them. The first looks are closer together, for jobs that last seconds.
 */
static void draw_next(uint64_t now)
{
        uint64_t budget = 2 * reading_ns * COST_ONE_IN;

        for (level = n_taken < EARLY_LOOKS ? 0 : EARLY_SHIFT;
             level < COST_MOST_SHIFT && every_ns << level < budget;)
                level++;
        t_next = now + dice_throw() % (2 * (every_ns << level));
        capo_shim_poll_by(t_next);
}

/*
 * Does anything move? Asked only when something has since the last look, and nothing waits; so most
 * looks are one reading. A nap that took far longer than asked for (a busy machine, a coarse timer)
 * says nothing about 50 us: then the slit is spun through.
 */
static bool detect_motion(uint64_t *t, struct reading *r)
{
        for (int attempt = 0;; attempt++) {
                uint64_t t0 = capo_clock_mono(), t1 = t0;
                struct reading then;

                if (attempt == 0)
                        capo_shim_nap(FI_LOOK_SLIT_NS);
                while ((t1 = capo_clock_mono()) - t0 < FI_LOOK_SLIT_NS && attempt)
                        ;
                then = read_all(t1);
                if (t1 - t0 < 2 * FI_LOOK_SLIT_NS || attempt == 3)
                        return then.moved;
                *t = t1;
                *r = then;
        }
}

void capo_fi_look(void)
{
        uint64_t now = capo_clock_mono();
        bool before = hopeless;
        struct reading r;
        unsigned state = 0;
        bool late = now - t_next > LATE_NS;

        if (!every_ns || now < t_next)
                return;
        if (!t_next) { /* this thread's first round: the moment is not chance's */
                draw_next(now);
                return;
        }
        r = read_all(now);
        if (r.moved && !r.waiting && detect_motion(&now, &r))
                state |= CAPO_FABRIC_MOVING;
        if (r.waiting)
                state |= CAPO_FABRIC_WAITING;
        if (r.unsure)
                state |= CAPO_FABRIC_UNSURE;
        if (n_looks == FI_LOOKS)
                thin_older_half();
        if (hopeless && !before) {
                n_looks = 0; /* by time, not by what they saw: those to come are as good a sample */
                t_since = now;
        }
        n_taken++;
        n_late += late;
        looks[n_looks++] = (struct fi_look){.t_us = now / 1000, .level = level, .state = state & 7};
        draw_next(capo_clock_mono());
}

uint64_t capo_fi_outstanding(const struct fi_cq *c, bool *unsure)
{
        const struct fi_looked *look = &c->o.look;
        bool noted = look->id == c->o.id;

        *unsure = n_taken && ((noted && (look->cq.unsure || look->cq.forgotten)) || hopeless);
        return noted && !*unsure && look->cq.outstanding > 0 ? (uint64_t)look->cq.outstanding : 0;
}

unsigned capo_fi_looks(const struct fi_look **out, uint64_t *taken, uint64_t *late, uint64_t *since)
{
        *out = looks;
        *taken = n_taken;
        *late = n_late;
        *since = t_since;
        return n_looks;
}

uint64_t capo_fi_look_every(void)
{
        return every_ns;
}

void capo_fi_look_start(void)
{
        int ms = capo_shim_env()->fabric_look;

        every_ns = ms <= 0 ? 0
                           : (1000000u >> EARLY_SHIFT) * (uint64_t)(ms < LEAST_MS  ? LEAST_MS
                                                                    : ms > MOST_MS ? MOST_MS
                                                                                   : ms);
        dice = capo_clock_ticks() ^ (uint64_t)getpid() << 32 ^ 0x9e3779b97f4a7c15u;
        t_next = 0;
        t_since = capo_clock_mono();
}

void capo_fi_look_forget(void)
{
        n_looks = 0;
        n_taken = n_late = 0;
        hopeless = false;
        for (struct fi_object *o = capo_fi_objects; o; o = o->next)
                o->look = (struct fi_looked){0};
}
