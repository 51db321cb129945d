/* SPDX-License-Identifier: Apache-2.0 */

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "capo/msg.h"
#include "cli/watch/watch_claim.h"
#include "core/base/others_file.h"
#include "core/base/util.h"
#include "core/log/segment.h"

enum { AGAIN = 16 };

/* Open the file, which is made where there is none. Return: the descriptor; -errno. */
static int open_claim(const char *path, char *why, size_t room)
{
        int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        struct stat st;

        if (fd >= 0)
                return fd;
        if (errno != EEXIST)
                return capo_why(-errno, why, room, "%s: %s", path, strerror(errno));
        fd = capo_others_open(path, O_RDWR | O_NOFOLLOW, geteuid(), &st, why, room);
        if (fd >= 0 && st.st_uid != geteuid()) { /* root's, which capo_others_open() permits */
                close(fd);
                return capo_why(-EPERM, why, room, "%s: belongs to user %u", path, st.st_uid);
        }
        if (fd < 0 && lstat(path, &st) == 0 && st.st_uid != geteuid())
                return capo_why(-EPERM, why, room, "%s: belongs to user %u", path, st.st_uid);
        return fd;
}

/* The name of a file may be a newer file by now: its last holder removed the one that was opened.
 */
static bool has_name(int fd, const char *path)
{
        struct stat own, named;

        return fstat(fd, &own) == 0 && lstat(path, &named) == 0 && own.st_ino == named.st_ino &&
               own.st_dev == named.st_dev;
}

/* A POSIX lock names its holder, and is not inherited by children. */
static int lock_claim(int fd, char *why, size_t room)
{
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

        if (fcntl(fd, F_SETLK, &lock) == 0)
                return 0;
        if (errno != EAGAIN && errno != EACCES)
                return capo_why(-errno, why, room, "%s", strerror(errno));
        lock = (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET};
        if (fcntl(fd, F_GETLK, &lock) < 0 || lock.l_type == F_UNLCK || lock.l_pid <= 0)
                return capo_why(-EADDRINUSE, why, room, "another process");
        return capo_why(-EADDRINUSE, why, room, "process %d", (int)lock.l_pid);
}

int watch_claim(struct watch_claim *claim, const char *what, const char *path, char *why,
                size_t room)
{
        _cleanup_free_ char *real = realpath(path, NULL); /* NULL: it need not exist yet */
        int r = -EAGAIN;

        path = real ? real : path;
        claim->fd = -1;
        snprintf(claim->path, sizeof claim->path, CAPO_SEGMENT_DIR "/capo-%s-%u-%016llx", what,
                 geteuid(), (unsigned long long)XXH3_64bits(path, strlen(path)));
        for (int n = 0; n < AGAIN && r == -EAGAIN; n++) {
                int fd = open_claim(claim->path, why, room);

                if (fd < 0)
                        return fd;
                r = lock_claim(fd, why, room);
                if (r == 0 && !has_name(fd, claim->path))
                        r = -EAGAIN;
                if (r == 0)
                        claim->fd = fd;
                else
                        close(fd);
        }
        return r;
}

void watch_claim_drop(struct watch_claim *claim)
{
        if (claim->fd < 0)
                return;
        if (has_name(claim->fd, claim->path))
                unlink(claim->path);
        close(claim->fd);
        claim->fd = -1;
}
