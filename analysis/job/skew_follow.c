/* SPDX-License-Identifier: Apache-2.0 */
/* Follows a delay to where it began. A rank that is late in one communicator because it waited in
 * another one for somebody else is not the cause. Its waiting there, as far as it is more than that
 * of the others, is taken from its lateness here. What it seems to have caused is then charged to a
 * rank that is as late and waited for nobody, if the communicator has one. Else the delay began
 * elsewhere, and no rank is named here. */
#include <math.h>

#include "analysis/job/skew_follow.h"
#include "core/base/among.h"
#include "core/base/xalloc.h"

#define AS_LATE 0.8 /* of the worst rank's lateness: it is late with it */
#define LATE    0.5 /* of that: it may be where a delay began; and the part that is followed */

/* A few long stops hide what happens in each step, so sums are compared, and medians times calls. */
enum view { BY_SUM, BY_MEDIAN, VIEWS };

struct followed {
        struct capo_job *job;
        double *waited[VIEWS]; /* by process: in all communicators */
};

static double waited_in(const struct capo_job_comm *c, uint32_t k, enum view view)
{
        const struct capo_skew_rank *r = &c->skew->ranks[k];

        return (view == BY_SUM ? r->wait_ns : r->wait_p50_ns) * (double)c->n_calls;
}

static double late_in(const struct capo_job_comm *c, uint32_t k, enum view view)
{
        const struct capo_skew_rank *r = &c->skew->ranks[k];

        return view == BY_SUM ? r->late_ns : r->late_p50_ns * (double)c->n_calls;
}

/* How long its sends and receives took: most of a long one is waiting for the other half. */
static double waited_for_messages(const struct capo_job_process *p)
{
        return p->messages.timed ? (double)p->messages.ns / (double)p->messages.timed *
                                           (double)p->messages.calls
                                 : 0;
}

static double waited_elsewhere(const struct followed *f, const struct capo_job_comm *c, uint32_t k,
                               enum view view)
{
        return f->waited[view][c->members[k].process] - waited_in(c, k, view);
}

/* What the members of a communicator waited elsewhere, summed. */
struct elsewhere {
        double all[VIEWS];
};

static struct elsewhere waited_by_all(const struct followed *f, const struct capo_job_comm *c)
{
        struct elsewhere e = {{0}};

        for (uint32_t k = 0; k < c->n_members; k++) {
                for (enum view view = 0; view < VIEWS; view++)
                        e.all[view] += waited_elsewhere(f, c, k, view);
        }
        return e;
}

/* The communicator in which the process waited longest, @ns; CAPO_NO_COMM: in none. */
static uint32_t find_waiting(const struct capo_job *job, uint32_t process, uint32_t except,
                             double *ns)
{
        uint32_t most = CAPO_NO_COMM;

        *ns = 0;
        for (uint32_t i = 0; i < job->n_comms; i++) {
                const struct capo_job_comm *c = &job->comms[i];

                for (uint32_t k = 0; i != except && c->skew && c->skew->n_calls && k < c->n_members;
                     k++) {
                        double own = waited_in(c, k, BY_SUM);

                        if (c->members[k].process == process && own > *ns) {
                                *ns = own;
                                most = i;
                        }
                }
        }
        return most;
}

/* Over all calls: how late each rank came, by its waiting here, the less the later it came. */
static void measure_lateness(struct capo_job_comm *c)
{
        struct capo_skew_rank *rank = c->skew->ranks;
        double most = 0;

        for (uint32_t k = 0; k < c->n_members; k++)
                most = fmax(most, rank[k].wait_ns);
        for (uint32_t k = 0; k < c->n_members; k++)
                rank[k].late_ns = (most - rank[k].wait_ns) * (double)c->n_calls;
}

/* Does the waiting of member @k elsewhere, beyond that of the others, explain its lateness here? */
static bool is_explained(const struct followed *f, const struct capo_job_comm *c, uint32_t k,
                         const struct elsewhere *e)
{
        bool explained = false;

        for (enum view view = 0; view < VIEWS; view++) {
                double own = waited_elsewhere(f, c, k, view);
                double others = (e->all[view] - own) / (c->n_members - 1);

                explained |= own > others && own - others >= LATE * late_in(c, k, view);
        }
        return explained;
}

/* Did member @k wait longer for others in other communicators than it is late here? Then nothing
 * would be won without its delay, as far as known. */
static bool waits_more_elsewhere(const struct followed *f, const struct capo_job_comm *c,
                                 uint32_t k)
{
        double messages = waited_for_messages(&f->job->processes[c->members[k].process]);
        return waited_elsewhere(f, c, k, BY_SUM) - messages > late_in(c, k, BY_SUM) &&
               waited_elsewhere(f, c, k, BY_MEDIAN) - messages > late_in(c, k, BY_MEDIAN);
}

/* The latest member whose delay began with itself; n_members: none. */
static uint32_t find_origin(const struct followed *f, const struct capo_job_comm *c, double worst,
                            const struct elsewhere *e)
{
        uint32_t best = c->n_members;

        for (uint32_t k = 0; k < c->n_members; k++) {
                double late = c->skew->ranks[k].late_ns;

                if (late >= LATE * worst && !is_explained(f, c, k, e) &&
                    (best == c->n_members || late > c->skew->ranks[best].late_ns))
                        best = k;
        }
        return best;
}

/* What the ranks caused that are late because they waited elsewhere was caused by @origin. */
static void charge_origin(const struct followed *f, const struct capo_job_comm *c, uint32_t origin,
                          double worst, const struct elsewhere *e)
{
        struct capo_skew *skew = c->skew;
        struct capo_skew_rank *to = &skew->ranks[origin];

        for (uint32_t k = 0; k < c->n_members; k++) {
                struct capo_skew_rank *from = &skew->ranks[k];

                if (from->late_ns < LATE * worst || !is_explained(f, c, k, e))
                        continue;
                to->caused_ns += from->caused_ns;
                to->caused_pm_ns += from->caused_pm_ns;
                to->last += from->last;
                from->caused_ns = from->caused_pm_ns = 0;
                from->last = 0;
                from->late_ns = 0;
        }
        skew->worst = origin;
}

static void follow_comm(const struct followed *f, uint32_t comm)
{
        struct capo_job_comm *c = &f->job->comms[comm];
        struct capo_skew *skew = c->skew;
        double worst = skew->ranks[skew->worst].late_ns;
        const struct elsewhere e = waited_by_all(f, c);
        uint32_t origin, process, waited_in_most;
        double ns;

        if (worst <= 0)
                return;
        if (!is_explained(f, c, skew->worst, &e)) {
                skew->waits_more = waits_more_elsewhere(f, c, skew->worst);
                return;
        }
        origin = find_origin(f, c, worst, &e);
        process = c->members[skew->worst].process;
        waited_in_most = find_waiting(f->job, process, comm, &ns);
        if (origin < c->n_members)
                charge_origin(f, c, origin, worst, &e);
        else if (waited_for_messages(&f->job->processes[process]) > ns)
                skew->by_message = true;
        else
                skew->origin = 1 + waited_in_most;
}

bool capo_skew_is_alike(const struct capo_job_comm *c, uint32_t k, uint32_t member)
{
        bool alike = true;

        for (enum view view = 0; view < VIEWS; view++)
                alike &= late_in(c, k, view) > 0 &&
                         late_in(c, k, view) >= AS_LATE * late_in(c, member, view);
        return alike;
}

uint32_t capo_skew_alike(const struct capo_job_comm *c, uint32_t member)
{
        return COUNT_OF(m, c->members, c->n_members,
                        capo_skew_is_alike(c, (uint32_t)(m - c->members), member));
}

void capo_skew_follow(struct capo_job *job)
{
        _cleanup_free_ double *sums = xcalloc(job->n_processes + 1, sizeof *sums),
                              *medians = xcalloc(job->n_processes + 1, sizeof *medians);
        struct followed f = {.job = job, .waited = {sums, medians}};

        for (uint32_t i = 0; i < job->n_processes; i++)
                sums[i] = medians[i] = waited_for_messages(&job->processes[i]);
        for (uint32_t i = 0; i < job->n_comms; i++) {
                struct capo_job_comm *c = &job->comms[i];

                if (!c->skew)
                        continue;
                measure_lateness(c);
                for (uint32_t k = 0; k < c->n_members; k++) {
                        for (enum view view = 0; view < VIEWS; view++)
                                f.waited[view][c->members[k].process] += waited_in(c, k, view);
                }
        }
        for (uint32_t i = 0; i < job->n_comms; i++) {
                if (job->comms[i].skew && job->comms[i].skew->n_calls)
                        follow_comm(&f, i);
        }
}
