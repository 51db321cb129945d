/* SPDX-License-Identifier: Apache-2.0 */
/* What links can bring in at most: by the name of a GPU, by a machine's description, and for each
 * collective. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "core/base/calls.h"
#include "profiles/fit/fit_links.h"
#include "profiles/import/import.h"
#include "core/base/util.h"
#include "profiles/machine/topology.h"
#include "tests/log_numbers.h"

Test(fit_links, of_a_gpu)
{
        cr_expect_float_eq(capo_fit_links_of_gpu("H100 80GB HBM3").gpu_gbs, 514, 1e-9);
        cr_expect_float_eq(capo_fit_links_of_gpu("Tesla V100-SXM2-32GB").gpu_gbs, 166, 1e-9);
        cr_expect_float_eq(capo_fit_links_of_gpu("H100 80GB HBM3").node_gbs, 0, 0);
        cr_expect_float_eq(capo_fit_links_of_gpu("NVIDIA GeForce RTX 4090").gpu_gbs, 0, 0);
        cr_expect_float_eq(capo_fit_links_of_gpu("").gpu_gbs, 0, 0);
}

static struct capo_fit_links of(const char *name)
{
        _cleanup_(capo_topology_freep) struct capo_topology *t = NULL;
        char path[512], why[512];

        snprintf(path, sizeof path, MACHINES "%s.xml", name);
        cr_assert_eq(capo_topology_read(path, 0, 0, &t, why, sizeof why), 0, "%s", why);
        return capo_fit_links_of_machine(t);
}

/* Never below what data sheets say: a bound that is too low refuses true gains. */
Test(fit_links, of_a_machine)
{
        static const struct {
                const char *name;
                double gpu, node;
        } sheets[] = {{"dgx1v", 6 * 25 + 15.75, 4 * 12.5}, {"dgx1p", 4 * 20 + 15.75, 4 * 12.5}};

        for (size_t i = 0; i < sizeof sheets / sizeof *sheets; i++) {
                struct capo_fit_links l = of(sheets[i].name);

                cr_expect(l.gpu_gbs >= sheets[i].gpu && l.gpu_gbs < 1.2 * sheets[i].gpu, "%s: %g",
                          sheets[i].name, l.gpu_gbs);
                cr_expect_float_eq(l.node_gbs, sheets[i].node, 1e-9, "%s: %g", sheets[i].name,
                                   l.node_gbs);
        }
}

Test(fit_links, beyond)
{
        const struct capo_trial one = {.n_ranks = 8, .n_nodes = 1},
                                two = {.n_ranks = 16, .n_nodes = 2};
        const struct capo_fit_links gpu = {.gpu_gbs = 100}, node = {.gpu_gbs = 100, .node_gbs = 50},
                                    none = {0};
        static const struct {
                unsigned call;
                double gpu, node; /* GB/s of nccl-tests' size at the border, of 8 ranks, and of 2
                                     nodes */
        } borders[] = {{CAPO_CALL_ALLREDUCE, 100, 50},
                       {CAPO_CALL_BROADCAST, 100, 50},
                       {CAPO_CALL_ALLGATHER, 100 / (1 - 1.0 / 8), 50 / (1 - 1.0 / 2)},
                       {CAPO_CALL_REDUCESCATTER, 100 / (1 - 1.0 / 8), 50 / (1 - 1.0 / 2)}};

        for (size_t i = 0; i < sizeof borders / sizeof *borders; i++) {
                for (int over = 0; over < 2; over++) {
                        double factor = over ? 0.999 : 1.001, us = 1e6 / 1e3;

                        cr_expect_eq(capo_fit_beyond(gpu, &one, borders[i].call, 1000000,
                                                     us / borders[i].gpu * factor),
                                     over, "%u", borders[i].call);
                        cr_expect_eq(capo_fit_beyond(node, &two, borders[i].call, 1000000,
                                                     us / borders[i].node * factor),
                                     over, "%u between nodes", borders[i].call);
                        cr_expect(!capo_fit_beyond(node, &one, borders[i].call, 1000000,
                                                   us / borders[i].node * factor));
                }
                cr_expect(!capo_fit_beyond(none, &two, borders[i].call, 1000000, 1e-3));
        }
}
