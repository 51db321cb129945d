/* SPDX-License-Identifier: Apache-2.0 */
/* Names and arithmetic: each list at its first and last row and one beyond. */
#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

#include "capo/algorithms.h"
#include "capo/kernels.h"
#include "capo/call_ids.h"
#include "capo/collectives.h"
#include "core/base/calls.h"
#include "core/base/util.h"

Test(calls, names_and_kinds)
{
        static const struct {
                unsigned call;
                const char *name;
                enum capo_call_kind kind;
        } rows[] = {
                {CAPO_CALL_NONE, "?", CAPO_KIND_OTHER},
                {1, "AllReduce", CAPO_KIND_ALLREDUCE},
                {CAPO_CALL_BCAST, "Bcast", CAPO_KIND_BROADCAST},
                {CAPO_CALL_RECV, "Recv", CAPO_KIND_P2P},
                {CAPO_CALL_GROUP, "Group", CAPO_KIND_GROUP},
                {CAPO_CALL_WINDOWREGISTER, "CommWindowRegister", CAPO_KIND_OTHER},
                {CAPO_CALL_EPDISPATCH, "EpDispatch", CAPO_KIND_EXCHANGE},
                {CAPO_CALLS, "?", CAPO_KIND_OTHER},
                {~0u, "?", CAPO_KIND_OTHER},
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                cr_expect_str_eq(capo_call_name(rows[i].call), rows[i].name);
                cr_expect_eq(capo_call_kind(rows[i].call), rows[i].kind, "%s", rows[i].name);
                cr_expect_eq(capo_call_is_collective(rows[i].call),
                             (rows[i].kind >= CAPO_KIND_ALLREDUCE &&
                              rows[i].kind <= CAPO_KIND_SCATTER) ||
                                     rows[i].kind == CAPO_KIND_EXCHANGE,
                             "%s", rows[i].name);
        }
        cr_expect_str_neq(capo_call_name(CAPO_CALLS - 1), "?", "the last row is one");
        for (unsigned call = 1; call < CAPO_CALLS; call++)
                cr_expect_eq(capo_call_find(capo_call_name(call)), call, "%s",
                             capo_call_name(call));
}

Test(calls, found_in_any_spelling)
{
        static const struct {
                const char *text;
                enum capo_call_id call;
        } rows[] = {
                {"AllReduce", CAPO_CALL_ALLREDUCE},
                {"ncclAllReduce", CAPO_CALL_ALLREDUCE},
                {"NCCLallreduce", CAPO_CALL_ALLREDUCE},
                {"all_reduce", CAPO_CALL_ALLREDUCE},
                {"-all--reduce-", CAPO_CALL_ALLREDUCE},
                {"all_to_all", CAPO_CALL_ALLTOALL},
                {"reduce", CAPO_CALL_REDUCE},
                {"reduce_scatter", CAPO_CALL_REDUCESCATTER},
                {"allreduces", CAPO_CALL_NONE},
                {"allreduc", CAPO_CALL_NONE},
                {"all reduce", CAPO_CALL_NONE},
                {"nccl", CAPO_CALL_NONE},
                {"ncc1AllReduce", CAPO_CALL_NONE},
                {"", CAPO_CALL_NONE},
                {"?", CAPO_CALL_NONE},
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++)
                cr_expect_eq(capo_call_find(rows[i].text), rows[i].call, "\"%s\"", rows[i].text);
}

Test(calls, algorithms_and_protocols)
{
        cr_expect_str_eq(capo_algo_name(CAPO_ALGO_UNKNOWN), "-");
        cr_expect_str_eq(capo_algo_word(CAPO_ALGO_UNKNOWN), "");
        cr_expect_str_eq(capo_algo_name(CAPO_ALGO_COLLNET_DIRECT), "CollNetDirect");
        cr_expect_str_eq(capo_algo_word(CAPO_ALGO_COLLNET_DIRECT), "collnet_direct");
        cr_expect_str_eq(capo_algo_name(CAPO_ALGOS - 1), "PAT");
        cr_expect_str_eq(capo_algo_word(CAPO_ALGOS - 1), "pat");
        cr_expect_str_eq(capo_algo_name(CAPO_ALGOS), "-");
        cr_expect_str_eq(capo_algo_word(CAPO_ALGOS), "");
        cr_expect_str_eq(capo_proto_name(CAPO_PROTO_UNKNOWN), "-");
        cr_expect_str_eq(capo_ran_algo(CAPO_ALGO_RING << 4 | CAPO_PROTO_LL), "Ring");
        cr_expect_str_eq(capo_ran_proto(CAPO_ALGO_RING << 4 | CAPO_PROTO_LL), "LL");
        cr_expect(!strcmp(capo_ran_algo(0), "-") && !strcmp(capo_ran_proto(0), "-"));
        for (unsigned unknown = 0x80; unknown < 0x84; unknown++)
                cr_expect(!strcmp(capo_ran_algo(unknown), "-") &&
                          !strcmp(capo_ran_proto(unknown), "-"));
        cr_expect_str_eq(capo_proto_word(CAPO_PROTO_UNKNOWN), "");
        cr_expect_str_eq(capo_proto_name(CAPO_PROTOS - 1), "Simple");
        cr_expect_str_eq(capo_proto_word(CAPO_PROTOS - 1), "simple");
        cr_expect_str_eq(capo_proto_name(CAPO_PROTOS), "-");
        cr_expect_str_eq(capo_proto_word(CAPO_PROTOS), "");
        for (unsigned a = 1; a < CAPO_ALGOS; a++) {
                cr_expect_eq(capo_algo_find(capo_algo_name(a)), a);
                cr_expect_eq(capo_algo_find(capo_algo_word(a)), a);
        }
        for (unsigned p = 1; p < CAPO_PROTOS; p++) {
                cr_expect_eq(capo_proto_find(capo_proto_name(p)), p);
                cr_expect_eq(capo_proto_find(capo_proto_word(p)), p);
        }
        cr_expect_eq(capo_algo_find("NVLS-tree"), CAPO_ALGO_NVLS_TREE);
        cr_expect_eq(capo_algo_find("-"), CAPO_ALGO_UNKNOWN);
        cr_expect_eq(capo_algo_find(""), CAPO_ALGO_UNKNOWN);
        cr_expect_eq(capo_algo_find("rings"), CAPO_ALGO_UNKNOWN);
        cr_expect_eq(capo_proto_find("LL12"), CAPO_PROTO_UNKNOWN);
        cr_expect_eq(capo_proto_find(""), CAPO_PROTO_UNKNOWN);
}

Test(calls, lists_of_words)
{
        char text[80];

        cr_expect_eq(capo_algo_words(" or ", text, sizeof text), text);
        cr_expect_str_eq(text, "tree, ring, collnet_direct, collnet_chain, nvls, nvls_tree or pat");
        cr_expect_str_eq(capo_proto_words(", ", text, sizeof text), "ll, ll128, simple");
        cr_expect_str_eq(capo_coll_words(" or ", text, sizeof text),
                         "allreduce, broadcast, reduce, allgather or reducescatter");
        cr_expect_str_eq(capo_proto_words(" or ", text, 5), "ll, ", "cut");
        memset(text, 'x', sizeof text);
        capo_proto_words(" or ", text, 3);
        cr_expect(!memcmp(text, "ll\0xxx", 6), "nothing behind the room");
}

Test(calls, what_any_nccl_has)
{
        /* by collective as NCCL counts them: broadcast, reduce, all-gather, reduce-scatter,
         * all-reduce */
        static const char *const has[CAPO_ALGOS] = {
                [CAPO_ALGO_UNKNOWN] = "11111",        [CAPO_ALGO_TREE] = "00001",
                [CAPO_ALGO_RING] = "11111",           [CAPO_ALGO_PAT] = "00110",
                [CAPO_ALGO_COLLNET_DIRECT] = "00111", [CAPO_ALGO_COLLNET_CHAIN] = "00001",
                [CAPO_ALGO_NVLS] = "00111",           [CAPO_ALGO_NVLS_TREE] = "00001",
        };

        for (unsigned c = 0; c < CAPO_COLLS; c++) {
                for (unsigned a = 0; a < CAPO_ALGOS; a++) {
                        for (unsigned p = 0; p < CAPO_PROTOS; p++) {
                                bool all = a <= CAPO_ALGO_RING || p == CAPO_PROTO_SIMPLE;

                                cr_expect_eq(capo_pair_offered(c, a, p), has[a][c] == '1' && all,
                                             "%u %s %s", c, capo_algo_name(a), capo_proto_name(p));
                        }
                }
        }
        cr_expect_not(capo_pair_offered(CAPO_COLL_ALLREDUCE, CAPO_ALGOS, CAPO_PROTO_SIMPLE));
        cr_expect_not(capo_pair_offered(CAPO_COLL_ALLREDUCE, CAPO_ALGO_RING, CAPO_PROTOS));
}

Test(calls, collectives)
{
        static const struct {
                const char *word, *long_word;
                enum capo_coll coll;
                unsigned call, place;
                enum capo_call_kind kind;
        } rows[CAPO_COLLS] = {
                {"allreduce", "all_reduce", CAPO_COLL_ALLREDUCE, CAPO_CALL_ALLREDUCE, 0,
                 CAPO_KIND_ALLREDUCE},
                {"broadcast", "broadcast", CAPO_COLL_BROADCAST, CAPO_CALL_BROADCAST, 1,
                 CAPO_KIND_BROADCAST},
                {"reduce", "reduce", CAPO_COLL_REDUCE, CAPO_CALL_REDUCE, 2, CAPO_KIND_REDUCE},
                {"allgather", "all_gather", CAPO_COLL_ALLGATHER, CAPO_CALL_ALLGATHER, 3,
                 CAPO_KIND_ALLGATHER},
                {"reducescatter", "reduce_scatter", CAPO_COLL_REDUCESCATTER,
                 CAPO_CALL_REDUCESCATTER, 4, CAPO_KIND_REDUCESCATTER},
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                enum capo_coll c = rows[i].coll;

                cr_expect_str_eq(capo_coll_word(c), rows[i].word);
                cr_expect_eq(capo_coll_find(rows[i].word), (int)c);
                cr_expect_eq(capo_coll_find(rows[i].long_word), (int)c);
                cr_expect_eq(capo_coll_call(c), rows[i].call);
                cr_expect_eq(capo_coll_of_call(rows[i].call), (int)c);
                cr_expect_eq(capo_coll_kind(c), rows[i].kind);
                cr_expect_eq(capo_coll_at(rows[i].place), c);
        }
        cr_expect_eq(capo_coll_of_call(CAPO_CALL_BCAST), CAPO_COLL_BROADCAST, "ncclBcast is one");
        cr_expect_eq(capo_coll_of_call(CAPO_CALL_NONE), -1);
        cr_expect_eq(capo_coll_of_call(CAPO_CALL_ALLTOALL), -1);
        cr_expect_eq(capo_coll_find("send"), -1);
        cr_expect_eq(capo_coll_find(""), -1);
}

Test(calls, types_and_operations)
{
        static const struct {
                const char *name;
                unsigned type, size;
        } rows[] = {{"int8", 0, 1},   {"uint8", 1, 1},    {"int32", 2, 4},   {"uint32", 3, 4},
                    {"int64", 4, 8},  {"uint64", 5, 8},   {"half", 6, 2},    {"float", 7, 4},
                    {"double", 8, 8}, {"bfloat16", 9, 2}, {"f8e4m3", 10, 1}, {"f8e5m2", 11, 1},
                    {"none", 12, 0},  {"none", 255, 0},   {"none", ~0u, 0}};
        static const char *const clocks[] = {"none", "host", "event", "kernel"};

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                cr_expect_str_eq(capo_type_name(rows[i].type), rows[i].name, "%u", rows[i].type);
                cr_expect_eq(capo_type_size(rows[i].type), rows[i].size, "%u", rows[i].type);
        }
        cr_expect_str_eq(capo_op_name(0), "sum");
        cr_expect_str_eq(capo_op_name(4), "avg");
        cr_expect_str_eq(capo_op_name(5), "none");
        cr_expect_str_eq(capo_op_name(253), "none");
        cr_expect_str_eq(capo_op_name(254), "user");
        cr_expect_str_eq(capo_op_name(255), "none");
        for (unsigned i = 0; i < CAPO_CLOCKS; i++)
                cr_expect_str_eq(capo_clock_name(i), clocks[i]);
        cr_expect_str_eq(capo_clock_name(CAPO_CLOCKS), "none");
}

Test(calls, bus_bandwidth)
{
        static const struct {
                enum capo_call_kind kind;
                unsigned n;
                double factor;
        } rows[] = {
                {CAPO_KIND_ALLREDUCE, 0, 0},    {CAPO_KIND_ALLREDUCE, 1, 0},
                {CAPO_KIND_ALLREDUCE, 2, 1},    {CAPO_KIND_ALLREDUCE, 8, 1.75},
                {CAPO_KIND_ALLGATHER, 1, 0},    {CAPO_KIND_ALLGATHER, 2, .5},
                {CAPO_KIND_ALLGATHER, 8, .875}, {CAPO_KIND_REDUCESCATTER, 4, .75},
                {CAPO_KIND_ALLTOALL, 4, .75},   {CAPO_KIND_GATHER, 4, .75},
                {CAPO_KIND_SCATTER, 4, .75},    {CAPO_KIND_SCATTER, 1, 0},
                {CAPO_KIND_BROADCAST, 1, 1},    {CAPO_KIND_BROADCAST, 8, 1},
                {CAPO_KIND_REDUCE, 8, 1},       {CAPO_KIND_P2P, 8, 1},
                {CAPO_KIND_OTHER, 0, 1},
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++)
                cr_expect_eq(capo_busbw_factor(rows[i].kind, rows[i].n), rows[i].factor, "row %zu",
                             i);
}

/* What runs beside the table: each has a name, is found by it, and is neither an algorithm nor a
 * protocol to who does not know it. */
Test(calls, kernels)
{
        static const struct {
                uint8_t number;
                const char *algo, *proto;
        } rows[] = {
#define CAPO_KERNEL(id, number, algo, proto) {number, algo, proto},
#include "capo/kernels.def"
        };
        char name[64];

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                cr_expect(capo_ran_beside(rows[i].number) && rows[i].number >> 4 >= CAPO_ALGOS &&
                          (rows[i].number & 15) >= CAPO_PROTOS);
                cr_expect(i == 0 || rows[i].number > rows[i - 1].number);
                cr_expect_str_eq(capo_ran_algo(rows[i].number), rows[i].algo);
                cr_expect_str_eq(capo_ran_proto(rows[i].number), rows[i].proto);
                if (rows[i].number <= CAPO_KERNEL_SYMK || strcmp(rows[i].algo, "symk") != 0)
                        continue;
                cr_expect_eq(capo_symk_find(rows[i].proto), rows[i].number);
                snprintf(name, sizeof name, "ReduceScatter_%s", rows[i].proto);
                cr_expect_eq(capo_symk_find(name), rows[i].number, "%s", name);
        }
        cr_expect_not(capo_ran_beside(CAPO_ALGO_PAT << 4 | CAPO_PROTO_SIMPLE));
        cr_expect_eq(capo_symk_find("AllReduce_OfTomorrow"), CAPO_KERNEL_SYMK);
        cr_expect_eq(capo_symk_find("engine"), CAPO_KERNEL_SYMK);
        cr_expect_eq(capo_symk_find(NULL), CAPO_KERNEL_SYMK);
}
