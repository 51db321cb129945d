/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/stat.h>

#include "core/base/file.h"

int capo_file_read_fd(int fd, size_t most, char **text, size_t *size)
{
        _cleanup_free_ char *all = NULL;
        size_t room = 0, n = 0;
        struct stat st;
        ssize_t got;

        do {
                if (n == room) { /* twice as large; at first its size and 1 */
                        bool known = !room && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
                                     st.st_size > 0;
                        char *grown;

                        room = room ? 2 * room : known ? (size_t)st.st_size + 1 : 65536;
                        room = room < most ? room : most;
                        grown = realloc(all, room + 1);
                        if (!grown)
                                return -ENOMEM;
                        all = grown;
                }
                got = read(fd, all + n, room - n);
                if (got < 0 && errno != EINTR)
                        return -errno;
                n += got > 0 ? (size_t)got : 0;
        } while (got && n < most);
        all[n] = 0;
        *text = steal(&all);
        *size = n;
        return 0;
}

const char *capo_file_temp_folder(void)
{
        const char *named = getenv("TMPDIR");

        return named && *named == '/' && strlen(named) <= 40 ? named : "/tmp";
}

bool capo_file_is_fifo(const char *path)
{
        _cleanup_free_ char *real = realpath(path, NULL); /* NULL: /dev/fd/63 of a shell */
        struct stat st;

        return real && stat(path, &st) == 0 && S_ISFIFO(st.st_mode);
}

int capo_file_open(const char *path)
{
        _cleanup_close_ int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        struct stat st;
        int flags, opened;

        if (fd < 0 || fstat(fd, &st) < 0)
                return -errno;
        if (S_ISFIFO(
                    st.st_mode)) { /* what was opened counts: the name may be another file by now */
                _cleanup_free_ char *real = realpath(path, NULL);

                if (real)
                        return -ESPIPE;
        }
        flags = fcntl(fd, F_GETFL);
        if (flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) < 0) /* of a shell's pipe */
                return -errno;
        opened = fd;
        fd = -1;
        return opened;
}

int capo_file_read(const char *path, size_t most, char **text, size_t *size)
{
        _cleanup_close_ int fd = strcmp(path, "-") ? capo_file_open(path) : dup(STDIN_FILENO);
        _cleanup_free_ char *all = NULL;
        size_t n = 0;
        int r = fd < 0 ? (strcmp(path, "-") ? fd : -errno)
                       : capo_file_read_fd(fd, most + 1, &all, &n);

        if (r < 0)
                return r;
        if (n > most)
                return -E2BIG;
        *text = steal(&all);
        *size = n;
        return 0;
}

bool capo_file_find(const char *dirs, const char *name, int mode, char *path, size_t room)
{
        if (strchr(name, '/') && snprintf(path, room, "%s", name) < (int)room &&
            !access(path, mode))
                return true;
        for (size_t n; dirs && *dirs && !strchr(name, '/'); dirs += n + (dirs[n] == ':')) {
                n = strcspn(dirs, ":");
                if (n && snprintf(path, room, "%.*s/%s", (int)n, dirs, name) < (int)room &&
                    !access(path, mode))
                        return true;
        }
        *path = 0;
        return false;
}
