/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/base/cli_plain.h"
#include "core/base/plain_text.h"
#include "core/base/xalloc.h"

struct way {
        int fd;
        bool styles;
        char text[16384]; /* the first `held` bytes are an incomplete UTF-8 letter */
        size_t held;
};

static int why_not; /* errno of the last failed write: a stream only keeps that one failed */

int cli_plain_why_not(void) { return why_not; }

static bool write_bytes(const struct way *w, const char *text, size_t n)
{
        while (n > 0) {
                ssize_t written = write(w->fd, text, n);

                if (written < 0 && errno == EINTR)
                        continue;
                if (written <= 0) {
                        why_not = written < 0 ? errno : EIO;
                        return false;
                }
                text += written;
                n -= (size_t)written;
        }
        return true;
}

static ssize_t write_way(void *cookie, const char *bytes, size_t n)
{
        struct way *w = cookie;

        for (size_t at = 0, piece; at < n; at += piece) {
                size_t decided;

                piece = n - at < sizeof w->text - w->held ? n - at : sizeof w->text - w->held;
                memcpy(w->text + w->held, bytes + at, piece);
                decided = capo_plain(w->text, w->held + piece, w->styles, false);
                if (!write_bytes(w, w->text, decided))
                        return 0;
                w->held += piece - decided;
                memmove(w->text, w->text + decided, w->held);
        }
        return (ssize_t)n;
}

static struct way of_stdout; /* never closed */

static int close_way(void *cookie)
{
        struct way *w = cookie;
        bool ok = write_bytes(w, w->text, capo_plain(w->text, w->held, w->styles, true));

        ok = close(w->fd) == 0 && ok;
        if (w != &of_stdout)
                free(w);
        return ok ? 0 : -1;
}

static FILE *open_way(struct way *w)
{
        return fopencookie(w, "w", (cookie_io_functions_t){.write = write_way, .close = close_way});
}

void cli_plain_stdout(void)
{
        FILE *out = open_way(&of_stdout);

        if (!out)
                return;
        of_stdout.fd = STDOUT_FILENO;
        of_stdout.styles = true;
        setvbuf(out, NULL, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF, 16384);
        stdout = out;
}

FILE *cli_plain_file(int fd)
{
        struct way *w = xcalloc(1, sizeof *w);
        FILE *out = open_way(w);

        if (!out) {
                free(w);
                return NULL;
        }
        w->fd = fd;
        return out;
}
