/* SPDX-License-Identifier: Apache-2.0 */
/* Loaded objects: which one an address lies in, and what it calls that place. */
#ifndef CAPO_OBJECT_H
#define CAPO_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct capo_object {
        uintptr_t base;
        char path[512]; /* "" the program itself */
};

/** capo_object_of() - the object @address lies in; false when it is in none. Does not wait for other threads' dlopen.
 */
bool capo_object_of(const void *address, struct capo_object *out);

/**
 * capo_object_symbol() - the function of the ELF file @path that @offset (from the load address) lies in
 * Looks into .symtab, then .dynsym, on disk. For the drain thread. Return: 0 with @name and @into (bytes from its
 * beginning) set; -ENOENT when none is known; -errno.
 */
int capo_object_symbol(const char *path, uint64_t offset, char *name, size_t room, uint64_t *into);

#endif
