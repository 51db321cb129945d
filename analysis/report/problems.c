/* SPDX-License-Identifier: Apache-2.0 */
/* What a reader must know before trusting the numbers: ranks without a log, disagreement, failures,
 * dropped records. */

#include "analysis/report/page_kinds.h"
#include "core/base/among.h"
#include "core/base/calls.h"
#include "core/base/nccl_facts.h"
#include "core/base/nccl_release.h"
#include "core/base/xalloc.h"
#include "core/log/info.h"
#include "analysis/log/rules_read.h"
#include "analysis/job/figures.h"
#include "analysis/report/job_judge.h"
#include "analysis/report/stalls.h"
#include "analysis/log/info_read.h"

enum { RANKS_MOST = 1 << 20 };

static void missing_of(struct capo_page *r, uint32_t comm)
{
        const struct capo_job_comm *c = &r->job->comms[comm];
        uint32_t n = (uint32_t)c->n_ranks, n_seen = 0;
        _cleanup_free_ bool *is = NULL;
        _cleanup_free_ char *text = NULL;
        struct capo_problem *p;

        if (c->n_ranks <= 0 || n > RANKS_MOST || c->n_members >= n)
                return;
        is = xcalloc(n, sizeof *is);
        for (uint32_t i = 0; i < c->n_members; i++) {
                uint32_t rank = (uint32_t)c->members[i].rank;

                n_seen += rank < n && !is[rank];
                if (rank < n)
                        is[rank] = true;
        }
        text = capo_ranks_text(is, n);
        if (!text)
                return;
        p = PROBLEM(r, NO_LOG_OF, n - n_seen > 1 ? "s" : "", text, c->n_ranks, c->name);
        p->comm = comm;
        capo_problem_ranks(p, is, n);
}

/* Ranks from the launcher's count; without it, from the largest communicators. */
static void missing_ranks(struct capo_page *r)
{
        const struct capo_job *job = r->job;
        _cleanup_free_ bool *is = job->n_ranks > 0 && job->n_ranks <= RANKS_MOST
                                          ? xcalloc((size_t)job->n_ranks, 1)
                                          : NULL;
        _cleanup_free_ char *text = NULL;
        bool by_launcher = job->n_processes > 0 && is;
        int32_t n_seen = 0;
        uint32_t n_again = 0;

        for (uint32_t i = 0; i < job->n_processes && is; i++) {
                const char *world = capo_job_info(&job->processes[i], CAPO_INFO_WORLD_SIZE);
                int rank = job->processes[i].rank;

                by_launcher &= capo_job_info(&job->processes[i], CAPO_INFO_RANK) && rank >= 0 &&
                               rank < job->n_ranks;
                by_launcher &=
                        !world ||
                        atoi(world) >=
                                job->n_ranks; /* else it counts processes with several GPUs */
                if (rank >= 0 && rank < job->n_ranks) {
                        n_again += is[rank];
                        n_seen += !is[rank];
                        is[rank] = true;
                }
        }
        if (n_again && by_launcher)
                PROBLEM(r, RANK_TWICE, n_again, n_again > 1 ? "s" : "");
        if (by_launcher) {
                text = capo_ranks_text(is, (uint32_t)job->n_ranks);
                if (text)
                        capo_problem_ranks(PROBLEM(r, NO_LOG, job->n_ranks - n_seen > 1 ? "s" : "",
                                                   text, job->n_ranks),
                                           is, (uint32_t)job->n_ranks);
                return;
        }
        for (uint32_t i = 0;
             i < job->n_comms && job->comms[i].n_ranks == job->comms[0].n_ranks && i < 8; i++)
                missing_of(r, i);
}

void capo_process_tuned_by(const struct capo_job_process *p, char *text, size_t room, char id[160])
{
        char digest[128], modelled[16], file[512];
        bool allowed;

        if (!capo_rules_value(p->rules, CAPO_RULES_DIGEST, digest, sizeof digest))
                snprintf(digest, sizeof digest, "none");
        capo_rules_value(p->rules, CAPO_RULES_MODELLED, modelled, sizeof modelled);
        capo_rules_value(p->rules, CAPO_RULES_FILE, file, sizeof file);
        allowed = !strcmp(modelled, "allowed");
        snprintf(id, 160, "%s%s", digest, allowed ? "+" : "");
        snprintf(text, room, "%.8s%s (%s)", digest, allowed ? " and its modelled rules" : "", file);
}

/* The first process that has @key; NULL: none has. */
static const struct capo_job_process *first_with(const struct capo_page *r, const char *key)
{
        return FIRST_OF(p, r->job->processes, r->job->n_processes, capo_job_info(p, key));
}

/* A profile or a sweep was given, but NCCL was not configured for capo's tuner, or cannot load it
 * under that name; the libnccl is newer than this capo; another tool's dlsym() runs before ours. */
static void library_problems(struct capo_page *r)
{
        const struct capo_job_process *p = first_with(r, CAPO_INFO_UNTUNED);
        const char *profile = p ? capo_job_info(p, CAPO_INFO_PROFILE) : NULL;

        if (p)
                PROBLEM(r, NOT_TUNED, profile && *profile ? "profile " : "a sweep", profile ?: "",
                        capo_job_info(p, CAPO_INFO_NCCL_VERSION) ?: "",
                        capo_job_info(p, CAPO_INFO_UNTUNED));
        p = first_with(r, CAPO_INFO_NCCL_UNKNOWN);
        if (p)
                PROBLEM(r, UNKNOWN_CALLS, capo_job_info(p, CAPO_INFO_NCCL_VERSION) ?: "",
                        capo_job_info(p, CAPO_INFO_NCCL_UNKNOWN));
        p = first_with(r, CAPO_INFO_DLSYM_FRONT);
        if (p)
                PROBLEM(r, DLSYM_FRONT, capo_job_info(p, CAPO_INFO_DLSYM_FRONT));
}

/* Rows that override settings per call, or have a chunk size, where NCCL does not take these. */
static void dead_rows(struct capo_page *r)
{
        const struct capo_job_process *first = r->job->processes;
        const char *version = capo_job_info(first, CAPO_INFO_NCCL_VERSION);
        struct capo_rules_row row = {.chunk = 0};
        char turns[16], file[512];
        bool named = capo_rules_value(first->rules, CAPO_RULES_FILE, file, sizeof file);

        if (capo_rules_value(first->rules, CAPO_RULES_TURNS, turns, sizeof turns)) {
                if (version && !capo_nccl_has(capo_nccl_named(version), CAPO_NCCL_CALL_CONFIG))
                        PROBLEM(r, TURNS_DEAD, file,
                                "NCCL before 2.31 has no calls that take them");
                else if (strcmp(turns, "on"))
                        PROBLEM(r, TURNS_DEAD, file,
                                "CAPO_STEER=1 was not set, as capo run does on every rank");
        }
        if (!named || !version || capo_nccl_has(capo_nccl_named(version), CAPO_NCCL_CHUNK))
                return;
        for (const char *at = first->rules; !row.chunk && capo_rules_next(&at, &row);)
                ;
        if (row.chunk)
                PROBLEM(r, CHUNKS_DEAD, file);
}

/* Ranks with another profile than the first rank's, with other rules of it, or with none. */
static void rule_problems(struct capo_page *r)
{
        const struct capo_job *job = r->job;
        const struct capo_job_process *first = job->processes;
        char text[700], other[700], id[160], other_id[160];

        capo_process_tuned_by(first, text, sizeof text, id);
        for (uint32_t i = 1; i < job->n_processes; i++) {
                const struct capo_job_process *p = &job->processes[i];

                capo_process_tuned_by(p, other, sizeof other, other_id);
                if (!strcmp(id, other_id))
                        continue;
                PROBLEM(r, OTHER_RULES, p->rank, other, first->rank, text);
                return;
        }
}

/* Not wrong, but it explains why a job is slow. */
static void report_slices(struct capo_page *r)
{
        uint32_t ranks = COUNT_OF(
                p, r->job->processes, r->job->n_processes,
                ANY_OF(of, p->info, p->n_info, capo_info_index(of->key, CAPO_INFO_GPU_MIG) >= 0));

        if (ranks)
                PROBLEM(r, SLICES, ranks, r->job->n_processes);
}

/* Calls captured into a graph move no data; what the graph's replays move is not recorded. */
static void captured_calls(struct capo_page *r)
{
        uint64_t calls = 0;

        for (uint32_t i = 0; i < r->job->n_rows; i++) {
                const struct capo_job_row *row = &r->job->rows[i];

                if (row->flags & CAPO_RECORD_CAPTURED && !(row->flags & CAPO_RECORD_GROUP) &&
                    capo_call_kind(row->call) != CAPO_KIND_OTHER)
                        calls += row->calls;
        }
        if (calls)
                PROBLEM(r, CAPTURED, TEXT_COUNT(calls), calls == 1 ? " was" : "s were");
}

static const char *result_name(int8_t result)
{
        static const char *const names[] = {
                "success",          "unhandled CUDA error", "system error", "internal error",
                "invalid argument", "invalid usage",        "remote error"};

        return result > 0 && (size_t)result < N_ELEMENTS(names) ? names[result] : "unknown error";
}

enum { FAILURES_SHOWN = 4 };

/* Number of failed calls reported so far. */
static uint64_t failed_calls(struct capo_page *r)
{
        uint64_t said = 0;

        for (uint32_t i = 0; i < r->job->n_failures && (r->all || i < FAILURES_SHOWN); i++) {
                const struct capo_job_failure *f = &r->job->failures[i];
                int rank = r->job->processes[f->process].rank;
                struct capo_problem *p = PROBLEM(r, FAILED_CALL, rank, capo_call_name(f->call),
                                                 capo_page_comm(r, f->comm), result_name(f->result),
                                                 TEXT_COUNT(f->calls));

                p->comm = f->comm;
                p->call = f->call;
                p->result = result_name(f->result);
                capo_problem_rank(p, rank);
                said += f->calls;
        }
        return said;
}

#define STILL_NS 1e9 /* a wait of a second is not for communication */

static void stood_still(struct capo_page *r)
{
        for (uint32_t i = 0; i < r->job->n_comms; i++) {
                const struct capo_job_comm *c = &r->job->comms[i];

                for (uint32_t k = 0; c->skew && c->skew->aligned && k < c->n_members; k++) {
                        const struct capo_skew_rank *rank = &c->skew->ranks[k];
                        struct capo_problem *p;
                        char who[300];

                        if (rank->hole_ns < STILL_NS)
                                continue;
                        p = PROBLEM(r, STOOD_STILL, capo_job_member_text(c, &c->members[k], who),
                                    capo_call_name(rank->hole_call), rank->hole_seq, c->name,
                                    TEXT_TIME(rank->hole_ns));
                        p->comm = i;
                        p->call = rank->hole_call;
                        p->seq = rank->hole_seq;
                        capo_problem_rank(p, c->members[k].job_rank);
                }
        }
}

static void masked_ranks(struct capo_page *r)
{
        for (uint32_t i = 0; i < r->job->n_comms; i++) {
                const struct capo_job_member *who;
                struct capo_problem *p;
                char name[300];

                if (!capo_job_masked(&r->job->comms[i], &who))
                        continue;
                p = PROBLEM(r, MASKED, r->job->comms[i].name,
                            who ? "; the fewest dispatches: " : "",
                            who ? capo_job_member_text(&r->job->comms[i], who, name) : "");
                p->comm = i;
                capo_problem_rank(p, who ? who->job_rank : -1);
        }
}

/* Once per clock, for its first process. */
static void clocks_apart(struct capo_page *r)
{
        enum { CLOCKS_SHOWN = 4 };
        const struct capo_job *job = r->job;
        _cleanup_free_ bool *said = xcalloc(job->n_clocks + 1, sizeof *said);
        const char *by = NULL;
        uint32_t n = 0;

        for (uint32_t i = 0; i < job->n_processes && !by; i++)
                by = job->processes[i].clock == job->clock ? job->processes[i].host : NULL;
        for (uint32_t i = 0; i < job->n_processes && by; i++) {
                const struct capo_job_process *p = &job->processes[i];

                if (!p->ahead_ns || said[p->clock])
                        continue;
                said[p->clock] = true;
                if (n++ < CLOCKS_SHOWN || r->all || r->exact)
                        PROBLEM(r, CLOCKS_APART, p->host, TEXT_TIME(fabs((double)p->ahead_ns)),
                                p->ahead_ns > 0 ? "ahead of" : "behind", by);
        }
        if (n > CLOCKS_SHOWN && !r->all && !r->exact)
                PROBLEM(r, CLOCKS_MORE, n - CLOCKS_SHOWN);
}

static void not_kept_calls(struct capo_page *r)
{
        uint64_t total = 0;

        for (uint32_t i = 0; i < r->job->n_processes; i++) {
                const char *one = capo_job_info(&r->job->processes[i], CAPO_INFO_LEFT_OUT);

                total += one ? strtoull(one, NULL, 10) : 0;
        }
        if (total)
                PROBLEM(r, NOT_KEPT, TEXT_COUNT(total));
}

void capo_judge_problems(struct capo_page *r)
{
        const struct capo_job *job = r->job;
        uint64_t failed, said;

        said = failed_calls(r);
        masked_ranks(r);
        stood_still(r);
        capo_judge_stalls(r);
        missing_ranks(r);
        rule_problems(r);
        library_problems(r);
        dead_rows(r);
        report_slices(r);
        clocks_apart(r);
        captured_calls(r);
        for (uint32_t i = 0; i < job->n_comms; i++) {
                const struct capo_skew *s = job->comms[i].skew;
                const struct capo_job_member *masked;

                if (!s || !s->mismatched || capo_job_masked(&job->comms[i], &masked))
                        continue; /* a masked rank skipped calls, so its numbers differ */
                PROBLEM(r, MISMATCH, job->comms[i].name, s->mismatch_seq)->comm = i;
        }
        failed = 0;
        for (uint32_t i = 0; i < job->n_rows; i++)
                failed += job->rows[i].failed;
        if (failed > said)
                PROBLEM(r, FAILED, TEXT_COUNT(failed - said));
        if (job->dropped)
                PROBLEM(r, DROPPED, TEXT_COUNT(job->dropped));
        if (job->shape_overflow)
                PROBLEM(r, SHAPES, TEXT_COUNT(job->shape_overflow));
        not_kept_calls(r);
        if (job->bytes_lost)
                PROBLEM(r, NOT_WRITTEN, TEXT_COUNT(job->bytes_lost));
        capo_judge_logs(r);
}
