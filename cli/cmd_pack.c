/* SPDX-License-Identifier: Apache-2.0 */
/* capo pack: puts the finished logs of a folder into one compressed file per node
 * (analysis/log/pack.h). */
#include <dirent.h>
#include <sys/stat.h>

#include "analysis/job/figures.h"
#include "analysis/log/pack.h"
#include "capo/msg.h"
#include "cli/base/cli.h"
#include "cli/base/cli_screen.h"

struct pack {
        bool all, undo, list;
        unsigned n_made, n_left, n_failed;
};

static void print_made(const struct pack *pack, const struct capo_pack_event *event)
{
        const char *way = pack->undo ? "out of" : pack->list ? "would be packed:" : "->";
        char from[32], to[32];

        printf("%s %s %s\n", capo_text_plural(event->n, "log", NULL), way, event->path);
        if (pack->list)
                printf("  %s\n", capo_size_print(event->from, from, sizeof from));
        else if (!pack->undo)
                printf("  %s of %s\n", capo_size_print(event->to, to, sizeof to),
                       capo_size_print(event->from, from, sizeof from));
}

static void say_pack(const struct capo_pack_event *event, void *arg)
{
        struct pack *pack = arg;

        switch (event->what) {
        case CAPO_PACK_MADE:
                pack->n_made++;
                print_made(pack, event);
                break;
        case CAPO_PACK_LEFT:
                pack->n_left++;
                if (pack->list)
                        printf("%s stays: %s\n", event->path, event->why);
                break;
        case CAPO_PACK_FAILED:
                pack->n_failed++;
                capo_error("pack: %s: %s", event->path, event->why);
                break;
        }
}

/* One folder; with --undo a file. Return: 0, also when something failed that was said; an exit status. */
static int pack_one(struct pack *pack, const char *path)
{
        int r = pack->undo ? capo_pack_undo(path, say_pack, pack)
                           : capo_pack_folder(path, pack->all, pack->list, say_pack, pack);

        return r < 0 && !pack->n_failed
                       ? capo_fail(CAPO_EXIT_FAIL, "pack: %s: %s", path, strerror(-r))
                       : 0;
}

static int is_folder(const struct dirent *entry)
{
        return entry->d_name[0] != '.' && (entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN);
}

/* The logs of @folder, and those of the jobs that have a folder in it, as capo run makes them. */
static int pack_jobs(struct pack *pack, const char *folder)
{
        struct dirent **entries = NULL;
        int r = pack_one(pack, folder), n = scandir(folder, &entries, is_folder, alphasort);

        for (int i = 0; i < n; i++) {
                char path[PATH_MAX];
                struct stat st;

                if (r == 0 &&
                    snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name) <
                            (int)sizeof path &&
                    stat(path, &st) == 0 && S_ISDIR(st.st_mode))
                        r = pack_one(pack, path);
                free(entries[i]);
        }
        free(entries);
        return r;
}

static int pack_run(void *options, int n, char **words)
{
        struct pack *pack = options;

        cli_screen_begin(stdout);
        for (int i = 0; i < n; i++) {
                struct stat st;
                int r;

                if (stat(words[i], &st) < 0)
                        return capo_fail(CAPO_EXIT_FAIL, "pack: %s: %s", words[i], strerror(errno));
                if (pack->undo != !S_ISDIR(st.st_mode))
                        return capo_fail(CAPO_EXIT_FAIL, "pack: %s: expected %s", words[i],
                                         pack->undo ? "a file *" CAPO_PACK_SUFFIX
                                                    : "a folder of logs");
                r = (pack->undo ? pack_one : pack_jobs)(pack, words[i]);
                if (r)
                        return r;
        }
        if (pack->n_left && !pack->list)
                printf("%u log%s stay%s as %s: capo pack --list says why\n", pack->n_left,
                       pack->n_left == 1 ? "" : "s", pack->n_left == 1 ? "s" : "",
                       pack->n_left == 1 ? "it is" : "they are");
        if (!pack->n_made && !pack->n_left && !pack->n_failed)
                puts("nothing to pack");
        return pack->n_failed ? CAPO_EXIT_FAIL : CAPO_EXIT_OK;
}

static const struct cli_option options[] = {
        {"all", CLI_FLAG(struct pack, all),
         "also finished logs of other nodes, where they share DIR"},
        {"list", CLI_FLAG(struct pack, list),
         "pack nothing: print what would be packed, and which logs stay as they are and why"},
        {"undo", CLI_FLAG(struct pack, undo), "the logs of FILE beside it again, and FILE away"},
        {0}};

const struct cli_command pack_command = {
        .usage = "[--all] [--list] DIR... | --undo FILE...",
        .about =
                "Puts the finished logs of a job into one compressed file for each node, NODE.capo.zst, in DIR and in each job's folder in DIR. Every verb reads it "
                "in place of the logs; FILE/NAME is one log in it. Logs of running processes stay as they are, and so do "
                "logs that capo report --recover is still to finish, damaged ones, and those of other users. With CAPO_GATHER=node "
                "the watch that capo run starts does this when the job is over.",
        .options = options,
        .after = "  capo pack capo-logs/JOB\n"
                 "  capo pack --all capo-logs/JOB\n"
                 "  capo pack --all capo-logs\n"
                 "  capo report capo-logs/JOB\n"
                 "  zstd -dc capo-logs/JOB/node1.capo.zst | wc -c",
        .status = "0, also when there was nothing to do; 1 something failed, 2 wrong command line.",
        .missing = "expected a folder of logs",
        .least = 1,
        .most = UINT_MAX,
        .size = sizeof(struct pack),
        .run = pack_run,
};
