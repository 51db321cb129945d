/* SPDX-License-Identifier: Apache-2.0 */
/* dlsym and dlvsym behind our own: libcapo.so exports both (shim/nccl/dlsym.c). */
#pragma once

#include <stdbool.h>

/** capo_real_dlsym(), capo_real_dlvsym() - libc's (or the next tool's). NULL: not found. */
void *capo_real_dlsym(void *handle, const char *name);
void *capo_real_dlvsym(void *handle, const char *name, const char *version);

/** capo_real_dlsym_address(), capo_real_dlvsym_address() - where they are; NULL: none. */
void *(*capo_real_dlsym_address(void))(void *, const char *);
void *(*capo_real_dlvsym_address(void))(void *, const char *, const char *);

struct capo_object;

/** capo_dlsym_front() - who catches dlsym before us: another preloaded tool, into @out. What it
 * asks libc by itself goes past us: an NCCL that the program opens then is in no log. libc itself
 * is none: there ours is not preloaded, but loaded as a plugin. */
bool capo_dlsym_front(struct capo_object *out);
