/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <fnmatch.h>

#include "capo/frame_types.h"
#include "cli/watch/watch_logs.h"
#include "core/base/util.h"
#include "core/base/xalloc.h"
#include "analysis/log/hang_frame_read.h"
#include "analysis/log/log_read.h"

static struct watch_log *place_log(struct watch_logs *logs, const char *name)
{
        for (size_t i = 0; i < logs->n; i++) {
                if (!strcmp(logs->v[i].name, name))
                        return &logs->v[i];
        }
        xarray_room(&logs->v, logs->n, sizeof *logs->v);
        logs->v[logs->n] = (struct watch_log){.name = xstrdup(name)};
        return logs->v[logs->n].name ? &logs->v[logs->n++] : NULL;
}

/* Read the new frames. An incomplete frame is read next time. */
static bool read_news(struct watch_log *of, const char *path)
{
        _cleanup_(capo_log_closep) struct capo_log *log = NULL;
        struct capo_log_frame f = {0}; /* unchanged without a complete frame */
        bool news = false;
        char why[512];

        if (capo_log_open(path, &log, why, sizeof why) < 0)
                return false;
        if (!of->at)
                of->at = capo_log_header(log)->header_size;
        while (capo_log_frame_at(log, of->at, &f) == 0 && f.type > 0 && f.type < CAPO_FRAMES) {
                struct capo_hang_text t;

                if (f.type == CAPO_FRAME_HANG && capo_hang_text_read(&f, &t) == 0)
                        news |= t.nth > 0; /* 0: it was only asked */
                of->at += sizeof(struct capo_frame) + ((f.size + 7ull) & ~7ull);
                f.type = 0;
        }
        return news;
}

int watch_logs_news(struct watch_logs *logs, const char *folder)
{
        bool first = !logs->n, news = false;
        DIR *dir = opendir(folder);
        int r = 0;

        for (struct dirent *e; dir && r == 0 && (e = readdir(dir));) {
                char path[PATH_MAX];
                struct watch_log *log;

                if (fnmatch("*.capo", e->d_name, 0) ||
                    snprintf(path, sizeof path, "%s/%s", folder, e->d_name) >= (int)sizeof path)
                        continue;
                log = place_log(logs, e->d_name);
                r = log ? 0 : -ENOMEM;
                news |= log && read_news(log, path);
        }
        if (dir)
                closedir(dir);
        return r ?: news && !first;
}

void watch_logs_finish(struct watch_logs *logs)
{
        for (size_t i = 0; i < logs->n; i++)
                free(logs->v[i].name);
        free(logs->v);
        logs->v = NULL;
        logs->n = 0;
}
