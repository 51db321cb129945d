/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The conditions of the hypotheses. Each function compares one process or node with the others and
 * fills the time that it explains and the evidence. Times are differences to the median of the
 * others: what all ranks suffer makes none of them late.
 */
#include <sys/param.h>

#include "core/base/clock_reasons.h"
#include "core/base/order.h"
#include "analysis/causes/find_causes.h"
#include "analysis/job/figures.h"

#define LEAST_NS      50e6 /* less is noise of the readings */
#define OFTEN         3    /* times the others' */
#define FEW_EVENTS    10
#define MANY_MARKS    100
#define LOST_SEGMENTS 0.01
#define HELD_BELOW    0.9 /* of the others' clock: GPUs of one model differ by less */
#define FEW_SAMPLES   3.5
#define BY_CHANCE     4 /* variances of the difference of two counts */
#define PIECE_NS      1e8
#define TICK_NS       1e7

enum { OTHERS = 64, FEW_OTHERS = 3 };

typedef double measure(const struct why_asked *a, uint32_t process);

double capo_why_ratio(const struct capo_machine_series *s, const struct capo_machine_series *before)
{
        return before && before->last_ns > before->first_ns
                       ? (double)(s->last_ns - s->first_ns) /
                                 (double)(before->last_ns - before->first_ns)
                       : NAN;
}

/* RANKS: compared with the other processes; NODES: with those of other nodes. STEADY: it does not
 * grow with time. */
enum { RANKS, NODES, STEADY };

/* Of the others, at most OTHERS of them. */
static unsigned list_others(const struct why_asked *a, measure *of, bool nodes, double *v)
{
        const struct capo_job *job = a->job;
        uint32_t step = job->n_processes / OTHERS + 1;
        unsigned n = 0;

        for (uint32_t i = 0; i < job->n_processes && n < OTHERS; i += step) {
                if (i == a->process || !a->all[i] ||
                    (nodes && job->processes[i].node == job->processes[a->process].node))
                        continue;
                v[n] = of(a, i);
                n += !isnan(v[n]);
        }
        return n;
}

/* Their median: of two in the middle the one that is nearer to a rank with a cause. Or what it was
 * of the same process before. */
static double others_of(const struct why_asked *a, measure *of, unsigned how)
{
        double v[OTHERS], sign = how & STEADY ? 1 : -1;
        unsigned n;

        if (a->before) {
                struct why_asked b = {.job = a->job, .all = a->before, .process = a->process};

                return b.all[b.process] ? of(&b, b.process) *
                                                  (how & STEADY ? 1
                                                                : capo_why_ratio(a->all[a->process],
                                                                                 b.all[b.process]))
                                        : NAN;
        }
        n = list_others(a, of, how & NODES, v);
        for (unsigned i = 0; i < n; i++)
                v[i] *= sign;
        return n ? sign * capo_middle(v, n) : NAN;
}

/* Is @own beyond what every other process has, by more than these differ among themselves? */
static bool is_apart(const struct why_asked *a, measure *of, double own)
{
        double v[OTHERS], least = INFINITY, most = 0;
        unsigned n = a->before ? 0 : list_others(a, of, false, v);

        for (unsigned i = 0; i < n; i++) {
                least = fmin(least, v[i]);
                most = fmax(most, v[i]);
        }
        return n >= FEW_OTHERS && own > most + (most - least);
}

/* ---- measures: NAN where it was not asked ---- */

static double sum_of(const struct why_asked *a, uint32_t p, enum capo_machine_id id,
                     const char *part)
{
        double sum;

        return capo_machine_sum(a->all[p], id, part, &sum) ? sum : NAN;
}

static double throttled_ns(const struct why_asked *a, uint32_t p)
{
        double us = sum_of(a, p, CAPO_M_PROC_THROTTLED, NULL),
               periods = sum_of(a, p, CAPO_M_PROC_THROTTLED_PERIODS, NULL);

        return fmin(us * 1e3, periods * 1e8); /* summed over CPUs; a period has 100 ms at most */
}

/* Of the thread that waited most for a CPU: a time in ns, or the CPUs that it may use. */
static double waiter_of(const struct why_asked *a, uint32_t p, const char *part,
                        enum capo_machine_id id)
{
        const struct capo_machine_object *o =
                capo_machine_most(a->all[p], CAPO_M_THREAD_WAIT, part);
        const struct capo_machine_value *v = o ? capo_machine_of(o, id) : NULL;

        return !v || !v->asked            ? NAN
               : id == CAPO_M_THREAD_CPUS ? (double)v->least
                                          : (double)v->grew * 1e3;
}

#define MEASURE(name, value) \
        static double name(const struct why_asked *a, uint32_t p) { return value; }
MEASURE(nccl_wait_ns, waiter_of(a, p, ":nccl:", CAPO_M_THREAD_WAIT))
MEASURE(nccl_cpus, waiter_of(a, p, ":nccl:", CAPO_M_THREAD_CPUS))
MEASURE(caller_run_ns, waiter_of(a, p, ":calls:", CAPO_M_THREAD_RUN))
MEASURE(caller_cpus, waiter_of(a, p, ":calls:", CAPO_M_THREAD_CPUS))
MEASURE(limit_hits, sum_of(a, p, CAPO_M_PROC_MEM_MAX, NULL))

MEASURE(caller_wait_ns,
        fmax(0, waiter_of(a, p, ":calls:", CAPO_M_THREAD_WAIT) - fmax(0, throttled_ns(a, p))))
MEASURE(cpu_ns,
        TICK_NS *(sum_of(a, p, CAPO_M_PROC_USER, NULL) + sum_of(a, p, CAPO_M_PROC_SYSTEM, NULL)))
MEASURE(beside_ns, fmax(0, cpu_ns(a, p) - caller_run_ns(a, p))) /* of its other threads */

MEASURE(stopped_ns, a->all[p] && a->all[p]->samples ? a->all[p]->stopped_ns : NAN)

static double kind_ns(const struct why_asked *a, uint32_t p, enum capo_between_kind kind)
{
        const struct capo_machine_series *s = a->all[p];
        double n = 0;

        if (!s || !s->samples)
                return NAN;
        for (uint32_t i = 0; i < s->n_stacks; i++)
                n += s->stack[i].kind == kind ? (double)s->stack[i].samples : 0;
        return n * s->period_ns;
}

MEASURE(gc_ns, kind_ns(a, p, CAPO_BETWEEN_GC))
MEASURE(read_ns, kind_ns(a, p, CAPO_BETWEEN_READ))
MEASURE(write_ns, kind_ns(a, p, CAPO_BETWEEN_WRITE))

MEASURE(fault_ns,
        kind_ns(a, p, CAPO_BETWEEN_FAULT) + read_ns(a, p) + kind_ns(a, p, CAPO_BETWEEN_RUN))

/* Everything outside of NCCL but waits for others. */
static double between_ns(const struct why_asked *a, uint32_t p)
{
        const struct capo_machine_series *s = a->all[p];

        return s && s->samples ? (double)(s->samples - s->inside) * s->period_ns -
                                         kind_ns(a, p, CAPO_BETWEEN_WAIT) -
                                         kind_ns(a, p, CAPO_BETWEEN_DEVICE)
                               : NAN;
}

double capo_why_between(const struct why_asked *a)
{
        return between_ns(a, a->process) - others_of(a, between_ns, RANKS);
}

/* Of it the program's own doing. A thread that waits for a CPU is sampled as one that runs; where
 * that wait is not known, nothing that ran is the program's. */
static double program_ns(const struct why_asked *a, uint32_t p)
{
        return between_ns(a, p) - fmin(kind_ns(a, p, CAPO_BETWEEN_RUN),
                                       waiter_of(a, p, ":calls:", CAPO_M_THREAD_WAIT));
}

/* ---- what is the node's: read by one process of it, or several one after the other ---- */

static double add_known(double sum, double x) { return isnan(x) ? sum : isnan(sum) ? x : sum + x; }

static double node_sum(const struct why_asked *a, uint32_t p, enum capo_machine_id id)
{
        uint32_t node = a->job->processes[p].node;
        double sum = NAN;

        for (uint32_t i = 0; i < a->job->n_processes; i++) {
                if (a->job->processes[i].node == node && a->all[i])
                        sum = add_known(sum, sum_of(a, i, id, NULL));
        }
        return sum;
}

static double sum_kind(const struct why_asked *a, uint32_t p, enum capo_machine_scope scope,
                       unsigned kind)
{
        double sum = NAN;

        for (unsigned id = 0; id < CAPO_MACHINE_READINGS; id++) {
                if (capo_machine_readings[id].scope == scope &&
                    capo_machine_readings[id].kind == kind)
                        sum = add_known(sum, scope == CAPO_MACHINE_NIC ? node_sum(a, p, id)
                                                                       : sum_of(a, p, id, NULL));
        }
        return sum;
}

MEASURE(nic_errors, sum_kind(a, p, CAPO_MACHINE_NIC, CAPO_MACHINE_ERROR))
MEASURE(nvlink_errors, sum_kind(a, p, CAPO_MACHINE_GPU, CAPO_MACHINE_ERROR))

/* rp_cnp_handled counts the notices that the NIC's own retransmissions make, too. */
static double nic_marks(const struct why_asked *a, uint32_t p)
{
        double own = add_known(node_sum(a, p, CAPO_M_NIC_ADP), node_sum(a, p, CAPO_M_NIC_ACK));

        return fmax(0, sum_kind(a, p, CAPO_MACHINE_NIC, CAPO_MACHINE_MARK) - fmax(0, own));
}

static double thermal_ns(const struct why_asked *a, uint32_t p)
{
        return 1e3 * fmax(fmax(sum_of(a, p, CAPO_M_GPU_SYNC_BOOST, NULL),
                               sum_of(a, p, CAPO_M_GPU_SW_THERMAL, NULL)),
                          fmax(sum_of(a, p, CAPO_M_GPU_HW_THERMAL, NULL),
                               sum_of(a, p, CAPO_M_GPU_POWER_BRAKE, NULL)));
}

static double retransmitted_share(const struct why_asked *a, uint32_t p)
{
        double sent = node_sum(a, p, CAPO_M_NODE_TCP_OUT);

        return sent > 0 ? node_sum(a, p, CAPO_M_NODE_TCP_RETRANS) / sent : NAN;
}

/* ---- sentences ---- */

static const char *node_name(const struct why_asked *a)
{
        return a->job->nodes[a->job->processes[a->process].node].name;
}

/* With whom it is compared. */
static const char *others_name(const struct why_asked *a, const char *others)
{
        return a->before ? "before" : others;
}

static bool tell_cause(struct capo_cause_found *f, double explained, const char *format, ...)
        __attribute__((format(printf, 3, 4)));
static bool tell_cause(struct capo_cause_found *f, double explained, const char *format, ...)
{
        va_list args;

        f->explained_ns = explained;
        va_start(args, format);
        vsnprintf(f->text, sizeof f->text, format, args);
        va_end(args);
        return true;
}

/* The counters of @kind that grew on the ports of the node, with the port and the time:
 * "mlx5_0/1: packet_seq_err +4,830, ... since 14:02:11". */
static char *list_ports(const struct why_asked *a, struct capo_cause_found *f, unsigned kind,
                        char *text, size_t room)
{
        const struct capo_job_process *all = a->job->processes;
        const struct capo_machine_object *named = NULL;
        uint64_t since = UINT64_MAX, until = 0;
        unsigned shown = 0;
        bool over = true;

        *text = 0;
        for (uint32_t p = 0; p < a->job->n_processes; p++) {
                const struct capo_machine_series *s =
                        all[p].node == all[a->process].node ? a->all[p] : NULL;

                for (uint32_t k = 0; s && k < s->n_objects * CAPO_MACHINE_READINGS; k++) {
                        const struct capo_machine_object *o = &s->object[k / CAPO_MACHINE_READINGS];
                        const struct capo_machine_reading *r =
                                &capo_machine_readings[k % CAPO_MACHINE_READINGS];
                        const struct capo_machine_value *v = &o->value[r->row];

                        if (o->scope != CAPO_MACHINE_NIC || r->scope != o->scope ||
                            r->kind != kind || !v->grew || shown == 8)
                                continue;
                        capo_append(text, room, "%s%s%s%s +%s", *text ? ", " : "",
                                    named == o ? "" : o->name, named == o ? "" : ": ", r->name,
                                    TEXT_COUNT(v->grew));
                        since = MIN(since, all[p].header.t0_real_ns + v->since_ns);
                        until = MAX(until, all[p].header.t0_real_ns + v->until_ns);
                        over &= v->until_ns < s->last_ns;
                        named = o;
                        shown++;
                }
        }
        f->from_ns = shown ? since : 0;
        f->to_ns = until;
        if (shown)
                capo_append(text, room, " %s %s", over ? "from" : "since",
                            TEXT_WHEN(since, "%H:%M:%S"));
        if (shown && over)
                capo_append(text, room, " to %s", TEXT_WHEN(until, "%H:%M:%S"));
        return text;
}

static uint64_t samples_of(const struct capo_machine_series *s, const char *text)
{
        uint64_t n = 0;

        for (uint32_t i = 0; i < s->n_stacks; i++)
                n += strcmp(s->stack[i].text, text) ? 0 : s->stack[i].samples;
        return n;
}

/* Samples of the stack beyond the mean of the other ranks: all of them pass there. */
static double excess_of(const struct why_asked *a, const struct capo_machine_stack *stack)
{
        const struct capo_machine_series *was = a->before ? a->before[a->process] : NULL;
        double sum = 0, n = 0;

        if (was)
                return (double)stack->samples - (double)samples_of(was, stack->text) *
                                                        capo_why_ratio(a->all[a->process], was);
        for (uint32_t p = 0; p < a->job->n_processes && n < OTHERS; p++) {
                if (p == a->process || !a->all[p])
                        continue;
                sum += (double)samples_of(a->all[p], stack->text);
                n++;
        }
        return (double)stack->samples - (n > 0 ? sum / n : 0);
}

/* The stack of one kind (CAPO_BETWEEN_KINDS: any of the program's own) in which the process was
 * most beyond the others; NULL: in none. */
static const struct capo_machine_stack *top_stack(const struct why_asked *a, unsigned kind)
{
        const struct capo_machine_series *s = a->all[a->process];
        const struct capo_machine_stack *top = NULL;
        double most = 0, ran_ns = kind_ns(a, a->process, CAPO_BETWEEN_RUN) - /* and had a CPU */
                                  waiter_of(a, a->process, ":calls:", CAPO_M_THREAD_WAIT);

        for (uint32_t i = 0; i < s->n_stacks; i++) {
                const struct capo_machine_stack *k = &s->stack[i];
                bool is = kind == CAPO_BETWEEN_KINDS
                                  ? k->kind != CAPO_BETWEEN_WAIT &&
                                            k->kind != CAPO_BETWEEN_DEVICE &&
                                            (k->kind != CAPO_BETWEEN_RUN || ran_ns > 0)
                                  : k->kind == kind;
                double excess = is ? excess_of(a, k) : 0;

                if (excess > most) {
                        most = excess;
                        top = k;
                }
        }
        return top;
}

/* ---- the hypotheses ---- */

static bool find_driver_hangs(const struct why_asked *a, struct capo_cause_found *f)
{
        const char *left = a->all[a->process]->left;

        return *left && strstr(left, CAPO_MACHINE_SILENT) && tell_cause(f, -1, "%s", left);
}

static bool find_stopped(const struct why_asked *a, struct capo_cause_found *f)
{
        double own = stopped_ns(a, a->process), other = others_of(a, stopped_ns, RANKS);

        if (!(own > LEAST_NS) || own < OFTEN * other)
                return false;
        return tell_cause(
                f, own - fmax(0, other),
                "its process was stopped for %s (SIGSTOP, a debugger, a frozen container): it "
                "did not run, and waited for no CPU",
                TEXT_TIME(own));
}

static bool find_cpu_limit(const struct why_asked *a, struct capo_cause_found *f)
{
        double own = throttled_ns(a, a->process), other = others_of(a, throttled_ns, RANKS);
        const struct capo_machine_object *o =
                capo_machine_most(a->all[a->process], CAPO_M_PROC_LIMIT, NULL);
        char limit[48] = "";

        if (!(own > LEAST_NS))
                return false;
        if (o)
                snprintf(limit, sizeof limit, " of %.2f CPUs",
                         (double)capo_machine_of(o, CAPO_M_PROC_LIMIT)->least / 1000);
        return tell_cause(
                f, own - fmax(0, other),
                "the CPU limit%s of its container (cgroup) held it for %s, in %.0f of %.0f "
                "periods",
                limit, TEXT_TIME(own), sum_of(a, a->process, CAPO_M_PROC_THROTTLED_PERIODS, NULL),
                sum_of(a, a->process, CAPO_M_PROC_PERIODS, NULL));
}

static bool find_memory_limit(const struct why_asked *a, struct capo_cause_found *f)
{
        double own = limit_hits(a, a->process), other = others_of(a, limit_hits, RANKS),
               ns = fault_ns(a, a->process), others_ns = others_of(a, fault_ns, RANKS);

        if (!(own > FEW_EVENTS) || own < OFTEN * other || isnan(ns) || isnan(others_ns))
                return false;
        return tell_cause(
                f, ns - others_ns,
                "it reached its memory limit %s times, with %s major page faults: the "
                "kernel reclaims its pages",
                TEXT_COUNT((uint64_t)own),
                TEXT_COUNT((uint64_t)fmax(0, sum_of(a, a->process, CAPO_M_PROC_FAULTS, NULL))));
}

/* On a busy node all threads wait. One that may use fewer CPUs waits longer than all others do. */
static bool is_long_wait(const struct why_asked *a, measure *of, double own, double other,
                         bool fewer, double times)
{
        return own >= times * other || (fewer && (own >= 1.25 * other || is_apart(a, of, own)));
}

/* The thread waits for a CPU, and those that call do not. */
static bool find_starved_thread(const struct why_asked *a, struct capo_cause_found *f)
{
        double own = nccl_wait_ns(a, a->process), other = others_of(a, nccl_wait_ns, RANKS),
               caller = caller_wait_ns(a, a->process),
               others_caller = others_of(a, caller_wait_ns, RANKS);
        double others_cpus = others_of(a, nccl_cpus, STEADY);
        bool fewer;
        const struct capo_machine_object *o =
                capo_machine_most(a->all[a->process], CAPO_M_THREAD_WAIT, ":nccl:");
        const char *name;

        if (isnan(other)) { /* they have none: it should wait no longer than who calls */
                other = caller;
                others_cpus = caller_cpus(a, a->process);
        }
        fewer = nccl_cpus(a, a->process) < others_cpus;
        if (!(own > LEAST_NS) || !(own - other > LEAST_NS) ||
            !is_long_wait(a, nccl_wait_ns, own, other, fewer, 1.5))
                return false;
        if (own < 1.5 * caller && !(fewer && own - other > 2 * (caller - others_caller)))
                return false;
        name = strrchr(o->name, ':') + 1;
        return tell_cause(f, own - other,
                          "NCCL's network thread \"%s\" waited %s for a CPU; %s would be usual",
                          name, TEXT_TIME(own), TEXT_TIME(other));
}

static bool find_one_cpu(const struct why_asked *a, struct capo_cause_found *f)
{
        double own = caller_wait_ns(a, a->process), other = others_of(a, caller_wait_ns, RANKS),
               busy = beside_ns(a, a->process), others_busy = others_of(a, beside_ns, RANKS);

        if (caller_cpus(a, a->process) != 1 || !(own - other > LEAST_NS))
                return false;
        if (!(busy - others_busy > (own - other) / 4) && /* others took the CPU, not its threads */
            !(busy > OFTEN * others_busy && busy > caller_run_ns(a, a->process)))
                return false;
        return tell_cause(
                f, own - other,
                "all of its threads may use one CPU: it waited %s for that CPU while its other "
                "threads used %s of it",
                TEXT_TIME(own), TEXT_TIME(busy));
}

/* Is the first of two counts more than the second by more than chance gives? */
static bool is_beyond(const struct why_asked *a, double own, double other)
{
        double ratio = a->before ? capo_why_ratio(a->all[a->process], a->before[a->process]) : 1;

        return own > other && (own - other) * (own - other) >= BY_CHANCE * (own + other * ratio);
}

/* On a busy node who computes more waits more: that much is no difference between the CPUs. Ranks
 * that may use the same CPUs share the wait, unequally by chance, in pieces of up to 0.1 s. Where
 * steps take longer the others must wait longer, too, or may use more CPUs. */
static bool find_cpu_contention(const struct why_asked *a, struct capo_cause_found *f)
{
        struct why_asked now = *a, then = *a;
        double own = caller_wait_ns(a, a->process), other = others_of(a, caller_wait_ns, RANKS),
               run = caller_run_ns(a, a->process), others_run = others_of(a, caller_run_ns, RANKS),
               others_now, cpus = caller_cpus(a, a->process);
        char besides[80] = "";
        bool fewer, reduced = cpus < others_of(a, caller_cpus, STEADY);

        now.before = then.before = NULL;
        then.all = a->before;
        fewer = cpus < others_of(&now, caller_cpus, STEADY);
        others_now = others_of(&now, caller_wait_ns, RANKS);
        if (others_run > LEAST_NS && run > others_run)
                other *= run / others_run;
        if (!(own - other > LEAST_NS) ||
            !is_long_wait(a, caller_wait_ns, own, other, reduced, OFTEN) ||
            (!reduced && !is_beyond(a, own / PIECE_NS, other / PIECE_NS)) ||
            (a->before && !fewer &&
             others_now < OFTEN * others_of(&then, caller_wait_ns, RANKS) *
                                  capo_why_ratio(a->all[a->process], a->before[a->process])))
                return false;
        if (a->before && others_now > 0)
                snprintf(besides, sizeof besides, " (those of the other ranks %s, median)",
                         TEXT_TIME(others_now));
        return tell_cause(f, own - other,
                          "its thread%s waited %s for a CPU that others used, %s %s%s",
                          fewer && cpus == 1 ? ", which may use one CPU," : "", TEXT_TIME(own),
                          others_name(a, "those of the other ranks"),
                          other > 0 ? TEXT_TIME(other) : "none", besides);
}

static double stolen_ns(const struct why_asked *a, uint32_t p)
{
        double cpus = NAN;

        for (uint32_t i = 0; i < a->job->n_processes; i++) {
                const struct capo_machine_object *o =
                        a->job->processes[i].node == a->job->processes[p].node
                                ? capo_machine_most(a->all[i], CAPO_M_NODE_CPUS, NULL)
                                : NULL;

                cpus = fmax(cpus, o ? (double)capo_machine_of(o, CAPO_M_NODE_CPUS)->last : NAN);
        }
        return node_sum(a, p, CAPO_M_NODE_STEAL) * TICK_NS / fmax(1, cpus);
}

static bool find_steal(const struct why_asked *a, struct capo_cause_found *f)
{
        double own = stolen_ns(a, a->process), other = others_of(a, stolen_ns, NODES);

        return own > LEAST_NS && own >= OFTEN * other &&
               tell_cause(f, own - other, "the hypervisor gave its CPUs to others for %s each",
                          TEXT_TIME(own));
}

/* Are the samples behind @own ns more than those behind @other by more than chance gives? */
static bool is_more(const struct why_asked *a, double own, double other)
{
        double period = a->all[a->process]->period_ns;

        return (own - other) / period > FEW_SAMPLES && is_beyond(a, own / period, other / period);
}

static bool find_kind(const struct why_asked *a, struct capo_cause_found *f, measure *of,
                      enum capo_between_kind kind, const char *doing)
{
        double own = of(a, a->process), other = others_of(a, of, RANKS);
        const struct capo_machine_stack *top;

        if (!(own - other > LEAST_NS) || own < 1.5 * other || !is_more(a, own, other))
                return false;
        top = top_stack(a, kind);
        return tell_cause(f, own - other, "it spent %s between its calls %s: %.300s",
                          TEXT_TIME(own), doing, top ? top->text : "");
}

#define FIND_KIND(id, of, kind, doing)                                               \
        static bool find_##id(const struct why_asked *a, struct capo_cause_found *f) \
        {                                                                            \
                return find_kind(a, f, of, kind, doing);                             \
        }
FIND_KIND(garbage, gc_ns, CAPO_BETWEEN_GC, "in Python's garbage collection")
FIND_KIND(reads, read_ns, CAPO_BETWEEN_READ, "reading files")
FIND_KIND(writes, write_ns, CAPO_BETWEEN_WRITE, "writing files")

static const struct capo_machine_object *own_gpu(const struct why_asked *a, enum capo_machine_id id)
{
        return capo_machine_most(a->all[a->process], id, NULL);
}

static bool find_gpu_xid(const struct why_asked *a, struct capo_cause_found *f)
{
        const struct capo_machine_object *o = own_gpu(a, CAPO_M_GPU_XIDS);

        return o && capo_machine_of(o, CAPO_M_GPU_XIDS)->grew &&
               tell_cause(f, -1, "GPU %s reported Xid %u", o->name,
                          (unsigned)capo_machine_of(o, CAPO_M_GPU_XID)->last);
}

static uint64_t reasons_of(enum capo_clock_weight is)
{
        uint64_t bits = 0;

#define CLOCK_REASON(id, bit, weight, words)                        \
        if (capo_clock_reason_weight(CAPO_CLOCK_REASON_##id) == is) \
                bits |= bit;
#include "capo/clock_reasons.def"
        return bits;
}

/* The lowest clock of its GPU while it was not idle. */
static double clock_mhz(const struct why_asked *a, uint32_t p)
{
        const struct capo_machine_object *o = capo_machine_most(a->all[p], CAPO_M_GPU_SM, NULL);

        return o && o->busy_mhz ? (double)o->busy_mhz : NAN;
}

/* By the time that NVML counts; an older driver has the clock and its reason only. */
static bool find_gpu_throttled(const struct why_asked *a, struct capo_cause_found *f)
{
        double own = thermal_ns(a, a->process), other = others_of(a, thermal_ns, RANKS),
               mhz = clock_mhz(a, a->process), others_mhz = others_of(a, clock_mhz, STEADY);
        const struct capo_machine_object *o = own_gpu(a, CAPO_M_GPU_SM);
        uint64_t reasons = o ? capo_machine_of(o, CAPO_M_GPU_REASONS)->any : 0;
        bool timed = own > LEAST_NS && !(own < OFTEN * other);

        reasons &= reasons_of(CAPO_CLOCK_SLOW) |
                   (mhz < CAPO_MACHINE_SLOWER * others_mhz ? reasons_of(CAPO_CLOCK_CAP) : 0);
        if (!o || (!timed && ((!reasons && !a->before) || !(mhz < HELD_BELOW * others_mhz))))
                return false;
        f->events = timed ? own : 0;
        tell_cause(f, -1, "its GPU is %s: GPU %s of %s", timed || reasons ? "throttled" : "slower",
                   o->name, node_name(a));
        if (mhz < others_mhz)
                capo_append(f->text, sizeof f->text, " at %.0f instead of %.0f MHz as %s", mhz,
                            others_mhz, others_name(a, "the others"));
        capo_append(f->text, sizeof f->text, ", %u C",
                    (unsigned)capo_machine_of(o, CAPO_M_GPU_CELSIUS)->most);
        if (timed)
                capo_append(f->text, sizeof f->text, ", held back for %s", TEXT_TIME(own));
#define CLOCK_REASON(id, bit, weight, words) \
        if (reasons & (bit))                 \
                capo_append(f->text, sizeof f->text, ", %s", words);
#include "capo/clock_reasons.def"
        return true;
}

static double width_share(const struct why_asked *a, uint32_t p)
{
        const struct capo_machine_object *o =
                capo_machine_most(a->all[p], CAPO_M_GPU_PCIE_WIDTH, NULL);

        return o && capo_machine_of(o, CAPO_M_GPU_PCIE_WIDTH_MAX)->last
                       ? (double)capo_machine_of(o, CAPO_M_GPU_PCIE_WIDTH)->least /
                                 (double)capo_machine_of(o, CAPO_M_GPU_PCIE_WIDTH_MAX)->last
                       : NAN;
}

static bool find_pcie_width(const struct why_asked *a, struct capo_cause_found *f)
{
        double own = width_share(a, a->process), other = others_of(a, width_share, STEADY);
        const struct capo_machine_object *o = own_gpu(a, CAPO_M_GPU_PCIE_WIDTH);

        return own <= 0.5 && !(other <= own) &&
               tell_cause(f, -1, "GPU %s is on PCIe x%u, it could have x%u", o->name,
                          (unsigned)capo_machine_of(o, CAPO_M_GPU_PCIE_WIDTH)->least,
                          (unsigned)capo_machine_of(o, CAPO_M_GPU_PCIE_WIDTH_MAX)->last);
}

static bool find_nvlink(const struct why_asked *a, struct capo_cause_found *f)
{
        double own = nvlink_errors(a, a->process), other = others_of(a, nvlink_errors, RANKS);
        const struct capo_machine_object *o = own_gpu(a, CAPO_M_GPU_NVLINK_REPLAY);

        f->events = own;
        return own >= FEW_EVENTS && !(own < OFTEN * other) &&
               tell_cause(f, -1,
                          "NVLinks of GPU %s: CRC errors +%.0f, replays +%.0f, recoveries +%.0f",
                          o ? o->name : "?", sum_of(a, a->process, CAPO_M_GPU_NVLINK_CRC, NULL),
                          sum_of(a, a->process, CAPO_M_GPU_NVLINK_REPLAY, NULL),
                          sum_of(a, a->process, CAPO_M_GPU_NVLINK_RECOVERY, NULL));
}

static bool find_nic_errors(const struct why_asked *a, struct capo_cause_found *f)
{
        double own = nic_errors(a, a->process), other = others_of(a, nic_errors, NODES);
        char ports[400];

        f->events = own;
        return own >= FEW_EVENTS && !(own < OFTEN * other) &&
               tell_cause(f, -1, "packets are lost or damaged on %s: %s", node_name(a),
                          list_ports(a, f, CAPO_MACHINE_ERROR, ports, sizeof ports));
}

static double slowest_port(const struct why_asked *a, uint32_t p)
{
        uint32_t node = a->job->processes[p].node;
        double least = NAN;

        for (uint32_t i = 0; i < a->job->n_processes; i++) {
                const struct capo_machine_series *s =
                        a->job->processes[i].node == node ? a->all[i] : NULL;

                for (uint32_t k = 0; s && k < s->n_objects; k++) {
                        const struct capo_machine_object *o = &s->object[k];

                        if (o->scope == CAPO_MACHINE_NIC &&
                            capo_machine_of(o, CAPO_M_NIC_RATE)->asked &&
                            capo_machine_of(o, CAPO_M_NIC_STATE)->last == 4)
                                least = fmin(least,
                                             (double)capo_machine_of(o, CAPO_M_NIC_RATE)->least);
                }
        }
        return least;
}

static uint64_t port_traffic(const struct capo_machine_object *o)
{
        return capo_machine_of(o, CAPO_M_NIC_TX)->grew +
               capo_machine_of(o, CAPO_M_NIC_EFA_TX)->grew;
}

/* Those of one driver have one name but for its digits; a port for storage has other traffic. */
static bool is_twin(const struct capo_machine_object *a, const struct capo_machine_object *b)
{
        size_t n = strcspn(a->name, "0123456789");

        return a != b && b->scope == CAPO_MACHINE_NIC && !strncmp(a->name, b->name, n) &&
               strcspn(b->name, "0123456789") == n && port_traffic(a) >= port_traffic(b) / 4;
}

/* A port that runs at less than CAPO_MACHINE_SLOWER of the rate of another one of its driver, and
 * carries as much; NULL: none does. */
static const struct capo_machine_object *find_slow_port(const struct capo_machine_series *s,
                                                        double *twin)
{
        for (uint32_t i = 0; i < s->n_objects; i++) {
                const struct capo_machine_object *o = &s->object[i];

                if (o->scope != CAPO_MACHINE_NIC || !port_traffic(o) ||
                    !capo_machine_of(o, CAPO_M_NIC_RATE)->asked)
                        continue;
                for (uint32_t k = 0; k < s->n_objects; k++) {
                        if (!is_twin(o, &s->object[k]))
                                continue;
                        *twin = (double)capo_machine_of(&s->object[k], CAPO_M_NIC_RATE)->last;
                        if ((double)capo_machine_of(o, CAPO_M_NIC_RATE)->least <
                            CAPO_MACHINE_SLOWER * *twin)
                                return o;
                }
        }
        return NULL;
}

static bool find_nic_rate(const struct why_asked *a, struct capo_cause_found *f)
{
        double own = slowest_port(a, a->process),
               other = others_of(a, slowest_port, NODES | STEADY);
        const struct capo_machine_object *slow = NULL;
        double twin = 0;

        if (own > 0 && own < CAPO_MACHINE_SLOWER * other)
                return tell_cause(
                        f, -1,
                        "a network port of %s runs at %.0f Gb/s instead of %.0f as %s (link rate)",
                        node_name(a), own, other, others_name(a, "on the other nodes"));
        for (uint32_t p = 0; p < a->job->n_processes && !slow; p++) {
                if (a->all[p] && a->job->processes[p].node == a->job->processes[a->process].node)
                        slow = find_slow_port(a->all[p], &twin);
        }
        return slow && tell_cause(f, -1,
                                  "network port %s of %s runs at %.0f Gb/s, its twins at %.0f "
                                  "(link rate)",
                                  slow->name, node_name(a),
                                  (double)capo_machine_of(slow, CAPO_M_NIC_RATE)->least, twin);
}

static bool find_congestion(const struct why_asked *a, struct capo_cause_found *f)
{
        double own = nic_marks(a, a->process), other = others_of(a, nic_marks, NODES);
        char ports[400];

        f->events = own;
        return own >= MANY_MARKS && !(own < OFTEN * other) &&
               tell_cause(f, -1, "the network is congested at %s: %s", node_name(a),
                          list_ports(a, f, CAPO_MACHINE_MARK, ports, sizeof ports));
}

static bool find_tcp_loss(const struct why_asked *a, struct capo_cause_found *f)
{
        double own = retransmitted_share(a, a->process),
               other = others_of(a, retransmitted_share, NODES | STEADY),
               n = node_sum(a, a->process, CAPO_M_NODE_TCP_RETRANS);

        f->events = n;
        return a->job->n_nodes > 1 && n >= FEW_EVENTS && own >= LOST_SEGMENTS &&
               own >= OFTEN * other && /* not known of the others: other programs may lose them */
               tell_cause(f, -1,
                          "TCP segments are lost at %s: %s retransmitted, %.1f %% of those sent",
                          node_name(a), TEXT_COUNT((uint64_t)n), 100 * own);
}

static bool find_program(const struct why_asked *a, struct capo_cause_found *f)
{
        double own = program_ns(a, a->process),
               other = fmax(others_of(a, program_ns, RANKS), own - capo_why_between(a));
        const struct capo_machine_stack *top;

        if (a->on_gpu || !(own - other > LEAST_NS) || !is_more(a, own, other) ||
            !(top = top_stack(a, CAPO_BETWEEN_KINDS)))
                return false;
        return tell_cause(
                f, own - other,
                "its program spent %s more between its calls than %s, most of it %s%.300s",
                TEXT_TIME(own - other), others_name(a, "the others"),
                strncmp(top->text, "in ", 3) && strncmp(top->text, "on ", 3) ? "at " : "",
                top->text);
}

capo_why_finder *const capo_why_finders[CAPO_WHYS] = {
#define CAPO_WHY(id, words, advice) find_##id,
#include "analysis/causes/cause_kinds.def"
};
