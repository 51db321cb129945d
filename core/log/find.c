/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "capo/msg.h"
#include "core/base/array.h"
#include "core/base/util.h"
#include "core/log/find.h"

/* Takes @path over; NULL is a want of memory. */
static int add(char ***list, size_t *n, char *path)
{
        if (!path || capo_array_room(list, *n, sizeof **list) < 0) {
                free(path);
                return -ENOMEM;
        }
        (*list)[(*n)++] = path;
        return 0;
}

static bool is_log_name(const char *name)
{
        size_t n = strlen(name);

        return n > 5 && name[0] != '.' && !strcmp(name + n - 5, ".capo");
}

static int is_log(const struct dirent *e)
{
        return is_log_name(e->d_name);
}

static int is_visible(const struct dirent *e)
{
        return e->d_name[0] != '.';
}

static void free_names(struct dirent **names, int n)
{
        while (n-- > 0)
                free(names[n]);
        free(names);
}

static char *join(const char *folder, const char *name)
{
        size_t n = strlen(folder);
        char *path;

        if (asprintf(&path, "%s%s%s", folder, n && folder[n - 1] == '/' ? "" : "/", name) < 0)
                return NULL;
        return path;
}

/* The newest log of @folder, ns since 1970; -1 when it has none. */
static int64_t newest_in(const char *folder)
{
        struct dirent **names = NULL;
        int n = scandir(folder, &names, is_log, NULL);
        int64_t newest = -1;

        for (int i = 0; i < n; i++) {
                _cleanup_free_ char *path = join(folder, names[i]->d_name);
                struct stat st;

                if (path && stat(path, &st) == 0) {
                        int64_t t = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;

                        newest = t > newest ? t : newest;
                }
        }
        if (n >= 0)
                free_names(names, n);
        return newest;
}

/* The folder in @parent with the newest log; NULL when none has any. *n_jobs: how many have some. */
static char *newest_job(const char *parent, unsigned *n_jobs)
{
        struct dirent **names = NULL;
        int n = scandir(parent, &names, is_visible, alphasort);
        int64_t newest = -1;
        char *found = NULL;

        for (int i = 0; i < n; i++) {
                char *path = join(parent, names[i]->d_name);
                int64_t t = path ? newest_in(path) : -1;

                *n_jobs += t >= 0;
                if (t >= 0 && t >= newest) {
                        newest = t;
                        free(found);
                        found = steal(&path);
                }
                free(path);
        }
        if (n >= 0)
                free_names(names, n);
        return found;
}

static int add_folder(const char *folder, struct capo_log_paths *out)
{
        struct dirent **names = NULL;
        int n = scandir(folder, &names, is_log, alphasort), r;
        unsigned n_jobs = 0;

        if (n < 0)
                return -errno;
        if (n == 0) {
                _cleanup_free_ char *job = newest_job(folder, &n_jobs);

                free_names(names, n);
                if (!job)
                        return add(&out->folder, &out->n_folders, strdup(folder));
                if (n_jobs > 1)
                        capo_info("%s holds logs of %u jobs; this is the newest: %s", folder, n_jobs, job);
                return add_folder(job, out);
        }
        r = add(&out->folder, &out->n_folders, strdup(folder));
        for (int i = 0; i < n && r == 0; i++)
                r = add(&out->path, &out->n, join(folder, names[i]->d_name));
        free_names(names, n);
        return r;
}

int capo_log_find(char *const *args, size_t n_args, struct capo_log_paths *out, char *why, size_t why_size)
{
        for (size_t i = 0; i < n_args; i++) {
                struct stat st;
                int r;

                if (stat(args[i], &st) < 0)
                        r = -errno;
                else if (S_ISDIR(st.st_mode))
                        r = add_folder(args[i], out);
                else
                        r = add(&out->path, &out->n, strdup(args[i]));
                if (r < 0) {
                        snprintf(why, why_size, "%s: %s", args[i], strerror(-r));
                        return r;
                }
        }
        return 0;
}

void capo_log_paths_finish(struct capo_log_paths *paths)
{
        for (size_t i = 0; i < paths->n; i++)
                free(paths->path[i]);
        for (size_t i = 0; i < paths->n_folders; i++)
                free(paths->folder[i]);
        free(paths->path);
        free(paths->folder);
        *paths = (struct capo_log_paths){0};
}
