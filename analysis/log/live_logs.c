/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/among.h"
#include "core/base/xalloc.h"
#include "analysis/log/live_logs.h"

int capo_live_log_open(const struct capo_segment_info *info, struct capo_log **out)
{
        int fd, r = capo_segment_peek(info, &fd);
        char why[256];

        return r < 0 ? r : capo_log_open_fd(fd, info->log_path, out, why, sizeof why);
}

struct living {
        struct capo_segment_info *v;
        size_t n;
};

static int keep_living(const struct capo_segment_info *info, void *arg)
{
        struct living *l = arg;

        if (!info->alive || info->trace_all)
                return 0;
        *xadd(l->v, l->n) = *info;
        return 0;
}

int capo_live_logs_take(struct capo_log_paths *paths)
{
        struct living living = {0};
        int n = 0;

        /* if nothing can be read, every log stays as it is */
        capo_segment_find(NULL, NULL, true, keep_living, &living);
        for (size_t i = 0; i < paths->n && living.n; i++) {
                const struct capo_segment_info *info = FIRST_OF(
                        v, living.v, living.n, capo_log_path_is(paths->path[i], v->log_path));
                struct capo_log *log;

                /* a process that ends meanwhile has completed its log: keep that */
                if (!info || capo_live_log_open(info, &log) < 0)
                        continue;
                capo_log_close(paths->log[i]);
                paths->log[i] = log;
                n++;
        }
        free(living.v);
        return n;
}
