/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/diagnose/recorded_bugs.h"
#include "analysis/report/job_judge.h"
#include "analysis/report/page_kinds.h"
#include "core/base/calls.h"
#include "core/base/nccl_release.h"
#include "core/base/xalloc.h"
#include "core/log/info.h"

struct recorded {
        const struct capo_job *job;
        char *settings; /* the different settings of all ranks, and the names of the GPUs */
        const char *stacks;
};

static bool recorded_has(const char *text, void *arg)
{
        const struct recorded *r = arg;

        if (strstr(r->settings, text) || (r->stacks && strstr(r->stacks, text)))
                return true;
        for (uint32_t i = 0; i < r->job->n_rows; i++) {
                if (!strcmp(capo_call_name(r->job->rows[i].call), text))
                        return true;
        }
        return false;
}

/* Collect the settings of all processes; equal ones share a line. */
static char *collect_settings(const struct capo_job *job)
{
        const char *last[2] = {"", ""}, *now[2];
        char *text = NULL;
        size_t size;
        FILE *out = xmemstream(&text, &size);

        for (uint32_t i = 0; i < job->n_processes && out; i++) {
                now[0] = capo_job_info(&job->processes[i], CAPO_INFO_NCCL_SETTINGS);
                now[1] = capo_job_info(&job->processes[i], CAPO_INFO_GPU_NAME);
                for (unsigned k = 0; k < 2; k++) {
                        if (now[k] && strcmp(now[k], last[k]) != 0)
                                fprintf(out, "%s\n", last[k] = now[k]);
                }
        }
        xmemclose(out);
        return text;
}

static int find_release(const struct capo_job *job)
{
        for (uint32_t i = 0; i < job->n_processes; i++) {
                const char *text = capo_job_info(&job->processes[i], CAPO_INFO_NCCL_VERSION);

                if (text)
                        return capo_nccl_named(text);
        }
        return 0;
}

int capo_recorded_bugs(const struct capo_job *job, unsigned effects, const char *stacks,
                       struct capo_recorded_bug *out)
{
        _cleanup_free_ char *settings = collect_settings(job);
        struct recorded r = {.job = job, .settings = settings, .stacks = stacks};
        int nccl = find_release(job), n = 0;

        for (int match = CAPO_BUG_FITS; match >= CAPO_BUG_MAYBE; match--) {
                for (size_t i = 0; i < capo_n_known_bugs && n < CAPO_RECORDED_BUGS; i++) {
                        const struct capo_known_bug *b = &capo_known_bugs[i];
                        int release = b->of == CAPO_BUG_NCCL ? nccl : 0;

                        if (!(effects & 1u << b->effect) || (b->of == CAPO_BUG_NCCL && !nccl) ||
                            (int)capo_bug_match(b, release, recorded_has, &r) != match)
                                continue;
                        out[n++] = (struct capo_recorded_bug){b, match};
                }
        }
        return n;
}

char *capo_bug_fixed(const struct capo_known_bug *bug, char *text)
{
        char release[16];

        snprintf(text, 32, bug->of == CAPO_BUG_MACHINE ? "a setting" : "no fix known to capo");
        if (bug->fixed < CAPO_NCCL_LAST)
                snprintf(text, 32, "fixed in %s",
                         capo_nccl_text((uint32_t)bug->fixed, release, sizeof release));
        return text;
}

char *capo_bug_text(const struct capo_known_bug *bug, char *text, size_t room)
{
        char fixed[32];

        snprintf(text, room, "%s %s: %s: %s (%s, %s)", capo_bug_software(bug->of),
                 capo_bug_does(bug->effect), bug->when, bug->advice, capo_bug_fixed(bug, fixed),
                 bug->link);
        return text;
}

void capo_page_bugs(struct capo_page *page)
{
        unsigned effects = 1u << CAPO_BUG_CORRUPT | 1u << CAPO_BUG_SLOW;
        struct capo_recorded_bug found[CAPO_RECORDED_BUGS];
        char text[512];
        int n;

        for (uint32_t i = 0; i < page->n_problems; i++) {
                enum capo_problem_kind kind = page->problems[i].kind;

                if (kind == CAPO_PROBLEM_KILLED)
                        effects |= 1u << CAPO_BUG_CRASH | 1u << CAPO_BUG_HANG;
                else if (kind == CAPO_PROBLEM_STOOD_STILL)
                        effects |= 1u << CAPO_BUG_HANG;
        }
        n = capo_recorded_bugs(page->job, effects, NULL, found);
        for (int i = 0; i < n; i++)
                PROBLEM(page, KNOWN_BUG, capo_bug_text(found[i].bug, text, sizeof text));
}
