/* SPDX-License-Identifier: Apache-2.0 */
#include "capo/msg.h"
#include "core/base/xalloc.h"
#include "analysis/log/log_paths.h"
#include "analysis/log/pack.h"

void capo_log_paths_add(struct capo_log_paths *paths, const char *path, struct capo_log *log)
{
        xarray_room(&paths->path, paths->n, sizeof *paths->path);
        paths->path[paths->n] = xstrdup(path);
        *xadd(paths->log, paths->n) = log;
}

void capo_log_paths_add_pack(struct capo_log_paths *paths, const char *pack)
{
        _cleanup_(capo_pack_finish) struct capo_pack list = {0};
        char why[512];
        int r = capo_pack_list(pack, &list, why, sizeof why);

        if (r < 0)
                capo_warn("%s: %s", pack, why);
        else if (list.bytes_lost)
                capo_warn("%s: damaged: the %zu log%s in it that can be read %s used", pack, list.n,
                          list.n == 1 ? "" : "s", list.n == 1 ? "is" : "are");
        for (size_t i = 0; i < list.n; i++) {
                _cleanup_free_ char *path = xprintf("%s/%s", pack, list.v[i].name);
                struct capo_log *log = NULL;

                capo_log_open_packed(pack, &list.v[i], &log, why, sizeof why);
                capo_log_paths_add(paths, path, log);
                if (log)
                        capo_log_park(log);
        }
}

size_t capo_log_folder_size(const char *path)
{
        const size_t n_suffix = strlen(CAPO_PACK_SUFFIX);
        const char *slash = strrchr(path, '/');
        size_t n = slash ? (size_t)(slash - path) : 0;

        if (n > n_suffix && !memcmp(path + n - n_suffix, CAPO_PACK_SUFFIX, n_suffix)) {
                while (n && path[n - 1] != '/')
                        n--;
                n -= n > 0;
        }
        return n;
}

int capo_log_paths_open(struct capo_log_paths *paths, size_t i, struct capo_log **out, char *why,
                        size_t why_size)
{
        int r = paths->log[i] ? 0 : capo_log_open(paths->path[i], &paths->log[i], why, why_size);

        if (r == 0) {
                capo_log_rewind(paths->log[i]);
                *out = paths->log[i];
        }
        return r;
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
        xfree(paths->path, paths->log, paths->folder);
        *paths = (struct capo_log_paths){0};
}

bool capo_log_path_is(const char *path, const char *real)
{
        bool named = !strcmp(capo_base_name(path), capo_base_name(real));
        _cleanup_free_ char *whole = named ? realpath(path, NULL) : NULL;

        return whole && !strcmp(whole, real);
}
