/* SPDX-License-Identifier: Apache-2.0 */
/* capo report --recover: adds what killed processes left in memory to their logs
 * (analysis/log/recover.h). */
#include "capo/msg.h"
#include "cli/base/cli.h"
#include "cli/base/cli_screen.h"
#include "cli/report/report_recover.h"
#include "analysis/log/recover.h"
#include "analysis/job/figures.h"
#include "core/log/segment.h"

struct recovering {
        unsigned processes;
        uint64_t records;
};

static int recover_quietly(const struct capo_segment_info *info, void *arg)
{
        struct recovering *sum = arg;
        struct capo_segment_info done = {0};
        int r = capo_segment_recover(info->path, NULL, &done);

        if (r == 0) {
                sum->processes++;
                sum->records += done.records;
        } else if (r != -EBUSY && r != -ESTALE) {
                capo_warn(
                        "pid %d left calls that are not in its log, and they cannot be recovered: %s",
                        info->pid, strerror(-r));
        }
        return 0;
}

bool report_recover_first(const struct capo_log_paths *paths)
{
        struct recovering sum = {0};

        for (size_t i = 0; i < paths->n_folders; i++) {
                _cleanup_free_ char *absolute = realpath(paths->folder[i], NULL);

                if (absolute)
                        capo_segment_find(NULL, absolute, false, recover_quietly, &sum);
        }
        if (sum.processes && !sum.records)
                capo_info("%s had written all calls",
                          capo_text_plural(sum.processes, "ended process", "ended processes"));
        else if (sum.processes)
                capo_info("recovered %s that %s had not yet written",
                          capo_text_plural(sum.records, "call", NULL),
                          capo_text_plural(sum.processes, "ended process", "ended processes"));
        return sum.processes > 0;
}

/* ---- report --recover ---- */

struct run {
        enum report_recover what;
        const char *folder; /* NULL: all */
        unsigned n, failed, homeless;
};

/* Is the log in the folder, or in a subfolder of it? A folder of jobs has one subfolder per job. */
static bool is_below(const char *log, const char *folder)
{
        size_t n = strlen(folder);

        return !strncmp(log, folder, n) && (log[n] == '/' || folder[n - 1] == '/');
}

static int visit_segment(const struct capo_segment_info *info, void *arg)
{
        struct run *run = arg;
        bool drop = run->what == REPORT_RECOVER_DROP;
        struct capo_segment_info done = *info;
        int r;

        if ((run->folder && !is_below(info->log_path, run->folder)) || (drop && !info->homeless))
                return 0;
        if (run->what == REPORT_RECOVER_LIST) {
                run->n++;
                printf("%s  pid %d on %s  %llu calls  -> %s%s\n", info->path, info->pid, info->host,
                       (unsigned long long)info->records, info->log_path,
                       info->homeless ? "  (folder is gone)" : "");
                return 0;
        }
        if (info->homeless && !drop) {
                run->n++;
                run->homeless++;
                capo_warn("%s (pid %d): the folder of its log is gone: %s", info->path, info->pid,
                          info->log_path);
                return 0;
        }
        r = drop ? capo_segment_drop(info->path) : capo_segment_recover(info->path, NULL, &done);
        if (r == -ESTALE) /* another command took it meanwhile */
                return 0;
        run->n++;
        if (r == 0) {
                printf("pid %d: %llu calls %s %s\n", info->pid, (unsigned long long)done.records,
                       drop ? "dropped, their folder is gone:" : "->", done.log_path);
        } else {
                capo_error("%s (pid %d): %s", info->path, info->pid, strerror(-r));
                run->failed++;
        }
        return 0;
}

int report_recover_only(enum report_recover what, const char *dir)
{
        _cleanup_free_ char *absolute = NULL;
        struct run run = {.what = what};
        int r;

        if (!dir && geteuid() == 0 && what == REPORT_RECOVER_ONLY)
                return capo_fail(CAPO_EXIT_USAGE,
                                 "root's processes may be of any job: name the folder of one, or "
                                 "--recover-all; try capo report --recover-list");
        if (dir && !(absolute = realpath(dir, NULL)))
                return capo_fail(CAPO_EXIT_FAIL, "%s: %s", dir, strerror(errno));
        cli_screen_begin(stdout);
        run.folder = absolute;
        r = capo_segment_find(NULL, NULL, false, visit_segment, &run);
        if (r < 0)
                return capo_fail(CAPO_EXIT_FAIL, "%s: %s", CAPO_SEGMENT_DIR, strerror(-r));
        if (!run.n)
                printf("nothing to %s%s%s\n", what == REPORT_RECOVER_DROP ? "remove" : "recover",
                       dir ? ": no dead process has its log in " : "", dir ? dir : "");
        if (run.homeless)
                capo_warn("%s left calls whose folder is gone; to remove them: "
                          "capo report --recover-drop",
                          capo_text_plural(run.homeless, "process", "processes"));
        return run.failed ? CAPO_EXIT_FAIL : CAPO_EXIT_OK;
}
