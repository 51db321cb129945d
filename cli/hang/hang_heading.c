/* SPDX-License-Identifier: Apache-2.0 */
/* The heading: which job it is, and how its processes ended. */
#include <pwd.h>

#include "analysis/hang/wait_graph.h"
#include "analysis/job/figures.h"
#include "cli/hang/hang_describe.h"
#include "core/base/among.h"
#include "core/base/order.h"
#include "core/log/info.h"

enum { ENDS_SHOWN = 8, MOMENT_NS = 1000000000 };

/* The user named no job: print which one it is, and whose. */
static void print_newest(const struct hang_page *p, const struct capo_job_process *first, FILE *out)
{
        const char *slash = strrchr(first->path, '/'), *uid = capo_job_info(first, CAPO_INFO_UID);
        const struct passwd *user = uid ? getpwuid((uid_t)strtoul(uid, NULL, 10)) : NULL;
        char title[256];

        if (!capo_job_info(first, CAPO_INFO_JOB))
                fprintf(out, "  %s", capo_page_title(&p->late, title, sizeof title));
        fprintf(out, "  in %.*s", slash ? (int)(slash - first->path) : 1,
                slash ? first->path : ".");
        if (user)
                fprintf(out, "  user %s", user->pw_name);
}

/* Ranks can wait while others make calls. */
static const char *since_words(const struct hang_page *p)
{
        if (ANY_OF(of, p->hang.processes, p->hang.n_processes,
                   capo_hang_active_ns(of) > p->verdict.since_ns + MOMENT_NS))
                return p->hang.over ? "ranks had waited" : "ranks wait, others make calls,";
        return p->hang.over ? "had made no progress" : "no progress";
}

void hang_heading(const struct hang_page *p, FILE *out)
{
        const struct capo_hang_verdict *v = &p->verdict;
        const struct capo_job_process *first = p->job->n_processes ? p->job->processes : NULL;
        const char *id = first ? capo_job_info(first, CAPO_INFO_JOB) : NULL,
                   *name = first ? capo_job_info(first, CAPO_INFO_JOB_NAME) : NULL;
        /* ranks that RAS does not name may be on other nodes */
        uint32_t n_nodes = p->hang.n_nodes   ? p->hang.n_nodes
                           : p->hang.partial ? 0
                                             : p->job->n_nodes;
        char ranks[120];

        fprintf(out, "capo hang%s%s%s%s", id ? "  job " : "", id ? id : "", name ? "  " : "",
                name ? name : "");
        if (p->newest && first)
                print_newest(p, first, out);
        if (p->hang.over)
                fprintf(out, "  ended at %s", hang_clock(p->hang.now_ns));
        if (v->kind != CAPO_HANG_HEALTHY && v->kind != CAPO_HANG_ENDED && v->still_ns)
                fprintf(out, "  %s since %s (%s)", since_words(p), hang_clock(v->since_ns),
                        capo_text_time((double)v->still_ns, hang_room()));
        if (p->job->n_ranks)
                fprintf(out, "  %s", capo_job_ranks_text(p->job, n_nodes, ranks));
        fputc('\n', out);
}

/* Is its end listed, so that readers can judge the order? */
static bool is_end_listed(const struct hang_page *p, const struct capo_hang_process *of)
{
        return of->ending != CAPO_HANG_RUNS &&
               (p->verdict.kind == CAPO_HANG_ENDED || p->verdict.together);
}

static bool comes_before(const struct capo_hang_process *a, const struct capo_hang_process *b,
                         bool ended)
{
        int order = ended ? CAPO_ORDER(a->end_ns, b->end_ns) : CAPO_ORDER(a->rank, b->rank);

        return order ? order < 0 : a < b;
}

uint32_t hang_next(const struct hang_page *p, uint32_t after, bool ended)
{
        const struct capo_hang_process *all = p->hang.processes, *best = NULL;

        for (const struct capo_hang_process *of = all; of < PAST_OF(all, p->hang.n_processes);
             of++) {
                if ((ended ? is_end_listed(p, of) : of->ending == CAPO_HANG_RUNS) &&
                    (after == CAPO_HANG_NONE || comes_before(&all[after], of, ended)) &&
                    (!best || comes_before(of, best, ended)))
                        best = of;
        }
        return best ? (uint32_t)(best - all) : CAPO_HANG_NONE;
}

void hang_ends(const struct hang_page *p, FILE *out)
{
        uint32_t n = 0, i = CAPO_HANG_NONE,
                 all = COUNT_OF(of, p->hang.processes, p->hang.n_processes, is_end_listed(p, of));

        while (all > 1 && n < ENDS_SHOWN && (i = hang_next(p, i, true)) != CAPO_HANG_NONE) {
                uint64_t end_ns = p->hang.processes[i].end_ns;

                fprintf(out, "  %s %s.%03u %s: %s\n",
                        p->hang.processes[i].ending == CAPO_HANG_BY_KILL ? "last sign of life"
                                                                         : "ended at",
                        hang_clock(end_ns), (unsigned)(end_ns / 1000000 % 1000), hang_who(p, i),
                        hang_ending(p, i));
                n++;
        }
        if (all > 1 && n < all)
                fprintf(out, "  and %u more ended later\n", all - n);
}
