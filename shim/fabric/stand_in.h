/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-ins for tables of functions, for shim_fabric.h: how one lies, how an entry begins. */
#pragma once

#include "core/base/util.h"

/* ---- a table and its stand-in ---- */

#define FI_TABLE_ROOM 256 /* bytes; the largest table so far (fi_ops_atomic) has 112 */

/* `was`: what stood in our entries' places, by value: one load less on the way to it than through
 * the provider's table. */
#define FI_TABLE(type)                                      \
        struct {                                            \
                const type *real; /* the provider's own */  \
                const void *self; /* &ops: fi_is_ours() */  \
                union {                                     \
                        type ops; /* what callers see */    \
                        size_t word[FI_TABLE_ROOM / 8];     \
                };                                          \
                union {                                     \
                        type was; /* a copy of *real */     \
                        size_t was_word[FI_TABLE_ROOM / 8]; \
                };                                          \
        }

/* Where in a shadow the stand-in of its FI_TABLE @member is. */
#define FI_TABLE_AT(shadow, member) (offsetof(shadow, member) + 2 * sizeof(void *))

/* Is @table a stand-in, or somebody's copy of one with our entries in it? A tool above us that
 * copies a table and exchanges some entries makes such. What precedes the copy is his; a stand-in
 * is preceded by its own address. */
CAPO_UNSANITIZED static inline bool fi_is_ours(const void *table)
{
        return ((const void *const *)table)[-1] == table;
}

/* An entry: FI_ENTRY(...) { ... } has the shadow @s and the @caller's return address at hand. For
 * the usual caller the table in the object is ours, as he jumped through it. Where it is not -
 * another thread is changing the object at this moment, or somebody above us has put a table of his
 * own there that has, or goes on to, our entries - the list of all objects says whose call it is,
 * and if it does not know, the call goes where the table says. @elsewhere: what is called then, as
 * the body is. The caller is handed on: asked there, it would be he only where the compiler makes a
 * jump of the call, which it does not with a sanitizer or unoptimised. */
#define FI_ENTRY(result, name, shadow_type, object_type, object, table, field, entry, params, \
                 args, elsewhere)                                                             \
        static inline __attribute__((always_inline))                                          \
        result name##_body(shadow_type *s, const void *caller, FI_UNPACK params);             \
        static result name params;                                                            \
        static __attribute__((noinline, cold))                                                \
        result name##_elsewhere(const void *caller, FI_UNPACK params)                         \
        {                                                                                     \
                shadow_type *s = (shadow_type *)capo_fi_find(&object->fid, object_type);      \
                                                                                              \
                if (!s && object->table->entry == name)                                       \
                        return -FI_ENOSYS;                                                    \
                return s ? elsewhere(s, caller, FI_UNPACK args) : object->table->entry args;  \
        }                                                                                     \
        static result name params                                                             \
        {                                                                                     \
                const void *caller = __builtin_return_address(0);                             \
                __typeof__(object->table) table_ = object->table;                             \
                                                                                              \
                if (unlikely(!fi_is_ours(table_)))                                            \
                        return name##_elsewhere(caller, FI_UNPACK args);                      \
                return name##_body(container_of(table_, shadow_type, field), caller,          \
                                   FI_UNPACK args);                                           \
        }                                                                                     \
        static inline result name##_body(shadow_type *s, const void *caller, FI_UNPACK params)
#define FI_UNPACK(...) __VA_ARGS__

/* A value that is needed again after the call, should something have come: it waits in our frame.
 * In a register that survives calls it would cost saving and restoring that register, each time,
 * for the case that mostly does not happen. */
#define FI_KEEP(type, name, value) type volatile name = (value)
