/* SPDX-License-Identifier: Apache-2.0 */

#include "analysis/hang/hang_verdict.h"
#include "analysis/job/job.h"
#include "core/base/text.h"

static const struct {
        const char *name, *meaning, *next;
        int exit;
} kinds[CAPO_HANG_KINDS] =
        {
#define HANG_KIND(id, name, exit) [CAPO_HANG_##id] = {name, NULL, NULL, exit},
#include "analysis/hang/hang_kinds.def"
},
  whys[CAPO_HANG_WHYS] = {
#define HANG_WHY(id, name, meaning, next) [CAPO_HANG_WHY_##id] = {name, meaning, next, 0},
#include "analysis/hang/hang_kinds.def"
};

const char *capo_hang_kind_name(enum capo_hang_kind kind) { return kinds[kind].name; }

int capo_hang_kind_exit(enum capo_hang_kind kind) { return kinds[kind].exit; }

const char *capo_hang_why_name(enum capo_hang_why why) { return whys[why].name; }

const char *capo_hang_why_meaning(enum capo_hang_why why) { return whys[why].meaning; }

/* The processes of the first culprit's node that did not come for the same reason. */
static void append_pids(const struct capo_job *job, const struct capo_hang_verdict *v, char *text)
{
        const struct capo_hang_culprit *first = &v->culprits[0];
        const char *host = job->processes[first->process].host;
        unsigned n = 0;

        for (uint32_t i = 0; i < v->n_culprits && n < 8; i++) {
                const struct capo_job_process *p = &job->processes[v->culprits[i].process];

                if (v->culprits[i].why == first->why && !strcmp(p->host, host))
                        capo_append(text, CAPO_HANG_NEXT, "%s%u", n++ ? " " : "", p->header.pid);
        }
}

const char *capo_hang_next(const struct capo_job *job, const struct capo_hang_verdict *v,
                           char text[CAPO_HANG_NEXT])
{
        const struct capo_hang_culprit *first = &v->culprits[0];
        const struct capo_job_process *of = &job->processes[first->process];
        bool differs = v->disagreed.call && v->disagreed.process == first->process;
        const char *from = whys[differs ? CAPO_HANG_WHY_DIFFERS : first->why].next;

        *text = 0;
        for (const bool known = of->header.pid && *of->host; *from; from++) {
                if (known && !strncmp(from, "NODE", 4)) {
                        capo_append(text, CAPO_HANG_NEXT, "%s", of->host);
                        from += 3;
                } else if (known && !strncmp(from, "PID", 3)) {
                        if (first->why == CAPO_HANG_WHY_STOPPED)
                                append_pids(job, v, text);
                        else
                                capo_append(text, CAPO_HANG_NEXT, "%u", of->header.pid);
                        from += 2;
                } else {
                        capo_append(text, CAPO_HANG_NEXT, "%c", *from);
                }
        }
        return text;
}

const char *capo_hang_sure_name(enum capo_hang_sure sure)
{
        static const char *const names[] = {"unsure", "likely", "certain"};

        return names[sure];
}
