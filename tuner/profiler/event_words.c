/* SPDX-License-Identifier: Apache-2.0 */
/* The words of profiler events as our numbers. */

#include "capo/algorithms.h"
#include "capo/call_ids.h"
#include "core/base/calls.h"
#include "tuner/profiler/profiler_adapt.h"

/* NCCL gives the function's name without its prefix, as calls.def has it. The first letter is
 * compared before strcmp() is called, because this runs in every collective. */
uint8_t capo_event_call(const char *s)
{
#define CAPO_CALL(id, name, kind)            \
        if (*s == *name && !strcmp(s, name)) \
                return capo_call_is_collective(CAPO_CALL_##id) ? CAPO_CALL_##id : CAPO_CALL_NONE;
#include "capo/calls.def"
        return CAPO_CALL_NONE;
}

uint8_t capo_event_algo_proto(const char *algo, const char *proto)
{
        uint8_t a = CAPO_ALGO_UNKNOWN, p = CAPO_PROTO_UNKNOWN;

        switch (*algo) {
        case 'T': a = CAPO_ALGO_TREE; break;
        case 'R': a = CAPO_ALGO_RING; break;
        case 'N':
                a = algo[1] && algo[2] && algo[3] && algo[4] ? CAPO_ALGO_NVLS_TREE : CAPO_ALGO_NVLS;
                break;
        case 'P': a = CAPO_ALGO_PAT; break;
        case 'C': { /* COLLNET_DIRECT, CollNetChain: the letter behind COLLNET */
                const char *kind = algo;

                for (int i = 0; i < 7 && *kind; i++)
                        kind++;
                kind += *kind == '_';
                a = (*kind | 0x20) == 'd' ? CAPO_ALGO_COLLNET_DIRECT : CAPO_ALGO_COLLNET_CHAIN;
                break;
        }
        }
        if (*proto == 'S')
                p = CAPO_PROTO_SIMPLE;
        else if (*proto == 'L')
                p = proto[1] && proto[2] ? CAPO_PROTO_LL128 : CAPO_PROTO_LL;
        return (uint8_t)(a << 4 | p);
}
