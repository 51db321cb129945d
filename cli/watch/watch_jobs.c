/* SPDX-License-Identifier: Apache-2.0 */
/* Samples the recorded processes: finds jobs, new ones, and ended ones. */
#include <malloc.h>
#include <pwd.h>

#include "cli/report/cmd_report.h"
#include "cli/watch/watch_jobs.h"
#include "core/base/among.h"
#include "core/base/xalloc.h"
#include "core/log/info.h"
#include "capo/env.h"
#include "capo/msg.h"
#include "analysis/log/pack.h"
#include "analysis/log/recover.h"
#include "analysis/report/job_judge.h"

#define BURST_NS 1000000000 /* a host that makes all its steps faster runs ahead of the GPU */

static void drop_sample(struct watch_job *j)
{
        capo_fabric_job_free(j->fabric);
        j->fabric = NULL;
        hang_page_finish(&j->page);
        j->page = (struct hang_page){0};
        j->readable = false;
}

static void free_job(struct watch_job *j)
{
        drop_sample(j);
        hang_logs_finish(&j->logs);
        capo_live_rows_finish(&j->rows);
        free(j->ceiling);
}

/* The job of the last sample that has a process in common. */
static struct watch_job *find_job(struct watch *w, const struct hang_logs *logs)
{
        return FIRST_OF(
                j, w->job, w->n_jobs,
                ANY_OF(own, logs->paths.path, logs->paths.n,
                       ANY_OF(path, j->logs.paths.path, j->logs.paths.n, !strcmp(*path, *own))));
}

/* The launcher's job id, or the folder of its logs; with a pid if another job has that name. */
static void name_job(const struct watch *w, struct watch_job *j)
{
        const char *id = NULL, *folder = strrchr(j->folder, '/');
        size_t n;

        for (uint32_t i = 0; i < j->page.job->n_processes && !id; i++)
                id = capo_job_info(&j->page.job->processes[i], CAPO_INFO_JOB);
        folder = folder && folder[1] ? folder + 1 : NULL;
        if (!id || (folder && !strncmp(folder, id, strlen(id)))) /* "48213.0" is more precise */
                id = folder ? folder : id ? id : "-";
        snprintf(j->id, sizeof j->id, "%.100s", id);
        n = strlen(j->id);
        for (char *c = j->id; *c; c++) /* as in a label: ids that look alike are alike */
                *c = *c < ' ' || *c > '~' ? '?' : *c;
        if (ANY_OF(other, w->job, w->n_jobs, other != j && !strcmp(other->id, j->id)))
                snprintf(j->id + n, sizeof j->id - n, ":%d", j->logs.v[0].pid);
}

/* Were all visible steps made in a burst, and has a call been on the GPU for longer since? */
static bool is_burst(const struct watch_job *j, const struct capo_job_steps *s)
{
        const struct capo_step *first = s->steps.step, *last = &s->steps.step[s->steps.n - 1];
        uint64_t took_ns = last->t_ns + last->ns - first->t_ns;

        return took_ns < BURST_NS && watch_age_ns(j, s->process) > took_ns;
}

/* Steps never decrease. If a sample groups the calls differently from an earlier one and counts
 * fewer steps, it is unknown which is right. */
static void keep_steps(struct watch_job *j)
{
        struct capo_job_steps *s = &j->page.late.steps;

        if (s->steps.n && is_burst(j, s))
                capo_job_steps_finish(s);
        if (s->steps.known == CAPO_STEPS_NONE || !s->total)
                return;
        if (s->total < j->steps) {
                s->total = s->steps.period == j->period ? j->steps : 0;
        } else {
                j->steps = s->total;
                j->period = s->steps.period;
        }
}

/* Ceilings of the rows from the recorded machine. Computed again only when ranks or communicators
 * were added: 16 ranks over NICs take 70 ms. */
static void give_ceilings(struct watch_job *j)
{
        static const struct report_options none = {0};
        struct capo_page *page = &j->page.late;
        size_t size = (page->job->n_comms + 1) * sizeof *page->ceiling;

        if (j->ceiling_comms == page->job->n_comms &&
            j->ceiling_processes == page->job->n_processes) {
                if (j->ceiling)
                        page->ceiling = memcpy(xmalloc(size), j->ceiling, size);
                return;
        }
        free(j->ceiling);
        j->ceiling = NULL;
        j->ceiling_comms = page->job->n_comms;
        j->ceiling_processes = page->job->n_processes;
        if (report_ceilings(page, &none) == 0 && page->ceiling) /* else the reason was printed */
                j->ceiling = memcpy(xmalloc(size), page->ceiling, size);
}

/* With the rights of its owner. */
static void read_job(struct watch *w, struct watch_job *j)
{
        if (watch_users_enter(&j->owner) < 0)
                return;
        j->page = (struct hang_page){.logs = &j->logs, .after_s = w->options->hang ?: 10};
        j->page.hang.after_ns = (uint64_t)(j->page.after_s * 1e9);
        j->readable = hang_page_read(&j->page) == 0;
        if (j->readable) {
                hang_page_judge(&j->page);
                give_ceilings(j);
                capo_judge_rows(&j->page.late);
                keep_steps(j);
                j->fabric = capo_fabric_job_new(j->page.job);
                capo_live_rows_update(&j->rows, &j->page.late, j->page.hang.now_ns);
        }
        if (j->readable && !*j->id) {
                const char *own = j->logs.paths.path[0], *slash = strrchr(own, '/');
                const struct passwd *user = getpwuid(geteuid());

                snprintf(j->folder, sizeof j->folder, "%.*s", slash ? (int)(slash - own) : 0,
                         slash ? own : "");
                snprintf(j->user, sizeof j->user, "%u", geteuid());
                if (user)
                        snprintf(j->user, sizeof j->user, "%s", user->pw_name);
                name_job(w, j);
        }
        watch_users_leave();
}

/* Add the logs to their job, or make one. */
static void take_logs(struct watch *w, struct hang_logs *logs, const struct watch_user *user)
{
        struct watch_job *j = find_job(w, logs);

        if (!j && !logs->live)
                return;
        if (!j)
                j = xput(w->job, w->n_jobs, 0);
        drop_sample(j);
        hang_logs_finish(&j->logs);
        j->logs = *logs;
        *logs = (struct hang_logs){0};
        j->here = j->logs.live;
        j->owner = *user;
}

static int recover_one(const struct capo_segment_info *info, void *arg)
{
        capo_segment_recover(info->path, NULL, NULL);
        return 0;
}

static void say_failed(const struct capo_pack_event *event, void *unused)
{
        if (event->what == CAPO_PACK_FAILED)
                capo_warn("watch: %s: %s", event->path, event->why);
}

/* With the owner's rights: add the memory of killed processes to their logs; then CAPO_GATHER.
 * @until: started by capo run, whose report describes killed processes in more detail. */
static void finish_logs(const struct watch_user *user, const char *folder, bool until)
{
        struct capo_env env;
        bool gather;

        capo_env_read(&env);
        gather = folder && !strcmp(env.gather, "node");
        if ((until && !gather) || watch_users_enter(user) < 0)
                return;
        capo_segment_find(NULL, folder, false, recover_one, NULL);
        if (gather)
                capo_pack_folder(folder, until, false, say_failed, NULL);
        watch_users_leave();
}

void watch_finish_logs(const struct watch *w)
{
        _cleanup_free_ struct watch_user *users = NULL;
        int n = watch_users_find(w->only, !w->options->until, &users);

        for (int i = 0; i < n; i++)
                finish_logs(&users[i], w->options->dir, w->options->until);
}

static void remove_gone(struct watch *w, void (*gone)(struct watch *w, struct watch_job *job))
{
        uint32_t kept = 0;

        for (uint32_t i = 0; i < w->n_jobs; i++) {
                struct watch_job *j = &w->job[i];

                if (j->here) {
                        w->job[kept++] = *j;
                        continue;
                }
                gone(w, j);
                if (*j->folder && !w->options->until)
                        finish_logs(&j->owner, j->folder, false);
                free_job(j);
        }
        w->n_jobs = kept;
}

static int gather_jobs(struct watch *w, const struct watch_user *user)
{
        struct hang_logs *jobs = NULL;
        uint32_t n = 0;
        int r;

        if (watch_users_enter(user) < 0)
                return 0;
        r = hang_gather_here(w->options->dir, w->options->below, &w->sampled_ns, &jobs, &n);
        for (uint32_t i = 0; i < n; i++) {
                if (r == 0)
                        take_logs(w, &jobs[i], user);
                hang_logs_finish(&jobs[i]);
        }
        free(jobs);
        watch_users_leave();
        return r;
}

int watch_sample(struct watch *w, void (*gone)(struct watch *w, struct watch_job *job))
{
        _cleanup_free_ struct watch_user *users = NULL;
        int r = 0, n = watch_users_find(w->only, !w->options->until, &users);

        if (n < 0)
                return n;
        for (uint32_t i = 0; i < w->n_jobs; i++)
                w->job[i].here = false;
        for (int i = 0; i < n && r == 0; i++)
                r = gather_jobs(w, &users[i]);
        if (r == 0)
                remove_gone(w, gone);
        for (uint32_t i = 0; i < w->n_jobs && r == 0; i++)
                read_job(w, &w->job[i]);
        malloc_trim(0);
        return r;
}

void watch_finish(struct watch *w)
{
        for (uint32_t i = 0; i < w->n_jobs; i++)
                free_job(&w->job[i]);
        free(w->job);
        w->job = NULL;
        w->n_jobs = 0;
}

enum capo_hang_kind watch_kind(const struct watch_job *job)
{
        return job->stuck.since_ns ? job->stuck.kind : job->page.verdict.kind;
}

uint64_t watch_age_ns(const struct watch_job *job, uint32_t i)
{
        const struct capo_hang_process *p = &job->page.hang.processes[i];
        const uint64_t now = job->page.hang.now_ns;

        return MOST_OF(c, p->calls, p->n_calls,
                       (c->where != CAPO_HANG_RETURNED || c->gpu == CAPO_HANG_GPU_RUNNING ||
                        c->gpu == CAPO_HANG_GPU_BUSY) &&
                                       c->begin_ns < now
                               ? now - c->begin_ns
                               : 0);
}
