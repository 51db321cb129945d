/* SPDX-License-Identifier: Apache-2.0 */
/* capo recover: what killed processes left in memory goes into their logs (analysis/log/recover.h
 * does it). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capo/msg.h"
#include "cli/base/cli.h"
#include "cli/base/cli_screen.h"
#include "analysis/log/recover.h"
#include "core/base/util.h"

struct run {
        bool list_only, all, drop;
        const char *folder; /* NULL: any */
        unsigned n, failed, homeless;
};

/* Its log has no folder, and will have none. */
static int visit_homeless(const struct capo_segment_info *info, struct run *run)
{
        int r = run->drop ? capo_segment_drop(info->path) : 0;

        if (run->drop && r == 0) {
                printf("pid %d: %llu calls dropped, their folder is gone: %s\n", info->pid,
                       (unsigned long long)info->records, info->log_path);
        } else if (run->drop && r != -ESTALE) {
                capo_error("%s (pid %d): %s", info->path, info->pid, strerror(-r));
                run->failed++;
        } else if (!run->drop) {
                capo_warn("%s (pid %d): the folder of its log is gone: %s", info->path, info->pid,
                          info->log_path);
                run->homeless++;
        }
        return 0;
}

/* Is the log in the folder, or in one of those in it? A folder of jobs has one of each. */
static bool is_below(const char *log, const char *folder)
{
        size_t n = strlen(folder);

        return !strncmp(log, folder, n) && (log[n] == '/' || folder[n - 1] == '/');
}

static int visit_segment(const struct capo_segment_info *info, void *arg)
{
        struct run *run = arg;
        struct capo_segment_info done = {0};
        int r;

        if (run->folder && !is_below(info->log_path, run->folder))
                return 0;
        if (run->list_only) {
                run->n++;
                printf("%s  pid %d on %s  %llu calls  -> %s%s\n", info->path, info->pid, info->host,
                       (unsigned long long)info->records, info->log_path,
                       info->homeless ? "  (folder is gone)" : "");
                return 0;
        }
        if (run->drop && !info->homeless)
                return 0;
        if (info->homeless) {
                run->n++;
                return visit_homeless(info, run);
        }
        r = capo_segment_recover(info->path, NULL, &done);
        if (r == -ESTALE) /* another took it up meanwhile */
                return 0;
        run->n++;
        if (r == 0) {
                printf("pid %d: %llu calls -> %s\n", info->pid, (unsigned long long)done.records,
                       done.log_path);
        } else {
                capo_error("%s (pid %d): %s", info->path, info->pid, strerror(-r));
                run->failed++;
        }
        return 0;
}

static int recover_run(void *options, int n, char **words)
{
        struct run *run = options;
        _cleanup_free_ char *absolute = NULL;
        int r;

        if (n == 0 && geteuid() == 0 && !run->all && !run->list_only && !run->drop)
                return capo_fail(
                        CAPO_EXIT_USAGE,
                        "root's processes may be of any job: name the folder of one, or --all\n"
                        "try: capo recover --list");
        if (n && !(absolute = realpath(words[0], NULL)))
                return capo_fail(CAPO_EXIT_FAIL, "%s: %s", words[0], strerror(errno));
        cli_screen_begin(stdout);
        run->folder = absolute;
        r = capo_segment_find_dead(NULL, NULL, visit_segment, run);
        if (r < 0)
                return capo_fail(CAPO_EXIT_FAIL, "%s: %s", CAPO_SEGMENT_DIR, strerror(-r));
        if (!run->n)
                printf("nothing to %s%s%s\n", run->drop ? "remove" : "recover",
                       n ? ": no dead process has its log in " : "", n ? words[0] : "");
        if (run->homeless)
                capo_warn(
                        "%u process%s left calls whose folder is gone; to remove them: capo recover --drop",
                        run->homeless, run->homeless == 1 ? "" : "es");
        return run->failed ? CAPO_EXIT_FAIL : CAPO_EXIT_OK;
}

static const struct cli_option options[] = {
        {"list", CLI_FLAG(struct run, list_only), "only show them"},
        {"all", CLI_FLAG(struct run, all), "without DIR as root: those of every job"},
        {"drop", CLI_FLAG(struct run, drop),
         "only remove what belongs to logs whose folder is gone"},
        CLI_WIDE,
        {0}};

const struct cli_command recover_command = {
        .usage = "[--list] [--drop] [--all | DIR]",
        .about =
                "A process under capo keeps its last calls in shared memory, so that a kill loses none. This brings "
                "what dead processes of yours on this machine left there into their logs, and frees the memory. With "
                "DIR only those whose log is in that folder or below it. `capo report DIR` does the same first, by itself. Living "
                "processes and those of other users are left alone. Root names a job's folder, or --all.",
        .options = options,
        .after = "  capo recover --list\n"
                 "  capo recover capo-logs/48213",
        .status =
                "0, also when there was nothing; 1 DIR or /dev/shm cannot be read, or a log cannot be written, 2 wrong command line.",
        .operand = "DIR",
        .most = 1,
        .size = sizeof(struct run),
        .run = recover_run,
};
