/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls every function that a row CALL() of nccl_calls.def wraps, once, and prints under which name
 * each must be in the log. A new row is tested without a line here. The functions have different
 * parameters: each gets the communicator for all of them, in registers and on the stack.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/record/nccl_abi.h"
#define CALL(name, params, args, id, comm, stream, ...) ncclResult_t name params;
#define HAND(name, params, args)                        ncclResult_t name params;
#define PASS(type, name, params, args, missing)         type name params;
#include "capo/nccl_calls.def"

typedef ncclResult_t any_call(void *, void *, void *, void *, void *, void *, void *, void *,
                              void *, void *, void *, void *);
#define CAPO_CALL(id, printed, kind) static const char name_of_##id[] = printed;
#include "capo/calls.def"

static const struct {
        const char *function, *printed;
        any_call *call;
} calls[] = {
#define CALL(name, params, args, id, comm, stream, ...) \
        {#name, name_of_##id, (any_call *)(void *)name},
#define HAND(name, params, args)
#define PASS(type, name, params, args, missing)
#include "capo/nccl_calls.def"
};

int main(void)
{
        ncclUniqueId id;
        ncclComm_t comm;
        void *memory;

        if (ncclGetUniqueId(&id) || ncclCommInitRank(&comm, 2, id, 0))
                return 1;
        for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
                void *c = comm;

                printf("%s %s\n", calls[i].printed, calls[i].function);
                if (!strcmp(calls[i].function,
                            "ncclMemAlloc"))        /* they would take the communicator */
                        ncclMemAlloc(&memory, 100); /* for memory */
                else if (!strcmp(calls[i].function, "ncclMemFree"))
                        ncclMemFree(memory);
                else
                        calls[i].call(c, c, c, c, c, c, c, c, c, c, c, c);
        }
        return 0;
}
