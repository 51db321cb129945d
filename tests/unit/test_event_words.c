/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "capo/algorithms.h"
#include "capo/call_ids.h"
#include "core/base/calls.h"
#include "core/base/util.h"
#include "tuner/profiler/profiler_adapt.h"

Test(event_words, calls)
{
        static const char *const unknown[] = {"AllToNone", "Reduced", "Send", "CommInit", ""};

        for (unsigned call = 1; call < CAPO_CALLS; call++)
                cr_expect_eq(capo_event_call(capo_call_name(call)),
                             capo_call_is_collective(call) ? call : CAPO_CALL_NONE, "%s",
                             capo_call_name(call));
        cr_expect_eq(capo_event_call("AlltoAll"), CAPO_CALL_ALLTOALL);
        for (size_t i = 0; i < N_ELEMENTS(unknown); i++)
                cr_expect_eq(capo_event_call(unknown[i]), CAPO_CALL_NONE, "%s", unknown[i]);
}

Test(event_words, algorithms)
{
        static const struct {
                const char *algo, *proto;
                unsigned a, p;
        } rows[] = {
                {"TREE", "LL", CAPO_ALGO_TREE, CAPO_PROTO_LL},
                {"RING", "LL128", CAPO_ALGO_RING, CAPO_PROTO_LL128},
                {"NVLS", "SIMPLE", CAPO_ALGO_NVLS, CAPO_PROTO_SIMPLE},
                {"NVLS_TREE", "Simple", CAPO_ALGO_NVLS_TREE, CAPO_PROTO_SIMPLE},
                {"PAT", "", CAPO_ALGO_PAT, CAPO_PROTO_UNKNOWN},
                {"COLLNET_DIRECT", "LL", CAPO_ALGO_COLLNET_DIRECT, CAPO_PROTO_LL},
                {"CollNetChain", "LL", CAPO_ALGO_COLLNET_CHAIN, CAPO_PROTO_LL},
                {"COLL", "LL", CAPO_ALGO_COLLNET_CHAIN, CAPO_PROTO_LL},
                {"", "", CAPO_ALGO_UNKNOWN, CAPO_PROTO_UNKNOWN},
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++)
                cr_expect_eq(capo_event_algo_proto(rows[i].algo, rows[i].proto),
                             rows[i].a << 4 | rows[i].p, "%s %s", rows[i].algo, rows[i].proto);
}
