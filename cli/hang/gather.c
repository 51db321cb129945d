/* SPDX-License-Identifier: Apache-2.0 */
/* Which processes and logs are meant. A process that can be looked at counts as it is now, not as its log has it. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "capo/msg.h"
#include "cli/hang/hang.h"
#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/base/util.h"
#include "core/log/jobs.h"
#include "core/log/recover.h"
#include "profiles/hang/node.h"

struct segments {
        struct capo_segment_info *v;
        uint32_t n;
};

static int keep(const struct capo_segment_info *info, void *arg)
{
        struct segments *s = arg;

        if (capo_array_room(&s->v, s->n, sizeof *s->v) < 0)
                return -ENOMEM;
        s->v[s->n++] = *info;
        return 0;
}

static int add(struct hang_logs *logs, const char *path, const char *own, int pid, uint8_t known)
{
        char *copy = strdup(path), *own_copy = own ? strdup(own) : NULL;

        if (!copy || (own && !own_copy) || capo_array_room(&logs->v, logs->n, sizeof *logs->v) < 0) {
                free(copy);
                free(own_copy);
                return -ENOMEM;
        }
        logs->v[logs->n++] = (struct hang_log){.path = copy, .own = own_copy, .pid = pid, .known = known};
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

/* Is process @s meant: by its number or that of one beside it, or by the folder its log is in? */
static bool meant(const struct segments *all, const struct capo_segment_info *s, int n, char **words,
                  const struct capo_log_paths *paths)
{
        for (int i = 0; i < n; i++) {
                int pid = is_pid(words[i]) ? atoi(words[i]) : 0;

                if (pid == s->pid)
                        return true;
                for (uint32_t k = 0; pid && k < all->n; k++) {
                        if (all->v[k].pid == pid && same_folder(all->v[k].log_path, s->log_path))
                                return true;
                }
        }
        for (size_t i = 0; i < paths->n_folders; i++) {
                _cleanup_free_ char *real = realpath(paths->folder[i], NULL);

                if (real && strlen(real) == folder_length(s->log_path) && !memcmp(real, s->log_path, strlen(real)))
                        return true;
        }
        return n == 0;
}

static int look(struct hang_logs *logs, const struct capo_segment_info *s)
{
        uint8_t known = CAPO_HANG_IS_DEAD;
        char path[64];
        int r;

        if (!*logs->folder) {
                snprintf(logs->folder, sizeof logs->folder, "/tmp/capo-hang-XXXXXX");
                if (!mkdtemp(logs->folder)) {
                        *logs->folder = 0;
                        return capo_fail(-errno, "/tmp: %s", strerror(errno));
                }
        }
        snprintf(path, sizeof path, "%s/%d.capo", logs->folder, s->pid);
        r = capo_segment_peek(s, path);
        if (r < 0) { /* gone meanwhile, or damaged: its log has to do */
                capo_warn("pid %d cannot be looked at: %s", s->pid, strerror(-r));
                return 0;
        }
        if (s->alive)
                known = capo_hang_node_stopped(s->pid) ? CAPO_HANG_IS_STOPPED : CAPO_HANG_IS_ALIVE;
        return add(logs, path, s->log_path, s->pid, known);
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

/* Of several jobs the newest, and a word on the others. */
static int one_job(struct hang_logs *logs)
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
        wanted = (uint32_t)n_jobs - 1;
        capo_info("there are %d jobs; this is the newest (%u process%s); name a folder or a pid for another", n_jobs,
                  jobs[wanted].n_logs, jobs[wanted].n_logs == 1 ? "" : "es");
        for (uint32_t i = 0; i < logs->n; i++) {
                if (job[i] == wanted || job[i] == CAPO_LOG_NO_JOB)
                        logs->v[n++] = logs->v[i];
                else
                        free(logs->v[i].path);
        }
        logs->n = n;
        return 0;
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
        r = capo_segment_find(NULL, NULL, keep, &all);
        out->now_ns = capo_clock_of(CLOCK_REALTIME);
        for (uint32_t i = 0; i < all.n && r >= 0; i++) {
                if (meant(&all, &all.v[i], n, words, &paths))
                        r = look(out, &all.v[i]);
        }
        for (size_t i = 0; i < paths.n && r >= 0; i++) {
                if (!looked_at(&all, out, paths.path[i]))
                        r = add(out, paths.path[i], NULL, 0, CAPO_HANG_BY_LOG);
        }
        free(all.v);
        if (r >= 0)
                r = one_job(out);
        for (uint32_t i = 0; i < out->n; i++)
                out->live |= out->v[i].known == CAPO_HANG_IS_ALIVE || out->v[i].known == CAPO_HANG_IS_STOPPED;
        if (r >= 0 && !out->n)
                return capo_fail(-ENOENT,
                                 n ? "%s: no process under capo, and no log of one"
                                   : "no process of yours here runs under capo%s",
                                 n ? words[0] : "");
        return r < 0 ? r : 0;
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
        if (*logs->folder) {
                struct dirent **names = NULL;
                int n = scandir(logs->folder, &names, NULL, NULL);

                while (n-- > 0) {
                        char path[320];

                        snprintf(path, sizeof path, "%s/%s", logs->folder, names[n]->d_name);
                        unlink(path); /* of the two dots it fails */
                        free(names[n]);
                }
                free(names);
                rmdir(logs->folder);
        }
}
