/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAPO_WATCH_CLAIM_H
#define CAPO_WATCH_CLAIM_H

/**
 * watch_claim() - become the only process of this user on this machine that does @what for @path
 *
 * Return: 0, valid until the process ends; -EADDRINUSE: another process does; -errno.
 */
int watch_claim(const char *what, const char *path);

#endif
