/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NCCL libraries of this process and how they are found. All dlsym of NCCL names lives in real.c.
 */
#ifndef CAPO_REAL_H
#define CAPO_REAL_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/nccl/nccl_abi.h"

/* What a row of the table becomes in this header: a typed pointer that is never NULL. */
struct capo_nccl {
#define CALL(name, params, args, id, comm, stream, ...) ncclResult_t(*name) params;
#define HAND(name, params, args)                        ncclResult_t(*name) params;
#define PASS(type, name, params, args, missing)         type(*name) params;
#include "shim/nccl/nccl_calls.def"
        uintptr_t base;  /* load address: tells copies apart */
        int number;      /* 0 the first found */
        const char *how; /* next, caller, noload, walk, dlopen, dlsym */
        int version;     /* ncclGetVersion's code; 0 not told */
        char path[512];
};

#define CAPO_NCCL_COPIES 4
extern struct capo_nccl capo_nccl_copies[CAPO_NCCL_COPIES];
extern _Atomic int capo_nccl_n; /* copies known */

/**
 * capo_nccl_of() - the NCCL that code at @caller would have been bound to without capo
 *
 * The order, and why, is in real.c. Remembered per caller. Never NULL: where there is none to be found the result's
 * pointers answer ncclInvalidUsage, and one line says so.
 */
struct capo_nccl *capo_nccl_of(const void *caller);

/**
 * capo_nccl_at() - the copy that lies at @symbol (as the real dlsym returned it), noted as found by @how
 * Return: NULL when its object is not an NCCL, is libcapo itself, or there are too many copies.
 */
struct capo_nccl *capo_nccl_at(const void *symbol, const char *how);

/** capo_nccl_tell() - INFO lines about copies not told of yet; on the drain thread. */
void capo_nccl_tell(void);

/** capo_own() - does @address lie in libcapo.so? */
bool capo_own(const void *address);

/** capo_real_dlsym(), capo_real_dlvsym() - libc's own (or the next tool's), whoever else wraps them. NULL: not found.
 */
void *capo_real_dlsym(void *handle, const char *name);
void *capo_real_dlvsym(void *handle, const char *name, const char *version);

/** capo_real_dlsym_address(), capo_real_dlvsym_address() - where they are; NULL when there are none. */
void *(*capo_real_dlsym_address(void))(void *, const char *);
void *(*capo_real_dlvsym_address(void))(void *, const char *, const char *);

/** capo_nccl_fork() - in the child: the log of the child has been told nothing. */
void capo_nccl_fork(void);

/** capo_wrapper_of() - our wrapper of NCCL's @name for callers that hold a handle of copy @number; NULL when there is
 * none. (wrap_nccl.c) */
void *capo_wrapper_of(const char *name, int number);

#endif
