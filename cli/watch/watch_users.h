/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A watch of root looks at the jobs of all users, at each with the rights of its user: it reads
 * what that user may read, and writes a verdict only where that user may write.
 */
#ifndef CAPO_WATCH_USERS_H
#define CAPO_WATCH_USERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct watch_user {
        uid_t uid;
        gid_t gid;
};

/**
 * watch_users_find() - whose jobs are to be looked at
 * @all: all who have recorded processes here, if root asks; else and for others: only who asks
 * @users: set on success, for the caller to free
 *
 * Return: how many; -ENOMEM; -errno of the folder of segments.
 */
int watch_users_find(bool all, struct watch_user **users);

/** watch_users_enter() - have the rights of @user until watch_users_leave(). Return: 0; -EPERM:
 * this root may not, said once. */
int watch_users_enter(const struct watch_user *user);
void watch_users_leave(void);

#endif
