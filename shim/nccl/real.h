/* SPDX-License-Identifier: Apache-2.0 */
/* The process's NCCL libraries and how they are found. All dlsym of NCCL names is in real.c. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shim/record/nccl_abi.h"

enum { CAPO_NCCL_OBJECTS = 8 };

/* What a row of the table becomes in this header: a typed pointer that is never NULL. */
struct capo_nccl {
#define CALL(name, params, args, id, comm, stream, ...) ncclResult_t(*name) params;
#define HAND(name, params, args)                        ncclResult_t(*name) params;
#define PASS(type, name, params, args, missing)         type(*name) params;
#include "capo/nccl_calls.def"
        uintptr_t base; /* load address: tells copies apart */
        struct {
                uintptr_t begin, size;
        } code[CAPO_NCCL_OBJECTS]; /* where its functions lie: NCCL, then who wraps some of them */
        int number;                /* 0 the first found */
        const char *how;           /* next, caller, noload, walk, dlopen, dlsym */
        int version;               /* ncclGetVersion's code; 0 not known */
        char path[512];
};

#define CAPO_NCCL_COPIES 4
extern struct capo_nccl capo_nccl_copies[CAPO_NCCL_COPIES];

/** capo_nccl_of() - the NCCL that code at @caller would have been bound to without capo. The order,
 * and why, is in real.c. Remembered per caller. Never NULL: where there is none to be found the
 * result's pointers answer ncclInvalidUsage, and one line says so. */
struct capo_nccl *capo_nccl_of(const void *caller);

/**
 * capo_nccl_at() - the copy that lies at @symbol (as the real dlsym returned it), noted as found by
 * @how
 * Return: NULL when its object is not an NCCL, is libcapo itself, or there are too many
 * copies.
 */
struct capo_nccl *capo_nccl_at(const void *symbol, const char *how);

/** capo_nccl_own() - is @address in NCCL's code: @lib's, any other copy's, or a plugin's? */
bool capo_nccl_own(const struct capo_nccl *lib, const void *address);

/** capo_nccl_beyond() - is @caller NCCL EP or M2N? What they call in NCCL is not the program's. */
bool capo_nccl_beyond(const void *caller);

/** capo_nccl_file() - is the file @path called as NCCL, AMD's RCCL, or a plugin of theirs is? */
bool capo_nccl_file(const char *path);

/** capo_wrapper_of() - our wrapper of NCCL's @name for callers that hold a handle of copy @number;
 * NULL when there is none. (wrap_nccl.c) */
void *capo_wrapper_of(const char *name, int number);
