/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the processes and logs of the job. For a process whose memory can be read, that is used
 * instead of its log. */
#include <sys/stat.h>

#include "capo/msg.h"
#include "cli/hang/cmd_hang.h"
#include "core/base/among.h"
#include "core/base/clock.h"
#include "core/base/xalloc.h"
#include "analysis/log/live_jobs.h"
#include "analysis/log/live_logs.h"
#include "analysis/process/proc_pid.h"

#define STUCK_NS 10000000000 /* as --after is by default */

struct segments {
        struct capo_segment_info *v;
        uint32_t *named; /* which PID among the words means it, from 1; 0: none */
        uint32_t n;
};

static int keep_segment(const struct capo_segment_info *info, void *arg)
{
        struct segments *s = arg;

        *xadd(s->v, s->n) = *info;
        return 0;
}

/* Takes ownership of @log, which may be NULL, in any case. */
static void add_log(struct hang_logs *logs, const char *path, struct capo_log *log,
                    struct hang_log known)
{
        xarray_room(&logs->v, logs->paths.n, sizeof *logs->v);
        logs->v[logs->paths.n] = known;
        capo_log_paths_add(&logs->paths, path, log);
}

static void move_log(struct hang_logs *logs, struct capo_log_paths *paths, size_t i)
{
        add_log(logs, paths->path[i], steal(&paths->log[i]),
                (struct hang_log){.known = CAPO_HANG_BY_LOG});
}

/* Are these digits, and @word no file? */
static bool is_number(const char *digits, const char *word)
{
        return *digits && !digits[strspn(digits, "0123456789")] && access(word, F_OK) != 0;
}

static bool is_pid(const char *word) { return is_number(word, word); }

static bool same_folder(const char *a, const char *b)
{
        return *a && capo_log_folder_size(a) == capo_log_folder_size(b) &&
               !memcmp(a, b, capo_log_folder_size(a));
}

/* Is @s that process, and not an earlier one with the same pid? */
static bool has_number(const struct capo_segment_info *s, int pid)
{
        char state = s->pid == pid && !s->alive ? capo_pid_state(pid) : 0;

        return s->pid == pid && (!state || state == 'Z');
}

static bool is_started_by(const struct capo_segment_info *s, int pid)
{
        for (int at = s->pid, n = 0; s->alive && s->here && at > 1 && n < 64; n++) {
                at = capo_pid_parent(at);
                if (at == pid)
                        return true;
        }
        return false;
}

/* Mark the process with the pid @word or, if it is that of no recorded process, those that it started. */
static void name_segments(struct segments *all, const char *word, uint32_t nth)
{
        int pid = atoi(word);
        bool own = ANY_OF(s, all->v, all->n, has_number(s, pid));

        all->named = all->named ?: xcalloc(all->n + 1, sizeof *all->named);
        for (uint32_t i = 0; i < all->n; i++)
                if (!all->named[i] &&
                    (own ? has_number(&all->v[i], pid) : is_started_by(&all->v[i], pid)))
                        all->named[i] = nth;
}

/* Is process @s meant: by its pid or that of another process of its job, or by the folder of its
 * log? */
static bool is_process_meant(const struct segments *all, const struct capo_segment_info *s, int n,
                             char **words, const struct capo_log_paths *paths)
{
        if (all->named &&
            ANY_OF(k, all->v, all->n,
                   all->named[k - all->v] && (k == s || same_folder(k->log_path, s->log_path))))
                return true;
        /* DIR@2: that job alone, whatever else runs there */
        if (ANY_OF(word, words, n,
                   strrchr(*word, '@') && is_number(strrchr(*word, '@') + 1, *word)))
                return ANY_OF(path, paths->path, paths->n, capo_log_path_is(*path, s->log_path));
        for (size_t i = 0; i < paths->n_folders; i++) {
                _cleanup_free_ char *real = realpath(paths->folder[i], NULL);

                if (real && strlen(real) == capo_log_folder_size(s->log_path) &&
                    !memcmp(real, s->log_path, strlen(real)))
                        return true;
        }
        return n == 0;
}

static void gather_segment(struct hang_logs *logs, const struct capo_segment_info *s)
{
        bool stopped = s->alive && s->here && capo_pid_stopped(s->pid); /* before it is read */
        uint8_t known = CAPO_HANG_IS_DEAD;
        struct capo_log *log;
        int r = capo_live_log_open(s, &log);

        if (r < 0) { /* use its log; a process that has just ended is normal */
                if (r != -ENOENT)
                        capo_warn("pid %d cannot be looked at: %s", s->pid, strerror(-r));
                return;
        }
        if (s->alive)
                known = stopped || (s->here && capo_pid_stopped(s->pid)) ? CAPO_HANG_IS_STOPPED
                                                                         : CAPO_HANG_IS_ALIVE;
        add_log(logs, s->log_path, log, (struct hang_log){s->pid, s->here, known});
}

/* Was the process that writes this log read from its memory? */
static bool is_read(const struct hang_logs *logs, const char *path)
{
        return ANY_OF(own, logs->paths.path, logs->paths.n,
                      logs->v[own - logs->paths.path].pid && capo_log_path_is(path, *own));
}

/* The job of a process that the words name, of the first such word; else the newest with a running
 * process; CAPO_LOG_NO_JOB: none. */
static uint32_t choose_job(const struct hang_logs *logs, const struct segments *all,
                           const uint32_t *job, bool *named)
{
        uint32_t newest = CAPO_LOG_NO_JOB, wanted = CAPO_LOG_NO_JOB, nth = UINT32_MAX;

        for (size_t i = 0; i < logs->paths.n; i++) {
                const struct capo_segment_info *s;

                if (job[i] == CAPO_LOG_NO_JOB)
                        continue;
                s = FIRST_OF(of, all->v, all->named ? all->n : 0,
                             all->named[of - all->v] && of->pid == logs->v[i].pid &&
                                     !strcmp(of->log_path, logs->paths.path[i]));
                if (s && all->named[s - all->v] < nth) {
                        nth = all->named[s - all->v];
                        wanted = job[i];
                }
                if (logs->v[i].known >= CAPO_HANG_IS_ALIVE &&
                    (newest == CAPO_LOG_NO_JOB || job[i] > newest))
                        newest = job[i];
        }
        *named = wanted != CAPO_LOG_NO_JOB;
        return *named ? wanted : newest;
}

/* Of several jobs, take the named one, else the newest that runs, else the newest; mention the
 * others. */
static int one_job(struct hang_logs *logs, const struct segments *all)
{
        struct capo_log_paths *paths = &logs->paths;
        _cleanup_free_ uint32_t *job = xcalloc(paths->n + 1, sizeof *job);
        _cleanup_free_ struct capo_log_job *jobs = NULL;
        int n_jobs = capo_log_jobs(paths, job, &jobs);
        uint32_t wanted;
        bool named = false, runs;
        size_t n = 0;

        if (n_jobs <= 1)
                return n_jobs < 0 ? n_jobs : 0;
        wanted = choose_job(logs, all, job, &named);
        runs = wanted != CAPO_LOG_NO_JOB;
        wanted = runs ? wanted : (uint32_t)n_jobs - 1;
        if (!named)
                capo_info(
                        "there are %d jobs; this is the newest%s (%u process%s); name a folder or a pid for another",
                        n_jobs, runs ? " that runs" : "", jobs[wanted].n_logs,
                        jobs[wanted].n_logs == 1 ? "" : "es");
        for (size_t i = 0; i < paths->n; i++) {
                if (job[i] == wanted || job[i] == CAPO_LOG_NO_JOB) {
                        logs->v[n] = logs->v[i];
                        paths->log[n] = paths->log[i];
                        paths->path[n++] = paths->path[i];
                        continue;
                }
                free(paths->path[i]);
                capo_log_close(paths->log[i]);
        }
        paths->n = n;
        return 0;
}

/* Add the other logs in @folder of jobs with a running process. */
static void add_rest_of_jobs(struct hang_logs *logs, const char *folder)
{
        struct capo_log_paths *jobs = NULL;
        size_t n_jobs = 0;

        capo_log_find_jobs(folder, &jobs, &n_jobs);
        for (struct capo_log_paths *job = jobs; job < PAST_OF(jobs, n_jobs); job++) {
                bool wanted = ANY_OF(path, job->path, job->n, is_read(logs, *path));

                for (size_t k = 0; k < job->n && wanted; k++) {
                        if (!is_read(logs, job->path[k]))
                                move_log(logs, job, k);
                }
                capo_log_paths_finish(job);
        }
        free(jobs);
}

/* Add the logs of ended processes, which are beside those of the processes read from memory. */
static void add_logs_beside(struct hang_logs *logs)
{
        size_t n_own = logs->paths.n;

        for (size_t i = 0; i < n_own; i++) {
                const char *own = logs->paths.path[i];
                _cleanup_free_ char *folder = xstrndup(own, capo_log_folder_size(own));

                if (*folder && !ANY_OF(before, logs->paths.path, i, same_folder(*before, own)))
                        add_rest_of_jobs(logs, folder);
        }
}

static void mark_living(struct hang_logs *logs)
{
        logs->live |= ANY_OF(log, logs->v, logs->paths.n, log->known >= CAPO_HANG_IS_ALIVE);
}

/* A process of the newest of several jobs that is stuck; 0: none, or there is one job. */
static int find_stuck_job(void)
{
        struct hang_logs *jobs = NULL;
        uint64_t now_ns;
        uint32_t n = 0;
        int pid = 0;

        if (hang_gather_here(NULL, false, &now_ns, &jobs, &n) < 0)
                return 0;
        for (uint32_t i = n; n > 1 && i-- > 0 && !pid;) {
                struct hang_page page = {.logs = &jobs[i], .hang.after_ns = STUCK_NS};

                if (jobs[i].live && hang_page_read(&page) == 0 &&
                    capo_hang_kind_exit(page.verdict.kind) == 1)
                        pid = (int)page.job->processes[0].header.pid;
                hang_page_finish(&page);
        }
        if (pid)
                capo_info(
                        "there are %u jobs; this one is stuck; name a folder or a pid for another",
                        n);
        for (uint32_t i = 0; i < n; i++)
                hang_logs_finish(&jobs[i]);
        free(jobs);
        return pid;
}

int hang_gather(int n, char **words, struct hang_logs *out)
{
        char pid[16], *stuck[] = {pid};
        _cleanup_(capo_log_paths_finish) struct capo_log_paths paths = {0};
        _cleanup_free_ char **named = xcalloc((size_t)n + 2, sizeof(char *));
        struct segments all = {0};
        char why[512];
        size_t n_named = 0;
        int r = 0;

        if (!n && snprintf(pid, sizeof pid, "%d", find_stuck_job()) > 0 && atoi(pid)) {
                words = stuck;
                n = 1;
        }
        for (int i = 0; i < n; i++) {
                if (!is_pid(words[i]))
                        named[n_named++] = words[i];
        }
        if (n_named && capo_log_find(named, n_named, &paths, why, sizeof why) < 0)
                return capo_fail(-ENOENT, "%s", why);
        r = capo_segment_find(NULL, NULL, true, keep_segment, &all);
        for (int i = 0; i < n; i++) {
                if (is_pid(words[i]))
                        name_segments(&all, words[i], (uint32_t)i + 1);
        }
        out->now_ns = capo_clock_of(CLOCK_REALTIME);
        out->now_mono_ns = capo_clock_of(CLOCK_MONOTONIC);
        for (uint32_t i = 0; i < all.n && r >= 0; i++) {
                if (is_process_meant(&all, &all.v[i], n, words, &paths))
                        gather_segment(out, &all.v[i]);
        }
        for (size_t i = 0; i < paths.n && r >= 0; i++) {
                if (!is_read(out, paths.path[i]))
                        move_log(out, &paths, i);
        }
        if (r >= 0)
                r = one_job(out, &all);
        if (r >= 0 && !n_named) { /* only of that job: there may be many */
                add_logs_beside(out);
                r = one_job(out, &all);
        }
        xfree(all.v, all.named);
        mark_living(out);
        if (r >= 0 && !out->paths.n && n == 1 && is_pid(words[0]))
                out->unrecorded_pid = atoi(words[0]);
        else if (r >= 0 && !out->paths.n)
                return capo_fail(-ENOENT,
                                 n ? "%s: no process under capo, and no log of one"
                                   : "no process of yours here runs under capo%s",
                                 n ? words[0] : "");
        return r < 0 ? r : 0;
}

int hang_gather_here(const char *folder, bool below, uint64_t *now_ns, struct hang_logs **jobs,
                     uint32_t *n_jobs)
{
        struct hang_logs all = {.now_ns = capo_clock_of(CLOCK_REALTIME),
                                .now_mono_ns = capo_clock_of(CLOCK_MONOTONIC)};
        _cleanup_free_ char *real = folder ? realpath(folder, NULL) : NULL;
        _cleanup_free_ struct capo_log_job *found = NULL;
        _cleanup_free_ uint32_t *job = NULL;
        size_t n = real ? strlen(real) : 0;
        struct segments here = {0};
        int r = capo_segment_find(NULL, folder, true, keep_segment, &here);

        below = below && folder && !here.n;
        if (r >= 0 && below)
                r = capo_segment_find(NULL, NULL, true, keep_segment, &here);
        *now_ns = all.now_ns;
        for (uint32_t i = 0; i < here.n && r >= 0; i++) {
                const char *path = here.v[i].log_path;

                if (!below || (n && !strncmp(path, real, n) && path[n] == '/'))
                        gather_segment(&all, &here.v[i]);
        }
        free(here.v);
        job = xcalloc(all.paths.n + 1, sizeof *job);
        r = r < 0 ? r : capo_log_jobs(&all.paths, job, &found);
        if (r >= 0) {
                *jobs = xcalloc((size_t)r + 1, sizeof **jobs);
                *n_jobs = (uint32_t)r;
        }
        for (size_t i = 0; r >= 0 && i < all.paths.n; i++) {
                if (job[i] != CAPO_LOG_NO_JOB) /* unreadable ones are left out */
                        add_log(&(*jobs)[job[i]], all.paths.path[i], steal(&all.paths.log[i]),
                                all.v[i]);
        }
        for (uint32_t i = 0; r >= 0 && i < *n_jobs; i++) {
                (*jobs)[i].now_ns = all.now_ns;
                (*jobs)[i].now_mono_ns = all.now_mono_ns;
                mark_living(&(*jobs)[i]);
        }
        hang_logs_finish(&all);
        return r < 0 ? r : 0;
}

void hang_logs_finish(struct hang_logs *logs)
{
        capo_log_paths_finish(&logs->paths);
        free(logs->v);
        logs->v = NULL;
}
