/* SPDX-License-Identifier: Apache-2.0 */
#include <time.h>

#include "core/base/text.h"

char *capo_append(char *text, size_t room, const char *format, ...)
{
        size_t used = strlen(text);
        va_list args;

        va_start(args, format);
        vsnprintf(text + used, room - used, format, args);
        va_end(args);
        return text;
}

char *capo_print(const char *format, va_list args)
{
        char *text;

        return vasprintf(&text, format, args) < 0 ? NULL : text;
}

char *capo_text_when(uint64_t real_ns, const char *format, char text[32])
{
        time_t t = (time_t)(real_ns / 1000000000);
        struct tm tm;

        *text = 0;
        if (localtime_r(&t, &tm))
                strftime(text, 32, format, &tm);
        return text;
}
