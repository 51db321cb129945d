/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/base/cli_progress.h"
#include "core/base/plain_text.h"
#include "core/base/clock.h"
#include "core/base/util.h"

static struct {
        bool begun, shown;
        uint64_t begin_ns, last_ns;
} line;

/* Is an update due? */
static bool is_line_due(void)
{
        uint64_t now = capo_clock_mono();

        if (!isatty(STDERR_FILENO))
                return false;
        if (!line.begun) {
                line.begun = true;
                line.begin_ns = now;
        }
        if (now - line.begin_ns < 1000000000u || (line.shown && now - line.last_ns < 100000000u))
                return false;
        line.shown = true;
        line.last_ns = now;
        return true;
}

/* Print the begin of the line; @what may contain a file name. */
static void begin_line(const char *what)
{
        char text[81];
        int n = snprintf(text, sizeof text, "%s", what);

        capo_plain(text, n < (int)sizeof text ? (size_t)n : sizeof text - 1, false, true);
        fprintf(stderr, "\r\033[K%s", text);
}

void cli_progress(const char *what, uint64_t done, uint64_t of)
{
        if (!is_line_due())
                return;
        begin_line(what);
        if (of)
                fprintf(stderr, " %llu of %llu", (unsigned long long)done, (unsigned long long)of);
        else
                fprintf(stderr, " %llu", (unsigned long long)done);
        fflush(stderr);
}

void cli_progress_percent(const char *what, uint64_t done, uint64_t of)
{
        if (!is_line_due())
                return;
        begin_line(what);
        fprintf(stderr, " %.0f %%", of ? 100.0 * (double)done / (double)of : 0);
        fflush(stderr);
}

void cli_progress_end(void)
{
        if (line.shown)
                fputs("\r\033[K", stderr);
        line.begun = line.shown = false;
}
