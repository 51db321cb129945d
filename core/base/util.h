/* SPDX-License-Identifier: Apache-2.0 */
/* The few macros everybody may use, and the headers of C that nearly every file needs. */
#pragma once

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define _cleanup_(f)  __attribute__((cleanup(f)))
#define N_ELEMENTS(a) (sizeof(a) / sizeof((a)[0]))
/* One behind the last of @n items. Of none it is @list itself: to add 0 to NULL is undefined in C. */
#define PAST_OF(list, n) ((n) ? (list) + (n) : (list))
#define CAPO_EXPORT      __attribute__((visibility("default")))
/* For functions that run before a sanitizer's run-time is up (our dlsym), or that read on
 * purpose what another thread may be writing. */
#define CAPO_UNSANITIZED __attribute__((no_sanitize("address", "thread", "undefined")))
#define likely(x)        __builtin_expect(!!(x), 1)
#define unlikely(x)      __builtin_expect(!!(x), 0)

/* Hand a pointer over: take the value, leave NULL behind. */
#define steal(p)                                \
        ({                                      \
                __typeof__(*(p)) taken_ = *(p); \
                *(p) = NULL;                    \
                taken_;                         \
        })

/* getenv() where a function is asked for that may have a stand-in. */
static inline const char *capo_getenv(const char *name, void *nothing) { return getenv(name); }

/* The last part of a path. */
static inline const char *capo_base_name(const char *path)
{
        const char *slash = strrchr(path, '/');

        return slash ? slash + 1 : path;
}

static inline void capo_freep(void *p) { free(*(void **)p); }

static inline void capo_fclosep(FILE **f)
{
        if (*f)
                fclose(*f);
}

static inline void capo_closep(int *fd)
{
        if (*fd >= 0)
                close(*fd);
}

#define _cleanup_free_   _cleanup_(capo_freep)
#define _cleanup_fclose_ _cleanup_(capo_fclosep)
#define _cleanup_close_  _cleanup_(capo_closep)
