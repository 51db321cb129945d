/* SPDX-License-Identifier: Apache-2.0 */
/* Which processes and logs are meant. A process that can be looked at counts as it is now, not as
 * its log has it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "capo/msg.h"
#include "cli/hang/cmd_hang.h"
#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/base/util.h"
#include "analysis/log/live_jobs.h"
#include "analysis/log/recover.h"
#include "analysis/hang/wait_node.h"

#define NAME "capo-hang-"

enum {
        FOLDER = 32,     /* bytes of the name of the folder for looks, with its path */
        UNLOCKED_S = 60, /* that old, it has its lock */
};

struct segments {
        struct capo_segment_info *v;
        uint32_t n;
};

static int keep_segment(const struct capo_segment_info *info, void *arg)
{
        struct segments *s = arg;

        if (capo_array_room(&s->v, s->n, sizeof *s->v) < 0)
                return -ENOMEM;
        s->v[s->n++] = *info;
        return 0;
}

static int add_log(struct hang_logs *logs, const char *path, const char *own,
                   const struct capo_segment_info *s, uint8_t known)
{
        char *copy = strdup(path), *own_copy = own ? strdup(own) : NULL;

        if (!copy || (own && !own_copy) ||
            capo_array_room(&logs->v, logs->n, sizeof *logs->v) < 0) {
                free(copy);
                free(own_copy);
                return -ENOMEM;
        }
        logs->v[logs->n++] = (struct hang_log){.path = copy,
                                               .own = own_copy,
                                               .pid = s ? s->pid : 0,
                                               .here = s && s->here,
                                               .known = known};
        return 0;
}

static bool is_pid(const char *word)
{
        struct stat st;

        return *word && strspn(word, "0123456789") == strlen(word) && stat(word, &st) != 0;
}

static size_t folder_length(const char *path)
{
        const char *slash = strrchr(path, '/');

        return slash ? (size_t)(slash - path) : 0;
}

static bool same_folder(const char *a, const char *b)
{
        return *a && folder_length(a) == folder_length(b) && !memcmp(a, b, folder_length(a));
}

/* Is @s that process, and not one that had its number before it? */
static bool has_number(const struct capo_segment_info *s, int pid)
{
        char state = s->pid == pid && !s->alive ? capo_hang_node_state(pid) : 0;

        return s->pid == pid && (!state || state == 'Z');
}

/* Has @pid started process @s, or one that did? */
static bool is_started_by(const struct capo_segment_info *s, int pid)
{
        for (int at = s->pid, n = 0; s->alive && s->here && at > 1 && n < 64; n++) {
                at = capo_hang_node_parent(at);
                if (at == pid)
                        return true;
        }
        return false;
}

/* Is @pid the number of @s or, where it is that of no recorded process, of its launcher? */
static bool is_named(const struct segments *all, const struct capo_segment_info *s, int pid)
{
        bool own = false;

        for (uint32_t k = 0; k < all->n && !own; k++)
                own = has_number(&all->v[k], pid);
        return own ? has_number(s, pid) : is_started_by(s, pid);
}

/* Is process @s meant: by its number or that of one beside it, or by the folder its log is in? */
static bool is_process_meant(const struct segments *all, const struct capo_segment_info *s, int n,
                             char **words, const struct capo_log_paths *paths)
{
        for (int i = 0; i < n; i++) {
                int pid = is_pid(words[i]) ? atoi(words[i]) : 0;

                for (uint32_t k = 0; pid && k < all->n; k++) {
                        if (is_named(all, &all->v[k], pid) &&
                            (s == &all->v[k] || same_folder(all->v[k].log_path, s->log_path)))
                                return true;
                }
        }
        for (size_t i = 0; i < paths->n_folders; i++) {
                _cleanup_free_ char *real = realpath(paths->folder[i], NULL);

                if (real && strlen(real) == folder_length(s->log_path) &&
                    !memcmp(real, s->log_path, strlen(real)))
                        return true;
        }
        return n == 0;
}

static void remove_folder(const char *folder)
{
        struct dirent **names = NULL;
        int n = scandir(folder, &names, NULL, NULL);

        while (n-- > 0) {
                char path[sizeof(names[n]->d_name) + FOLDER];

                snprintf(path, sizeof path, "%s/%s", folder, names[n]->d_name);
                unlink(path); /* of the two dots it fails */
                free(names[n]);
        }
        free(names);
        rmdir(folder);
}

static int is_ours(const struct dirent *e)
{
        return strlen(e->d_name) == strlen(NAME "XXXXXX") &&
               !strncmp(e->d_name, NAME, strlen(NAME));
}

/* What a capo hang that was killed has left in @tmp. The living hold a lock on theirs, which comes
 * right after the folder. */
static void sweep_folders(const char *tmp)
{
        struct dirent **names = NULL;
        int n = scandir(tmp, &names, is_ours, NULL);

        while (n-- > 0) {
                char path[FOLDER];
                _cleanup_close_ int fd = -1;
                struct stat st;

                snprintf(path, sizeof path, "%s/%.*s", tmp, (int)strlen(NAME "XXXXXX"),
                         names[n]->d_name);
                free(names[n]);
                fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                if (fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == geteuid() &&
                    st.st_mtime + UNLOCKED_S < time(NULL) && flock(fd, LOCK_EX | LOCK_NB) == 0)
                        remove_folder(path);
        }
        free(names);
}

static int make_folder(struct hang_logs *logs)
{
        sweep_folders("/tmp");
        snprintf(logs->folder, sizeof logs->folder, "/tmp/" NAME "XXXXXX");
        if (!mkdtemp(logs->folder)) {
                *logs->folder = 0;
                return capo_fail(-errno, "/tmp: %s", strerror(errno));
        }
        logs->lock = open(logs->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (logs->lock >= 0)
                flock(logs->lock, LOCK_EX | LOCK_NB);
        return 0;
}

static int gather_segment(struct hang_logs *logs, const struct capo_segment_info *s)
{
        uint8_t known = CAPO_HANG_IS_DEAD;
        char path[sizeof logs->folder + sizeof s->path + sizeof ".capo"];
        int r = *logs->folder ? 0 : make_folder(logs);

        if (r < 0)
                return r;
        /* two processes may have one number, each in a namespace of its own */
        snprintf(path, sizeof path, "%s/%s.capo", logs->folder, capo_base_name(s->path));
        r = capo_segment_peek(s, path);
        if (r < 0) { /* gone meanwhile, or damaged: its log has to do */
                capo_warn("pid %d cannot be looked at: %s", s->pid, strerror(-r));
                return 0;
        }
        if (s->alive)
                known = s->here && capo_hang_node_stopped(s->pid) ? CAPO_HANG_IS_STOPPED
                                                                  : CAPO_HANG_IS_ALIVE;
        return add_log(logs, path, s->log_path, s, known);
}

static bool looked_at(const struct segments *all, const struct hang_logs *logs, const char *path)
{
        _cleanup_free_ char *real = realpath(path, NULL);

        for (uint32_t i = 0; i < logs->n && real; i++) {
                for (uint32_t k = 0; k < all->n && logs->v[i].pid; k++) {
                        if (all->v[k].pid == logs->v[i].pid && !strcmp(all->v[k].log_path, real))
                                return true;
                }
        }
        return false;
}

/* The job that the process of a PID among @words is of; CAPO_LOG_NO_JOB: none is named. */
static uint32_t find_named_job(const struct hang_logs *logs, const struct segments *all,
                               const uint32_t *job, int n, char **words)
{
        for (int w = 0; w < n; w++) {
                for (uint32_t k = 0; is_pid(words[w]) && k < all->n; k++) {
                        for (uint32_t i = 0;
                             i < logs->n && is_named(all, &all->v[k], atoi(words[w])); i++) {
                                if (logs->v[i].pid == all->v[k].pid && logs->v[i].own &&
                                    !strcmp(logs->v[i].own, all->v[k].log_path))
                                        return job[i];
                        }
                }
        }
        return CAPO_LOG_NO_JOB;
}

/* Of several jobs the one that is named, else the newest, and a word on the others. */
static int one_job(struct hang_logs *logs, const struct segments *all, int n_words, char **words)
{
        _cleanup_free_ char **path = calloc(logs->n + 1, sizeof(char *));
        _cleanup_free_ uint32_t *job = calloc(logs->n + 1, sizeof *job);
        _cleanup_free_ struct capo_log_job *jobs = NULL;
        uint32_t n = 0, wanted;
        int n_jobs;

        if (!path || !job)
                return -ENOMEM;
        for (uint32_t i = 0; i < logs->n; i++)
                path[i] = logs->v[i].path;
        n_jobs = capo_log_jobs(path, logs->n, job, &jobs);
        if (n_jobs <= 1)
                return n_jobs < 0 ? n_jobs : 0;
        wanted = find_named_job(logs, all, job, n_words, words);
        if (wanted == CAPO_LOG_NO_JOB) {
                wanted = (uint32_t)n_jobs - 1;
                capo_info(
                        "there are %d jobs; this is the newest (%u process%s); name a folder or a pid for another",
                        n_jobs, jobs[wanted].n_logs, jobs[wanted].n_logs == 1 ? "" : "es");
        }
        for (uint32_t i = 0; i < logs->n; i++) {
                if (job[i] == wanted || job[i] == CAPO_LOG_NO_JOB)
                        logs->v[n++] = logs->v[i];
                else {
                        free(logs->v[i].path);
                        free(logs->v[i].own);
                }
        }
        logs->n = n;
        return 0;
}

/* The other logs of a job in @folder of which a process was looked at. */
static int add_rest_of_jobs(struct hang_logs *logs, const struct segments *all, const char *folder)
{
        struct capo_log_paths *jobs = NULL;
        size_t n_jobs = 0;
        int r = capo_log_find_jobs(folder, &jobs, &n_jobs);

        for (size_t j = 0; j < n_jobs; j++) {
                bool wanted = false;

                for (size_t k = 0; k < jobs[j].n && !wanted; k++)
                        wanted = looked_at(all, logs, jobs[j].path[k]);
                for (size_t k = 0; k < jobs[j].n && wanted && r >= 0; k++) {
                        if (!looked_at(all, logs, jobs[j].path[k]))
                                r = add_log(logs, jobs[j].path[k], NULL, NULL, CAPO_HANG_BY_LOG);
                }
                capo_log_paths_finish(&jobs[j]);
        }
        free(jobs);
        return r;
}

/* Logs of processes that have ended: they lie beside those of the processes that were looked at. */
static int add_logs_beside(struct hang_logs *logs, const struct segments *all)
{
        uint32_t looks = logs->n;
        int r = 0;

        for (uint32_t i = 0; i < looks && r >= 0; i++) {
                const char *own = logs->v[i].own;
                _cleanup_free_ char *folder = own ? strndup(own, folder_length(own)) : NULL;
                bool seen = !folder || !*folder;

                for (uint32_t k = 0; k < i && !seen; k++)
                        seen = logs->v[k].own && same_folder(logs->v[k].own, own);
                if (!seen)
                        r = add_rest_of_jobs(logs, all, folder);
        }
        return r == -ENOMEM ? r : 0;
}

static void mark_living(struct hang_logs *logs)
{
        for (uint32_t i = 0; i < logs->n; i++)
                logs->live |= logs->v[i].known == CAPO_HANG_IS_ALIVE ||
                              logs->v[i].known == CAPO_HANG_IS_STOPPED;
}

int hang_gather(int n, char **words, struct hang_logs *out)
{
        _cleanup_(capo_log_paths_finish) struct capo_log_paths paths = {0};
        _cleanup_free_ char **named = calloc((size_t)n + 1, sizeof(char *));
        struct segments all = {0};
        char why[512] = "no memory";
        size_t n_named = 0;
        int r = 0;

        if (!named)
                return -ENOMEM;
        for (int i = 0; i < n; i++) {
                if (!is_pid(words[i]))
                        named[n_named++] = words[i];
        }
        if (n_named && capo_log_find(named, n_named, &paths, why, sizeof why) < 0)
                return capo_fail(-ENOENT, "%s", why);
        r = capo_segment_find(NULL, NULL, keep_segment, &all);
        out->now_ns = capo_clock_of(CLOCK_REALTIME);
        for (uint32_t i = 0; i < all.n && r >= 0; i++) {
                if (is_process_meant(&all, &all.v[i], n, words, &paths))
                        r = gather_segment(out, &all.v[i]);
        }
        for (size_t i = 0; i < paths.n && r >= 0; i++) {
                if (!looked_at(&all, out, paths.path[i]))
                        r = add_log(out, paths.path[i], NULL, NULL, CAPO_HANG_BY_LOG);
        }
        if (r >= 0)
                r = one_job(out, &all, n, words);
        if (r >= 0 && !n_named) /* of that job alone: there may be many */
                r = add_logs_beside(out, &all) ?: one_job(out, &all, n, words);
        free(all.v);
        mark_living(out);
        if (r >= 0 && !out->n && n == 1 && is_pid(words[0]))
                out->stranger = atoi(words[0]);
        else if (r >= 0 && !out->n)
                return capo_fail(-ENOENT,
                                 n ? "%s: no process under capo, and no log of one"
                                   : "no process of yours here runs under capo%s",
                                 n ? words[0] : "");
        return r < 0 ? r : 0;
}

/* The logs of @all to the jobs that they are of; one that cannot be read is left out. */
static int divide_logs(struct hang_logs *all, struct hang_logs **jobs, uint32_t *n_jobs)
{
        _cleanup_free_ char **path = calloc(all->n + 1, sizeof(char *));
        _cleanup_free_ uint32_t *job = calloc(all->n + 1, sizeof *job);
        _cleanup_free_ struct capo_log_job *found = NULL;
        int n;

        if (!path || !job)
                return -ENOMEM;
        for (uint32_t i = 0; i < all->n; i++)
                path[i] = all->v[i].path;
        n = capo_log_jobs(path, all->n, job, &found);
        if (n < 0)
                return n;
        *jobs = calloc((size_t)n + 1, sizeof **jobs);
        if (!*jobs)
                return -ENOMEM;
        *n_jobs = (uint32_t)n;
        for (uint32_t i = 0; i < all->n; i++) {
                struct hang_logs *to = job[i] == CAPO_LOG_NO_JOB ? NULL : &(*jobs)[job[i]];

                if (!to || capo_array_room(&to->v, to->n, sizeof *to->v) < 0)
                        continue;
                to->v[to->n++] = all->v[i];
                all->v[i] = (struct hang_log){0};
        }
        for (uint32_t i = 0; i < *n_jobs; i++) {
                (*jobs)[i].now_ns = all->now_ns;
                mark_living(&(*jobs)[i]);
        }
        return 0;
}

int hang_gather_here(const char *folder, struct hang_logs *all, struct hang_logs **jobs,
                     uint32_t *n_jobs)
{
        struct segments here = {0};
        int r = capo_segment_find(NULL, folder, keep_segment, &here);

        all->now_ns = capo_clock_of(CLOCK_REALTIME);
        for (uint32_t i = 0; i < here.n && r >= 0; i++)
                r = gather_segment(all, &here.v[i]);
        free(here.v);
        return r < 0 ? r : divide_logs(all, jobs, n_jobs);
}

void hang_logs_finish(struct hang_logs *logs)
{
        for (uint32_t i = 0; i < logs->n; i++) {
                free(logs->v[i].path);
                free(logs->v[i].own);
        }
        free(logs->v);
        logs->v = NULL;
        logs->n = 0;
        if (!*logs->folder)
                return;
        remove_folder(logs->folder);
        if (logs->lock >= 0)
                close(logs->lock);
}
