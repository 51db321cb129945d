/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/base/cli_progress.h"
#include "core/base/plain_text.h"
#include "core/base/clock.h"
#include "core/base/util.h"

static struct {
        bool begun, shown;
        uint64_t begin_ns, last_ns;
} line;

void cli_progress(const char *what, uint64_t done, uint64_t of)
{
        uint64_t now = capo_clock_mono();
        char text[81], whole[32] = "";

        line.begin_ns = line.begun ? line.begin_ns : now;
        line.begun = true;
        if (now - line.begin_ns < 1000000000u || (line.shown && now - line.last_ns < 100000000u) ||
            !isatty(STDERR_FILENO))
                return;
        line.shown = true;
        line.last_ns = now;
        snprintf(text, sizeof text, "%s", what); /* it may contain a file name */
        capo_plain(text, strlen(text), false, true);
        if (of)
                snprintf(whole, sizeof whole, " of %" PRIu64, of);
        fprintf(stderr, "\r\033[K%s %" PRIu64 "%s", text, done, whole);
        fflush(stderr);
}

void cli_progress_end(void)
{
        if (line.shown)
                fputs("\r\033[K", stderr);
        line.begun = line.shown = false;
}
