/* SPDX-License-Identifier: Apache-2.0 */
/* What lies where in this process, by the kernel: who stands still may hold the loader's lock. */
#pragma once

#include <sys/uio.h>

#include "core/base/util.h"

struct capo_map {
        uintptr_t begin, end;   /* of the mapping that the address lies in */
        uintptr_t base;         /* load address, as symbols count from it */
        uintptr_t eh_frame_hdr; /* its table of unwind tables; 0 none */
        char path[256];         /* as the kernel says it: an absolute one, or "[vdso]" */
};

/** capo_read_self() - this process's memory. False: it is gone, or the kernel does not let. */
bool capo_read_self(uintptr_t from, void *to, size_t size);

/** capo_read_self_pieces() - @n pieces of it, in one system call. False: not all of them. */
bool capo_read_self_pieces(const struct iovec *to, const struct iovec *from, unsigned n);

/** capo_map_of() - the ELF object whose code @address lies in
 * No lock, no allocation; the kernel's list is read from its beginning. For the drain thread.
 * Return: 0; -ENOENT; -errno. */
int capo_map_of(uintptr_t address, struct capo_map *out);
