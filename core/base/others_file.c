/* SPDX-License-Identifier: Apache-2.0 */
#include "capo/msg.h"
#include "core/base/file.h"
#include "core/base/others_file.h"

int capo_others_open(const char *path, int flags, uid_t owner, struct stat *st, char *why,
                     size_t room)
{
        const int how = flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
        _cleanup_close_ int fd = open(path, how | O_NOFOLLOW);
        struct stat link = {0}, found;
        int r;

        if (fd < 0 && errno == ELOOP) {
                if (lstat(path, &link) == 0 && S_ISLNK(link.st_mode) && link.st_uid == geteuid() &&
                    !(flags & O_NOFOLLOW))
                        fd = open(path, how); /* a link of this user's own */
                else
                        return capo_why(-ELOOP, why, room,
                                        "is a link of user %u, which is not followed",
                                        (unsigned)link.st_uid);
        }
        if (fd < 0)
                return capo_why(-errno, why, room, "%s", strerror(errno));
        if (fstat(fd, &found) < 0)
                return capo_why(-errno, why, room, "%s", strerror(errno));
        if (!S_ISREG(found.st_mode))
                return capo_why(-EBADMSG, why, room, "is not a regular file");
        if (owner != CAPO_ANY_OWNER && found.st_uid != owner && found.st_uid != 0)
                return capo_why(-EPERM, why, room, "belongs to user %u, expected user %u",
                                (unsigned)found.st_uid, (unsigned)owner);
        *st = found;
        r = fd;
        fd = -1;
        return r;
}

int capo_others_read(const char *path, size_t most, uid_t owner, char **text, size_t *size,
                     char *why, size_t room)
{
        struct stat st;
        _cleanup_close_ int fd = capo_others_open(path, O_RDONLY, owner, &st, why, room);
        _cleanup_free_ char *all = NULL;
        size_t n = 0;
        int r = fd < 0 ? fd : 0;

        if (r < 0)
                return r;
        if (st.st_size > 0 && (size_t)st.st_size > most)
                return capo_why(-E2BIG, why, room, "has %lld bytes, expected at most %zu",
                                (long long)st.st_size, most);
        r = capo_file_read_fd(fd, most + 1, &all, &n);
        if (r < 0)
                return capo_why(r, why, room, "%s", strerror(-r));
        if (n > most)
                return capo_why(-E2BIG, why, room, "has more than %zu bytes", most);
        *text = steal(&all);
        *size = n;
        return 0;
}

uid_t capo_others_owner(const char *path)
{
        _cleanup_free_ char *folder = NULL;
        const char *slash = strrchr(path, '/');
        struct stat st;

        if (lstat(path, &st) == 0)
                return st.st_uid;
        folder = slash ? strndup(path, (size_t)(slash - path) + (slash == path)) : strdup(".");
        return folder && lstat(folder, &st) == 0 ? st.st_uid : CAPO_ANY_OWNER - 1;
}
