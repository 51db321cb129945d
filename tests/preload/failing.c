/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A folder of a network whose server restarts, and a process that has no descriptor left: preloaded
 * beside the recorder, writes and opens of logs fail for a while.
 *
 *      FAIL_ERROR=N    errno of what fails
 *      FAIL_WRITES=A-B the writes to logs from the Ath to the Bth, counted from 1; FAIL_OPENS:
 * opens; FAIL_FOLDERS: folders that are made or opened
 */
#undef _FILE_OFFSET_BITS /* with 64 pwrite() is another name of pwrite64() */
#undef _FORTIFY_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static bool fails(const char *which, atomic_uint *n)
{
        const char *range = getenv(which), *number = getenv("FAIL_ERROR");
        unsigned at = ++*n, from, to;

        if (!range || sscanf(range, "%u-%u", &from, &to) != 2 || at < from || at > to)
                return false;
        errno = number ? atoi(number) : EIO;
        return true;
}

#define WRITE(name)                                                                         \
        ssize_t name(int fd, const void *from, size_t n, off_t at)                          \
                __attribute__((visibility("default")));                                     \
        ssize_t name(int fd, const void *from, size_t n, off_t at)                          \
        {                                                                                   \
                __typeof__(name) *real = (__typeof__(real))(size_t)dlsym(RTLD_NEXT, #name); \
                                                                                            \
                return fails("FAIL_WRITES", &writes) ? -1 : real(fd, from, n, at);          \
        }
#define OPEN(name)                                                                          \
        int name(const char *path, int flags, ...) __attribute__((visibility("default")));  \
        int name(const char *path, int flags, ...)                                          \
        {                                                                                   \
                __typeof__(name) *real = (__typeof__(real))(size_t)dlsym(RTLD_NEXT, #name); \
                const char *end = strrchr(path, '.');                                       \
                va_list args;                                                               \
                mode_t mode;                                                                \
                                                                                            \
                va_start(args, flags);                                                      \
                mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;                          \
                va_end(args);                                                               \
                if (end && !strcmp(end, ".capo") && fails("FAIL_OPENS", &opens))            \
                        return -1;                                                          \
                if (flags & O_DIRECTORY && fails("FAIL_FOLDERS", &folders))                 \
                        return -1;                                                          \
                return real(path, flags, mode);                                             \
        }
static atomic_uint writes, opens, folders;
WRITE(pwrite)
WRITE(pwrite64)
OPEN(open)
OPEN(open64)

int mkdir(const char *path, mode_t mode) __attribute__((visibility("default")));
int mkdir(const char *path, mode_t mode)
{
        __typeof__(mkdir) *real = (__typeof__(real))(size_t)dlsym(RTLD_NEXT, "mkdir");

        return fails("FAIL_FOLDERS", &folders) ? -1 : real(path, mode);
}
