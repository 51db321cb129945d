/* SPDX-License-Identifier: Apache-2.0 */
/* A watch of root handles the jobs of all users with the rights of each user: it reads what that
 * user may read, and writes a verdict only where that user may write. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct watch_user {
        uid_t uid;
        gid_t gid;
};

/** watch_users_find() - the users whose jobs are watched
 * @only: this one; NULL: see @all
 * @all: all users with recorded processes here, if the caller is root; otherwise only the caller
 * @users: set on success; free() it
 *
 * Return: how many; -errno of the folder of segments. */
int watch_users_find(const struct watch_user *only, bool all, struct watch_user **users);

/** watch_users_enter() - take the rights of @user until watch_users_leave(). Return: 0; -EPERM: not
 * permitted for this root, printed once. */
int watch_users_enter(const struct watch_user *user);
void watch_users_leave(void);
