/* SPDX-License-Identifier: Apache-2.0 */
/* capo recover: what killed processes left in memory goes into their logs (analysis/log/recover.h
 * does it). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "capo/msg.h"
#include "cli/base/cli.h"
#include "analysis/log/recover.h"
#include "core/base/util.h"

struct run {
        bool list_only;
        unsigned n, failed;
};

static int visit_segment(const struct capo_segment_info *info, void *arg)
{
        struct run *run = arg;
        struct capo_segment_info done = {0};
        int r;

        if (run->list_only) {
                run->n++;
                printf("%s  pid %d on %s  %llu calls  -> %s\n", info->path, info->pid, info->host,
                       (unsigned long long)info->records, info->log_path);
                return 0;
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

        if (n && !(absolute = realpath(words[0], NULL)))
                return capo_fail(CAPO_EXIT_FAIL, "%s: %s", words[0], strerror(errno));
        r = capo_segment_find_dead(NULL, absolute, visit_segment, run);
        if (r < 0)
                return capo_fail(CAPO_EXIT_FAIL, "%s: %s", CAPO_SEGMENT_DIR, strerror(-r));
        if (!run->n)
                puts("nothing to recover");
        return run->failed ? CAPO_EXIT_FAIL : CAPO_EXIT_OK;
}

static const struct cli_option options[] = {
        {"list", CLI_FLAG(struct run, list_only), "only show them"}, {0}};

const struct cli_command recover_command = {
        .usage = "[--list] [DIR]",
        .about =
                "A process under capo keeps its last calls in shared memory, so that a kill loses none. This brings "
                "what dead processes of yours on this machine left there into their logs, and frees the memory. With "
                "DIR only those whose log is in that folder. `capo report DIR` does the same first, by itself. Living "
                "processes are left alone.",
        .options = options,
        .after = "  capo recover --list\n"
                 "  capo recover capo-logs/48213",
        .status =
                "0, also when there was nothing; 1 DIR or /dev/shm cannot be read, 2 wrong command line.",
        .operand = "DIR",
        .most = 1,
        .size = sizeof(struct run),
        .run = recover_run,
};
