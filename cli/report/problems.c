/* SPDX-License-Identifier: Apache-2.0 */
/* What a reader must know before believing the numbers: ranks without a log, kills, damage, drops, disagreement. */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/report/report.h"
#include "core/log/rules.h"
#include "cli/base/table.h"
#include "core/base/util.h"

void report_problem(struct report *r, const char *format, ...)
{
        va_list args;
        char *text = NULL;
        void *larger = realloc(r->problems, (r->n_problems + 1) * sizeof *r->problems);

        if (!larger)
                return;
        r->problems = larger;
        va_start(args, format);
        if (vasprintf(&text, format, args) >= 0)
                r->problems[r->n_problems++] = text;
        va_end(args);
}

char *report_ranks_text(const bool *is, uint32_t n_ranks)
{
        char *text = NULL;
        size_t size;
        FILE *out = NULL;

        for (uint32_t from = 0, to; from < n_ranks; from = to) {
                to = from + 1;
                if (is[from])
                        continue;
                while (to < n_ranks && !is[to])
                        to++;
                if (!out && !(out = open_memstream(&text, &size)))
                        return NULL;
                fprintf(out,
                        to - from > 2    ? "%s%u-%u"
                        : to - from == 2 ? "%s%u, %u"
                                         : "%s%u",
                        ftell(out) ? ", " : "", from, to - 1);
        }
        if (out)
                fclose(out);
        return text;
}

static void missing_of(struct report *r, const struct capo_job_comm *c)
{
        _cleanup_free_ bool *is = NULL;
        _cleanup_free_ char *text = NULL;
        uint32_t n_missing;

        if (c->n_ranks <= 0 || c->n_ranks > 1 << 20 || c->n_members >= (uint32_t)c->n_ranks)
                return;
        is = calloc((size_t)c->n_ranks, sizeof *is);
        if (!is)
                return;
        n_missing = (uint32_t)c->n_ranks;
        for (uint32_t i = 0; i < c->n_members; i++) {
                if (c->members[i].rank >= 0 && c->members[i].rank < c->n_ranks && !is[c->members[i].rank]) {
                        is[c->members[i].rank] = true;
                        n_missing--;
                }
        }
        text = report_ranks_text(is, (uint32_t)c->n_ranks);
        if (text)
                report_problem(r, "rank%s %s of %d of communicator %s left no log", n_missing > 1 ? "s" : "", text,
                               c->n_ranks, c->name);
}

/* Ranks by the launcher's count; where there is none, of the largest communicators. */
static void missing_ranks(struct report *r)
{
        const struct capo_job *job = r->job;
        _cleanup_free_ bool *is = job->n_ranks > 0 && job->n_ranks <= 1 << 20 ? calloc((size_t)job->n_ranks, 1) : NULL;
        _cleanup_free_ char *text = NULL;
        bool by_launcher = job->n_processes > 0 && is;
        int32_t n_seen = 0;
        uint32_t n_again = 0;

        for (uint32_t i = 0; i < job->n_processes && is; i++) {
                int rank = job->processes[i].rank;

                by_launcher &= capo_job_info(&job->processes[i], CAPO_INFO_RANK) && rank >= 0 && rank < job->n_ranks;
                if (rank >= 0 && rank < job->n_ranks) {
                        n_again += is[rank];
                        n_seen += !is[rank];
                        is[rank] = true;
                }
        }
        if (n_again && by_launcher)
                report_problem(r,
                               "%u log%s of ranks that have another: several jobs in one folder, or several processes "
                               "per rank",
                               n_again, n_again > 1 ? "s" : "");
        if (by_launcher) {
                text = report_ranks_text(is, (uint32_t)job->n_ranks);
                if (text)
                        report_problem(r, "rank%s %s of %d left no log", job->n_ranks - n_seen > 1 ? "s" : "", text,
                                       job->n_ranks);
                return;
        }
        for (uint32_t i = 0; i < job->n_comms && job->comms[i].n_ranks == job->comms[0].n_ranks && i < 8; i++)
                missing_of(r, &job->comms[i]);
}

const char *report_base_name(const char *path)
{
        const char *slash = strrchr(path, '/');

        return slash ? slash + 1 : path;
}

static bool alive_here(const struct capo_job_process *p)
{
        char host[256] = "";

        gethostname(host, sizeof host - 1);
        return !strcmp(host, p->host) && (kill((pid_t)p->header.pid, 0) == 0 || errno == EPERM);
}

static void process_problems(struct report *r, const struct capo_job_process *p)
{
        const struct capo_log_health *h = &p->health;
        const char *name = report_base_name(p->path);
        char n1[32], n2[32];

        for (uint64_t i = 0; i < h->n_damages && i < CAPO_DAMAGES_KEPT; i++)
                report_problem(r, "%s: damaged at byte %s (%s): %s bytes left out, the rest is used", name,
                               capo_text_count(h->damages[i].offset, n1), h->damages[i].what,
                               capo_text_count(h->damages[i].bytes, n2));
        if (h->n_damages > CAPO_DAMAGES_KEPT)
                report_problem(r, "%s: damaged in %s more places, %s bytes lost in all", name,
                               capo_text_count(h->n_damages - CAPO_DAMAGES_KEPT, n1),
                               capo_text_count(h->bytes_lost, n2));
        if (p->read_error)
                report_problem(r, "%s: reading stopped at %s", name, strerror(-p->read_error));
        if (h->cut_bytes)
                report_problem(r, "%s: ends inside a frame at byte %s; all before it is used", name,
                               capo_text_count(h->cut_at, n1));
}

/* Many logs may share a trouble: one line beyond a few. */
static void all_process_problems(struct report *r)
{
        uint32_t shown = 0, hidden = 0;

        for (uint32_t i = 0; i < r->job->n_processes; i++) {
                const struct capo_job_process *p = &r->job->processes[i];
                uint32_t before = r->n_problems;

                if (shown >= 8 && !r->all) {
                        hidden += p->health.n_damages || p->health.cut_bytes || p->read_error;
                        continue;
                }
                process_problems(r, p);
                shown += r->n_problems - before;
        }
        if (hidden)
                report_problem(r, "%u more logs are cut or damaged: capo report --all names them", hidden);
}

/* Processes that did not end by themselves, or not yet: by rank where ranks are known, else by name. */
static void unfinished(struct report *r, bool alive)
{
        const struct capo_job *job = r->job;
        uint32_t n_ranks = job->n_ranks > 0 && job->n_ranks <= 1 << 20 ? (uint32_t)job->n_ranks : 0, n = 0;
        _cleanup_free_ bool *ended = malloc(n_ranks + 1);
        _cleanup_free_ char *text = NULL;

        if (!ended)
                return;
        memset(ended, true, n_ranks + 1);
        for (uint32_t i = 0; i < job->n_processes; i++) {
                const struct capo_job_process *p = &job->processes[i];

                if ((p->has_end && p->end.clean) || alive_here(p) != alive)
                        continue;
                if (p->rank >= 0 && (uint32_t)p->rank < n_ranks) {
                        ended[p->rank] = false;
                        n++;
                } else {
                        report_problem(r,
                                       alive ? "%s: its process still runs; this is what it has written so far"
                                             : "%s: its process was killed, or ended without an exit that capo sees",
                                       report_base_name(p->path));
                }
        }
        text = report_ranks_text(ended, n_ranks);
        if (text)
                report_problem(
                        r,
                        alive ? "rank%s %s still run%s: this is what has been written so far"
                              : "rank%s %s: killed, or ended without an exit that capo sees%s; all written before is "
                                "used",
                        n > 1 ? "s" : "", text, alive && n < 2 ? "s" : "");
}

/* By what a process tuned: "1111aaaa (/shared/p.json)"; equal for ranks that decide alike, as far as this goes. */
static void tuned_by(const struct capo_job_process *p, char *text, size_t room, char id[160])
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

/* Ranks that tuned by another profile than the first, by other rules of it, or by none. */
static void rule_problems(struct report *r)
{
        const struct capo_job *job = r->job;
        const struct capo_job_process *first = job->processes;
        char text[700], other[700], id[160], other_id[160];

        tuned_by(first, text, sizeof text, id);
        for (uint32_t i = 1; i < job->n_processes; i++) {
                const struct capo_job_process *p = &job->processes[i];

                tuned_by(p, other, sizeof other, other_id);
                if (!strcmp(id, other_id))
                        continue;
                report_problem(r, "rank %d tunes by profile %s, rank %d by %s: ranks that decide differently hang",
                               p->rank, other, first->rank, text);
                return;
        }
}

/* Not wrong, but whoever wonders why it is slow wants to read it. */
static void slices(struct report *r)
{
        const struct capo_job *job = r->job;
        uint32_t ranks = 0;

        for (uint32_t i = 0; i < job->n_processes; i++) {
                bool slice = false;

                for (uint32_t k = 0; k < job->processes[i].n_info; k++)
                        slice |= capo_info_index(job->processes[i].info[k].key, CAPO_INFO_GPU_MIG) >= 0;
                ranks += slice;
        }
        if (ranks)
                report_problem(r,
                               "%u of %u processes run on MIG slices, which neither NVLink nor P2P reaches: NCCL goes "
                               "through the host's memory",
                               ranks, job->n_processes);
}

void report_find_problems(struct report *r)
{
        const struct capo_job *job = r->job;
        uint64_t failed = 0;
        char n[32];

        missing_ranks(r);
        rule_problems(r);
        slices(r);
        for (uint32_t i = 0; i < job->n_comms; i++) {
                const struct capo_skew *s = job->comms[i].skew;

                if (s && s->mismatched)
                        report_problem(
                                r,
                                "ranks of %s disagree on what its call number %u is (kind or size): a hang or wrong "
                                "data",
                                job->comms[i].name, s->mismatch_seq);
        }
        for (uint32_t i = 0; i < job->n_rows; i++)
                failed += job->rows[i].failed;
        if (failed)
                report_problem(r, "%s calls returned an error", capo_text_count(failed, n));
        if (job->dropped)
                report_problem(r,
                               "%s calls were not recorded: a thread's ring was full (CAPO_RING=1M makes them larger)",
                               capo_text_count(job->dropped, n));
        if (job->shape_overflow)
                report_problem(
                        r, "%s calls are counted together: there were more different calls than the log has places for",
                        capo_text_count(job->shape_overflow, n));
        if (job->bytes_lost)
                report_problem(r, "%s bytes of log could not be written (disk full, or the folder went away)",
                               capo_text_count(job->bytes_lost, n));
        unfinished(r, false);
        unfinished(r, true);
        if (r->fabric) {
                char text[256];
                const char *warning = capo_fabric_job_warning(r->fabric, job, text, sizeof text);

                if (warning)
                        report_problem(r, "%s", warning);
        }
        all_process_problems(r);
}
