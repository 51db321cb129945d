/* SPDX-License-Identifier: Apache-2.0 */
/* capo recover: what killed processes left in memory goes into their logs (core/log/segment.h does it). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "capo/msg.h"
#include "cli/base/cli.h"
#include "core/log/segment.h"
#include "core/base/util.h"

struct run {
        bool list_only;
        unsigned n, failed;
};

static int one(const struct capo_segment_info *info, void *arg)
{
        struct run *run = arg;
        struct capo_segment_info done = {0};
        int r;

        run->n++;
        if (run->list_only) {
                printf("%s  pid %d on %s  %llu calls  -> %s\n", info->path, info->pid, info->host,
                       (unsigned long long)info->records, info->log_path);
                return 0;
        }
        r = capo_segment_recover(info->path, NULL, &done);
        if (r == 0) {
                printf("pid %d: %llu calls -> %s\n", info->pid, (unsigned long long)done.records, done.log_path);
        } else {
                capo_error("%s (pid %d): %s", info->path, info->pid, strerror(-r));
                run->failed++;
        }
        return 0;
}

int capo_verb_recover(int argc, char **argv)
{
        struct run run = {0};
        const char *dir = NULL;
        _cleanup_free_ char *absolute = NULL;
        int r;

        for (int i = 1; i < argc; i++) {
                if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
                        puts("usage: capo recover [--list] [DIR]\n\n"
                             "A process under capo keeps its last calls in shared memory, so that a kill loses none. "
                             "This\n"
                             "brings what dead processes of yours on this machine left there into their logs, and "
                             "frees the\n"
                             "memory. With DIR only those whose log is in that folder. --list only shows them.\n"
                             "`capo report DIR` does the same first, by itself. Living processes are left alone.\n\n"
                             "  capo recover --list\n"
                             "  capo recover capo-logs/48213\n\n"
                             "Exit status: 0, also when there was nothing; 1 DIR or /dev/shm cannot be read, 2 wrong "
                             "command line.");
                        return CAPO_EXIT_OK;
                }
                if (!strcmp(argv[i], "--list")) {
                        run.list_only = true;
                } else if (argv[i][0] == '-' || dir) {
                        capo_error("recover: unexpected \"%s\"; capo recover --help", argv[i]);
                        return CAPO_EXIT_USAGE;
                } else {
                        dir = argv[i];
                }
        }
        if (dir && !(absolute = realpath(dir, NULL))) {
                capo_error("%s: %s", dir, strerror(errno));
                return CAPO_EXIT_FAIL;
        }
        r = capo_segment_find_dead(NULL, absolute, one, &run);
        if (r < 0) {
                capo_error("%s: %s", CAPO_SEGMENT_DIR, strerror(-r));
                return CAPO_EXIT_FAIL;
        }
        if (!run.n)
                puts("nothing to recover");
        return run.failed ? CAPO_EXIT_FAIL : CAPO_EXIT_OK;
}
