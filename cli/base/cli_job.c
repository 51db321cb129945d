/* SPDX-License-Identifier: Apache-2.0 */
#include "capo/msg.h"
#include "cli/base/cli_job.h"
#include "analysis/log/log_find.h"
#include "core/base/xalloc.h"

struct capo_job *cli_job_load_paths(const char *path, struct capo_log_paths *paths)
{
        _cleanup_(capo_job_freep) struct capo_job *job = capo_job_new();
        char why[512];
        int used = 0;

        for (size_t i = 0; i < paths->n; i++) {
                struct capo_log *log;

                if (capo_log_paths_take(paths, i, &log, why, sizeof why) < 0) {
                        capo_warn("left out %s: %s", paths->path[i], why);
                        continue;
                }
                capo_job_add(job, log);
                used++;
        }
        if (!used) {
                capo_error("%s: no capo log to read", path);
                return NULL;
        }
        capo_job_finish(job);
        return steal(&job);
}

struct capo_job *cli_job_load(const char *path)
{
        _cleanup_(capo_log_paths_finish) struct capo_log_paths paths = {0};
        _cleanup_free_ char *what = xstrdup(path);
        char why[512] = "no memory";

        if (capo_log_find(&what, 1, &paths, why, sizeof why) < 0) {
                capo_error("%s", why);
                return NULL;
        }
        return cli_job_load_paths(path, &paths);
}
