/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <sys/stat.h>

#include "capo/msg.h"
#include "cli/watch/watch_users.h"
#include "core/base/among.h"
#include "core/base/xalloc.h"
#include "core/log/segment.h"

enum { USERS = 1024 }; /* more on one node means that a user fills the folder */

/* Read the owner of a segment "capo-1000-...", whose uid must be in its name. */
static bool is_segment_of(int folder, const char *name, struct watch_user *user)
{
        struct stat st;
        unsigned uid;

        if (sscanf(name, "capo-%u-", &uid) != 1 ||
            fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode) ||
            st.st_uid != uid)
                return false;
        *user = (struct watch_user){st.st_uid, st.st_gid};
        return true;
}

static int add_user(struct watch_user **users, int n, const struct watch_user *user)
{
        if (n < USERS && !ANY_OF(known, *users, n, known->uid == user->uid))
                *xadd(*users, n) = *user;
        return n;
}

int watch_users_find(const struct watch_user *only, bool all, struct watch_user **users)
{
        struct watch_user user = only ? *only : (struct watch_user){geteuid(), getegid()};
        const bool seeks = !only && all && getuid() == 0 && user.uid == 0;
        DIR *dir = seeks ? opendir(CAPO_SEGMENT_DIR) : NULL;
        int n;

        if (seeks && !dir)
                return -errno;
        *users = NULL;
        n = add_user(users, 0, &user);
        for (struct dirent *e; dir && (e = readdir(dir));) {
                if (is_segment_of(dirfd(dir), e->d_name, &user))
                        n = add_user(users, n, &user);
        }
        if (dir)
                closedir(dir);
        return n;
}

int watch_users_enter(const struct watch_user *user)
{
        static bool grouped, said;

        if (user->uid == geteuid())
                return 0;
        grouped = grouped || setgroups(0, NULL) == 0; /* root's groups must not stay */
        if (grouped && setegid(user->gid) == 0 && seteuid(user->uid) == 0)
                return 0;
        if (!said)
                capo_warn("watch: jobs of user %u are left out: root has no rights to become that "
                          "user here (CAP_SETUID, CAP_SETGID)",
                          user->uid);
        said = true;
        watch_users_leave();
        return -EPERM;
}

void watch_users_leave(void)
{
        if (getuid() != 0)
                return;
        if (seteuid(0) < 0 || setegid(getgid()) < 0)
                abort(); /* the saved user is root: it cannot fail */
}
