/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: gen_csv FOLDER ROWS    a fleet's worth of `capo export`, in ten files, with a known answer
 *
 * 20 sizes, 7 candidates and NCCL's own choice, 3 layouts. Ring LL is best up to 64 KiB, Ring
 * Simple from 1 MiB on, NCCL's own choice between. Noise of 5 %, and a stall 50 times as long every
 * thousandth line.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "core/base/util.h"
#include "profiles/store/store.h"
#include "tests/log_numbers.h"

static uint64_t state = 88172645463325252u;

static double uniform(void)
{
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        return (double)(state >> 11) / (double)(1ull << 53);
}

int main(int argc, char **argv)
{
        static const uint8_t want[8] = {0,
                                        CAPO_ALGO_PROTO(CAPO_ALGO_RING, CAPO_PROTO_LL),
                                        CAPO_ALGO_PROTO(CAPO_ALGO_RING, CAPO_PROTO_LL128),
                                        CAPO_ALGO_PROTO(CAPO_ALGO_RING, CAPO_PROTO_SIMPLE),
                                        CAPO_ALGO_PROTO(CAPO_ALGO_TREE, CAPO_PROTO_LL),
                                        CAPO_ALGO_PROTO(CAPO_ALGO_TREE, CAPO_PROTO_LL128),
                                        CAPO_ALGO_PROTO(CAPO_ALGO_TREE, CAPO_PROTO_SIMPLE),
                                        CAPO_ALGO_PROTO(CAPO_ALGO_NVLS, CAPO_PROTO_SIMPLE)};
        static const char *const layouts[3] = {"8", "3+5", "2x8"};
        static const int ranks[3] = {8, 8, 16}, nodes[3] = {1, 2, 2};
        long rows = argc > 2 ? atol(argv[2]) : 0;
        char path[512];

        if (rows < 1)
                return 2;
        mkdir(argv[1], 0700);
        for (int f = 0; f < 10; f++) {
                FILE *out;

                snprintf(path, sizeof path, "%s/%d.csv", argv[1], f);
                out = fopen(path, "we");
                if (!out)
                        return 1;
                capo_csv_heads(out);
                for (long i = f; i < rows; i += 10) {
                        unsigned size = (unsigned)(i / 10 % 20), c = (unsigned)(i / 200 % 8),
                                 l = (unsigned)(i / 1600 % 3);
                        uint64_t bytes = 1024ull << size;
                        double us = 10 + (double)bytes / 20e3;
                        struct capo_trial t = {.source = path,
                                               .nccl = 22907,
                                               .gpu = "H100",
                                               .n_ranks = ranks[l],
                                               .n_nodes = nodes[l],
                                               .iterations = 1};
                        struct capo_sample s = {.bytes = bytes,
                                                .order = (uint32_t)i,
                                                .call = CAPO_CALL_ALLREDUCE,
                                                .make = CAPO_MAKE_EVENT,
                                                .type = 255,
                                                .op = 255,
                                                .want = want[c]};

                        snprintf(t.layout, sizeof t.layout, "%s", layouts[l]);
                        if (c && (c != 1 || bytes > 65536) && (c != 3 || bytes < 1 << 20))
                                us *= 1.1 + 0.1 * c;
                        else if (c)
                                us *= 0.8;
                        us *= 0.95 + 0.1 * uniform();
                        s.us = i % 1000 == 17 ? us * 50 : us;
                        capo_csv_sample(out, &s, &t);
                }
                if (fclose(out))
                        return 1;
        }
        return 0;
}
