/* SPDX-License-Identifier: Apache-2.0 */
#include "capo/msg.h"
#include "core/base/plain_text.h"
#include "core/base/write_signals.h"

static enum capo_level last_level = CAPO_INFO;

void capo_msg_set_level(enum capo_level last) { last_level = last; }

static void print_message(enum capo_level level, const char *format, va_list args)
{
        static const char *const prefix[] = {
                "capo: ", "capo: warning: ", "capo: ", "capo: debug: "};
        int saved = errno;
        char line[1024];
        int n, m;

        if (level > last_level)
                return;
        n = snprintf(line, sizeof line, "%s", prefix[level]);
        m = vsnprintf(line + n, sizeof line - n - 1, format, args);
        if (m > 0)
                n += m;
        if (n > (int)sizeof line - 2) /* cut rather than lost */
                n = (int)sizeof line - 2;
        capo_plain_line(line, (size_t)n); /* a name with a newline must not look like a message */
        line[n++] = '\n';
        CAPO_NO_WRITE_SIGNALS;
        if (write(STDERR_FILENO, line, n) < 0) {
                /* stderr is closed: there is nobody to tell */
        }
        errno = saved;
}

void capo_msg(enum capo_level level, const char *format, ...)
{
        va_list args;

        va_start(args, format);
        print_message(level, format, args);
        va_end(args);
}

int capo_fail(int rc, const char *format, ...)
{
        va_list args;

        va_start(args, format);
        print_message(CAPO_ERROR, format, args);
        va_end(args);
        return rc;
}

int capo_why(int rc, char *why, size_t room, const char *format, ...)
{
        va_list args;

        va_start(args, format);
        vsnprintf(why, room, format, args);
        va_end(args);
        return rc;
}

int capo_why_at(int rc, char *why, size_t room, const char *file, int line, const char *format, ...)
{
        int n = line ? snprintf(why, room, "%s:%d: ", file, line)
                     : snprintf(why, room, "%s: ", file);
        va_list args;

        va_start(args, format);
        if ((size_t)n < room)
                vsnprintf(why + n, room - (size_t)n, format, args);
        va_end(args);
        return rc;
}
