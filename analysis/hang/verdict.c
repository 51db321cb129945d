/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluates the graph of waiting. A process that others wait for, and that waits for none itself,
 * is the cause; without such a process there is a circle. The graph is evaluated twice: once
 * assuming that a root and a small send wait like all others, once assuming that they never wait,
 * because NCCL may already have buffered their data. A result of both is reported. If they differ,
 * no rank is accused. */
#include "core/base/among.h"
#include "core/base/calls.h"
#include "core/base/xalloc.h"
#include "analysis/hang/hang_judge.h"

/* The call that its host is in, on a thread that makes calls on @comm; if no such thread is known,
 * on any. */
static const struct capo_hang_call *find_call_inside(const struct capo_hang_process *p,
                                                     uint32_t comm, uint32_t member)
{
        const struct capo_hang_call *in = capo_hang_inside(p);

        if (!in || !hang_knows_threads(p, comm))
                return in;
        return LAST_OF(c, p->calls, p->n_calls,
                       (c->where == CAPO_HANG_HOST || c->where == CAPO_HANG_ENDING) &&
                               hang_uses(p, comm, c->thread) && hang_is_of(p, c, comm, member));
}

static enum capo_hang_why why_absent(const struct capo_hang_process *p, const struct hang_node *n,
                                     const struct hang_missed *on, uint32_t member,
                                     const struct capo_hang_call **call)
{
        const struct capo_hang_call *in = find_call_inside(p, n->comm, member),
                                    *running = hang_running_of(p, n->comm, member),
                                    *latest = LAST_OF(c, p->calls, p->n_calls,
                                                      c->comm == n->comm &&
                                                              hang_is_of(p, c, n->comm, member));

        *call = hang_last_of(p, n->comm, member);
        if (p->life == CAPO_HANG_EXITED)
                return p->exit_status > 0 ? CAPO_HANG_WHY_FAILED : CAPO_HANG_WHY_EXITED;
        if (on->left && p->life == CAPO_HANG_ALIVE)
                return CAPO_HANG_WHY_ABORTED;
        if (latest && !capo_hang_taken(latest->result) && p->life == CAPO_HANG_ALIVE) {
                *call = latest;
                return CAPO_HANG_WHY_ERROR;
        }
        *call = in ? in : *call;
        if (p->life != CAPO_HANG_ALIVE)
                return p->life == CAPO_HANG_KILLED ? CAPO_HANG_WHY_GONE : CAPO_HANG_WHY_STOPPED;
        if (in)
                return CAPO_HANG_WHY_CALL;
        if (on->stand == CAPO_STAND_OPENED)
                return CAPO_HANG_WHY_GROUP;
        if (running && n->kind == CAPO_HANG_P2P && on->stand == CAPO_STAND_MISSING)
                return CAPO_HANG_WHY_HALF;
        *call = running ? running : *call;
        return running ? CAPO_HANG_WHY_GPU : CAPO_HANG_WHY_HOST;
}

static void accuse_absent(struct capo_hang_verdict *v, const struct hang_graph *g,
                          const struct hang_node *n, uint32_t place)
{
        const struct hang_missed *on = &n->on[place];
        int32_t rank = hang_member_rank(g->job, n->comm, on->member);
        const struct capo_hang_call *call;
        enum capo_hang_why why = why_absent(&g->job->processes[on->process], n, on,
                                            rank < 0 ? CAPO_HANG_NONE : on->member, &call);

        hang_accuse_rank(v, on->process, rank, why, call);
}

/* Report the node in which most ranks wait. */
static void set_subject(struct capo_hang_verdict *v, const struct capo_hang_job *job,
                        const struct hang_node *n)
{
        v->comm = n->comm;
        v->seq = n->seq;
        v->call = n->call;
        v->n_waiting = n->n_ranks_in;
        v->n_ranks = n->comm != CAPO_HANG_NONE && job->comms[n->comm].n_ranks > 0
                             ? (uint32_t)job->comms[n->comm].n_ranks
                     : n->comm == CAPO_HANG_NONE && n->call ? (uint32_t)n->call->bytes
                                                            : n->n_in + n->n_on;
        v->unseen = n->unseen;
        v->since_ns = n->last_ns;
}

/* ---- calls that differ ---- */

/* Accuse the ranks whose call most others did not make. If no side is larger, both are named.
 * @of: what each member made as that call; NULL: not known */
static void accuse_different(const struct capo_hang_job *job, uint32_t comm, uint32_t seq,
                             const struct capo_hang_call *const *of, struct capo_hang_verdict *v)
{
        const struct capo_hang_comm *c = &job->comms[comm];
        const struct capo_hang_call *most = NULL, *next = NULL;
        struct capo_hang_culprit *who;
        uint32_t best = 0, others = 0;

        for (uint32_t i = 0; i < c->n_members; i++) {
                uint32_t same = 0, rest = 0;

                if (!of[i] || (most && !capo_hang_differs(most, of[i])))
                        continue;
                for (uint32_t k = 0; k < c->n_members; k++) {
                        same += of[k] && !capo_hang_differs(of[i], of[k]);
                        rest += of[k] && capo_hang_differs(of[i], of[k]);
                }
                if (same > best) {
                        best = same;
                        others = rest;
                        most = of[i];
                }
        }
        v->kind = CAPO_HANG_MISMATCH;
        v->sure = CAPO_HANG_CERTAIN;
        v->call = most;
        v->n_waiting = best;
        for (uint32_t i = 0; i < c->n_members && !next; i++) {
                if (of[i] && !capo_hang_differs(most, of[i]))
                        next = hang_made_as(&job->processes[c->members[i].process], comm, seq + 1);
        }
        for (uint32_t i = 0; i < c->n_members; i++) {
                if (!of[i] || (best > others && !capo_hang_differs(most, of[i])))
                        continue;
                hang_accuse(v, c->members[i].process, CAPO_HANG_WHY_DIFFERS, of[i]);
                who = &v->culprits[v->n_culprits - 1];
                who->differs = capo_hang_differs(most, of[i]);
                who->skipped = who->differs && next && !capo_hang_differs(next, of[i]);
        }
}

static void accuse_unlike(struct capo_hang_verdict *v, const struct capo_hang_pair *pair)
{
        hang_accuse(v, pair->process, CAPO_HANG_WHY_SIZE, pair->call);
        v->kind = CAPO_HANG_MISMATCH;
        v->sure = CAPO_HANG_LIKELY;
        v->call = pair->call;
        v->comm = pair->call->comm;
        v->seq = pair->call->seq;
        hang_accuse(v, pair->peer, CAPO_HANG_WHY_SIZE, pair->unlike);
}

static void judge_mismatch(const struct hang_graph *g, const struct hang_node *n,
                           struct capo_hang_verdict *v)
{
        set_subject(v, g->job, n);
        if (n->unlike) {
                v->n_waiting = n->n_in;
                accuse_unlike(v, &(struct capo_hang_pair){.process = n->in[0],
                                                          .peer = n->in[n->n_in - 1],
                                                          .call = n->call,
                                                          .unlike = n->unlike});
                return;
        }
        accuse_different(g->job, n->comm, n->seq, g->waits.fronts[n->comm].call, v);
}

/* An earlier call ended although its ranks did not agree on it. Either a later one does not end: NCCL
 * does nothing for a count of 0, and that rank is a call ahead since. Or no rank
 * makes a call since. */
static void judge_differed(const struct capo_hang_job *job, struct capo_hang_verdict *v)
{
        _cleanup_free_ const struct capo_hang_call **of =
                hang_made_by_all(job, v->differed_comm, v->differed);
        const struct capo_hang_call *stands = v->call;

        hang_acquit(v);
        v->comm = v->differed_comm;
        v->seq = v->differed;
        v->n_ranks = job->comms[v->comm].n_members;
        accuse_different(job, v->differed_comm, v->differed, of, v);
        v->sure = CAPO_HANG_LIKELY;
        v->behind = stands;
        v->differed = 0;
}

/* Did the ranks make different collectives as their last call of that communicator? Then they took
 * different branches. Calls that differ in less and ended explain nothing. */
static bool parted_at_last(const struct capo_hang_job *job, const struct capo_hang_verdict *v)
{
        const struct capo_hang_comm *c = &job->comms[v->differed_comm];
        _cleanup_free_ const struct capo_hang_call **of =
                hang_made_by_all(job, v->differed_comm, v->differed);
        const struct capo_hang_call **first = FIRST_OF(made, of, c->n_members, *made);

        return first && ALL_OF(m, c->members, c->n_members, m->issued <= v->differed) &&
               ANY_OF(made, of, c->n_members,
                      *made && capo_call_kind((*made)->call) != capo_call_kind((*first)->call));
}

/* ---- circles ---- */

static const struct hang_node *next_of(const struct hang_graph *g, uint32_t process, uint32_t *on)
{
        for (const struct hang_node *n = g->nodes; n < PAST_OF(g->nodes, g->n_nodes); n++) {
                const struct hang_missed *next =
                        ANY_OF(in, n->in, n->n_in, *in == process)
                                ? FIRST_OF(m, n->on, n->n_on,
                                           g->waits_for[m->process] && !g->leads_out[m->process])
                                : NULL;

                if (next) {
                        *on = next->process;
                        return n;
                }
        }
        return NULL;
}

/* @n is a send or receive without its other half. Does another rank wait for the same from the rank
 * that makes it? Then that other rank names the wrong peer. NULL: no. */
static const struct hang_node *find_wrong_peer(const struct hang_graph *g,
                                               const struct hang_node *n)
{
        if (n->kind != CAPO_HANG_P2P || !n->n_in || !n->n_on ||
            n->on[0].stand != CAPO_STAND_MISSING)
                return NULL;
        return FIRST_OF(o, g->nodes, g->n_nodes,
                        o->kind == CAPO_HANG_P2P && o->n_in && o->n_on && o->comm == n->comm &&
                                o->call->call != n->call->call &&
                                o->call->bytes == n->call->bytes && o->on[0].process == n->in[0] &&
                                o->in[0] != n->on[0].process &&
                                o->on[0].stand == CAPO_STAND_MISSING);
}

/* Messages have no other half, because one rank names the wrong peers. False: not so, or several do. */
static bool accuse_wrong_peer(const struct hang_graph *g, struct capo_hang_verdict *v)
{
        const struct hang_node *n = NULL, *waits = NULL, *found;

        for (const struct hang_node *of = g->nodes; of < PAST_OF(g->nodes, g->n_nodes); of++) {
                if (!(found = find_wrong_peer(g, of)))
                        continue;
                if (n && n->in[0] != of->in[0])
                        return false;
                n = n ?: of;
                waits = waits ?: found;
        }
        if (!n)
                return false;
        hang_acquit(v);
        set_subject(v, g->job, waits);
        v->kind = CAPO_HANG_P2P;
        v->sure = CAPO_HANG_LIKELY;
        hang_accuse(v, n->in[0], CAPO_HANG_WHY_PEER, n->call);
        return true;
}

/* If a send or receive in the circle has no other half, the rank that owes that half is the cause;
 * the others only wait. */
static void accuse_missing_half(const struct hang_graph *g, struct capo_hang_verdict *v)
{
        const struct hang_node *owing = NULL;
        uint32_t n = 0;

        for (uint32_t i = 0, on; i < v->n_steps; i++) {
                const struct hang_node *node = next_of(g, v->steps[i].process, &on);

                if (node && node->kind == CAPO_HANG_P2P &&
                    node->on[0].stand == CAPO_STAND_MISSING) {
                        owing = node;
                        n++;
                }
        }
        if (n != 1) {
                if (n)
                        accuse_wrong_peer(g, v);
                return;
        }
        hang_acquit(v);
        set_subject(v, g->job, owing);
        v->kind = CAPO_HANG_P2P;
        accuse_absent(v, g, owing, 0);
}

static void judge_circle(const struct hang_graph *g, uint32_t process, struct capo_hang_verdict *v)
{
        _cleanup_free_ bool *seen = xcalloc(g->job->n_processes + 1, sizeof *seen);
        const struct hang_node *n, *main = NULL;
        bool one_comm, messages;
        uint32_t on;

        while (!seen[process] && next_of(g, process, &on)) { /* walk into the circle */
                seen[process] = true;
                process = on;
        }
        for (uint32_t first = process, more = 1; more && (n = next_of(g, process, &on));
             more = on != first) {
                *xadd(v->steps, v->n_steps) =
                        (struct capo_hang_step){.process = process,
                                                .comm = n->comm,
                                                .seq = n->seq,
                                                .call = n->call ? n->call->call : 0};
                main = main && main->n_in >= n->n_in ? main : n;
                hang_accuse(v, process, CAPO_HANG_WHY_WAITS, n->call);
                if (v->n_steps > 1 && n->last_ns > v->since_ns)
                        v->since_ns = n->last_ns;
                process = on;
        }
        if (!main)
                return;
        one_comm = ALL_OF(of, v->steps, v->n_steps, of->comm == v->steps->comm);
        messages = ALL_OF(of, v->steps, v->n_steps, capo_call_kind(of->call) == CAPO_KIND_P2P);
        for (uint32_t i = 0; i < v->n_culprits && one_comm; i++)
                v->culprits[i].why = messages ? CAPO_HANG_WHY_RING : CAPO_HANG_WHY_APART;
        set_subject(v, g->job, main);
        v->kind = CAPO_HANG_ORDER;
        v->sure = CAPO_HANG_LIKELY;
        accuse_missing_half(g, v);
}

/* ---- missing ranks ---- */

static void judge_absent(const struct hang_graph *g, struct capo_hang_verdict *v)
{
        const struct hang_node *n = NULL;
        struct capo_hang_culprit *who;

        if (accuse_wrong_peer(g, v))
                return;
        for (const struct hang_node *of = g->nodes; of < PAST_OF(g->nodes, g->n_nodes); of++) {
                if (of->n_in && (!n || of->n_in > n->n_in) &&
                    ANY_OF(m, of->on, of->n_on, capo_hang_ends(g, m->process)))
                        n = of;
        }
        set_subject(v, g->job, n);
        v->kind = n->kind;
        v->sure = n->unseen || n->kind != CAPO_HANG_MISSING ? CAPO_HANG_LIKELY : CAPO_HANG_CERTAIN;
        for (uint32_t i = 0; i < n->n_on; i++) {
                if (capo_hang_ends(g, n->on[i].process))
                        accuse_absent(v, g, n, i);
        }
        /* the ranks that keep the culprit away, or that block others */
        for (const struct hang_node *other = g->nodes; other < PAST_OF(g->nodes, g->n_nodes);
             other++) {
                for (uint32_t i = 0; i < other->n_on; i++) {
                        uint32_t before = v->n_culprits;

                        if (other != n && other->n_in && capo_hang_ends(g, other->on[i].process))
                                accuse_absent(v, g, other, i);
                        if (v->n_culprits == before)
                                continue;
                        who = &v->culprits[before];
                        who->elsewhere = true;
                        who->comm = other->comm;
                        who->seq = other->seq;
                        who->missing = other->call ? other->call->call : 0;
                        who->n_waiting = other->n_in;
                }
        }
}

/* ---- the verdict ---- */

static uint64_t needed_still_ns(const struct capo_hang_job *job, const struct capo_hang_verdict *v)
{
        bool gone = v->n_culprits &&
                    ALL_OF(c, v->culprits, v->n_culprits,
                           c->why == CAPO_HANG_WHY_GONE || c->why == CAPO_HANG_WHY_EXITED ||
                                   c->why == CAPO_HANG_WHY_FAILED);
        bool proven =
                v->n_culprits &&
                ALL_OF(c, v->culprits, v->n_culprits,
                       c->why != CAPO_HANG_WHY_HOST && c->why != CAPO_HANG_WHY_CALL &&
                               c->why != CAPO_HANG_WHY_GPU && c->why != CAPO_HANG_WHY_STOPPED);

        if (v->kind == CAPO_HANG_INSIDE && v->call && capo_hang_is_lifecycle(v->call))
                return job->after_ns * HANG_LONG;
        return gone ? 0 : proven ? job->after_ns / HANG_SHORT : job->after_ns;
}

static void read_graph(const struct capo_hang_job *job, bool lenient, uint64_t until_ns,
                       struct capo_hang_verdict *v, bool *stands)
{
        _cleanup_(capo_hang_graph_finish) struct hang_graph g = {0};
        const struct hang_node *differ = NULL, *unseen;
        const bool *in;

        capo_hang_graph(job, lenient, until_ns, &g);
        *v = (struct capo_hang_verdict){.kind = CAPO_HANG_HEALTHY,
                                        .comm = CAPO_HANG_NONE,
                                        .accused = xcalloc(job->n_processes + 1, sizeof(bool))};
        *stands = g.n_nodes > 0;
        v->p2p_unknown = g.waits.p2p_unknown;
        v->unlike = g.waits.unlike;
        for (uint32_t i = 0; i < job->n_comms; i++) {
                if (g.waits.fronts[i].differed) {
                        v->differed = g.waits.fronts[i].differed;
                        v->differed_comm = i;
                }
        }
        for (const struct hang_node *n = g.nodes; n < PAST_OF(g.nodes, g.n_nodes); n++) {
                if (n->mismatch && n->n_in && (!differ || n->n_in > differ->n_in))
                        differ = n;
        }
        unseen = LAST_OF(n, g.nodes, g.n_nodes, n->unseen && !n->n_on && n->n_in);
        in = FIRST_OF(of, g.waits_for, job->n_processes, *of && !g.leads_out[of - g.waits_for]);
        if (differ)
                judge_mismatch(&g, differ, v);
        else if (in) /* a circle, or leads into one */
                judge_circle(&g, (uint32_t)(in - g.waits_for), v);
        else if (ANY_OF(of, g.wanted, job->n_processes,
                        capo_hang_ends(&g, (uint32_t)(of - g.wanted))))
                judge_absent(&g, v);
        else if (unseen)
                set_subject(v, job, unseen), v->kind = CAPO_HANG_UNDECIDED;
        else
                hang_judge_lost(job, v);
        if (v->kind == CAPO_HANG_HEALTHY)
                hang_judge_inside(job, v);
        if (v->differed && v->comm == v->differed_comm &&
            (v->kind == CAPO_HANG_RUNNING || v->kind == CAPO_HANG_INSIDE))
                judge_differed(job, v);
}

/* Keep the strict result if the lenient one does not contradict it. */
static void compare_readings(struct capo_hang_verdict *strict,
                             const struct capo_hang_verdict *lenient)
{
        /* without the sends, the circle is smaller, and who is wrong in it not known */
        bool circle = strict->kind == CAPO_HANG_P2P && lenient->kind == CAPO_HANG_ORDER;
        bool within = (strict->kind == lenient->kind || circle) &&
                      ALL_OF(c, strict->culprits, strict->n_culprits, lenient->accused[c->process]);

        if (within && strict->n_culprits == lenient->n_culprits)
                return;
        if (within || lenient->kind == CAPO_HANG_HEALTHY) {
                strict->sure = CAPO_HANG_LIKELY;
                return;
        }
        strict->kind = CAPO_HANG_UNDECIDED;
        strict->sure = CAPO_HANG_UNSURE;
}

/* If nobody is to blame but processes that are stopped, the stop is the cause. */
static void name_stop(const struct capo_hang_job *job, struct capo_hang_verdict *v)
{
        bool waits = v->kind == CAPO_HANG_MISSING || v->kind == CAPO_HANG_P2P ||
                     v->kind == CAPO_HANG_CREATION;
        bool may = v->n_culprits && (v->kind == CAPO_HANG_RUNNING || v->kind == CAPO_HANG_INSIDE ||
                                     v->kind == CAPO_HANG_UNDECIDED || (waits && !job->counted));

        if (!may || !ALL_OF(c, v->culprits, v->n_culprits, c->why == CAPO_HANG_WHY_STOPPED))
                return;
        v->kind = CAPO_HANG_STOPPED_RANK;
        if (v->sure == CAPO_HANG_UNSURE)
                v->sure = CAPO_HANG_LIKELY;
}

/* The verdict on all waits that began before @until_ns. */
static void judge_waits(const struct capo_hang_job *job, uint64_t until_ns,
                        struct capo_hang_verdict *v)
{
        struct capo_hang_verdict lenient;
        bool stands;

        read_graph(job, false, until_ns, v, &stands);
        if (stands) { /* if nothing is stuck here, nothing is with fewer waits */
                read_graph(job, true, until_ns, &lenient, &stands);
                compare_readings(v, &lenient);
                capo_hang_verdict_finish(&lenient);
        }
        hang_judge_stopped(job, v);
        hang_set_still(job, v);
}

/* Ranks that still make progress wait for each other briefly at any moment. That must not hide
 * ranks that have waited for long. */
static void judge_long_waits(const struct capo_hang_job *job, struct capo_hang_verdict *v)
{
        struct capo_hang_verdict longer;

        if (job->now_ns <= job->after_ns)
                return;
        judge_waits(job, job->now_ns - job->after_ns, &longer);
        if (longer.n_culprits && (longer.still_ns >= needed_still_ns(job, &longer) ||
                                  hang_waits_on_worker(job, &longer))) {
                struct capo_hang_verdict all = *v;

                *v = longer;
                longer = all;
        }
        capo_hang_verdict_finish(&longer);
}

/* No rank has waited in a call, and none made one for long, now or before the job was ended: the last
 * thing that the ranks did can be the reason. */
static void explain_quiet(const struct capo_hang_job *job, struct capo_hang_verdict *v)
{
        const struct capo_hang_pair *u = &v->unlike;

        if (v->n_culprits || v->kind != CAPO_HANG_UNDECIDED ||
            !(v->quiet || (job->over && v->quiet_ns >= job->after_ns)))
                return;
        if (u->call && hang_last(&job->processes[u->process]) == u->call &&
            hang_last(&job->processes[u->peer]) == u->unlike) { /* both ended */
                v->together = 0;
                accuse_unlike(v, u);
        } else if (v->differed && parted_at_last(job, v)) {
                v->together = 0;
                judge_differed(job, v);
        }
}

/* The first culprit whose call is not that of the others. */
static struct capo_hang_pair find_disagreed(const struct capo_hang_verdict *v)
{
        const struct capo_hang_culprit *c =
                v->kind == CAPO_HANG_MISMATCH
                        ? FIRST_OF(of, v->culprits, v->n_culprits,
                                   of->why == CAPO_HANG_WHY_DIFFERS && of->differs)
                        : NULL;

        return c ? (struct capo_hang_pair){.process = c->process,
                                           .call = c->call,
                                           .unlike = v->call}
                 : (struct capo_hang_pair){0};
}

void capo_hang_judge(const struct capo_hang_job *job, struct capo_hang_verdict *v)
{
        struct capo_hang_pair disagreed;
        bool unknown;

        judge_waits(job, UINT64_MAX, v);
        if (!job->counted && v->n_culprits && v->still_ns < needed_still_ns(job, v))
                judge_long_waits(job, v);
        disagreed = find_disagreed(v);
        if (v->kind != CAPO_HANG_HEALTHY && !v->works_on && v->still_ns < needed_still_ns(job, v))
                v->kind = (v->still_ns >= HANG_MOMENT_NS && !hang_all_are_in(v)) || job->over ||
                                          job->counted
                                  ? CAPO_HANG_SLOW
                                  : CAPO_HANG_HEALTHY;
        if (v->kind == CAPO_HANG_HEALTHY) {
                hang_acquit(v);
                v->call = NULL;
                v->comm = CAPO_HANG_NONE;
                v->seq = v->n_waiting = 0;
                v->sure = CAPO_HANG_UNSURE;
        }
        if (job->over || v->kind == CAPO_HANG_HEALTHY)
                hang_judge_ended(job, v);
        if (v->kind == CAPO_HANG_ENDED || (job->over && v->kind == CAPO_HANG_UNDECIDED))
                v->disagreed = disagreed;
        unknown = hang_prove_healthy(job, v);
        hang_judge_pause(job, v);
        if (unknown || v->kind == CAPO_HANG_RUNNING)
                hang_judge_tuned(job, v);
        explain_quiet(job, v);
        name_stop(job, v);
        hang_doubt(job, v);
        hang_sort_culprits(job, v);
}

void capo_hang_verdict_finish(struct capo_hang_verdict *v)
{
        xfree(v->culprits, v->accused, v->steps);
        *v = (struct capo_hang_verdict){0};
}
