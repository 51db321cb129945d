/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/util.h"
#include "analysis/log/live_logs.h"
#include "analysis/log/recover.h"

/* One that is left behind by a command that was killed is removed by the next capo hang, which
 * goes by this name and the lock. */
#define FOLDER "/tmp/capo-hang-XXXXXX"

struct living {
        struct capo_segment_info *v;
        size_t n;
};

static int keep_living(const struct capo_segment_info *info, void *arg)
{
        struct living *l = arg;

        if (!info->alive || info->trace_all)
                return 0;
        if (capo_array_room(&l->v, l->n, sizeof *l->v) < 0)
                return -ENOMEM;
        l->v[l->n++] = *info;
        return 0;
}

static const struct capo_segment_info *find_living(const struct living *l, const char *path)
{
        _cleanup_free_ char *real = realpath(path, NULL);

        for (size_t i = 0; i < l->n && real; i++) {
                if (!strcmp(l->v[i].log_path, real))
                        return &l->v[i];
        }
        return NULL;
}

static int make_folder(struct capo_live_logs *live)
{
        strcpy(live->folder, FOLDER);
        if (!mkdtemp(live->folder)) {
                *live->folder = 0;
                return -errno;
        }
        live->lock = open(live->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (live->lock >= 0)
                flock(live->lock, LOCK_EX | LOCK_NB);
        return 0;
}

/* A process that ends meanwhile has written its log itself: that one stays. */
static int take_copy(struct capo_live_logs *live, const struct capo_segment_info *info, char **path)
{
        _cleanup_free_ char *copy = NULL;
        int r = *live->folder ? 0 : make_folder(live);

        if (r < 0)
                return r;
        if (asprintf(&copy, "%s/%s", live->folder, capo_base_name(*path)) < 0)
                return -ENOMEM;
        if (access(copy, F_OK) == 0 || capo_segment_peek(info, copy) < 0)
                return 0;
        free(*path);
        *path = steal(&copy);
        live->n++;
        return 0;
}

int capo_live_logs_take(struct capo_log_paths *paths, struct capo_live_logs *live)
{
        struct living living = {0};
        int r;

        *live = (struct capo_live_logs){.lock = -1};
        r = capo_segment_find(NULL, NULL, keep_living, &living);
        r = r == -ENOMEM ? r : 0; /* no memory of anybody's: every log stays as it is */
        for (size_t i = 0; i < paths->n && living.n && r == 0; i++) {
                const struct capo_segment_info *info = find_living(&living, paths->path[i]);

                if (info)
                        r = take_copy(live, info, &paths->path[i]);
        }
        free(living.v);
        return r;
}

void capo_live_logs_finish(struct capo_live_logs *live)
{
        DIR *folder = *live->folder ? opendir(live->folder) : NULL;

        for (struct dirent *e; folder && (e = readdir(folder));)
                unlinkat(dirfd(folder), e->d_name, 0); /* of the two dots it fails */
        if (folder)
                closedir(folder);
        if (*live->folder)
                rmdir(live->folder);
        if (live->lock >= 0)
                close(live->lock);
        *live = (struct capo_live_logs){.lock = -1};
}
