/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One set of wrappers. No include guard: wrap_nccl.c includes it once per set, with SET_LINKAGE, SET_NAME and SET_WHICH
 * (the copy of NCCL, -1 by caller).
 */
#define CALLER __builtin_return_address(0)
#define FRAME  __builtin_frame_address(0)

#define CALL(name, params, args, id, comm_, stream_, ...)                                                        \
        SET_LINKAGE ncclResult_t SET_NAME(name) params;                                                          \
        SET_LINKAGE ncclResult_t SET_NAME(name) params                                                           \
        {                                                                                                        \
                const struct capo_what what = {__VA_ARGS__};                                                     \
                struct capo_tls *t = &capo_tls;                                                                  \
                struct capo_call c;                                                                              \
                ncclResult_t rc;                                                                                 \
                                                                                                                 \
                if (NESTED(t))                                                                                   \
                        return capo_lib(t, SET_WHICH, CALLER)->name args;                                        \
                capo_call_begin(t, &c, (void *)comm_, (void *)stream_, SET_WHICH, CAPO_CALL_##id, &what, CALLER, \
                                FRAME);                                                                          \
                rc = t->under->name args;                                                                        \
                capo_call_end(t, &c, rc, CAPO_CALL_##id, (void *)stream_, &what);                                \
                return rc;                                                                                       \
        }
#define HAND(name, params, args)                        \
        SET_LINKAGE ncclResult_t SET_NAME(name) params; \
        SET_LINKAGE ncclResult_t SET_NAME(name) params  \
        {                                               \
                return hand_##name WITH_CALLER args;    \
        }
#define WITH_CALLER(...) (SET_WHICH, CALLER, FRAME, ##__VA_ARGS__)
#define PASS(type, name, params, args, missing)                           \
        SET_LINKAGE type SET_NAME(name) params;                           \
        SET_LINKAGE type SET_NAME(name) params                            \
        {                                                                 \
                return capo_lib(&capo_tls, SET_WHICH, CALLER)->name args; \
        }
#include "shim/nccl/nccl_calls.def"
#undef WITH_CALLER
#undef CALLER
#undef FRAME
#undef SET_LINKAGE
#undef SET_NAME
#undef SET_WHICH
