/* SPDX-License-Identifier: Apache-2.0 */
/* The wrappers of NCCL EP and NCCL M2N: of each row what is done, and the two functions that do it,
 * one for callers that the linker bound and one for those that asked dlsym.
 *
 * A call may end by abort() or by a C++ exception. A call that an exception leaves is found as one
 * that longjmp leaves (shim/record/left.h), and counted as dropped. */
#include "capo/call_ids.h"
#include "shim/nccl/ext.h"
#include "shim/nccl/ext_ep.h"
#include "shim/nccl/ext_m2n.h"
#include "shim/nccl/ext_real.h"

static struct capo_comm *find_parent(struct capo_tls *t, ncclComm_t comm, const void *caller)
{
        return comm ? capo_comm_find(t, comm, -1, caller) : NULL;
}

static const struct capo_what no_data = {.type = NO_TYPE, .op = NO_OP, .peer = -1, .other = true};

#define FROM(...) (const void *at, const void *caller, const void *frame, ##__VA_ARGS__)
#define EVENT(name, params, args, id, comm_, after)                                                \
        static ncclResult_t call_##name FROM params                                                \
        {                                                                                          \
                ncclResult_t(*real) params = (__typeof__(real))at, rc;                             \
                struct capo_tls *t = &capo_tls;                                                    \
                struct capo_record *r;                                                             \
                uint64_t end;                                                                      \
                                                                                                   \
                if (capo_ext_passes(t, caller, frame))                                             \
                        return real args;                                                          \
                r = capo_ext_begin(t, comm_, NULL, CAPO_CALL_##id, &no_data, NULL, caller, frame); \
                rc = real args;                                                                    \
                end = capo_clock_ticks();                                                          \
                after;                                                                             \
                capo_call_end(t, r, end, rc, true, NULL);                                          \
                return rc;                                                                         \
        }
#define DATA(name, params, args, id, comm_, stream_, what_, after)                               \
        static ncclResult_t call_##name FROM params                                              \
        {                                                                                        \
                ncclResult_t(*real) params = (__typeof__(real))at, rc;                           \
                struct capo_call_asked asked = {.text = NULL};                                   \
                struct capo_tls *t = &capo_tls;                                                  \
                struct capo_what what;                                                           \
                struct capo_comm *comm_of;                                                       \
                struct capo_record *r;                                                           \
                                                                                                 \
                if (capo_ext_passes(t, caller, frame))                                           \
                        return real args;                                                        \
                comm_of = t->comm = comm_;                                                       \
                what = what_;                                                                    \
                r = capo_ext_begin(t, comm_of, (void *)(stream_), CAPO_CALL_##id, &what, &asked, \
                                   caller, frame);                                               \
                rc = real args;                                                                  \
                t->algo_proto = asked.kernel;                                                    \
                capo_call_end(t, r, capo_clock_ticks(), rc, what.other, (void *)(stream_));      \
                after;                                                                           \
                return rc;                                                                       \
        }
#define HAND(name, params, args)
#include "capo/nccl_ext_calls.def"

#define CALLER  __builtin_return_address(0)
#define FRAME   __builtin_dwarf_cfa()
#define TO(...) (real, CALLER, FRAME, ##__VA_ARGS__)
#define WRAP(name, params, call, args)                                              \
        CAPO_EXPORT ncclResult_t name params;                                       \
        CAPO_EXPORT ncclResult_t name params                                        \
        {                                                                           \
                void *real = capo_ext_real(CAPO_EXT_##name, CALLER);                \
                                                                                    \
                return real ? call TO args : ncclInvalidUsage;                      \
        }                                                                           \
        static ncclResult_t asked_##name params                                     \
        {                                                                           \
                void *real = atomic_load_explicit(&capo_ext_reals[CAPO_EXT_##name], \
                                                  memory_order_relaxed);            \
                                                                                    \
                return call TO args;                                                \
        }
#define EVENT(name, params, args, id, comm, after) WRAP(name, params, call_##name, args)
#define DATA(name, params, args, id, comm, stream, what, after) \
        WRAP(name, params, call_##name, args)
#define HAND(name, params, args) WRAP(name, params, capo_##name, args)
#include "capo/nccl_ext_calls.def"

void *capo_ext_wrapper_of(int i, void *real)
{
        static void *const wrappers[] = {
#define EVENT(name, params, args, id, comm, after)              (void *)asked_##name,
#define DATA(name, params, args, id, comm, stream, what, after) (void *)asked_##name,
#define HAND(name, params, args)                                (void *)asked_##name,
#include "capo/nccl_ext_calls.def"
        };

        return capo_ext_asked((unsigned)i, real) ? wrappers[i] : NULL;
}
