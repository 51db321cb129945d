/* SPDX-License-Identifier: Apache-2.0 */
/* One set of wrappers. No #pragma once: wrap_nccl.c includes it once per set, with SET_LINKAGE,
 * SET_NAME and SET_WHICH (the copy of NCCL, -1 by caller). */
#define CALLER __builtin_return_address(0)
#define FRAME  __builtin_dwarf_cfa()

#define CALL(name, params, args, id, comm_, stream_, ...)                                       \
        SET_LINKAGE ncclResult_t SET_NAME(name) params;                                         \
        SET_LINKAGE ncclResult_t SET_NAME(name) params                                          \
        {                                                                                       \
                const struct capo_what what = {__VA_ARGS__};                                    \
                struct capo_tls *t = &capo_tls;                                                 \
                const struct capo_nccl *into;                                                   \
                struct capo_record *r;                                                          \
                ncclResult_t rc;                                                                \
                                                                                                \
                if (what.config || !capo_call_usual(t, (void *)comm_, CALLER, FRAME))           \
                        return rare_##name WITH_CALLER args;                                    \
                into = t->comm->into;                                                           \
                r = capo_call_begin(t, t->comm, (void *)stream_, CAPO_CALL_##id, &what, CALLER, \
                                    FRAME);                                                     \
                rc = into->name args;                                                           \
                capo_call_end(t, r, capo_clock_read(), rc, what.other, (void *)stream_);        \
                return rc;                                                                      \
        }
#define HAND(name, params, args)                        \
        SET_LINKAGE ncclResult_t SET_NAME(name) params; \
        SET_LINKAGE ncclResult_t SET_NAME(name) params { return hand_##name WITH_CALLER args; }
#define WITH_CALLER(...) (SET_WHICH, CALLER, FRAME, ##__VA_ARGS__)
#define PASS(type, name, params, args, missing)                                  \
        SET_LINKAGE type SET_NAME(name) params;                                  \
        SET_LINKAGE type SET_NAME(name) params                                   \
        {                                                                        \
                return capo_lib_within(&capo_tls, SET_WHICH, CALLER)->name args; \
        }
#include "capo/call_ids.h"
#include "capo/nccl_calls.def"
#undef WITH_CALLER
#undef CALLER
#undef FRAME
#undef SET_LINKAGE
#undef SET_NAME
#undef SET_WHICH
