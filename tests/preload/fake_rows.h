/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the tests' small NCCL share: its functions by number, and the count of each. */
#pragma once

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>

#include "shim/record/nccl_abi.h"
#ifndef CAPO_NCCL_CODE
#define CAPO_NCCL_CODE FAKE_CODE
#endif
#define EXPORT __attribute__((visibility("default")))

enum {
#define CALL(name, params, args, id, comm, stream, ...) I_##name,
#define HAND(name, params, args)                        I_##name,
#define PASS(type, name, params, args, missing)         I_##name,
#include "capo/nccl_calls.def"
        N_CALLS
};

#ifdef FAKE_QUIET /* benchmarks: a call that does nothing */
#define COUNT(i) (void)0
#else
#define COUNT(i) fake_counts[i]++
#endif
extern _Atomic unsigned fake_counts[N_CALLS];

/* A program may define this: what NCCL would do itself, on the caller's thread, in a collective. */
extern void fake_in_call(size_t count) __attribute__((weak, visibility("default")));

/* The body of a collective: counts, keeps errno or breaks it when asked to fail (count 57005 +
 * result). */
static inline ncclResult_t fake_collective(int i, size_t count)
{
        COUNT(i);
        if (fake_in_call)
                fake_in_call(count);
        if (count > 57005 && count < 57005 + 8) {
                errno = ENOTRECOVERABLE;
                return (ncclResult_t)(count - 57005);
        }
        return ncclSuccess;
}
