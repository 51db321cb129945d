/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "capo/msg.h"

static enum capo_level last_level = CAPO_INFO;

void capo_msg_set_level(enum capo_level last)
{
        last_level = last;
}

void capo_msg(enum capo_level level, const char *format, ...)
{
        static const char *const prefix[] = {"capo: ", "capo: warning: ", "capo: ", "capo: debug: "};
        int saved = errno;
        char line[1024];
        va_list args;
        int n, m;

        if (level > last_level)
                return;
        n = snprintf(line, sizeof line, "%s", prefix[level]);
        va_start(args, format);
        m = vsnprintf(line + n, sizeof line - n - 1, format, args);
        va_end(args);
        if (m > 0)
                n += m;
        if (n > (int)sizeof line - 2) /* cut rather than lost */
                n = (int)sizeof line - 2;
        line[n++] = '\n';
        if (write(STDERR_FILENO, line, n) < 0) {
                /* stderr is closed: there is nobody to tell */
        }
        errno = saved;
}
