/* SPDX-License-Identifier: Apache-2.0 */
/* Problems of single logs: processes that did not end, damage. Also: a job that fell back to a slow
 * network. */
#include <sys/stat.h>

#include "analysis/report/page_kinds.h"
#include "core/base/clock.h"
#include "core/base/xalloc.h"
#include "analysis/job/figures.h"
#include "analysis/report/job_judge.h"
#include "core/log/info.h"

void capo_problem_left_out(struct capo_page *r, const char *path, const char *why)
{
        PROBLEM_OF(r, LEFT_OUT, capo_base_name(path), capo_base_name(path), why);
}

static void process_problems(struct capo_page *r, const struct capo_job_process *p)
{
        const struct capo_log_health *h = &p->health;
        const char *name = capo_base_name(p->path);

        for (uint64_t i = 0; i < h->n_damages && i < CAPO_DAMAGES_KEPT; i++)
                PROBLEM_OF(r, DAMAGED, name, name, TEXT_COUNT(h->damages[i].offset),
                           h->damages[i].what, TEXT_COUNT(h->damages[i].bytes));
        if (h->n_damages > CAPO_DAMAGES_KEPT)
                PROBLEM_OF(r, DAMAGED_MORE, name, name,
                           TEXT_COUNT(h->n_damages - CAPO_DAMAGES_KEPT), TEXT_COUNT(h->bytes_lost));
        if (p->read_error)
                PROBLEM_OF(r, UNREAD, name, name, strerror(-p->read_error));
        if (h->cut_bytes)
                PROBLEM_OF(r, CUT, name, name, TEXT_COUNT(h->cut_at));
}

/* Many logs may have the same problem: above a few, print one line. */
static void all_process_problems(struct capo_page *r)
{
        uint32_t shown = 0, hidden = 0;

        for (uint32_t i = 0; i < r->job->n_processes; i++) {
                const struct capo_job_process *p = &r->job->processes[i];
                uint32_t before = r->n_problems;

                if (shown >= 8 && !r->all && !r->exact) {
                        hidden += p->health.n_damages || p->health.cut_bytes || p->read_error;
                        continue;
                }
                process_problems(r, p);
                shown += r->n_problems - before;
        }
        if (hidden)
                PROBLEM(r, MORE_LOGS, hidden);
}

/* State of a process whose end was not recorded. UNREAD: it runs, but only its log can be read,
 * which is as old as the last write. CUT: the end of its log is missing. */
enum life { DEAD, AWAY, ALIVE, UNREAD, CUT };

static enum life life_of(const struct capo_job_process *p)
{
        const char *trace = capo_job_info(p, CAPO_INFO_TRACE);

        if (!capo_process_alive(p))
                return p->health.cut_bytes && !(p->has_end && p->end.clean) ? CUT
                       : capo_process_away(p)                               ? AWAY
                                                                            : DEAD;
        return !p->log || capo_log_in_memory(p->log) || (trace && !strcmp(trace, "all")) ? ALIVE
                                                                                         : UNREAD;
}

#define DAY_NS 86400000000000u

/* @name: of the log, of a process without a rank; NULL: of the @n @ranks. */
static struct capo_problem *add_life(struct capo_page *r, enum life life, const char *name,
                                     uint32_t n, const char *ranks, uint64_t written)
{
        uint64_t now = capo_clock_of(CLOCK_REALTIME);
        _cleanup_free_ char *who =
                name ? xstrdup(name) : xprintf("rank%s %s", n > 1 ? "s" : "", ranks);
        const char *does = n < 2 ? "s" : "", *ago, *when;

        ago = TEXT_TIME(now > written ? (double)(now - written) : 0);
        when = TEXT_WHEN(written, now - written < DAY_NS ? "%H:%M:%S" : "%Y-%m-%d %H:%M:%S");
        switch (life) {
        case DEAD: return PROBLEM_OF(r, KILLED, name, who);
        case AWAY: return PROBLEM_OF(r, NOT_ENDED, name, who);
        case ALIVE: return PROBLEM_OF(r, RUNNING, name, who, does);
        case UNREAD:
                return PROBLEM_OF(r, MEMORY, name, who, does, n < 2 ? "it" : "them", when, ago);
        default: /* CUT is said of the log itself */
                return name ? NULL
                            : PROBLEM(r, NO_END, who, n > 1 ? "they" : "it",
                                      n > 1 ? "their logs" : "its log");
        }
}

/* Processes that did not end by themselves, or still run: by rank or name; not those killed in exit(). */
static void report_unfinished(struct capo_page *r, enum life life)
{
        const struct capo_job *job = r->job;
        uint32_t n_ranks = job->n_ranks > 0 && job->n_ranks <= 1 << 20 ? (uint32_t)job->n_ranks : 0,
                 n = 0;
        uint64_t first = UINT64_MAX, written; /* the earliest of the last write times */
        struct stat st;
        _cleanup_free_ bool *ended = NULL; /* most processes ended */
        _cleanup_free_ char *text = NULL;

        for (uint32_t i = 0; i < job->n_processes; i++) {
                const struct capo_job_process *p = &job->processes[i];
                const char *status = capo_job_info(p, CAPO_INFO_EXIT);

                if (capo_process_ended(job, p) || life_of(p) != life ||
                    (life == DEAD && status && atoi(status)))
                        continue;
                /* when its log was last written; if it no longer exists, its begin */
                written = life != UNREAD           ? 0
                          : stat(p->path, &st) < 0 ? p->header.t0_real_ns
                                                   : (uint64_t)st.st_mtim.tv_sec * 1000000000u +
                                                             (uint64_t)st.st_mtim.tv_nsec;
                if (p->rank < 0 || (uint32_t)p->rank >= n_ranks) {
                        add_life(r, life, capo_base_name(p->path), 1, NULL, written);
                        continue;
                }
                if (!n++)
                        ended = memset(xmalloc(n_ranks), true, n_ranks);
                ended[p->rank] = false;
                first = written < first ? written : first;
        }
        text = ended ? capo_ranks_text(ended, n_ranks) : NULL;
        if (text)
                capo_problem_ranks(add_life(r, life, NULL, n, text, first), ended, n_ranks);
}

void capo_judge_logs(struct capo_page *r)
{
        report_unfinished(r, DEAD);
        report_unfinished(r, AWAY);
        report_unfinished(r, CUT);
        capo_judge_endings(r);
        report_unfinished(r, ALIVE);
        report_unfinished(r, UNREAD);
        if (r->fabric) {
                char text[256];
                const char *warning = capo_fabric_job_warning(r->fabric, r->job, text, sizeof text);

                if (warning)
                        PROBLEM(r, NETWORK, warning);
        }
        all_process_problems(r);
}
