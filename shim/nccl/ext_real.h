/* SPDX-License-Identifier: Apache-2.0 */
/* The real functions of NCCL EP and NCCL M2N. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

enum capo_ext_row {
#define EVENT(name, params, args, id, comm, after)              CAPO_EXT_##name,
#define DATA(name, params, args, id, comm, stream, what, after) CAPO_EXT_##name,
#define HAND(name, params, args)                                CAPO_EXT_##name,
#include "capo/nccl_ext_calls.def"
        CAPO_EXT_ROWS
};

/** capo_ext_reals - the functions that dlsym answered with, of the first copy of each library. */
extern void *_Atomic capo_ext_reals[CAPO_EXT_ROWS];

/** capo_ext_find() - the row of @name; -1: there is none. */
int capo_ext_find(const char *name);

/** capo_ext_real() - the function of @row that code at @caller would have been bound to without
 * capo. NULL: there is none, and a line said so. */
void *capo_ext_real(unsigned row, const void *caller);

/** capo_ext_asked() - dlsym answers with @real for @row. False: that is of a second copy. */
bool capo_ext_asked(unsigned row, void *real);

/** capo_ext_sibling() - @name in the object that the function @real lies in; NULL. */
void *capo_ext_sibling(const void *real, const char *name);

/** capo_ext_unknown() - counts a struct whose size, magic or version is not known. */
void capo_ext_unknown(void);

/** capo_ext_tell() - the INFO lines of the libraries found so far, for the drain thread. */
void capo_ext_tell(void);
