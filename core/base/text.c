/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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
