/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/stat.h>

#include "core/log/alive.h"

int capo_alive_text(const char *path, char *text, size_t room)
{
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n;

        if (fd < 0)
                return -errno;
        n = read(fd, text, room - 1);
        if (n < 0)
                return -errno;
        while (n > 0 && text[n - 1] == '\n')
                n--;
        text[n] = 0;
        return (int)n;
}

/* Field @n of a /proc/.../stat, from field 3 on. The command in field 2 may hold anything, so it is
 * counted from the last ')'. NULL: none. */
static const char *find_stat_field(const char *text, int n)
{
        const char *p = strrchr(text, ')');

        for (int at = 2; p && at < n; at++)
                p = strchr(p + 1, ' ');
        return p && *p == ' ' ? p + 1 : NULL;
}

/* State Z: the first thread has ended. It lives while it has others. 0: it has exited. */
static long threads_left(const char *text)
{
        const char *state = find_stat_field(text, 3), *threads = find_stat_field(text, 20);
        long n = threads ? strtol(threads, NULL, 10) : 0;

        return !state || *state == 'X' ? 0 : *state == 'Z' ? n - 1 : n;
}

uint64_t capo_alive_since(int pid)
{
        char path[48], text[512];
        const char *since;

        snprintf(path, sizeof path, "/proc/%d/stat", pid);
        if (capo_alive_text(path, text, sizeof text) < 0 || threads_left(text) < 1 ||
            !(since = find_stat_field(text, 22)))
                return 0;
        return strtoull(since, NULL, 10);
}

bool capo_alive_last(long own)
{
        char path[64], text[512];
        const char *state;

        /* its thread's own: the process's would sum up over all threads */
        snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)getpid());
        return capo_alive_text(path, text, sizeof text) > 0 && (state = find_stat_field(text, 3)) &&
               *state == 'Z' && threads_left(text) == own;
}

uint64_t capo_alive_namespace(void)
{
        struct stat st;

        return stat("/proc/self/ns/pid", &st) ? 0 : st.st_ino;
}

int capo_alive_lock(int fd)
{
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

        return fcntl(fd, F_SETLK, &lock) ? -errno : 0;
}

bool capo_alive_locked(int fd)
{
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

        return fcntl(fd, F_GETLK, &lock) || lock.l_type != F_UNLCK;
}
