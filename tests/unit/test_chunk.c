/* SPDX-License-Identifier: Apache-2.0 */
/* Which row a question for a chunk belongs to. The numbers are what libnccl 2.30.7, 2.31.2
 * and 2.32.3 asked on 4 virtual H100s. */
#include <criterion/criterion.h>

#include "core/base/util.h"
#include "tuner/chunk.h"
#include "tests/log_numbers.h"

enum { TREE, RING, COLLNET_DIRECT, NVLS = 4, PAT = 6, LL = 0, LL128 = 1, SIMPLE = 2, OWN = 4242 };

static struct capo_chunks chunks = {.n_ranks = 4};

static void note(int coll, uint64_t bytes, int algo, int proto, uint32_t chunk)
{
        struct capo_choice c = {.algo = (uint8_t)(algo + 1) & 15,
                                .proto = (uint8_t)(proto + 1) & 15,
                                .chunk = chunk};

        capo_chunks_note(&chunks, coll, bytes, c);
}

/* What NCCL gets; OWN: it is not answered. */
static size_t ask(int coll, uint64_t bytes, int algo, int proto, size_t own)
{
        size_t chunk = own;

        return capo_chunks_answer(&chunks, coll, bytes, algo, proto, &chunk) ? chunk : OWN;
}

Test(chunk, a_call_by_itself)
{
        static const struct {
                int coll, proto;
                uint64_t bytes, first, last, between; /* 0: not asked */
        } rows[] = {
                {CAPO_COLL_ALLREDUCE, LL, 1024, 1024, 0, 0},
                {CAPO_COLL_ALLREDUCE, LL, 102400, 20480, 20480, 20480},
                {CAPO_COLL_ALLREDUCE, LL, 1048576, 45056, 12288, 45056},
                {CAPO_COLL_ALLREDUCE, SIMPLE, 67108860, 2801664, 2670588, 2801664},
                {CAPO_COLL_ALLREDUCE, SIMPLE, 1073741824, 44744704, 44613632, 44744704},
                {CAPO_COLL_ALLGATHER, LL, 1024, 1024, 0, 0},
                {CAPO_COLL_ALLGATHER, LL, 102400, 24576, 4096, 24576},
                {CAPO_COLL_ALLGATHER, LL, 1048576, 49152, 16384, 49152},
                {CAPO_COLL_ALLGATHER, SIMPLE, 102400, 65536, 36864, 0},
                {CAPO_COLL_ALLGATHER, SIMPLE, 67108848, 2818048, 2293744, 2818048},
                {CAPO_COLL_BROADCAST, LL, 102400, 24576, 4096, 24576},
                {CAPO_COLL_BROADCAST, SIMPLE, 67108860, 2818048, 2293756, 2818048},
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                int coll = rows[i].coll, proto = rows[i].proto;

                note(coll, rows[i].bytes, RING, proto, 4096);
                cr_expect_eq(ask(coll, rows[i].first, RING, proto, 1 << 20), 4096, "row %zu", i);
                if (rows[i].last)
                        cr_expect_eq(ask(coll, rows[i].last, RING, proto, 1 << 20), 4096, "row %zu",
                                     i);
                if (rows[i].between)
                        cr_expect_eq(ask(coll, rows[i].between, RING, proto, 1 << 20), 4096,
                                     "row %zu", i);
                cr_expect_eq(ask(coll, rows[i].first - 4, RING, proto, 1 << 20), OWN,
                             "row %zu: another call's", i);
        }
}

/* Which call it is, is not sure: NCCL keeps its own. */
Test(chunk, of_another_call)
{
        cr_expect_eq(ask(CAPO_COLL_ALLREDUCE, 1024, RING, LL, 32768), OWN,
                     "nothing was asked before");
        note(CAPO_COLL_ALLREDUCE, 1048576, RING, LL, 4096);
        cr_expect_eq(ask(CAPO_COLL_ALLREDUCE, 45057, RING, LL, 32768), OWN);
        cr_expect_eq(ask(CAPO_COLL_ALLREDUCE, 12288, RING, LL, 32768), OWN,
                     "the last channel's, and no first");
        cr_expect_eq(ask(CAPO_COLL_ALLREDUCE, 45056, TREE, LL, 32768), OWN,
                     "another algorithm runs");
        cr_expect_eq(ask(CAPO_COLL_ALLREDUCE, 45056, RING, SIMPLE, 32768), OWN,
                     "another protocol runs");
        cr_expect_eq(ask(CAPO_COLL_REDUCE, 45056, RING, LL, 32768), OWN);
        cr_expect_eq(ask(CAPO_COLL_ALLREDUCE, 0, RING, LL, 32768), OWN);
        cr_expect_eq(ask(-1, 45056, RING, LL, 32768), OWN);
        cr_expect_eq(ask(CAPO_NCCL_COLLS, 45056, RING, LL, 32768), OWN);
        cr_expect_eq(ask(CAPO_COLL_ALLREDUCE, 1 << 21, RING, LL, 32768), OWN, "more than all");
        cr_expect_eq(ask(CAPO_COLL_ALLREDUCE, 1048576, RING, LL, 32768), 4096,
                     "all of it on one channel");
        note(CAPO_COLL_ALLREDUCE, 1048576, RING, LL, 4096);
        cr_expect_eq(ask(CAPO_COLL_ALLREDUCE, 45056, RING, LL, 32768), 4096, "and now it is");
        note(CAPO_COLL_ALLREDUCE, 2 << 20, RING, LL, 0);
        cr_expect_eq(ask(CAPO_COLL_ALLREDUCE, 45056, RING, LL, 32768), OWN,
                     "the last row says none");
        note(CAPO_COLL_ALLREDUCE, 1048576, RING, LL, 4096);
        capo_chunks_note(&chunks, CAPO_COLL_ALLREDUCE, 1048576,
                         (struct capo_choice){.chunk = 4096});
        cr_expect_eq(ask(CAPO_COLL_ALLREDUCE, 45056, RING, LL, 32768), OWN, "nothing was answered");
}

/* On 1 to 64 channels, and on no other number. */
Test(chunk, channels)
{
        for (unsigned n = 1; n <= 80; n++) {
                uint64_t bytes = 64ull * 16384 * 65 *
                                 n; /* all-reduce: cells of 16 KiB, the same of each channel */

                note(CAPO_COLL_ALLREDUCE, bytes, RING, SIMPLE, 4096);
                cr_expect_eq(ask(CAPO_COLL_ALLREDUCE, bytes / n, RING, SIMPLE, 1 << 20),
                             n <= 64 ? 4096 : OWN, "%u", n);
        }
}

/* Never below the grain; beyond NCCL's own only where NCCL itself cuts it to its buffer. */
Test(chunk, sizes)
{
        static const struct {
                int algo, proto;
                uint32_t row;
                size_t own, answer;
        } rows[] = {
                {RING, SIMPLE, 65536, 2097152, 65536},
                {RING, SIMPLE, 100, 2097152, 512},
                {RING, SIMPLE, 512, 2097152, 512},
                {RING, LL, 16, 32768, 16},
                {RING, LL128, 1919, 32768, 1920},
                {RING, LL128, 1921, 32768, 1921},
                {RING, SIMPLE, 4194304, 2097152, 2097152},
                {TREE, SIMPLE, 4194304, 524288, 4194304},
                {TREE, LL128, 65536, 32768, 65536},
                {PAT, SIMPLE, 65537, 65536, 65537},
                {NVLS, SIMPLE, 131072, 16384, 16384},
                {NVLS, SIMPLE, 8192, 16384, 8192},
                {COLLNET_DIRECT, SIMPLE, 65537, 65536, 65536},
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                note(CAPO_COLL_ALLREDUCE, 1 << 20, rows[i].algo, rows[i].proto, rows[i].row);
                cr_expect_eq(
                        ask(CAPO_COLL_ALLREDUCE, 1 << 20, rows[i].algo, rows[i].proto, rows[i].own),
                        rows[i].answer, "row %zu", i);
        }
}
