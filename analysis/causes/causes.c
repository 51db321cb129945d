/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <sys/param.h>

#include "core/base/order.h"
#include "core/base/text.h"
#include "core/base/xalloc.h"
#include "capo/record.h"
#include "analysis/causes/causes.h"
#include "analysis/causes/find_causes.h"
#include "analysis/job/log_calls.h"
#include "analysis/job/skew_follow.h"

enum { FEW = 8 };    /* ranks with which a late one is compared call by call */
#define ENOUGH   0.5 /* of the lost time */
#define OUTSIDE  0.2 /* of what a rank cost: it was late before, too */
#define THEN     0.2 /* of it, while its counters grew: other noise may be besides */
#define TOO_MUCH 3   /* times of what steps take longer: it is not what made them so */

const struct capo_why_text capo_whys[CAPO_WHYS] = {
#define CAPO_WHY(id, words, advice) {#id, words, advice},
#include "analysis/causes/cause_kinds.def"
};

int32_t capo_why_rank(const struct capo_job *job, const struct capo_cause_found *found)
{
        return found->of_node ? -1 : job->processes[found->process].rank;
}

/* @through: to the reading behind @to_ns; else to that before. */
static struct capo_machine_series **read_window(const struct capo_job *job, uint64_t from_ns,
                                                uint64_t to_ns, bool through)
{
        struct capo_machine_series **all = xcalloc(job->n_processes + 1, sizeof *all);
        bool any = false;

        for (uint32_t i = 0; i < job->n_processes; i++) {
                uint64_t t0 = job->processes[i].header.t0_real_ns;

                all[i] = capo_machine_series(&job->processes[i], from_ns > t0 ? from_ns - t0 : 0,
                                             to_ns > t0 ? to_ns - t0 : 0, through);
                any |= all[i] != NULL;
        }
        if (any)
                return all;
        free(all);
        return NULL;
}

struct capo_why_readings capo_why_read(const struct capo_job *job, uint64_t begin_ns,
                                       uint64_t from_ns, uint64_t to_ns)
{
        return (struct capo_why_readings){
                read_window(job, from_ns, to_ns ?: UINT64_MAX, true),
                from_ns > begin_ns ? read_window(job, begin_ns, from_ns, false) : NULL};
}

static void free_window(struct capo_machine_series **all, uint32_t n)
{
        for (uint32_t i = 0; all && i < n; i++)
                capo_machine_series_free(all[i]);
        free(all);
}

void capo_why_free(struct capo_why_readings *readings, uint32_t n)
{
        free_window(readings->in, n);
        free_window(readings->before, n);
}

CAPO_ORDERED(by_weight, struct capo_cause_found, CAPO_ORDER(b->is_cause, a->is_cause),
             CAPO_ORDER(a->why == CAPO_WHY_program, b->why == CAPO_WHY_program),
             CAPO_ORDER(b->explained_ns, a->explained_ns), CAPO_ORDER(a->why, b->why));

/* It was so all the time, and no counter has to grow for it. */
static bool is_lasting(enum capo_why why)
{
        return why == CAPO_WHY_nic_rate || why == CAPO_WHY_pcie_width;
}

/* Of counters without a time the most telling one: a slow link makes TCP send again, too. */
static void choose_untimed(struct capo_causes *out)
{
        struct capo_cause_found *first = NULL;

        for (unsigned i = 0; i < out->n; i++) {
                struct capo_cause_found *f = &out->found[i];

                if (f->explained_ns < 0 && !f->lasting &&
                    (out->lost_ns > 0 || is_lasting(f->why)) && (!first || f->why < first->why))
                        first = f;
        }
        if (first)
                first->is_cause = true;
}

/* What a rank does between its calls makes it late, and no call slow. */
static bool is_inside_calls(enum capo_why why)
{
        return why != CAPO_WHY_program && why != CAPO_WHY_garbage && why != CAPO_WHY_reads &&
               why != CAPO_WHY_writes;
}

/* Those whose time is known and enough; where there is none, those without a time. Those of the
 * program itself only where the machine has nothing: it is what every delay of the host looks like.
 */
static void choose_causes(struct capo_causes *out, bool on_gpu)
{
        bool measured = false, machine = false;

        for (unsigned i = 0; i < out->n; i++) {
                struct capo_cause_found *f = &out->found[i];

                f->is_cause = f->explained_ns >= ENOUGH * out->lost_ns && !f->lasting &&
                              (!on_gpu || f->why != CAPO_WHY_program);
                measured |= f->is_cause;
                machine |= f->is_cause && f->why != CAPO_WHY_program;
        }
        for (unsigned i = 0; i < out->n; i++) {
                struct capo_cause_found *f = &out->found[i];

                if (machine && f->why == CAPO_WHY_program)
                        f->is_cause = false;
                if (f->explained_ns > out->lost_ns)
                        f->explained_ns = out->lost_ns;
        }
        if (!measured && (on_gpu || out->not_between))
                choose_untimed(out);
        qsort(out->found, out->n, sizeof *out->found, by_weight);
        for (unsigned i = 0; i + 1 < out->n && out->found[i].is_cause; i++) {
                if (!is_inside_calls(out->found[i].why) &&
                    out->found[out->n - 1].why == CAPO_WHY_program)
                        out->n--; /* the same time once more */
        }
}

/* Time of calls on the GPU while the counters of a cause grew, and besides. */
struct call_times {
        uint64_t from_ns, to_ns, first_ns, last_ns; /* of the log */
        double in_ns, out_ns, calls, timed;
};

static int add_call(const struct capo_record *r, unsigned thread, void *arg)
{
        struct call_times *t = arg;
        uint64_t end = r->t_begin + r->gpu_ns;

        if (r->seq < 2 || r->flags & CAPO_RECORD_MEMBER)
                return 0;
        t->calls++;
        if (!r->gpu_ns)
                return 0;
        t->timed++;
        t->first_ns = t->first_ns ? MIN(t->first_ns, r->t_begin) : r->t_begin;
        t->last_ns = MAX(t->last_ns, end);
        *(end > t->from_ns && r->t_begin < t->to_ns ? &t->in_ns : &t->out_ns) += (double)r->gpu_ns;
        return 0;
}

/* How much longer the calls of @process took while @f grew than besides, of all calls; NAN: not
 * known, or it grew nearly all the time. */
static double longer_then(const struct capo_job *job, const struct capo_cause_found *f,
                          uint32_t process)
{
        uint64_t t0 = job->processes[process].header.t0_real_ns;
        struct capo_log *log = f->from_ns ? capo_job_log(job, process) : NULL;
        struct call_times t = {f->from_ns - t0, f->to_ns - t0};
        double in, out;

        if (!log)
                return NAN;
        capo_log_calls_each(log, add_call, &t);
        capo_log_park(log);
        in = (double)MIN(t.to_ns, t.last_ns) - (double)MAX(t.from_ns, t.first_ns);
        out = (double)(t.last_ns - t.first_ns) - in;
        return in > 0 && out > in / 8 ? (t.in_ns - t.out_ns * in / out) * t.calls / t.timed : NAN;
}

/* The same, mean over the ranks of @c, or all, without @but: each may wait for another by chance. */
static double mean_longer(const struct capo_job *job, const struct capo_cause_found *f,
                          const struct capo_job_comm *c, uint32_t but)
{
        double sum = 0;
        uint32_t n = 0;

        for (uint32_t i = 0; i < (c ? c->n_members : job->n_processes) && n < FEW; i++) {
                uint32_t process = c ? c->members[i].process : i;

                if (process == but || process >= job->n_processes)
                        continue;
                sum += longer_then(job, f, process);
                n++;
        }
        return n ? sum / n : NAN;
}

/* Was it as much so before? Then what began since has another cause. */
static bool was_before(const struct why_asked *a, struct capo_machine_series **before,
                       const struct capo_cause_found *f)
{
        struct why_asked b = {a->job, before, .process = a->process, .on_gpu = a->on_gpu};
        struct capo_cause_found g = {.why = f->why};
        double ratio;

        if (!before || !before[a->process] || !capo_why_finders[f->why](&b, &g))
                return false;
        ratio = capo_why_ratio(a->all[a->process], before[a->process]);
        return f->explained_ns >= 0 ? g.explained_ns * ratio >= f->explained_ns / 2
                                    : !f->events || g.events * ratio >= f->events / 3;
}

static void find_all(const struct why_asked *a, struct capo_machine_series **before,
                     struct capo_causes *out)
{
        for (unsigned w = 0; w < CAPO_WHYS; w++) {
                struct capo_cause_found *f = &out->found[out->n];

                *f = (struct capo_cause_found){.why = w, .process = a->process};
                if (!capo_why_finders[w](a, f))
                        continue;
                f->lasting = was_before(a, before, f);
                out->n++;
        }
}

/* What was read of the process and its node, and what the list has besides. */
static void list_asked(const struct capo_job *job, struct capo_machine_series **all,
                       uint32_t process, struct capo_causes *out)
{
        static const char *const words[CAPO_MACHINE_SCOPES] = {
                "its container",  "its threads",    "CPU and TCP of its node",
                "its interfaces", "its RDMA ports", "its GPU (NVML)"};
        bool asked[CAPO_MACHINE_SCOPES] = {false}, samples = false;

        for (uint32_t p = 0; p < job->n_processes; p++) {
                const struct capo_machine_series *s =
                        job->processes[p].node == job->processes[process].node ? all[p] : NULL;

                for (uint32_t i = 0; s && i < s->n_objects; i++)
                        asked[s->object[i].scope] |=
                                p == process || (s->object[i].scope != CAPO_MACHINE_GPU &&
                                                 s->object[i].scope > CAPO_MACHINE_THREAD);
                samples |= s && p == process && s->samples;
        }
        for (unsigned i = 0; i < CAPO_MACHINE_SCOPES; i++) {
                char *to = asked[i] ? out->asked : out->not_asked;

                capo_append(to, sizeof out->asked, "%s%s", *to ? ", " : "", words[i]);
        }
        capo_append(samples ? out->asked : out->not_asked, sizeof out->asked, ", its program");
        if (all[process] && *all[process]->left)
                capo_append(out->not_asked, sizeof out->not_asked, ", %s", all[process]->left);
}

static bool is_of_node(enum capo_why why)
{
        return why == CAPO_WHY_steal || (why >= CAPO_WHY_nic_errors && why <= CAPO_WHY_tcp_loss);
}

/* Is a rank of another node as late? Then one made the other late, or both have another cause. */
static bool is_alike_elsewhere(const struct capo_job *job, const struct capo_job_comm *c,
                               uint32_t member)
{
        const struct capo_job_process *all = job->processes;
        bool is = false;

        for (uint32_t k = 0; c->skew && k < c->n_members; k++)
                is |= c->members[k].process < job->n_processes &&
                      all[c->members[k].process].node != all[c->members[member].process].node &&
                      capo_skew_is_alike(c, k, member);
        return is;
}

void capo_why_late(const struct capo_job *job, const struct capo_why_readings *readings,
                   uint32_t comm, uint32_t member, double lost_ns, bool on_gpu,
                   struct capo_causes *out)
{
        struct capo_machine_series **all = readings->in;
        uint32_t process = job->comms[comm].members[member].process;
        struct why_asked a = {.job = job, .all = all, .process = process, .on_gpu = on_gpu};
        const struct capo_skew *skew = job->comms[comm].skew;
        bool anew = readings->before && !(skew && skew->worst_outside > OUTSIDE);

        *out = (struct capo_causes){
                .comm = comm, .member = member, .process = process, .lost_ns = lost_ns};
        list_asked(job, all, process, out);
        if (!all[process])
                return;
        out->not_between = all[process]->samples && !(capo_why_between(&a) >= ENOUGH * lost_ns);
        find_all(&a, anew ? readings->before : NULL, out);
        for (struct capo_cause_found *f = out->found; f < out->found + out->n && !anew; f++)
                f->lasting |= mean_longer(job, f, &job->comms[comm], process) - /* its are short */
                                      longer_then(job, f, process) <
                              THEN * lost_ns;
        for (struct capo_cause_found *f = out->found; f < PAST_OF(out->found, out->n); f++)
                f->lasting |= f->explained_ns < 0 && is_of_node(f->why) &&
                              is_alike_elsewhere(job, &job->comms[comm], member);
        choose_causes(out, on_gpu);
}

void capo_why_slow(const struct capo_job *job, const struct capo_why_readings *readings,
                   double lost_ns, struct capo_causes *out)
{
        struct capo_machine_series **all = readings->in, **before = readings->before;
        bool measured = false;

        *out = (struct capo_causes){.comm = CAPO_NO_COMM, .lost_ns = lost_ns};
        for (uint32_t p = 0; p < job->n_processes; p++) {
                struct why_asked a = {job, all, before, p, .on_gpu = !before};
                struct capo_causes own = {.lost_ns = lost_ns};

                if (!all[p])
                        continue;
                find_all(&a, before, &own);
                for (unsigned i = 0; i < own.n; i++) {
                        struct capo_cause_found *f = &own.found[i], *had = NULL;

                        f->is_cause = lost_ns > 0 && !f->lasting &&
                                      f->explained_ns >= ENOUGH * lost_ns &&
                                      !(before && f->explained_ns > TOO_MUCH * lost_ns);
                        f->explained_ns = fmin(f->explained_ns, lost_ns);
                        for (unsigned k = 0; k < out->n; k++)
                                had = out->found[k].why == f->why ? &out->found[k] : had;
                        if ((!before && !is_inside_calls(f->why)) ||
                            (f->explained_ns >= 0 && !f->is_cause) ||
                            (had && had->explained_ns >= f->explained_ns))
                                continue;
                        f->lasting |= !before && lost_ns > 0 &&
                                      mean_longer(job, f, NULL, UINT32_MAX) < THEN * lost_ns;
                        if (had)
                                *had = *f;
                        else
                                out->found[out->n++] = *f;
                }
        }
        for (unsigned i = 0; i < out->n; i++) {
                measured |= out->found[i].is_cause;
                out->found[i].of_node = is_of_node(out->found[i].why);
                out->found[i].is_cause |= !before && is_lasting(out->found[i].why);
        }
        if (!measured)
                choose_untimed(out);
        qsort(out->found, out->n, sizeof *out->found, by_weight);
}
