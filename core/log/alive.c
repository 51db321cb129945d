/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/util.h"
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

/* The command in field 2 may hold anything, so count from the last ')'. */
uint64_t capo_alive_since(int pid)
{
        char path[48], text[1024], *p;

        snprintf(path, sizeof path, "/proc/%d/stat", pid);
        if (capo_alive_text(path, text, sizeof text) < 0 || !(p = strrchr(text, ')')))
                return 0;
        if (p[1] && (p[2] == 'Z' || p[2] == 'X'))
                return 0;
        for (int field = 2; p && field < 22; field++)
                p = strchr(p + 1, ' ');
        return p ? strtoull(p + 1, NULL, 10) : 0;
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
