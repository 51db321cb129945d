/* SPDX-License-Identifier: Apache-2.0 */
/* Loaded objects: which one an address is in, what it calls that, which ones define a name. */
#pragma once

#include "core/base/util.h"

struct capo_object {
        uintptr_t base;
        uintptr_t begin, size; /* of the piece of it that the address lies in */
        char path[512];        /* "" the program itself */
};

/** capo_own() - does @address lie in libcapo.so? */
bool capo_own(const void *address);

/** capo_object_of() - what @address is in; false: none. Waits for no other thread's dlopen. */
bool capo_object_of(const void *address, struct capo_object *out);

struct capo_tables {
        uintptr_t begin, end;   /* of the object */
        uintptr_t eh_frame_hdr; /* its table of unwind tables; 0 none */
};

/** capo_object_tables() - does @address lie in an object? @out: 0 where it does not. */
bool capo_object_tables(uintptr_t address, struct capo_tables *out);

/** capo_object_symbol() - the function of the ELF file @path that @offset (from the load address)
 * lies in Looks into .symtab, then .dynsym, on disk. For the drain thread. Return: 0 with @name and
 * @into (bytes from its beginning) set; -ENOENT when none is known; -errno. */
int capo_object_symbol(const char *path, uint64_t offset, char *name, size_t room, uint64_t *into);

/** capo_object_next_function() - the function @name of the first object behind libcapo.so in
 * ld.so's list. Of the first object at all where libcapo.so was loaded late, as a plugin. Without
 * dlsym and its like, and without libc: for finding those. Only for names of libraries that are
 * there from the start: it takes no lock. Return: NULL when none has it. */
void *capo_object_next_function(const char *name);

/** capo_object_defined() - does any loaded object but libcapo.so define @name, whatever its scope?
 */
bool capo_object_defined(const char *name);

/** capo_object_bound() - a loaded object one of whose references to functions with @wanted names
 * leads into @to
 *
 * References that are not bound yet lead nowhere. Neither libcapo.so nor @to itself is looked at.
 * Return: true with @path set. */
bool capo_object_bound(bool (*wanted)(const char *name), const struct capo_object *to, char *path,
                       size_t room);

/** capo_object_functions() - @each is called with each function's name that @base's exports. */
void capo_object_functions(uintptr_t base, void (*each)(const char *name, void *arg), void *arg);
