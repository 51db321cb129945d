/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "analysis/log/log_paths.h"

int capo_log_paths_add(struct capo_log_paths *paths, const char *path, struct capo_log *log)
{
        char *copy = strdup(path);

        if (!copy || capo_array_room(&paths->path, paths->n, sizeof *paths->path) < 0 ||
            capo_array_room(&paths->log, paths->n, sizeof(struct capo_log *)) < 0) {
                free(copy);
                capo_log_close(log);
                return -ENOMEM;
        }
        paths->path[paths->n] = copy;
        paths->log[paths->n++] = log;
        return 0;
}

int capo_log_paths_open(struct capo_log_paths *paths, size_t i, struct capo_log **out, char *why,
                        size_t why_size)
{
        if (paths->log[i]) {
                capo_log_rewind(paths->log[i]);
        } else {
                int r = capo_log_open(paths->path[i], &paths->log[i], why, why_size);

                if (r < 0)
                        return r;
        }
        *out = paths->log[i];
        return 0;
}

int capo_log_paths_take(struct capo_log_paths *paths, size_t i, struct capo_log **out, char *why,
                        size_t why_size)
{
        int r = capo_log_paths_open(paths, i, out, why, why_size);

        if (r == 0)
                paths->log[i] = NULL;
        return r;
}

void capo_log_paths_finish(struct capo_log_paths *paths)
{
        for (size_t i = 0; i < paths->n; i++) {
                free(paths->path[i]);
                capo_log_close(paths->log[i]);
        }
        for (size_t i = 0; i < paths->n_folders; i++)
                free(paths->folder[i]);
        free(paths->path);
        free(paths->log);
        free(paths->folder);
        *paths = (struct capo_log_paths){0};
}
