/* SPDX-License-Identifier: Apache-2.0 */
/* Loads the logs found by hang_gather.c as a job and makes the verdict, for `capo hang` and `capo
 * watch`. */
#include "capo/msg.h"
#include "cli/hang/cmd_hang.h"
#include "analysis/report/job_judge.h"
#include "analysis/report/stalls.h"
#include "analysis/report/waits_causes.h"
#include "analysis/steps/job_steps.h"
#include "profiles/machine/nvml.h"
#include "core/base/among.h"
#include "core/base/xalloc.h"
#include "core/log/info.h"

/* For a process on this machine; its log has the GPU. */
static bool clocks_now(const struct capo_job *job, uint32_t process, int32_t device,
                       struct capo_gpu_clocks *out)
{
        const struct capo_job_process *p = &job->processes[process];
        struct capo_clock_sample sample;
        const char *busid;
        char key[32];

        snprintf(key, sizeof key, "%s.%d", CAPO_INFO_GPU_BUSID, device);
        busid = capo_job_info(p, key);
        if (!busid || !capo_process_alive(p) || capo_nvml_clocks(busid, &sample) < 0)
                return false;
        *out = (struct capo_gpu_clocks){0};
        capo_gpu_clocks_add(out, &sample);
        return true;
}

/* The current time by the clock that a live process uses for its calls. The machine's clock may
 * have been set since it began, which would make calls look older or younger. */
static uint64_t now_of_calls(const struct hang_page *page)
{
        const struct hang_logs *logs = page->logs;
        const struct capo_job_process *first = page->job->processes,
                                      *p = FIRST_OF(of, first, page->job->n_processes,
                                                    page->known[of - first] >= CAPO_HANG_IS_ALIVE &&
                                                            logs->now_mono_ns >
                                                                    of->header.t0_mono_ns);

        return p ? p->header.t0_real_ns + (logs->now_mono_ns - p->header.t0_mono_ns) : logs->now_ns;
}

/* A process that capo watch saw stopped, and that gave no sign of life since, was stopped until the
 * job was ended. */
static void recall_stops(struct hang_page *page)
{
        double from, to;
        json_t *record = page->hang.over ? capo_watch_record(page->job, &from, &to) : NULL, *who;
        size_t k;

        json_array_foreach(json_object_get(record, "culprits"), k, who)
        {
                const char *why = json_string_value(json_object_get(who, "why"));
                json_int_t pid = json_integer_value(json_object_get(who, "pid")),
                           rank = json_integer_value(json_object_get(who, "rank"));

                for (uint32_t i = 0; i < page->job->n_processes && why; i++) {
                        struct capo_hang_process *p = &page->hang.processes[i];

                        if (strcmp(why, "stopped") || p->ending != CAPO_HANG_BY_KILL ||
                            p->rank != rank || page->job->processes[i].header.pid != pid ||
                            (double)p->end_ns > to)
                                continue;
                        p->life = CAPO_HANG_STOPPED;
                        p->end_ns = (uint64_t)to;
                }
        }
        json_decref(record);
}

int hang_page_read(struct hang_page *page)
{
        struct capo_log_paths *paths = &page->logs->paths;
        char why[512];
        int used = 0, r;

        page->job = capo_job_new();
        page->known = xcalloc(paths->n + 1, sizeof *page->known);
        page->own = xcalloc(paths->n + 1, sizeof(struct capo_log *));
        page->here = xcalloc(paths->n + 1, sizeof *page->here);
        for (size_t i = 0; i < paths->n; i++) {
                const struct hang_log *known = &page->logs->v[i];
                uint32_t process = page->job->n_processes;
                struct capo_log *log;

                if (capo_log_paths_take(paths, i, &log, why, sizeof why) < 0) {
                        capo_warn("left out %s: %s", paths->path[i], why);
                } else {
                        capo_job_add(page->job, log);
                        used++;
                }
                if (process < page->job->n_processes) {
                        page->known[process] = known->known;
                        page->here[process] = known->here;
                }
        }
        if (!used)
                return capo_fail(-ENOENT, "no log to read");
        capo_job_finish(page->job);
        r = capo_hang_read(page->job, page->known, now_of_calls(page), &page->hang, &page->n_stale);
        recall_stops(page);
        if (r == 0)
                capo_hang_judge(&page->hang, &page->verdict);
        return r;
}

void hang_page_judge(struct hang_page *page)
{
        page->late.job = page->job;
        page->late.clocks_now = page->logs->live ? clocks_now : NULL;
        capo_judge_waits(&page->late);
        capo_job_steps(page->job, &page->late.steps);
        capo_judge_change(&page->late);
}

void hang_page_finish(struct hang_page *page)
{
        capo_hang_verdict_finish(&page->verdict);
        capo_hang_job_finish(&page->hang);
        page->late.job = page->job;
        for (uint32_t i = 0; page->own && i < page->job->n_processes; i++)
                capo_log_close(page->own[i]);
        capo_page_finish(&page->late); /* frees the job too */
        xfree(page->known, page->own, page->here);
}
