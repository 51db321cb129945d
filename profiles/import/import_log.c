/* SPDX-License-Identifier: Apache-2.0 */
/* Reads capo's own logs, all logs of one job together. Every rank times every call, and its time
 * includes waiting for the others. Calls are matched by communicator and sequence number, and each
 * becomes one sample. In all-reduce, all-gather and reduce-scatter no rank can end before the last
 * one has come, so the sample is the shortest time of all ranks. In other calls it is the longest.
 *
 * A log has single calls if everything was traced (`capo sweep` does that), or the last ones, of
 * the flight recorder. Calls that were only counted have a histogram: quantiles of it become
 * samples. Its buckets are 1/16 of an octave wide, so these times are within a few percent.
 *
 * Only calls outside of groups that were timed on the GPU are used. Members of a group have no time
 * of their own, and the host's time is only that of the enqueue. */
#include "capo/record.h"
#include "core/base/calls.h"
#include "core/base/nccl_facts.h"
#include "core/base/nccl_release.h"
#include "core/base/xalloc.h"
#include "core/log/info.h"
#include "analysis/job/log_calls.h"
#include "analysis/log/rules_read.h"
#include "profiles/import/import_private.h"

struct log_want {
        uint8_t algo_proto, channels;
        uint32_t chunk;
};

enum { LOG_RULES = UINT16_MAX + 1 };

/* Labels of one process. */
struct log_labels {
        char settings[128];
        uint32_t nccl;
        uint8_t env_algo, env_proto; /* NCCL_ALGO, NCCL_PROTO, when they name one */
        bool env_several;
        bool sweep;
        uint32_t n_candidates; /* rules below it may be candidates */
        struct log_candidate {
                bool known; /* a sweep's candidate; if not, a profile's row, of which only
                             the chunk is used */
                struct log_want want;
        } candidates[LOG_RULES]; /* by rule */
};

enum log_known {
        LOG_KNOWN,   /* it is known what was forced */
        LOG_UNKNOWN, /* NCCL chose from a list, and what it chose is not recorded */
        LOG_UNNAMED  /* decided by something this log does not name */
};

/* What the log of @p says under @key; "": nothing. */
static const char *log_text(const struct capo_job_process *p, const char *key)
{
        return capo_job_info(p, key) ?: "";
}

static void read_rules(struct log_labels *labels, const char *rules)
{
        struct capo_rules_row row;

        while (capo_rules_next(&rules, &row)) {
                if (row.rule >= LOG_RULES)
                        continue;
                labels->sweep |= row.candidate;
                labels->n_candidates =
                        row.rule >= labels->n_candidates ? row.rule + 1 : labels->n_candidates;
                labels->candidates[row.rule] = (struct log_candidate){
                        row.candidate,
                        {CAPO_ALGO_PROTO(capo_algo_find(row.algo), capo_proto_find(row.proto)),
                         (uint8_t)row.channels, row.chunk}};
        }
}

/* Read the labels of @p. @labels: zero, or filled for another process. */
static void log_labels_read(struct log_labels *labels, const struct capo_job_process *p)
{
        const char *algo = log_text(p, CAPO_INFO_NCCL_ALGO),
                   *proto = log_text(p, CAPO_INFO_NCCL_PROTO),
                   *net = log_text(p, CAPO_INFO_NCCL_NET),
                   *nccl = log_text(p, CAPO_INFO_NCCL_VERSION);

        labels->nccl =
                (uint32_t)(strchr(nccl, '.') ? capo_nccl_named(nccl) : capo_nccl_code(atoi(nccl)));
        labels->env_algo = (uint8_t)capo_algo_find(algo);
        labels->env_proto = (uint8_t)capo_proto_find(proto);
        labels->env_several = (*algo && !labels->env_algo) || (*proto && !labels->env_proto);
        labels->settings[0] = 0;
        capo_settings_add_all(labels->settings, log_text(p, CAPO_INFO_NCCL_SETTINGS));
        if (*net)
                capo_settings_add(labels->settings, "NCCL_NET_PLUGIN", net);
        memset(labels->candidates, 0, labels->n_candidates * sizeof *labels->candidates);
        labels->n_candidates = 0;
        labels->sweep = false;
        read_rules(labels, p->rules);
}

/* What was forced for a call by @rule, of which @ran ran. Rule 0 is none: only NCCL_ALGO and NCCL_PROTO
 * force something. In a sweep the rule is a candidate. Otherwise it is a row of a profile: what ran counts
 * as forced, with the chunk of the row. @want: always set, to zero unless LOG_KNOWN. */
static enum log_known log_labels_want(const struct log_labels *labels, uint16_t rule, uint8_t ran,
                                      struct log_want *want)
{
        bool both = CAPO_ALGO_OF(ran) && CAPO_PROTO_OF(ran);

        *want = (struct log_want){0};
        if (capo_ran_beside(ran)) /* neither a tuner nor a variable decided it */
                return LOG_KNOWN;
        if (rule == 0 && labels->env_several && !(labels->env_algo && labels->env_proto)) {
                want->algo_proto =
                        both ? ran : 0; /* a restricted choice counts as forced to what ran */
                return both ? LOG_KNOWN : LOG_UNKNOWN;
        }
        if (rule == 0) {
                want->algo_proto = CAPO_ALGO_PROTO(labels->env_algo, labels->env_proto);
                return LOG_KNOWN;
        }
        if (labels->sweep) {
                if (!labels->candidates[rule].known)
                        return LOG_UNNAMED;
                *want = labels->candidates[rule].want;
                return LOG_KNOWN;
        }
        if (!ran)
                return LOG_UNNAMED;
        *want = (struct log_want){.algo_proto = ran,
                                  .chunk = capo_nccl_has((int)labels->nccl, CAPO_NCCL_CHUNK)
                                                   ? labels->candidates[rule].want.chunk
                                                   : 0};
        return LOG_KNOWN;
}

struct log_call {
        uint64_t bytes;
        uint32_t seq, ns, run;
        uint8_t call, type, op, make, ran, channels;
        struct log_want want;
        bool unknown; /* it is not known what was forced */
        bool alone;   /* no other rank's time of it can be found */
};

/* A communicator is one run. With NCCL_COMM_ID, several jobs can have a communicator of the same
 * number: then each job's is a run of its own. */
struct log_run {
        uint32_t comm; /* index in job->comms */
        int n_ranks;
        uint32_t copy; /* 0: has the first log of each rank; 1: the second; ... */
        uint32_t run;  /* index in in->set->runs */
};

/* A communicator of the process that is read. */
struct log_comm {
        const struct capo_job_member *member; /* NULL: the log does not describe it */
        uint32_t comm;                        /* index in job->comms */
        uint32_t run;                         /* 1 + the run of its calls; 0: none yet */
};

struct log_import {
        struct capo_input *in; /* path: what the user called the log that is read */
        const struct capo_job *job;
        const struct capo_job_process *process;
        struct log_labels labels; /* of the process */
        struct log_comm comms[UINT16_MAX + 1];
        struct log_call *calls;
        size_t n, n_unknown;
        size_t n_taken, merge_at; /* how many there were; when to drop those that are not needed */
        struct log_run *runs;
        size_t n_runs;
        uint64_t skipped_host, skipped_group; /* of the input being read */
        struct log_empty {
                const char *named;
                uint64_t host, group;
        } * empty; /* inputs without a call that is used */
        size_t n_empty;
};

/* How many logs of the same rank come before @m. Members are sorted by rank, then by process. */
static uint32_t copy_of(const struct capo_job_comm *comm, const struct capo_job_member *m)
{
        uint32_t copy = 0;

        for (const struct capo_job_member *k = m; m->rank >= 0 && k-- > comm->members;) {
                if (k->rank != m->rank)
                        break;
                copy += k->reported.n_ranks == m->reported.n_ranks;
        }
        return copy;
}

/* Set the hosts of each run, and its nodes and layout if they are not known
 * yet, from the hosts of the logs. A run that lacks logs of some ranks stays as it is. */
static void log_runs_settle(struct log_import *m)
{
        _cleanup_free_ const char **names = xcalloc(m->job->n_nodes + 1, sizeof *names);
        _cleanup_free_ uint32_t *ranks_on = xcalloc(m->job->n_nodes + 1, sizeof *ranks_on);

        for (size_t i = 0; i < m->n_runs; i++) {
                const struct capo_job_comm *comm = &m->job->comms[m->runs[i].comm];
                struct capo_trial *t = &m->in->set->runs[m->runs[i].run];
                struct capo_layout layout = {0};
                char text[CAPO_LAYOUT_TEXT];
                size_t n = 0;

                memset(ranks_on, 0, m->job->n_nodes * sizeof *ranks_on);
                for (uint32_t k = 0; k < comm->n_members; k++)
                        ranks_on[m->job->processes[comm->members[k].process].node] +=
                                comm->members[k].reported.n_ranks == m->runs[i].n_ranks &&
                                copy_of(comm, &comm->members[k]) == m->runs[i].copy;
                for (uint32_t k = 0; k < comm->n_members; k++) { /* by rank */
                        uint32_t h = m->job->processes[comm->members[k].process].node;

                        if (ranks_on[h]) {
                                capo_layout_add(&layout, ranks_on[h], 1);
                                names[n++] = m->job->nodes[h].name;
                        }
                        ranks_on[h] = 0;
                }
                if ((int)layout.n_ranks != m->runs[i].n_ranks) /* logs of some ranks are missing */
                        continue;
                capo_input_hosts(t, names, n);
                /* NCCL's numbers and the launcher win, but for the order, which numbers leave open
                 */
                if (t->layout[0] ? !capo_layout_text_covers(
                                           t->layout, capo_layout_print(&layout, text, sizeof text))
                                 : t->n_nodes && t->n_nodes != (int)layout.n_nodes)
                        continue;
                t->n_nodes = (int)layout.n_nodes;
                capo_input_place(&layout, t);
        }
}

/* Add a run for @c, whose communicator has none yet. Return: its index; UINT32_MAX: an error that
 * in->error names. */
static uint32_t new_run(struct log_import *m, const struct log_comm *c, uint32_t copy)
{
        const struct log_labels *labels = &m->labels;
        struct capo_layout_reported reported = c->member->reported;
        struct log_run k = {.comm = c->comm, .n_ranks = reported.n_ranks, .copy = copy};
        struct capo_trial run = {
                .source = (char *)m->in->path,
                .iterations = 1,
                .nccl = labels->nccl,
                .began = {.at = (int64_t)(m->process->header.t0_real_ns / 1000000000)},
                .n_ranks = reported.n_ranks > 0 ? reported.n_ranks : 0,
                .n_nodes = reported.n_nodes > 0 ? reported.n_nodes : 0};
        const struct capo_job_process *p = m->process;
        const char *driver = log_text(p, CAPO_INFO_CUDA_DRIVER);
        struct capo_layout world, layout;
        bool have_world = capo_layout_parse(log_text(p, CAPO_INFO_LAYOUT), &world, NULL) == 0;

        if (have_world && reported.n_nodes <= 0 && (int)world.n_ranks == reported.n_ranks)
                run.n_nodes = reported.n_nodes = (int)world.n_nodes;
        if (capo_layout_of_comm(have_world ? &world : NULL, &reported, &layout, NULL) == 0) {
                capo_input_place(&layout, &run);
                run.n_nodes = (int)layout.n_nodes;
        }
        snprintf(run.gpu, sizeof run.gpu, "%.47s", log_text(p, CAPO_INFO_GPU_NAME));
        snprintf(run.job, sizeof run.job, "%.47s", log_text(p, CAPO_INFO_JOB));
        snprintf(run.uid, sizeof run.uid, "%.11s", log_text(p, CAPO_INFO_UID));
        if (*driver)
                snprintf(run.driver, sizeof run.driver, "CUDA %.24s", driver);
        memcpy(run.settings, labels->settings, sizeof run.settings);
        if (labels->sweep || labels->n_candidates)
                snprintf(run.why, sizeof run.why, "%s",
                         labels->sweep
                                 ? "the candidates of a sweep"
                                 : "recorded under a profile: what a row chose counts as forced");
        capo_input_tuner(&run, log_text(p, CAPO_INFO_NCCL_TUNER),
                         labels->sweep || labels->env_algo || labels->env_proto);
        if (capo_input_label(m->in, &run) < 0)
                return UINT32_MAX;
        k.run = capo_samples_run(m->in->set, &run);
        *xadd(m->runs, m->n_runs) = k;
        return k.run;
}

/* The run of communicator @c of the process, added if new. Return: its index;
 * UINT32_MAX: an error that in->error names. */
static uint32_t log_run_of(struct log_import *m, struct log_comm *c)
{
        uint32_t copy, run = UINT32_MAX;

        if (c->run) /* nearly always */
                return c->run - 1;
        copy = copy_of(&m->job->comms[c->comm], c->member);
        for (size_t i = 0; i < m->n_runs && run == UINT32_MAX; i++) {
                const struct log_run *k = &m->runs[i];

                if (k->comm == c->comm && k->n_ranks == c->member->reported.n_ranks &&
                    k->copy == copy)
                        run = k->run;
        }
        if (run == UINT32_MAX)
                run = new_run(m, c, copy);
        if (run != UINT32_MAX)
                c->run = run + 1;
        return run;
}

enum { QUANTILES = 25, MERGE_LEAST = 1 << 15 };

/* Sorts by run, then calls that can be matched before those that cannot, then by number. */
static uint64_t match_of(const struct log_call *c)
{
        return (uint64_t)c->run << 33 | (uint64_t)c->alone << 32 | c->seq;
}

CAPO_ORDERED(by_match, struct log_call, CAPO_ORDER(match_of(a), match_of(b)),
             CAPO_ORDER(a->ns, b->ns));

/* One past the times of all ranks for the call at @i of the sorted calls. */
static size_t end_of_call(const struct log_import *m, size_t i)
{
        const struct log_call *c = &m->calls[i++];

        while (i < m->n && !c->alone && match_of(&m->calls[i]) == match_of(c))
                i++;
        return i;
}

/* Sort the calls, and of each keep the shortest and the longest: no other becomes a sample. */
static void merge_calls(struct log_import *m)
{
        size_t kept = 0;

        qsort(m->calls, m->n, sizeof *m->calls, by_match);
        for (size_t i = 0, end; i < m->n; i = end) {
                end = end_of_call(m, i);
                m->calls[kept++] = m->calls[i];
                if (end > i + 1)
                        m->calls[kept++] = m->calls[end - 1];
        }
        m->n = kept;
        m->merge_at = 2 * kept > MERGE_LEAST ? 2 * kept : MERGE_LEAST;
}

static void append_call(struct log_import *m, const struct log_call *c)
{
        if (m->n >= m->merge_at && !m->n_unknown)
                merge_calls(m);
        *xadd(m->calls, m->n) = *c;
        m->n_taken++;
        m->n_unknown += c->unknown;
}

/* Convert a record of @calls calls. Return: 1: @c is set; 0: it is not used, and the calls may be
 * counted as skipped; -EINVAL with the error set. */
static int describe_call(struct log_import *m, const struct capo_record *r, uint64_t calls,
                         struct log_call *c)
{
        struct log_comm *comm = &m->comms[r->comm];
        enum log_known known;

        switch (capo_call_kind(r->call)) {
        case CAPO_KIND_OTHER:
        case CAPO_KIND_P2P:
        case CAPO_KIND_RMA: return 0;
        default: break;
        }
        if (r->flags & (CAPO_RECORD_MEMBER | CAPO_RECORD_GROUP | CAPO_RECORD_CAPTURED)) {
                m->skipped_group += calls;
                return 0;
        }
        if (r->gpu_ns == 0 || r->result != 0 || r->bytes == 0) {
                m->skipped_host += calls;
                return 0;
        }
        if (!comm->member)
                return 0;
        *c = (struct log_call){.bytes = r->bytes,
                               .seq = r->seq,
                               .ns = r->gpu_ns,
                               .call = r->call,
                               .type = r->type,
                               .op = r->op,
                               .ran = r->algo_proto,
                               .channels = r->channels,
                               .make = r->clock == CAPO_CLOCK_KERNEL ? CAPO_MAKE_KERNEL
                                                                     : CAPO_MAKE_EVENT,
                               .alone = m->job->comms[comm->comm].n_members < 2};
        known = log_labels_want(&m->labels, r->rule, r->algo_proto, &c->want);
        if (known == LOG_UNNAMED)
                return 0;
        c->unknown = known == LOG_UNKNOWN;
        c->run = log_run_of(m, comm);
        if (c->run == UINT32_MAX)
                return -EINVAL;
        return 1;
}

static int take_record(const struct capo_record *r, unsigned thread, void *arg)
{
        struct log_import *m = arg;
        struct log_call c;
        int e = describe_call(m, r, 1, &c);

        (void)thread;
        if (e > 0)
                append_call(m, &c);
        return e < 0 ? e : 0;
}

/* Add quantiles of the histogram of calls that were only counted. */
static void append_quantiles(struct log_import *m, struct log_call *c,
                             const struct capo_log_hist_view *gpu)
{
        uint64_t below = 0, q = 0, n = gpu->head.count < QUANTILES ? gpu->head.count : QUANTILES;

        for (uint32_t i = 0; i < gpu->head.n; i++) {
                const struct capo_log_hist_pair *p = &gpu->pairs[i];
                unsigned b = p->bucket < CAPO_HIST_BUCKETS ? p->bucket : CAPO_HIST_BUCKETS - 1;
                double lo = (double)capo_hist_floor(b), hi = (double)capo_hist_floor(b + 1);

                for (; q < n; q++) {
                        double rank = ((double)q + 0.5) / (double)n * (double)gpu->head.count, ns;

                        if (rank >= (double)(below + p->count))
                                break;
                        ns = lo + (hi - lo) * (rank - (double)below) / (double)p->count;
                        /* the counts may come from an untrusted file */
                        c->ns = (uint32_t)(ns < lo ? lo : ns > hi - 1 ? hi - 1 : ns);
                        c->seq = (uint32_t)q + 1;
                        append_call(m, c);
                }
                below += p->count;
        }
}

/* Take a cell of a log that has no single calls. */
static int take_cell(const struct capo_log_cell *cell, const struct capo_log_hist_view *host,
                     const struct capo_log_hist_view *gpu, void *arg)
{
        struct log_import *m = arg;
        const struct capo_record like = {.bytes = cell->bytes,
                                         .gpu_ns = gpu->head.count > 0,
                                         .comm = cell->comm,
                                         .rule = cell->rule,
                                         .call = cell->call,
                                         .type = 255,
                                         .op = 255,
                                         .result = cell->result,
                                         .clock = cell->clock,
                                         .flags = cell->flags,
                                         .algo_proto = cell->algo_proto,
                                         .channels = cell->channels};
        struct log_call c;
        int e = describe_call(m, &like, cell->count, &c);

        (void)host;
        if (e <= 0)
                return e;
        c.alone = true;
        append_quantiles(m, &c, gpu);
        return 0;
}

/* Describe the communicators of @process in m->comms, or forget them. */
static void list_comms(struct log_import *m, uint32_t process, bool known)
{
        uint32_t n;
        const struct capo_job_use *use = capo_job_uses(m->job, process, &n);

        for (; n--; use++) {
                const struct capo_job_member *member =
                        &m->job->comms[use->comm].members[use->member];

                m->comms[member->id] =
                        known ? (struct log_comm){member, use->comm, 0} : (struct log_comm){0};
        }
}

static int read_process(struct log_import *m, uint32_t process)
{
        const struct capo_job_process *p = &m->job->processes[process];
        struct capo_log *log = capo_job_log(m->job, process);
        int e = p->read_error;

        if (p->health.n_damages)
                capo_samples_note(m->in->set, "%s: damaged in %llu places, the rest is used",
                                  p->path, (unsigned long long)p->health.n_damages);
        m->process = p;
        log_labels_read(&m->labels, p);
        list_comms(m, process, true);
        if (e >= 0)
                e = p->n_records ? capo_log_calls_each(log, take_record, m)
                                 : capo_log_cells_each(log, take_cell, m);
        list_comms(m, process, false);
        capo_log_park(log);
        return e < 0 ? e : 0;
}

/* Remove calls of which it is not known what was forced. A run that has no other calls is marked as
 * left out. */
static void leave_out_unknown(struct log_import *m)
{
        struct capo_trial *runs = m->in->set->runs;
        _cleanup_free_ bool *known = xcalloc(m->in->set->n_runs + 1, sizeof *known);
        size_t kept = 0;

        for (size_t k = 0; k < m->n; k++)
                known[m->calls[k].run] |= !m->calls[k].unknown;
        for (size_t i = 0; i < m->n_runs; i++) {
                if (!known[m->runs[i].run])
                        capo_trial_leave_out(
                                &runs[m->runs[i].run],
                                "NCCL_ALGO or NCCL_PROTO is a list there: it does not say what ran");
        }
        for (size_t k = 0; k < m->n; k++) {
                if (!m->calls[k].unknown || runs[m->calls[k].run].left_out)
                        m->calls[kept++] = m->calls[k];
        }
        m->n = kept;
}

static void make_samples(struct log_import *m)
{
        if (m->n_unknown)
                leave_out_unknown(m);
        if (m->n)
                qsort(m->calls, m->n, sizeof *m->calls, by_match);
        for (size_t i = 0, k; i < m->n; i = k) {
                const struct log_call *c = &m->calls[i];
                struct capo_sample s;

                k = end_of_call(m, i);
                if (!capo_input_earliest(c->call))
                        c = &m->calls[k - 1];
                s = (struct capo_sample){.bytes = c->bytes,
                                         .us = c->ns / 1e3,
                                         .run = c->run,
                                         .order = c->seq,
                                         .call = c->call,
                                         .make = c->make,
                                         .type = c->type,
                                         .op = c->op,
                                         .want = c->want.algo_proto,
                                         .want_channels = c->want.channels,
                                         .want_chunk = c->want.chunk,
                                         .ran = c->ran,
                                         .ran_channels = c->channels};
                if (s.us > 0)
                        capo_samples_add(m->in->set, &s);
        }
}

/* Note each input without a call that is used. If there is no other input, the first one is the
 * error. */
static int say_empty(struct log_import *m)
{
        static const char said[] =
                "%s: no collective timed on the GPU in these logs (%llu calls with host times only, "
                "%llu in groups or graphs); CAPO_GPU_SAMPLE=1 times every call";
        size_t i = m->n == 0 && m->n_empty;

        if (i)
                snprintf(m->in->error, m->in->room, said, m->empty[0].named,
                         (unsigned long long)m->empty[0].host,
                         (unsigned long long)m->empty[0].group);
        for (size_t k = i; k < m->n_empty; k++)
                capo_samples_note(m->in->set, said, m->empty[k].named,
                                  (unsigned long long)m->empty[k].host,
                                  (unsigned long long)m->empty[k].group);
        return i ? -ENODATA : 0;
}

int capo_import_job_as(struct capo_input *in, const struct capo_job *job, char *const *named)
{
        struct log_import *m = xcalloc(1, sizeof *m);
        struct capo_input each = *in;
        char said[512] = "";
        size_t before = 0;
        int e = 0, wrong = 0;

        m->in = &each;
        m->job = job;
        m->merge_at = MERGE_LEAST;
        for (uint32_t i = 0; i < job->n_processes && e == 0; i++) {
                each.path = named[i];
                e = read_process(m, i);
                if (e == -EINVAL) { /* only this log is left out */
                        if (!wrong)
                                snprintf(said, sizeof said, "%s", in->error);
                        *in->error = 0;
                        wrong = e;
                        e = 0;
                } else if (e == 0 &&
                           (i + 1 == job->n_processes || strcmp(named[i], named[i + 1]))) {
                        if (m->n_taken == before)
                                *xadd(m->empty, m->n_empty) = (struct log_empty){
                                        named[i], m->skipped_host, m->skipped_group};
                        before = m->n_taken;
                        m->skipped_host = m->skipped_group = 0;
                }
        }
        if (e == 0) {
                log_runs_settle(m);
                make_samples(m);
                e = say_empty(m);
        }
        if (wrong && (e == 0 || e == -ENODATA)) {
                snprintf(in->error, in->room, "%s", said);
                e = wrong;
        }
        if (e < 0 && !in->error[0])
                snprintf(in->error, in->room, "%s: %s", in->path, strerror(-e));
        xfree(m->calls, m->runs, m->empty, m);
        return e;
}

int capo_import_job(const struct capo_job *job, const struct capo_label *label,
                    struct capo_samples *set, char *error, size_t room)
{
        _cleanup_free_ char **named = xcalloc(job->n_processes + 1, sizeof *named);
        struct capo_input in = {.label = label, .set = set, .error = error, .room = room};

        error[0] = 0;
        for (uint32_t i = 0; i < job->n_processes; i++)
                named[i] = job->processes[i].path;
        in.path = job->n_processes ? named[0] : "";
        set->n_files += job->n_processes;
        return capo_import_job_as(&in, job, named);
}
