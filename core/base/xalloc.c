/* SPDX-License-Identifier: Apache-2.0 */
#include "capo/msg.h"

#include "core/base/array.h"
#include "core/base/xalloc.h"

int xalloc_status = 1;

static void *memory_or_end(void *memory)
{
        if (!memory) {
                capo_error("out of memory");
                exit(xalloc_status);
        }
        return memory;
}

void *xmalloc(size_t size) { return memory_or_end(malloc(size ? size : 1)); }

void *xcalloc(size_t n, size_t size) { return memory_or_end(calloc(n ? n : 1, size ? size : 1)); }

void *xrealloc(void *old, size_t size) { return memory_or_end(realloc(old, size ? size : 1)); }

char *xstrdup(const char *text) { return memory_or_end(strdup(text)); }

char *xstrndup(const char *text, size_t n) { return memory_or_end(strndup(text, n)); }

char *xvprintf(const char *format, va_list args)
{
        char *text;

        return memory_or_end(vasprintf(&text, format, args) < 0 ? NULL : text);
}

char *xprintf(const char *format, ...)
{
        va_list args;
        char *text;

        va_start(args, format);
        text = xvprintf(format, args);
        va_end(args);
        return text;
}

FILE *xmemstream(char **text, size_t *size) { return memory_or_end(open_memstream(text, size)); }

void xmemclose(FILE *f)
{
        if (fclose(f))
                memory_or_end(NULL);
}

void xarray_room(void *list, size_t n, size_t item)
{
        memory_or_end(capo_array_room(list, n, item) ? NULL : list);
}
