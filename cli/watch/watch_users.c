/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <sys/stat.h>

#include "capo/msg.h"
#include "cli/watch/watch_users.h"
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
        for (int i = 0; i < n; i++) {
                if ((*users)[i].uid == user->uid)
                        return n;
        }
        if (n == USERS)
                return n;
        xarray_room(users, (uint32_t)n, sizeof **users);
        (*users)[n] = *user;
        return n + 1;
}

int watch_users_find(const struct watch_user *only, bool all, struct watch_user **users)
{
        struct watch_user user = only ? *only : (struct watch_user){geteuid(), getegid()};
        struct watch_user *found = NULL;
        int n = add_user(&found, 0, &user);
        DIR *dir = NULL;

        if (!only && all && n > 0 && getuid() == 0 && user.uid == 0) {
                dir = opendir(CAPO_SEGMENT_DIR);
                n = dir ? n : -errno;
        }
        for (struct dirent *e; dir && n > 0 && (e = readdir(dir));) {
                if (is_segment_of(dirfd(dir), e->d_name, &user))
                        n = add_user(&found, n, &user);
        }
        if (dir)
                closedir(dir);
        if (n < 0)
                free(found);
        else
                *users = found;
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
