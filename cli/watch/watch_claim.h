/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/* A claim is held until watch_claim_drop(), or until the process ends in any way. */
struct watch_claim {
        int fd; /* -1: not held */
        char path[64];
};

/** watch_claim() - become the only process of this user on this machine that does @what for @path
 * @why: who has the claim, or why it cannot be made
 *
 * The claim is a locked file of mode 600 in /dev/shm, so that no other user can lock it. Another
 * user can make a file of that name first: then the claim cannot be made, and the caller goes on
 * without.
 *
 * Return: 0; -EADDRINUSE: another process of this user has it; another -errno: it cannot be made.
 */
int watch_claim(struct watch_claim *claim, const char *what, const char *path, char *why,
                size_t room);

void watch_claim_drop(struct watch_claim *claim);
