/* SPDX-License-Identifier: Apache-2.0 */
/* Why the ranks that are named for their lateness are late (analysis/causes). */
#include "core/base/calls.h"
#include "core/base/among.h"
#include "core/base/xalloc.h"
#include "analysis/job/figures.h"
#include "analysis/report/waits_causes.h"

#define SLOW        0.1 /* of the job: enough to be named in any case */
#define LIKELY_NS   2e8 /* less is chance on a busy node */
#define LATE_SOME   0.03
#define LATE_ALWAYS 0.9 /* of the calls compared */
#define LATE_KNOWN  3   /* the interval's end over the estimate */
#define LATE_CALLS  5   /* as long as the longest: fewer long calls are chance on a busy machine */

/* Of the late rank's own time, not of the sum over those that waited. */
static double lost_by(const struct capo_job_comm *c, uint32_t member)
{
        return c->n_members > 1 ? c->skew->ranks[member].caused_ns / (c->n_members - 1) : 0;
}

static void add_sentence(const struct capo_job_comm *comm, struct capo_page_wait *w,
                         const struct capo_causes *c)
{
        const struct capo_cause_found *f = c->found;
        char *text = w->text, share[48] = "", who[300];

        if (!c->n || !f->is_cause || w->cause.throttled) /* the sentence says that it is its GPU */
                return;
        if (f->explained_ns >= 0 && c->lost_ns > 0)
                snprintf(share, sizeof share, " of %s of it",
                         TEXT_PERCENT(f->explained_ns / c->lost_ns));
        w->text = w->stands_out ? xprintf("%s; the cause%s: %s", text, share, f->text)
                                : xprintf("%s; %s was last most often in those, and %s", text,
                                          capo_job_member_text(comm, &comm->members[w->last], who),
                                          f->text);
        free(text);
}

/* Too few calls were compared to know by how much a rank was late; one of them caused most of what
 * was seen, 1 % of the job at least and no few ms. What the machine says of it decides. */
static bool is_likely(const struct capo_job_comm *c, const struct capo_page_wait *w)
{
        double sum = 0;

        for (uint32_t i = 0; i < c->n_members; i++)
                sum += c->skew->ranks[i].caused_ns;
        return w->wide && !(w->caused_share >= 0 && w->caused_share < 0.01) &&
               lost_by(c, w->last) > LIKELY_NS && c->skew->ranks[w->last].caused_ns > sum / 2;
}

/* The libfabric of a rank that has no CPU looks slow, too. */
static void correct_cause(struct capo_late_cause *cause, const struct capo_causes *c)
{
        enum capo_why why = c->found[0].why;

        if (c->n && c->found[0].is_cause && cause->by == CAPO_CAUSE_NETWORK &&
            (why < CAPO_WHY_nic_errors || why > CAPO_WHY_tcp_loss))
                cause->by = why >= CAPO_WHY_gpu_xid && why <= CAPO_WHY_nvlink ? CAPO_CAUSE_GPU
                                                                              : CAPO_CAUSE_HOST;
}

/* How much longer than their median the calls took, mean over ranks, without what they waited for
 * ranks that are named; 0: it is no large part of the job. @all: the same, not compared with the
 * median. */
static double slow_by(const struct capo_page *page, double *all)
{
        const struct capo_job *job = page->job;
        double sum = 0, waited = 0, lasted = (double)capo_job_duration_ns(job);

        for (uint32_t i = 0; i < job->n_rows; i++) {
                const struct capo_job_row *row = &job->rows[i];
                struct capo_sampled s = capo_job_row_sampled(row);

                if (row->comm == CAPO_NO_COMM || row->flags & CAPO_RECORD_MEMBER ||
                    capo_call_kind(row->call) == CAPO_KIND_OTHER) /* creation takes long */
                        continue;
                *all += capo_job_row_total_ns(row) / job->n_processes;
                sum += fmax(0, capo_job_row_total_ns(row) -
                                       capo_sampled_quantile(&s, 0.5) * (double)row->calls) /
                       job->n_processes;
        }
        for (uint32_t i = 0; i < page->n_waits; i++)
                waited += capo_wait_counts(&page->waits[i]) ? page->waits[i].caused_share * lasted
                                                            : 0;
        lasted = fmax(SLOW * lasted, 2 * waited); /* less than a late rank costs is its doing */
        *all = *all - waited > lasted ? *all - waited : 0;
        return sum - waited > lasted ? sum - waited : 0;
}

/* Has a late rank this cause already? */
static bool is_named(const struct capo_page *page, const struct capo_cause_found *f)
{
        const struct capo_job_process *all = page->job->processes;

        return ANY_OF(
                c, page->causes, page->n_causes,
                c->found->is_cause && c->found->why == f->why &&
                        (c->found->process == f->process ||
                         (f->of_node && all[c->found->process].node == all[f->process].node)));
}

/* Beside what late ranks cost. A cause that is only also seen is of no use there. */
static void judge_slow(struct capo_page *page, const struct capo_why_readings *all)
{
        struct capo_causes *c = &page->causes[page->n_causes];
        double calls_ns = 0, lost_ns = slow_by(page, &calls_ns);
        const struct capo_job *job = page->job; /* its GPUs are read once a communicator is there */
        uint64_t from_ns = job->n_comms ? job->comms->members->t_created_ns + 200000000u : 0;
        struct capo_why_readings since;

        if (page->n_causes && !(calls_ns > 0))
                return;
        since = capo_why_read(job, from_ns, from_ns, 0);
        capo_why_slow(job, since.in ? &since : all, lost_ns, c);
        capo_why_free(&since, job->n_processes);
        for (unsigned i = 0; i < c->n && !(calls_ns > 0); i++)
                c->found[i].is_cause = false;
        page->n_causes +=
                c->n && (!page->n_causes || (c->found[0].is_cause && !is_named(page, c->found)));
}

void capo_judge_causes(struct capo_page *page)
{
        struct capo_why_readings all = capo_why_read(page->job, 0, 0, 0);

        if (!all.in)
                return;
        page->causes = xcalloc(page->n_waits + 2, sizeof *page->causes);
        for (uint32_t i = 0; i < page->n_waits; i++) {
                struct capo_page_wait *w = &page->waits[i];
                const struct capo_job_comm *c = &page->job->comms[w->comm];
                struct capo_causes *causes = &page->causes[page->n_causes];
                struct capo_why_readings since = {0};

                if (!capo_wait_counts(w) && !(w->stands_out && w->caused_share < 0) &&
                    !is_likely(c, w))
                        continue;
                if (c->skew->worst_from_ns || c->skew->worst_to_ns)
                        since = capo_why_read(page->job, 0, c->skew->worst_from_ns,
                                              c->skew->worst_to_ns);
                capo_why_late(page->job, since.in ? &since : &all, w->comm, w->last,
                              lost_by(c, w->last), !c->skew->host_late, causes);
                capo_why_free(&since, page->job->n_processes);
                causes->since_ns = c->skew->worst_from_ns;
                causes->until_ns = c->skew->worst_to_ns;
                correct_cause(&w->cause, causes);
                page->n_causes += w->stands_out || (causes->n && causes->found[0].is_cause &&
                                                    causes->found[0].why != CAPO_WHY_program);
        }
        judge_slow(page, &all);
        capo_why_free(&all, page->job->n_processes);
}

void capo_judge_change(struct capo_page *page)
{
        const struct capo_steps *s = &page->steps.steps;
        struct capo_causes *c = page->causes ? &page->causes[page->n_causes] : NULL;
        struct capo_why_readings since;
        double lost_ns = (s->after_ns - s->before_ns) * (s->n - s->changed);
        uint64_t t0, from_ns;

        if (!c || !s->changed || !(lost_ns > LIKELY_NS))
                return;
        t0 = page->job->processes[page->steps.process].header.t0_real_ns;
        from_ns = t0 + s->step[s->changed].t_ns;
        since = capo_why_read(page->job, t0 + s->step[0].t_ns, from_ns, 0);
        if (since.in && since.before) {
                capo_why_slow(page->job, &since, lost_ns, c);
                c->since_ns = from_ns;
                c->longer = s->after_ns / s->before_ns - 1;
                /* unless another rank is late in a part of the job that costs half of that: it is that */
                page->n_causes += c->n && c->found[0].is_cause &&
                                  !ANY_OF(of, page->causes, page->n_causes,
                                          of->comm != CAPO_NO_COMM && of->since_ns &&
                                                  of->process != c->found[0].process &&
                                                  of->lost_ns >= c->lost_ns / 2);
        }
        capo_why_free(&since, page->job->n_processes);
}

void capo_tell_causes(struct capo_page *page)
{
        for (uint32_t i = 0, k = 0; i < page->n_waits && k < page->n_causes; i++) {
                const struct capo_causes *c = &page->causes[k];

                if (page->waits[i].comm != c->comm || page->waits[i].last != c->member)
                        continue;
                add_sentence(&page->job->comms[c->comm], &page->waits[i], c);
                k++;
        }
}

const struct capo_causes *capo_late_causes(const struct capo_page *page, const char *name)
{
        return FIRST_OF(c, page->causes, page->n_causes,
                        c->comm != CAPO_NO_COMM && !strcmp(page->job->comms[c->comm].name, name) &&
                                c->n && c->found[0].is_cause);
}

bool capo_wait_is_sure(const struct capo_job *job, const struct capo_page_wait *w)
{
        const struct capo_job_comm *c = &job->comms[w->comm];
        double caused = c->skew->ranks[w->last].caused_ns,
               one_call = c->skew->worst_max_ns * (c->n_members - 1);

        /* a few sampled calls can stand for much, and be chance */
        if (c->skew->few && w->caused.low * w->caused_share < 0.01 * caused)
                return false;
        if (w->by_messages || !capo_wait_counts(w) || w->caused_share >= SLOW)
                return !w->by_messages &&
                       capo_wait_counts(w); /* it may have waited for a message */
        return (w->caused_share >= LATE_SOME || w->last_share >= LATE_ALWAYS) &&
               w->caused.high <= LATE_KNOWN * caused && LATE_CALLS * one_call < caused;
}

const char *capo_late_why(const struct capo_page *page, const char *name, char *text, size_t room)
{
        const struct capo_causes *causes = capo_late_causes(page, name);
        char who[300];

        if (causes) {
                snprintf(text, room, "rank %d: %s", page->job->processes[causes->process].rank,
                         capo_whys[causes->found[0].why].words);
                return text;
        }
        for (uint32_t i = 0; i < page->n_waits; i++) {
                const struct capo_page_wait *w = &page->waits[i];
                const struct capo_job_comm *c = &page->job->comms[w->comm];

                if (!strcmp(c->name, name) && capo_wait_is_sure(page->job, w) &&
                    !c->skew->worst_over) {
                        snprintf(text, room, "%s",
                                 capo_job_member_text(c, &c->members[w->last], who));
                        return text;
                }
        }
        return NULL;
}
