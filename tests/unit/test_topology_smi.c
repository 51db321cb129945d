/* SPDX-License-Identifier: Apache-2.0 */
/* The matrix of nvidia-smi topo -m, in small: what is read, what is concluded from counts, what is
 * refused. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <criterion/criterion.h>

#include "core/base/util.h"
#include "profiles/machine/topology.h"

static int read_text(const char *text, double brick_gbs, struct capo_topology **out, char *why,
                     size_t room)
{
        char name[] = "/tmp/capo-smi-XXXXXX";
        int fd = mkstemp(name), r;

        cr_assert_geq(fd, 0);
        cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
        close(fd);
        r = capo_topology_read(name, 0, brick_gbs, out, why, room);
        unlink(name);
        return r;
}

static const struct capo_topology_link *between(const struct capo_topology *t, int a, int b)
{
        for (size_t i = 0; i < t->n_links; i++) {
                const struct capo_topology_link *l = &t->links[i];

                if (l->end == CAPO_END_GPU &&
                    ((l->from == a && l->to == b) || (l->from == b && l->to == a)))
                        return l;
        }
        return NULL;
}

/* Escapes in the heading, an old word for SYS, a row of a NIC, a legend: all as some driver prints
 * it. */
Test(topology_smi, links_paths_and_nics)
{
        static const char text[] =
                "\t\033[4mGPU0\tGPU1\tGPU2\tmlx5_0\tCPU Affinity\033[0m\n"
                "GPU0\t X \tNV2\tPHB\tPIX\t0-19\n"
                "GPU1\tNV2\t X \tSOC\tNODE\t0-19\n"
                "GPU2\tPHB\tSOC\t X \tPXB\t20-39\n"
                "mlx5_0\tPIX\tNODE\tPXB\t X \n"
                "\nLegend:\n\n  X   = Self\n  SOC  = Connection traversing PCIe\n";
        _cleanup_(capo_topology_freep) struct capo_topology *t = NULL;
        const struct capo_topology_link *l;
        char why[512] = "";

        cr_assert_eq(read_text(text, 25, &t, why, sizeof why), 0, "%s", why);
        cr_assert_eq(t->n_gpus, 3);
        cr_assert_eq(t->n_nics, 1);
        cr_assert_str_eq(t->nics[0].name, "mlx5_0");
        cr_assert_eq(t->n_switches, 0);
        cr_assert_eq(t->n_links, 1);
        l = between(t, 0, 1);
        cr_assert(l);
        cr_assert_eq(l->count, 2);
        cr_assert_eq(l->gbs, 50.0);
        cr_assert_eq(t->gpu_path[0 * 3 + 2], CAPO_PATH_PHB);
        cr_assert_eq(t->gpu_path[1 * 3 + 2], CAPO_PATH_SYS);
        cr_assert_eq(t->nic_path[0], CAPO_PATH_PIX);
        cr_assert_eq(t->nic_path[1], CAPO_PATH_NODE);
        cr_assert_eq(t->nic_path[2], CAPO_PATH_PXB);
}

/* The generation follows from the ports of a GPU, and with it NCCL's constant for one link. */
Test(topology_smi, generations)
{
        static const struct {
                int links;
                uint16_t sm;
        } rows[] = {{4, 60}, {6, 70}, {12, 80}, {18, 90}};

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                _cleanup_(capo_topology_freep) struct capo_topology *t = NULL;
                char why[512] = "", text[256];

                snprintf(text, sizeof text, "\tGPU0\tGPU1\nGPU0\tX\tNV%d\nGPU1\tNV%d\tX\n",
                         rows[i].links, rows[i].links);
                cr_assert_eq(read_text(text, 0, &t, why, sizeof why), 0, "%s", why);
                cr_expect_eq(t->gpus[0].sm, rows[i].sm, "NV%d: sm %d", rows[i].links,
                             (int)t->gpus[0].sm);
                cr_expect_eq(t->links[0].count, rows[i].links);
                cr_expect_gt(t->brick_gbs, 0);
                cr_expect(strstr(t->brick_source, "guessed"), "%s", t->brick_source);
        }
}

/* 18 links to each of two others would be 36 ports: there is a switch, and each GPU has 18 links to
 * it. */
Test(topology_smi, switch_by_counts)
{
        static const char text[] =
                "\tGPU0\tGPU1\tGPU2\nGPU0\tX\tNV18\tNV18\nGPU1\tNV18\tX\tNV18\nGPU2\tNV18\tNV18\tX\n";
        _cleanup_(capo_topology_freep) struct capo_topology *t = NULL;
        char why[512] = "";

        cr_assert_eq(read_text(text, 0, &t, why, sizeof why), 0, "%s", why);
        cr_assert_eq(t->n_switches, 1);
        cr_assert_eq(t->n_links, 3);
        for (size_t i = 0; i < t->n_links; i++) {
                cr_assert_eq(t->links[i].end, CAPO_END_SWITCH);
                cr_assert_eq(t->links[i].count, 18);
        }
        cr_assert_eq(t->gpus[2].sm, 90);
}

Test(topology_smi, refused)
{
        static const struct {
                const char *text, *said;
        } rows[] = {
                {"\tGPU0\tGPU1\nGPU0\tX\tNV1\n", ":2: expected a row for GPU1, found none"},
                {"\tGPU0\tGPU1\nGPU0\tX\tNV1\nGPU1\tNV2\tX\n",
                 ":3: expected GPU1 and GPU0 joined the same both ways"},
                {"\tGPU0\tGPU1\nGPU0\tX\tNV19\n", ":2: expected NV1 to NV18, found NV19"},
                {"\tGPU0\tGPU1\nGPU0\tX\tFAR\n",
                 ":2: expected X, NV#, PIX, PXB, PHB, NODE or SYS under GPU1"},
                {"\tGPU0\tGPU1\nGPU0\tX\n", ":2: expected 2 entries for GPU0, found 1"},
                {"\tGPU0\tGPU1\nGPU0\tX\tNV1\nGPU0\tX\tNV1\n",
                 ":3: expected one row for GPU0, found a second"},
                {"\tGPU0\tGPU1\nGPU0\tNV1\tX\n",
                 ":2: expected X under GPU0 itself, found it under GPU1"},
                {"\tGPU0\tGPU1\nGPU0\tX\tPIX\nGPU1\tPHB\tX\n",
                 ":3: expected GPU1 and GPU0 joined the same both ways"},
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                struct capo_topology *t = NULL;
                char why[512] = "";

                cr_expect_eq(read_text(rows[i].text, 0, &t, why, sizeof why), -EINVAL,
                             "row %zu: %s", i, why);
                cr_expect(strstr(why, rows[i].said), "row %zu: %s", i, why);
                cr_expect_null(t);
        }
}
