/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names the rank that others wait for, from the comparison of analysis/job/skew.c: the rank that
 * caused the largest sum of waiting, if that is clearly more than its share.
 */

#include "capo/call_ids.h"
#include "core/base/calls.h"
#include "core/base/order.h"
#include "core/base/xalloc.h"
#include "analysis/job/figures.h"
#include "analysis/job/skew_follow.h"
#include "analysis/report/job_judge.h"
#include "analysis/report/stalls.h"
#include "analysis/report/waits_causes.h"
#include "core/log/info.h"

enum { ALIKE_SHOWN = 4 };
#define LEAST_LATE_NS  1000.0 /* error of an event or of the start of a call */
#define FEW_UNCOMPARED 0.05   /* of the calls: timing them too would not make the time known */
#define ORDER_CALLS    16     /* if one rank was last in nearly all of these, it is named ... */
#define ORDER_SHARE    0.9    /* ... even if the time that it cost is not known */
#define NEARLY_ALL     0.9
#define LONG_NS        1e9 /* less waiting in few calls may be chance */

static double sum_caused(const struct capo_job_comm *c)
{
        double sum = 0;

        for (uint32_t i = 0; i < c->n_members; i++)
                sum += c->skew->ranks[i].caused_ns;
        return sum;
}

/* Is it clearly above its share of the waiting, and the delay above the clocks' error? */
static bool stands_out(const struct capo_job_comm *c)
{
        const struct capo_skew *k = c->skew;
        double sum = sum_caused(c), chance = 1.0 / c->n_members,
               most = k->ranks[k->worst].caused_ns;

        return k->worst_p50_ns >= LEAST_LATE_NS && most > (chance + (1 - chance) / 4) * sum &&
               (k->worst_sure || most - k->ranks[k->worst].caused_pm_ns > chance * sum);
}

/* Was the worst rank last far more often than chance would have it (three standard deviations)? */
static bool is_last_too_often(const struct capo_job_comm *c)
{
        double n = c->skew->n_calls, chance = 1.0 / c->n_members;

        return (double)c->skew->ranks[c->skew->worst].last >
               n * chance + 3 * sqrt(n * chance * (1 - chance));
}

/*
 * How far the members' clocks can differ: communicator creation returns on all of them at about the
 * same time. INFINITY: not known.
 */
static double clocks_apart(const struct capo_job_comm *c)
{
        double first = INFINITY, last = 0;

        for (uint32_t k = 0; k < c->n_members; k++) {
                const struct capo_job_member *m = &c->members[k];

                if (!m->t_created_ns || m->flags & CAPO_COMM_NONBLOCKING)
                        return INFINITY;
                first = fmin(first, (double)m->t_created_ns);
                last = fmax(last, (double)m->t_created_ns);
        }
        return last - first;
}

/* With the communicator's rank in brackets if that differs. */
static char *describe_member(const struct capo_job *job, const struct capo_job_comm *c,
                             const struct capo_job_member *m, char *text, size_t room)
{
        char rank[300];
        const struct capo_job_process *p = &job->processes[m->process];
        const char *node = job->nodes[p->node].name;
        bool other = strcmp(node, p->host) != 0;

        snprintf(text, room, "%s (%s%s%s", capo_job_member_text(c, m, rank), p->host,
                 other ? "/" : "", other ? node : "");
        if (m->device >= 0)
                capo_append(text, room, ", GPU %d", m->device);
        if (m->job_rank >= 0 && m->job_rank != m->rank)
                capo_append(text, room, ", %d in %s", m->rank, c->name);
        return capo_append(text, room, ")");
}

/* The other members that came about as late as @member: "rank 1, rank 3". @text: 900 bytes. */
static const char *list_alike(const struct capo_job_comm *c, uint32_t member, char *text)
{
        uint32_t n = 0;
        char who[300];

        *text = 0;
        for (uint32_t k = 0; k < c->n_members && n < ALIKE_SHOWN; k++) {
                if (k != member && capo_skew_is_alike(c, k, member))
                        capo_append(text, 900, "%s%s", n++ ? ", " : "",
                                    capo_job_member_text(c, &c->members[k], who));
        }
        return text;
}

const char *capo_sample_advice(const struct capo_job *job)
{
        const char *one_in =
                job->n_processes ? capo_job_info(job->processes, CAPO_INFO_GPU_SAMPLE) : NULL;

        return one_in && !strcmp(one_in, "1") ? "all that found a free event"
                                              : "--sample 1 times all";
}

bool capo_few_uncompared(uint64_t compared, uint64_t calls)
{
        return calls <= compared || (double)(calls - compared) < FEW_UNCOMPARED * (double)calls;
}

char *capo_few_text(const struct capo_skew *k, char text[96])
{
        char from[32], to[32];
        bool row = k->few_to_seq - k->few_from_seq < k->few;

        capo_text_count(k->few_from_seq, from);
        capo_text_count(k->few_to_seq, to);
        if (k->few == 1)
                snprintf(text, 96, "call #%s", to);
        else
                snprintf(text, 96, "%s #%s to #%s",
                         row ? "calls" : capo_text_plural(k->few, "call from", "calls from"), from,
                         to);
        return text;
}

static char *wait_text(const struct capo_job *job, const struct capo_page_wait *w)
{
        static const char *const how[] = {
                [CAPO_SKEW_GPU_DURATION] = " (by GPU durations)",
                [CAPO_SKEW_HOST_START] = " (when the host made the call)",
                [CAPO_SKEW_KERNEL_WAIT] = " (by what NCCL's kernels waited)",
        };
        const struct capo_job_comm *c = &job->comms[w->comm];
        const struct capo_skew *k = c->skew;
        const struct capo_skew_rank *rank = &k->ranks[k->worst];
        char who[900], calls[48], alike[900], pm[CAPO_TEXT_INTERVAL],
                of[64] = "", from[80] = "", cause[512], more[1000] = "", few[96];
        const char *by = k->from != CAPO_SKEW_HOST_START && k->n_host ? ""
                         : k->n_kernel && k->n_kernel == k->n_calls   ? how[CAPO_SKEW_KERNEL_WAIT]
                                                                      : how[k->from],
                   *doubt = NULL;

        describe_member(job, c, &c->members[w->last], who, sizeof who);
        snprintf(calls, sizeof calls, "%s", capo_text_plural(k->n_calls, "call", NULL));
        if (w->by_clocks)
                return xprintf("%s: not known: only the hosts' times of its calls are, and the "
                               "clocks of the hosts may be as far apart",
                               c->name);
        if (w->handed_on)
                doubt = k->waits_more
                                ? "it waited longer than that in other communicators"
                                : "it may have waited in a send or receive, which last as long";
        else if (w->wide && w->by_order)
                doubt = "how long the others waited in all is not known";
        else if (!w->stands_out && !w->wide && !w->follows && !w->by_messages &&
                 w->last_share >= ORDER_SHARE && k->worst_p50_ns >= LEAST_LATE_NS)
                doubt = "most of the waiting may be for others";
        if (doubt)
                return xprintf("%s: %s came last in %s of %s compared, p50 %s after the first; %s",
                               c->name, who, TEXT_COUNT(rank->last), calls,
                               TEXT_TIME(k->worst_p50_ns), doubt);
        if (w->alike)
                return xprintf(
                        "%s: no rank stands out in %s compared: %s, %s came together, p50 %s "
                        "after the first",
                        c->name, calls, list_alike(c, w->last, alike),
                        capo_job_member_text(c, &c->members[w->last], cause),
                        TEXT_TIME(k->worst_p50_ns));
        if (w->wide) {
                uint64_t n_calls = c->n_calls - c->n_captured;
                const char *advice = capo_few_uncompared(k->n_calls, n_calls) && !k->n_host
                                             ? "long times without a call"
                                     : k->from == CAPO_SKEW_HOST_START ? "--trace all keeps all"
                                                                       : capo_sample_advice(job);

                if (k->few_ns >= LONG_NS)
                        snprintf(more, sizeof more,
                                 "; most of the waiting in these, %s, is for %s in %s",
                                 TEXT_TIME(k->few_ns), who, capo_few_text(k, few));
                return xprintf("%s: not known (%s of %s compared; %s)%s", c->name,
                               TEXT_COUNT(k->n_calls), capo_text_plural(n_calls, "call", NULL),
                               advice, more);
        }
        if (w->follows)
                return xprintf("%s: %s came late because it had waited in %s; it is not named here",
                               c->name, who, job->comms[k->origin - 1].name);
        if (!w->stands_out && w->by_messages)
                return xprintf(
                        "%s: not known: most of the time is in sends and receives, which are "
                        "not compared; the %s compared name none",
                        c->name, capo_text_plural(k->n_calls, "other call", NULL));
        if (!w->stands_out)
                return xprintf(
                        "%s: no rank stands out in %s compared; last after first p50 %s, p95 %s%s",
                        c->name, calls, TEXT_TIME(k->p50_ns), TEXT_TIME(k->p95_ns), by);
        capo_text_interval(rank->caused_ns, w->caused, capo_text_time, pm);
        if (w->caused_share >= 0)
                snprintf(of, sizeof of, ", %s of the job", TEXT_PERCENT(w->caused_share));
        capo_cause_print(&w->cause, cause, sizeof cause);
        if (k->worst_to_seq)
                snprintf(from, sizeof from, ", most from call #%s to #%s",
                         TEXT_COUNT(k->worst_from_seq ?: 1), TEXT_COUNT(k->worst_to_seq));
        else if (k->worst_from_seq)
                snprintf(from, sizeof from, ", most from call #%s on",
                         TEXT_COUNT(k->worst_from_seq));
        else if (k->few)
                snprintf(from, sizeof from, ", most of it in %s", capo_few_text(k, few));
        /* what a stop cost is not in the compared calls, by which the others are as late */
        if (rank->stopped_ns > 0)
                capo_append(
                        more, sizeof more,
                        "; its process did not run for %s (stopped, or without a processor), and "
                        "the others made no call meanwhile%s",
                        TEXT_TIME(rank->stopped_ns),
                        job->n_comms > 1 ? ", in any communicator" : "");
        else if (capo_skew_alike(c, w->last) > 1)
                capo_append(more, sizeof more, "; as late: %s", list_alike(c, w->last, alike));
        return xprintf("%s: %s %s %s%s in all%s: last in %s of %s compared%s, p50 %s, max %s "
                       "after the first%s%s%s%s%s",
                       c->name, who,
                       k->from == CAPO_SKEW_HOST_START ? "starts behind the others by"
                                                       : "made the others wait",
                       TEXT_TIME(rank->caused_ns), pm, of, TEXT_COUNT(rank->last), calls, from,
                       TEXT_TIME(k->worst_p50_ns), TEXT_TIME(k->worst_max_ns), by,
                       *cause ? "; " : "", cause,
                       w->by_messages ? "; or it waited for a message: most of the time is in those"
                                      : "",
                       more);
}

static double wait_cost(const struct capo_job *job, const struct capo_page_wait *w)
{
        const struct capo_job_comm *c = &job->comms[w->comm];

        return c->skew->wait_share >= 0 ? c->skew->wait_share
                                        : c->skew->p50_ns * (double)c->n_calls * 1e-30 - 1;
}

static int by_cost(const void *a, const void *b, void *job)
{
        const struct capo_page_wait *x = a, *y = b;
        double wx = wait_cost(job, x), wy = wait_cost(job, y);

        return CAPO_ORDER(wy, wx) ?: CAPO_ORDER(x->comm, y->comm);
}

static int by_calls(const void *a, const void *b, void *job)
{
        const struct capo_page_unknown *x = a, *y = b;
        const struct capo_job_comm *comms = ((const struct capo_job *)job)->comms;

        return CAPO_ORDER(comms[y->comm].n_calls, comms[x->comm].n_calls)
                       ?: CAPO_ORDER(x->comm, y->comm);
}

/* Communicators on which ranks may have waited, but nothing was compared. */
static void judge_unknown(struct capo_page *r)
{
        static const char why_all[] =
                "the logs kept all calls, and what is left of them has none that all its ranks are in";
        static const char why_full[] =
                "the logs had reached CAPO_LOG_MAX, and no call that they kept is in those of all its ranks";
        static const char *const why[] = {
                [CAPO_SKEW_ONE_LOG] = "one of its ranks left a log, the others none",
                [CAPO_SKEW_NO_CALLS] =
                        "the logs hold no single calls of it (capo run --trace all keeps them)",
                [CAPO_SKEW_NO_COMMON] =
                        "no single call is in the logs of all its ranks (capo run --trace all keeps all)",
                [CAPO_SKEW_NO_ROOM] =
                        "it has too many ranks to be compared, or the others of the job have",
        };

        const char *trace = capo_page_info(r, CAPO_INFO_TRACE);
        bool full = capo_page_info(r, CAPO_INFO_LEFT_OUT) != NULL;
        bool all = full || (trace && !strcmp(trace, "all"));

        r->unknown = xcalloc(r->job->n_comms + 1, sizeof *r->unknown);
        for (uint32_t i = 0; i < r->job->n_comms; i++) {
                const struct capo_job_comm *c = &r->job->comms[i];

                if (c->n_ranks > 1 && c->n_calls && c->no_skew != CAPO_SKEW_COMPARED)
                        r->unknown[r->n_unknown++] = (struct capo_page_unknown){
                                .comm = i,
                                .why = all && (c->no_skew == CAPO_SKEW_NO_CALLS ||
                                               c->no_skew == CAPO_SKEW_NO_COMMON)
                                               ? full ? why_full : why_all
                                               : why[c->no_skew]};
        }
        qsort_r(r->unknown, r->n_unknown, sizeof *r->unknown, by_calls, r->job);
}

/* Waiting in all communicators; waiting in overlapping ones may count twice. */
static void judge_share(struct capo_page *r)
{
        double sum = 0, pm = 0, most = 1 - 1.0 / r->job->n_processes;

        r->wait_share = -1;
        for (uint32_t i = 0; i < r->n_waits; i++) {
                const struct capo_skew *k = r->job->comms[r->waits[i].comm].skew;

                if (k->wait_share < 0)
                        return;
                sum += k->wait_share;
                pm += k->wait_pm;
        }
        if (!r->n_waits)
                return;
        sum = fmin(1, sum);
        r->wait_range = capo_interval_within(sum, pm, 1);
        r->wait_range.high = fmin(1, r->wait_range.high + capo_page_unseen(r));
        if (!capo_interval_is_wide(r->wait_range, most))
                r->wait_share = sum;
}

/* The part of the time on communicator @comm that is in sends and receives. */
static double part_in_messages(const struct capo_page *r, uint32_t comm)
{
        double messages = 0, groups = 0, all = 0;
        bool grouped = false; /* groups of collectives are no messages */

        for (uint32_t i = 0; i < r->job->n_rows; i++) {
                const struct capo_job_row *row = &r->job->rows[i];
                bool p2p = capo_call_kind(row->call) == CAPO_KIND_P2P,
                     member = row->comm == comm && row->flags & CAPO_RECORD_MEMBER;
                double ns = capo_job_row_total_ns(row);

                grouped |= p2p && member;
                if (row->comm != comm || member || capo_job_row_clock(row) <= CAPO_CLOCK_HOST)
                        continue;
                all += ns;
                *(p2p ? &messages : &groups) += p2p || row->flags & CAPO_RECORD_GROUP ? ns : 0;
        }
        return all > 0 ? (messages + (grouped ? groups : 0)) / all : 0;
}

/* Did sends, or receives, that last about as long as a rank is late take as much in all? It may have
 * waited in them, and what delayed a message is not seen. */
static bool may_be_handed_on(const struct capo_page *r, uint32_t comm)
{
        const struct capo_skew *k = r->job->comms[comm].skew;
        double ns[2] = {0}; /* of sends, of receives */

        for (uint32_t i = 0; i < r->job->n_rows; i++) {
                const struct capo_job_row *row = &r->job->rows[i];
                struct capo_sampled s = capo_job_row_sampled(row);

                if (row->comm == comm && capo_call_kind(row->call) == CAPO_KIND_P2P &&
                    capo_sampled_quantile(&s, 0.5) <= 2 * k->worst_p50_ns &&
                    capo_sampled_quantile(&s, 0.9) >= k->worst_p50_ns / 2)
                        ns[row->call == CAPO_CALL_RECV] += capo_job_row_total_ns(row);
        }
        return capo_skew_alike(&r->job->comms[comm], k->worst) > 1 && /* who sent is as late */
               fmax(*ns, ns[1]) * (r->job->comms[comm].n_members - 1) >
                       k->ranks[k->worst].caused_ns;
}

void capo_judge_waits(struct capo_page *r)
{
        judge_unknown(r);
        r->waits = xcalloc(r->job->n_comms + 1, sizeof *r->waits);
        r->unseen_ns = capo_unseen_waiting(r);
        for (uint32_t i = 0; i < r->job->n_comms; i++) {
                const struct capo_job_comm *c = &r->job->comms[i];
                const struct capo_skew *k = c->skew;
                const struct capo_skew_rank *worst = k ? &k->ranks[k->worst] : NULL;
                struct capo_page_wait *w = &r->waits[r->n_waits];
                double job_ns = (double)capo_job_duration_ns(r->job) * c->n_members;
                double most = job_ns - (double)capo_job_duration_ns(r->job);

                if (!k || !k->n_calls)
                        continue;
                *w = (struct capo_page_wait){
                        .comm = i,
                        .stands_out = stands_out(c),
                        .last = k->worst,
                        .last_share = (double)worst->last / k->n_calls,
                        .unseen_ns = k->from == CAPO_SKEW_HOST_START ? 0 : r->unseen_ns,
                        .caused_share = -1};
                w->caused = capo_interval_within(worst->caused_ns, worst->caused_pm_ns, most);
                w->wide = capo_interval_is_wide(w->caused, most);
                w->caused.high = fmin(most, w->caused.high + w->unseen_ns * c->n_members);
                /* it caused most of what was seen, and that may be chance */
                w->wide |= w->stands_out ? !(w->caused.low > 0)
                                         : capo_interval_is_wide(w->caused, most) ||
                                                   (c->n_members > 2 &&
                                                    worst->caused_ns > sum_caused(c) / 2);
                /* the starts by the GPUs are the cautious ones */
                w->caused.high = fmin(most, w->caused.high + worst->clocks_pm_ns);
                w->by_messages = part_in_messages(r, i) > 0.5;
                if (k->wait_share >= 0 && job_ns > 0)
                        w->caused_share = worst->caused_ns / job_ns;
                /* whom a message made late is known of nobody */
                w->stands_out &= w->caused_share < 0 || w->caused_share >= 0.01 ||
                                 part_in_messages(r, i) < NEARLY_ALL;
                /* the starts are from clocks of several hosts, and differ within the error of these */
                w->by_clocks = k->from == CAPO_SKEW_HOST_START && !k->aligned &&
                               k->worst_p50_ns < 2 * clocks_apart(c);
                w->follows = w->stands_out && !w->by_clocks && k->origin;
                w->handed_on = w->stands_out && !w->by_clocks && !w->follows &&
                               (k->by_message || k->waits_more || may_be_handed_on(r, i));
                w->alike = w->stands_out && !w->by_clocks && !w->follows && !w->handed_on &&
                           !(worst->stopped_ns > 0) &&
                           2 * capo_skew_alike(c, k->worst) > c->n_members;
                w->by_order = w->wide && !w->by_clocks && !w->follows &&
                              k->worst_p50_ns >= LEAST_LATE_NS && k->n_calls >= ORDER_CALLS &&
                              (w->last_share >= ORDER_SHARE ||
                               (k->worst_sure && w->stands_out && is_last_too_often(c)));
                w->stands_out &=
                        !w->wide && !w->by_clocks && !w->follows && !w->handed_on && !w->alike;
                if (w->stands_out)
                        w->cause = capo_late_cause(r->job, i, w->last,
                                                   capo_wait_counts(w) ? r->clocks_now : NULL);
                r->n_waits++;
        }
        qsort_r(r->waits, r->n_waits, sizeof *r->waits, by_cost, r->job);
        capo_judge_causes(r);
        for (uint32_t i = 0; i < r->n_waits; i++)
                r->waits[i].text = wait_text(r->job, &r->waits[i]);
        capo_tell_causes(r);
        judge_share(r);
}
