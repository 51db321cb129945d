/* SPDX-License-Identifier: Apache-2.0 */

#include "core/log/info.h"

size_t capo_info_print(char *line, size_t room, const char *key, const char *format, va_list args)
{
        int n = snprintf(line, room, "%s\t", key), m;

        if (n < 0 || (size_t)n + 2 > room)
                return 0;
        m = vsnprintf(line + n, room - 1 - (size_t)n, format, args);
        if (m < 0)
                return 0;
        if ((size_t)(n + m) > room - 2)
                m = (int)room - 2 - n;
        for (int i = n; i < n + m; i++) {
                if ((unsigned char)line[i] < ' ')
                        line[i] = ' ';
        }
        line[n + m] = '\n';
        return (size_t)(n + m + 1);
}

size_t capo_info_put(char *text, size_t room, const char *key, const char *format, ...)
{
        char line[CAPO_INFO_LINE];
        va_list args;
        size_t n;

        va_start(args, format);
        n = capo_info_print(line, sizeof line, key, format, args);
        va_end(args);
        if (n > room)
                return 0;
        memcpy(text, line, n);
        return n;
}
