/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/ioctl.h>

#include "cli/base/cli_screen.h"
#include "core/base/xalloc.h"

enum { NORMAL = 80, LEAST = 40, WHOLE = 500, INDENT = 4 }; /* no page is as wide as WHOLE */

static struct {
        bool wide;
        unsigned columns; /* 0: not begun */
        FILE *terminal;   /* the original stdout */
        FILE *page;       /* the current stdout: its lines are passed to write_page() */
        char *line;       /* the incomplete last line */
        size_t n;
} screen;

void cli_screen_wide(void) { screen.wide = true; }

bool cli_screen_is_terminal(FILE *out)
{
        return isatty(out == stdout || (screen.page && out == screen.page) ? STDOUT_FILENO
                                                                           : fileno(out));
}

unsigned cli_screen_columns(FILE *out)
{
        return screen.page && out == screen.page ? screen.columns : 0;
}

/* Length of the letter or escape sequence at @text, and the columns it takes. */
static size_t measure_letter(const char *text, unsigned *columns)
{
        size_t n = 1;

        *columns = 1;
        if (text[0] == '\033' && text[1] == '[') {
                n = 2 + strcspn(text + 2, "ABCDEFGHJKSTfmnsu");
                *columns = 0;
                return n + (text[n] != 0);
        }
        while ((text[n] & 0xc0) == 0x80)
                n++;
        return n;
}

unsigned cli_screen_width(const char *text)
{
        unsigned sum = 0, columns;

        for (; text && *text; sum += columns)
                text += measure_letter(text, &columns);
        return sum;
}

/* An address must not be broken, so that it can be clicked and copied. */
static bool is_address(const char *text)
{
        text += strspn(text, " (");
        return !strncmp(text, "https://", 8) || !strncmp(text, "http://", 7);
}

size_t cli_screen_fold(const char *text, unsigned columns, unsigned *used)
{
        size_t n = 0, blank = 0, step;
        unsigned to_blank = 0, takes, ignored;

        used = used ? used : &ignored;
        for (*used = 0; text[n]; n += step, *used += takes) {
                step = measure_letter(text + n, &takes);
                if (text[n] == ' ' && n && text[n - 1] != ' ') {
                        blank = n;
                        to_blank = *used;
                }
                if (*used + takes > columns && !blank && is_address(text)) {
                        for (; text[n] && text[n] != ' '; n += step, *used += takes)
                                step = measure_letter(text + n, &takes);
                        return n;
                }
                if (*used + takes > columns && (n || blank)) {
                        *used = blank ? to_blank : *used;
                        return blank ? blank : n;
                }
        }
        return n;
}

static void print_line(char *line)
{
        unsigned columns = screen.columns, indent = (unsigned)strspn(line, " ");
        size_t n;

        if (cli_screen_width(line) <= columns) {
                fprintf(screen.terminal, "%s\n", line);
                return;
        }
        /* do not break a line within its indentation */
        n = indent < columns / 2 ? indent + cli_screen_fold(line + indent, columns - indent, NULL)
                                 : cli_screen_fold(line, columns, NULL);
        fprintf(screen.terminal, "%.*s\n", (int)n, line);
        indent = indent < columns / 2 ? indent + INDENT : INDENT;
        for (line += n, line += strspn(line, " "); *line; line += n, line += strspn(line, " ")) {
                n = cli_screen_fold(line, columns - indent, NULL);
                fprintf(screen.terminal, "%*s%.*s\n", (int)indent, "", (int)n, line);
        }
}

static ssize_t write_page(void *cookie, const char *bytes, size_t n)
{
        (void)cookie;
        for (size_t i = 0; i < n; i++) {
                *xadd(screen.line, screen.n) = bytes[i] == '\n' ? 0 : bytes[i];
                if (bytes[i] == '\n') {
                        print_line(screen.line);
                        screen.n = 0;
                }
        }
        return fflush(screen.terminal) == 0 ? (ssize_t)n : 0;
}

/* Print an incomplete last line. */
static void flush_last_line(void)
{
        fflush(screen.page);
        if (screen.n)
                fwrite(screen.line, 1, screen.n, screen.terminal);
        fflush(screen.terminal);
        free(screen.line);
        screen.line = NULL;
        screen.n = 0;
}

static unsigned measure_terminal(void)
{
        const char *said = getenv("COLUMNS");
        struct winsize size;
        int columns = 0;

        if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
                columns = size.ws_col;
        if (columns <= 0 && said)
                columns = atoi(said);
        return columns <= 0 ? NORMAL : columns < LEAST ? LEAST : (unsigned)columns;
}

FILE *cli_screen_page(FILE *out)
{
        if (out != stdout || screen.page || screen.wide)
                return out;
        fflush(stdout);
        screen.page = fopencookie(NULL, "w", (cookie_io_functions_t){.write = write_page});
        if (!screen.page)
                return out;
        setvbuf(screen.page, NULL, _IOLBF, 0);
        screen.terminal = stdout;
        screen.columns = measure_terminal();
        stdout = screen.page;
        atexit(flush_last_line);
        return screen.page;
}

FILE *cli_screen_begin(FILE *out)
{
        const char *said = getenv("COLUMNS");
        const int columns = said ? atoi(said) : 0;

        return isatty(STDOUT_FILENO) || (columns > 0 && columns < WHOLE) ? cli_screen_page(out)
                                                                         : out;
}
