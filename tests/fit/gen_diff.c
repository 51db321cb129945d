/* SPDX-License-Identifier: Apache-2.0 */
/* Recordings for tests of capo diff: one rank, all-reduces of two sizes, GPU times around a known
 * median. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/golden/gen_log.h"
#include "tests/log_numbers.h"

static void recording(const char *root, const char *name, double factor, uint16_t rule)
{
        struct gen_log g;
        struct gen_hist host = {0};
        char path[512];
        uint64_t sizes[2] = {4096, 1 << 20}, us[2] = {20, 100};
        struct capo_log_comm comm = {.id = 1,
                                     .rank = 0,
                                     .n_ranks = 2,
                                     .device = 0,
                                     .n_nodes = 1,
                                     .min_local = 2,
                                     .max_local = 2,
                                     .color = -1,
                                     .uid = 0x1234 + (uint64_t)(factor * 1000),
                                     .t_created = 1000};

        snprintf(path, sizeof path, "%s/%s", root, name);
        mkdir(path, 0700);
        snprintf(path, sizeof path, "%s/%s/h.1.capo", root, name);
        gen_log_open(&g, path, 1);
        gen_log_text(&g, CAPO_FRAME_INFO, "host\th\nnccl.version\t2.28.9\n");
        if (rule)
                gen_log_text(
                        &g, CAPO_FRAME_RULES,
                        "digest\t02acbeef33334444\nmodelled\tnot allowed\nfile\t/shared/profiles/p.json\nname\tp\n"
                        "row\t1\t7\talways\tallreduce\t0\t18446744073709551615\tRing\tLL\t2\n");
        gen_log_comm(&g, comm, "world");
        for (unsigned k = 0; k < 2; k++) {
                struct gen_hist gpu = {0};
                struct capo_log_cell cell = {.bytes = sizes[k],
                                             .count = 1000,
                                             .id = (uint16_t)(k + 1),
                                             .comm = 1,
                                             .call = CAPO_CALL_ALLREDUCE,
                                             .algo_proto = CAPO_ALGO_RING << 4 | CAPO_PROTO_LL,
                                             .channels = 2,
                                             .rule = rule,
                                             .clock = CAPO_CLOCK_EVENT};

                for (unsigned i = 0; i < 1000; i++) {
                        double f = k == 1 ? factor : 1;

                        gen_hist_add(&gpu, (uint64_t)((double)us[k] * f * (900 + i % 200)), 1);
                        gen_hist_add(&host, 3000, 1);
                }
                gen_log_cell(&g, cell, &host, &gpu);
        }
        gen_log_close(&g);
}

int main(int argc, char **argv)
{
        static const double vary[2][4] = {{1, 1.3, 0.9, 1.1}, {1.2, 1.0, 1.1, 0.8}};
        char name[64], path[512];

        if (argc < 2)
                return 2;
        recording(argv[1], "a", 1, 0);
        recording(argv[1], "slower", 1.2, 1);
        for (unsigned s = 0; s < 2; s++) {
                snprintf(path, sizeof path, "%s/%s", argv[1], s ? "runs_b" : "runs_a");
                mkdir(path, 0700);
                for (unsigned i = 0; i < 4; i++) {
                        snprintf(name, sizeof name, "%s/%u", s ? "runs_b" : "runs_a", i);
                        recording(argv[1], name, vary[s][i], 0);
                }
        }
        snprintf(path, sizeof path, "%s/nothing", argv[1]);
        mkdir(path, 0700);
        return 0;
}
