/* SPDX-License-Identifier: Apache-2.0 */
/* The heading: which job it is, and how its processes ended. */
#include <pwd.h>

#include "analysis/hang/wait_graph.h"
#include "analysis/job/figures.h"
#include "cli/hang/hang_describe.h"
#include "core/base/among.h"
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
static bool is_end_listed(const struct hang_page *p, uint32_t process)
{
        return p->hang.processes[process].ending != CAPO_HANG_RUNS &&
               (p->verdict.kind == CAPO_HANG_ENDED || p->verdict.together);
}

uint32_t hang_next_end(const struct hang_page *p, uint32_t after)
{
        uint64_t after_ns = after == CAPO_HANG_NONE ? 0 : p->hang.processes[after].end_ns;
        uint32_t best = CAPO_HANG_NONE;

        for (uint32_t i = 0; i < p->hang.n_processes; i++) {
                uint64_t end_ns = p->hang.processes[i].end_ns;

                if (!is_end_listed(p, i) || end_ns < after_ns ||
                    (end_ns == after_ns && after != CAPO_HANG_NONE && i <= after))
                        continue;
                if (best == CAPO_HANG_NONE || end_ns < p->hang.processes[best].end_ns)
                        best = i;
        }
        return best;
}

void hang_ends(const struct hang_page *p, FILE *out)
{
        uint32_t n = 0, all = 0, i = CAPO_HANG_NONE;

        for (uint32_t k = 0; k < p->hang.n_processes; k++)
                all += is_end_listed(p, k);
        while (all > 1 && n < ENDS_SHOWN && (i = hang_next_end(p, i)) != CAPO_HANG_NONE) {
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
