/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/stat.h>

#include "capo/msg.h"
#include "cli/base/cli.h"
#include "cli/base/cli_screen.h"
#include "cli/top/top_page.h"
#include "core/base/util.h"

struct options {
        const char *dir, *filter;
        double every;
        int sort; /* enum top_sort */
        bool once, json;
};

static void print_once(const struct top *t)
{
        FILE *out = cli_screen_page(stdout);
        unsigned columns = cli_screen_columns(out);
        struct top_lines lines = {.whole = true};

        top_page(t, columns ? columns : TOP_LINE, &lines);
        for (size_t i = 0; i < lines.n; i++)
                fprintf(out, "%s\n", lines.line[i].text);
        top_lines_finish(&lines);
}

static int run_top(void *options, int n, char **words)
{
        const struct options *o = options;
        struct watch_options watch = {.dir = o->dir, .hang = 10, .below = true};
        struct top t = {.watch = {.options = &watch}, .sort = (enum top_sort)o->sort};
        struct stat st;
        int r;

        if (o->dir && stat(o->dir, &st) < 0)
                return capo_fail(CAPO_EXIT_FAIL, "top: %s: expected a folder of logs: %s", o->dir,
                                 strerror(errno));
        snprintf(t.filter, sizeof t.filter, "%s", o->filter ? o->filter : "");
        gethostname(t.watch.node, sizeof t.watch.node - 1);
        r = top_sample(&t);
        if (r == 0 && t.n_jobs && (o->once || o->json)) { /* rates need two samples */
                usleep((useconds_t)(o->every * 1e6));
                r = top_sample(&t);
        }
        if (r < 0)
                capo_error("top: %s", strerror(-r));
        else if (o->json)
                r = top_json(&t, stdout);
        else if (o->once)
                print_once(&t);
        else
                r = top_show(&t, o->every);
        if (r == 0 && (o->once || o->json) && !t.n_jobs)
                r = -ENOENT;
        top_finish(&t);
        return r < 0 ? CAPO_EXIT_FAIL : CAPO_EXIT_OK;
}

static const struct options defaults = {.every = 2};

static const struct cli_option options[] = {
        {"once", CLI_FLAG(struct options, once),
         "print the page once; rates are of the --every seconds before"},
        {"json", CLI_FLAG(struct options, json), "the same for programs"},
        CLI_WIDE,
        {"every", CLI_SECONDS(struct options, every, "SECONDS", 0.2, 3600),
         "seconds between two samples (2)"},
        {"sort", CLI_CHOICE(struct options, sort, "KEY", top_sort_names),
         "rows by time (default), calls, bytes, p50, busbw or name"},
        {"filter", CLI_TEXT(struct options, filter, "TEXT"),
         "only rows whose communicator or call has TEXT in it"},
        {"dir", CLI_FILE(struct options, dir, "LOGS"),
         "only jobs whose logs are in this folder, or in folders below; default all of this user on this machine (root: of all users)"},
        {0}};

const struct cli_command top_command = {
        .usage = "[OPTION...]",
        .about = "Shows this user's recorded jobs on this machine while they run: calls and "
                 "bytes per second, the share of time in NCCL, bus bandwidth, late ranks, "
                 "network interfaces, and whether a job is stuck. h lists the keys.",
        .options = options,
        .after = "  capo top\n"
                 "  capo top --once --sort bytes\n"
                 "  capo top --json",
        .status = "0; 1 no job, or no terminal; 2 wrong command line.",
        .size = sizeof(struct options),
        .defaults = &defaults,
        .run = run_top,
};
