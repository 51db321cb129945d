/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for what runs outside of a job: the command capo, and what it is made of. Each function
 * gives memory or ends the process with one line and xalloc_status, so that nobody asks. Never in
 * the libraries that a job loads, nor for a size that a file states. */
#pragma once

#include "core/base/util.h"

/* CAPO_EXIT_FAIL; another where that is an answer of the verb */
extern int xalloc_status;

void *xmalloc(size_t size) __attribute__((malloc, alloc_size(1), returns_nonnull));
/** xcalloc() - zeroed; never NULL, not even for no bytes */
void *xcalloc(size_t n, size_t size) __attribute__((malloc, alloc_size(1, 2), returns_nonnull));
void *xrealloc(void *old, size_t size) __attribute__((alloc_size(2), returns_nonnull));
char *xstrdup(const char *text) __attribute__((malloc, returns_nonnull));
char *xstrndup(const char *text, size_t n) __attribute__((malloc, returns_nonnull));

/** xfree() - free() of each of these pointers */
#define xfree(...)                                                    \
        do {                                                          \
                for (void *all_[] = {__VA_ARGS__, NULL}, **p_ = all_; \
                     p_ < all_ + N_ELEMENTS(all_); p_++)              \
                        free(*p_);                                    \
        } while (0)

/** xprintf() - printf() into memory of its own, which the caller frees */
char *xprintf(const char *format, ...)
        __attribute__((malloc, returns_nonnull, format(printf, 1, 2)));
char *xvprintf(const char *format, va_list args)
        __attribute__((malloc, returns_nonnull, format(printf, 1, 0)));

/** xmemstream() - open_memstream(). xmemclose() - closes it: *text is whole then. */
FILE *xmemstream(char **text, size_t *size) __attribute__((returns_nonnull));
void xmemclose(FILE *f);

/** xarray_room() - capo_array_room() of core/base/array.h, or the end */
void xarray_room(void *list, size_t n, size_t item);

/** xadd() - one more item behind the @n of @list, which is counted. Its value is the item, which has
 * not been set: *xadd(list, n) = ... */
#define xadd(list, n) (xarray_room(&(list), (n), sizeof *(list)), &(list)[(n)++])

/** xput() - xadd() of an item with these members, the others 0. Its value is the item. */
#define xput(list, n, ...)                                 \
        ({                                                 \
                __typeof__(&*(list)) new_ = xadd(list, n); \
                *new_ = (__typeof__(*new_)){__VA_ARGS__};  \
                new_;                                      \
        })
