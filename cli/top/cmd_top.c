/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/stat.h>

#include "capo/msg.h"
#include "cli/base/cli.h"
#include "cli/base/cli_screen.h"
#include "cli/top/top_page.h"
#include "core/base/clock.h"
#include "core/base/text.h"

/* The page on a terminal, updated in place, with keys. */

#ifndef CAPO_WITH_CURSES

static int show_page(struct top *t, double every_s)
{
        return capo_fail(-ENOTSUP,
                         "top: this capo was built without ncurses; try: capo top --once");
}

#else
#include <curses.h>

struct view {
        struct top *top;
        size_t at; /* first line shown */
        bool paused, help;
};

static const char *const keys[] = {
        "s         sort by the next column (time, calls, bytes, p50, busbw, name)",
        "space, p  stop and go on",
        "arrows    move the page; PgUp, PgDn, Home",
        "h, ?      these lines",
        "q         leave",
        "",
        "TIME     share of the ranks' time on the GPU in these calls, since the last sample",
        "CALLS/S  GB/S  calls and message bytes that the ranks on this machine enqueued",
        "P50      median time on the GPU since the start of the job",
        "BUSBW    bus bandwidth in GB/s in the last minutes",
        "LINKS    of what the links of these GPUs allow, where the machine is recorded",
};

static void put_line(int y, const char *text, attr_t how)
{
        attron(how);
        mvaddnstr(y, 0, text, COLS);
        attroff(how);
}

static void draw_page(struct view *v)
{
        struct top_lines lines = {.width = COLS > 0 ? (unsigned)COLS : 1};
        size_t room = LINES > 1 ? (size_t)LINES - 1 : 0;
        char text[TOP_LINE], clock[32];

        erase();
        capo_text_when(capo_clock_of(CLOCK_REALTIME), "%H:%M:%S", clock);
        snprintf(text, sizeof text, "capo top %s  sort %s%s  h help%*s", clock,
                 top_sort_names[v->top->sort], v->paused ? "  PAUSED" : "", COLS, "");
        put_line(0, text, A_REVERSE);
        if (v->help) {
                for (size_t i = 0; i < N_ELEMENTS(keys) && i < room; i++)
                        put_line((int)i + 1, keys[i], A_NORMAL);
        } else {
                top_page(v->top, &lines);
                v->at = v->at < lines.n ? v->at : lines.n ? lines.n - 1 : 0;
                for (size_t i = 0; i < room && v->at + i < lines.n; i++) {
                        const struct top_line *line = &lines.line[v->at + i];

                        put_line((int)i + 1, line->text,
                                 line->alarm    ? A_BOLD | A_REVERSE
                                 : line->strong ? A_BOLD
                                                : A_NORMAL);
                }
        }
        free(lines.line);
        refresh();
}

/* False: quit. */
static bool take_key(struct view *v, int key)
{
        size_t page = LINES > 3 ? (size_t)LINES - 3 : 1;

        switch (key) {
        case 'q':
        case 3: return false; /* ^C, if the terminal passes it on */
        case 's': v->top->sort = (v->top->sort + 1) % TOP_SORTS; break;
        case 'p':
        case ' ': v->paused = !v->paused; break;
        case 'h':
        case '?': v->help = !v->help; break;
        case KEY_DOWN: v->at++; break;
        case KEY_UP: v->at -= v->at > 0; break;
        case KEY_NPAGE: v->at += page; break;
        case KEY_PPAGE: v->at -= v->at > page ? page : v->at; break;
        case KEY_HOME: v->at = 0; break;
        default: break;
        }
        return true;
}

static int show_until_left(struct view *v, double every_s)
{
        uint64_t every = (uint64_t)(every_s * 1e9), next = capo_clock_of(CLOCK_MONOTONIC) + every;
        int r = 0;

        while (r == 0) {
                uint64_t now = capo_clock_of(CLOCK_MONOTONIC);
                int key;

                draw_page(v);
                timeout(next > now ? (int)((next - now) / 1000000) + 1 : 0);
                key = getch();
                if (key != ERR && !take_key(v, key))
                        return 0;
                if (key != ERR)
                        continue;
                if (capo_clock_of(CLOCK_MONOTONIC) >= next) {
                        r = v->paused ? 0 : top_sample(v->top);
                        next = capo_clock_of(CLOCK_MONOTONIC) + every;
                } else if (!isatty(STDIN_FILENO)) {
                        return 0; /* end of input: no key could quit */
                }
        }
        return r;
}

static int show_page(struct top *t, double every_s)
{
        struct view v = {.top = t};
        bool terminal = isatty(STDOUT_FILENO) && isatty(STDIN_FILENO);
        FILE *out = terminal ? fdopen(dup(STDOUT_FILENO), "w")
                             : NULL; /* stdout is taken by cli_plain.h */
        SCREEN *screen = out ? newterm(NULL, out, stdin) : NULL;
        int r;

        if (!screen) {
                if (out)
                        fclose(out);
                return capo_fail(-ENOTTY, "top: expected a terminal that TERM describes; "
                                          "try: capo top --once");
        }
        cbreak();
        noecho();
        keypad(stdscr, TRUE);
        curs_set(0);
        r = show_until_left(&v, every_s);
        endwin();
        delscreen(screen);
        fclose(out);
        return r;
}
#endif

struct options {
        const char *dir;
        double every;
        int sort; /* enum top_sort */
        bool once, json;
};

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
        gethostname(t.watch.node, sizeof t.watch.node - 1);
        r = top_sample(&t);
        if (r == 0 && t.n_jobs && (o->once || o->json)) { /* rates need two samples */
                usleep((useconds_t)(o->every * 1e6));
                r = top_sample(&t);
        }
        if (r < 0) {
                capo_error("top: %s", strerror(-r));
        } else if (o->json) {
                r = top_json(&t, stdout);
        } else if (o->once) {
                FILE *out = cli_screen_page(stdout);
                struct top_lines lines = {.whole = true,
                                          .width = cli_screen_columns(out) ?: TOP_LINE};

                top_page(&t, &lines);
                for (size_t i = 0; i < lines.n; i++)
                        fprintf(out, "%s\n", lines.line[i].text);
        } else {
                r = show_page(&t, o->every);
        }
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
