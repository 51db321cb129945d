/* SPDX-License-Identifier: Apache-2.0 */
/* Files that another user may have written: in a folder of logs, in /dev/shm, where nodes meet.
 * Such a file can be anything. A FIFO, a lease or a device blocks who opens it; a link leads
 * elsewhere; a large one fills the memory. All that read such files open them here. */
#pragma once

#include <fcntl.h>
#include <stddef.h>
#include <sys/stat.h>

#define CAPO_ANY_OWNER      ((uid_t)-1)
#define CAPO_OTHERS_MESSAGE ((size_t)1 << 20) /* bytes of JSON that nodes and watches exchange */

/** capo_others_open() - open a regular file; never waits
 * @flags: O_RDONLY, O_RDWR, with O_APPEND; with O_NOFOLLOW no link is followed
 * @owner: who must own it, or root does; CAPO_ANY_OWNER
 * @st: of the file, set on success
 * @why: why not, as it follows "FILE: "
 *
 * A link is else followed only where this user made it.
 *
 * Return: the descriptor; -ELOOP: a link; -EBADMSG: not a regular file; -EPERM: another owner;
 * -errno of opening. */
int capo_others_open(const char *path, int flags, uid_t owner, struct stat *st, char *why,
                     size_t room);

/** capo_others_read() - all of such a file
 * @most: bytes
 * @text: to be freed; a 0 follows its *@size bytes. Both are set only on success.
 *
 * Return: 0; -E2BIG: more than @most; as above. */
int capo_others_read(const char *path, size_t most, uid_t owner, char **text, size_t *size,
                     char *why, size_t room);

/** capo_others_owner() - who owns @path or, where it cannot be asked, its folder (a log in a packed
 * file). CAPO_ANY_OWNER - 1, which nobody is: not known. */
uid_t capo_others_owner(const char *path);
