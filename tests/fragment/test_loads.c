/* SPDX-License-Identifier: Apache-2.0 */
/* Channels written by hand over a DGX-1V, whose links are known: NVLink 20 GB/s, PCIe 12, NIC 12.5.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <criterion/criterion.h>

#include "core/base/util.h"
#include "profiles/fragment/link_loads.h"
#include "profiles/machine/platform.h"

#define WIRE 20.0

static struct capo_topology *dgx1v(void)
{
        struct capo_topology *t;
        char why[256];

        cr_assert_eq(capo_topology_read(MACHINES "dgx1v.xml", 0, 0, &t, why, sizeof why), 0, "%s",
                     why);
        return t;
}

static struct capo_plan_graph graph(int id, int pattern, char (*paths)[512], int n)
{
        return (struct capo_plan_graph){.id = id,
                                        .pattern = pattern,
                                        .n_channels = n,
                                        .paths = paths,
                                        .n_paths = (size_t)n};
}

/* @n nodes with the same first GPUs and channels. */
static int attained(const struct capo_topology *t, int n_gpus, int pattern, char (*paths)[512],
                    int channels, int n, struct fragment_attained *out)
{
        struct capo_plan_graph ring = graph(0, 4, paths, channels),
                               tree = graph(1, pattern, paths, channels);
        struct fragment_domain d[16];

        for (int i = 0; i < n; i++) {
                d[i] = (struct fragment_domain){
                        .machine = i, .n_gpus = n_gpus, .ring = &ring, .tree = &tree};
                for (int g = 0; g < n_gpus; g++)
                        d[i].gpus[g] = g;
        }
        return fragment_loads(t, d, n, channels, out);
}

Test(loads, measured_links)
{
        struct capo_topology *t = dgx1v();
        const char *source = NULL;

        cr_assert_float_eq(capo_brick_measured_gbs(t, &source), 22.8, 1e-9);
        cr_assert(strstr(source, "blinkplus"));
        t->gpus[0].sm = 90;
        cr_assert_float_eq(capo_brick_measured_gbs(t, &source), 0, 0);
        capo_topology_free(t);
}

Test(loads, one_node)
{
        char one[][512] = {"0 1"}, two[][512] = {"0 1 2 3", "3 2 1 0"}, relay[][512] = {"0 5"};
        struct capo_topology *t = dgx1v();
        struct fragment_attained got;

        /* two GPUs, one link: a ring uses it once each way, a tree too; what NCCL calls a tree's
         * bandwidth is double */
        cr_assert_eq(attained(t, 2, 1, one, 1, 1, &got), 0);
        cr_assert_float_eq(got.ring_gbs, WIRE, 1e-6);
        cr_assert_float_eq(got.tree_gbs, 2 * WIRE, 1e-6);
        cr_assert_str_eq(got.ring_full, "NVLink GPU 0 to GPU 1");
        /* a ring and its reverse: every single link full both ways */
        cr_assert_eq(attained(t, 4, 1, two, 2, 1, &got), 0);
        cr_assert_float_eq(got.ring_gbs, 2 * WIRE, 1e-6);
        /* two chains over the same links in both directions: no more than one chain */
        cr_assert_float_eq(got.tree_gbs, 2 * WIRE, 1e-6);
        /* 0 and 5 have no link; with only these two there is PCIe, over the link between CPUs */
        cr_assert_eq(attained(t, 1, 1, relay, 1, 1, &got), 0);
        cr_assert_leq(got.ring_gbs, 12);
        capo_topology_free(t);
}

/* One channel over one NIC: what the double binary tree asks of it. */
Test(loads, nodes)
{
        static const struct {
                int nodes, pattern;
                double ring, tree;
        } rows[] = {
                /* up and down once, over 12 GB/s of PCIe; writing into a V100 takes an eighth of
                   the way back */
                {2, 1, 12, 24 / 1.125}, {2, 3, 12, 24 / 1.125},
                {3, 3, 12, 16 / 1.125}, /* a node has a parent and a child in one tree, a parent in
                                           the other */
                {4, 3, 12, 12 / 1.125}, /* a parent and two children in one tree, a parent in the
                                           other */
                {8, 3, 12, 12 / 1.125}, {16, 3, 12, 12 / 1.125},
        };
        char path[][512] = {"net0 0 1 net0"};
        struct capo_topology *t = dgx1v();
        struct fragment_attained got;

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                cr_assert_eq(attained(t, 2, rows[i].pattern, path, 1, rows[i].nodes, &got), 0);
                cr_assert_float_eq(got.ring_gbs, rows[i].ring, 1e-6, "ring, %d nodes: %g",
                                   rows[i].nodes, got.ring_gbs);
                cr_assert_float_eq(got.tree_gbs, rows[i].tree, 1e-6, "tree, %d nodes: %g",
                                   rows[i].nodes, got.tree_gbs);
        }
        capo_topology_free(t);
}

/* Two channels through one NIC share it; through two they do not; by another GPU to its NIC the
 * sender takes NVLink. */
Test(loads, nics)
{
        char shared[][512] = {"net0 0 1 net0", "net0 1 0 net0"},
             own[][512] = {"net0 0 3 2 1 net0", "net1 2 1 0 3 net1"};
        struct capo_topology *t = dgx1v();
        struct fragment_attained got;

        cr_assert_eq(attained(t, 2, 1, shared, 2, 2, &got), 0);
        cr_assert_float_eq(got.ring_gbs, 12, 1e-6);
        cr_assert(strstr(got.ring_full, "NIC"), "%s", got.ring_full);
        cr_assert_eq(attained(t, 4, 1, own, 2, 2, &got), 0);
        cr_assert_float_eq(got.ring_gbs, 24, 1e-6, "%g: %s", got.ring_gbs, got.ring_full);
        capo_topology_free(t);
}

Test(loads, refusals)
{
        char no_nic[][512] = {"0 1"}, no_gpu[][512] = {"net0 0 77 net0"},
             far[][512] = {"net9 0 1 net9"}, junk[][512] = {"a b"};
        struct capo_topology *t = dgx1v();
        struct fragment_attained got;

        cr_assert_eq(attained(t, 2, 1, no_nic, 1, 2, &got), -EINVAL);
        cr_assert_eq(attained(t, 2, 1, no_gpu, 1, 2, &got), -EINVAL);
        cr_assert_eq(attained(t, 2, 1, far, 1, 2, &got), -EINVAL);
        cr_assert_eq(attained(t, 2, 1, junk, 1, 1, &got), -EINVAL);
        cr_assert_eq(attained(t, 2, 1, no_nic, 0, 1, &got), -EINVAL);
        capo_topology_free(t);
}
