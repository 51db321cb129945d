/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/stat.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <criterion/criterion.h>

#include "core/base/file.h"
#include "core/base/util.h"
#include "profiles/machine/topology.h"

static int read_text(const char *text, unsigned flags, struct capo_topology **out, char *why,
                     size_t room)
{
        char name[] = "/tmp/capo-topology-XXXXXX";
        int fd = mkstemp(name), r;

        cr_assert_geq(fd, 0);
        cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
        close(fd);
        r = capo_topology_read(name, flags, 0, out, why, room);
        unlink(name);
        return r;
}

Test(topology, dgx1v)
{
        _cleanup_(capo_topology_freep) struct capo_topology *t = NULL;
        char why[256];
        int bricks[8] = {0};

        cr_assert_eq(capo_topology_read(DATA "dgx1v.xml", 0, 0, &t, why, sizeof why), 0, "%s", why);
        cr_assert_str_eq(t->platform, "dgx1v");
        cr_assert_eq(t->n_gpus, 8);
        cr_assert_eq(t->n_links, 16);
        cr_assert_eq(t->n_nics, 3);
        cr_assert_eq(t->brick_gbs, 20.0);
        for (size_t i = 0; i < t->n_links; i++) {
                bricks[t->links[i].from] += t->links[i].count;
                bricks[t->links[i].to] += t->links[i].count;
                cr_assert_eq(t->links[i].gbs, 20.0 * t->links[i].count);
        }
        for (int i = 0; i < 8; i++) {
                cr_assert_eq(bricks[i], 6);
                cr_assert_eq(t->gpus[i].dev, (int)i);
                cr_assert_eq(t->gpus[i].sm, 70);
        }
        cr_assert_eq(capo_topology_gpu_by_busid(t, "00000000:0A:00.0"), 2);
        cr_assert_eq(capo_topology_gpu_by_busid(t, "8a:00.0"), 7);
        cr_assert_eq(t->gpu_path[0 * 8 + 1], CAPO_PATH_PIX);
        cr_assert_eq(t->gpu_path[0 * 8 + 2], CAPO_PATH_PHB);
        cr_assert_eq(t->gpu_path[0 * 8 + 4], CAPO_PATH_SYS);
        cr_assert_eq(t->pcis[t->gpus[0].pci].gbs, 12.0);
        cr_assert_str_eq(capo_xml_get(t->gpus[3].xml, "rank"), "3");
}

Test(topology, others)
{
        static const struct {
                const char *file, *platform;
                size_t gpus, links, switches, nics;
                double brick;
        } rows[] = {
                {"hgx-h100.xml", "hgxh100", 8, 32, 4, 16, 20.6},
                {"azure-nc48v4-topo.xml", "nvlink", 2, 1, 0, 1, 20.0},
                {"nccl_gp-nvlink_5GPU.xml", "nvlink", 5, 6, 0, 1, 20.6},
                {"aws-p4d-24xl-topo.xml", "pcie", 8, 0, 0, 0, 0},
                {"rccl-8p6l.xml", "xgmi", 8, 24, 0, 1, 24.0},
                {"rccl-8p-90a.xml", "xgmi", 8, 12, 0, 1, 36.0},
                {"rccl-8p-pcie.xml", "pcie", 8, 0, 0, 1, 0},
                {"hgx-h100-smi.txt", "hgxh100", 8, 8, 1, 12, 20.6},
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                _cleanup_(capo_topology_freep) struct capo_topology *t = NULL;
                char why[256], path[512];

                snprintf(path, sizeof path, DATA "%s", rows[i].file);
                cr_assert_eq(capo_topology_read(path, 0, 0, &t, why, sizeof why), 0, "%s", why);
                cr_expect_str_eq(t->platform, rows[i].platform, "%s: %s", rows[i].file,
                                 t->platform);
                cr_expect_eq(t->n_gpus, rows[i].gpus, "%s: %zu gpus", rows[i].file, t->n_gpus);
                cr_expect_eq(t->n_links, rows[i].links, "%s: %zu links", rows[i].file, t->n_links);
                cr_expect_eq(t->n_switches, rows[i].switches, "%s: %zu switches", rows[i].file,
                             t->n_switches);
                cr_expect_eq(t->n_nics, rows[i].nics, "%s: %zu nics", rows[i].file, t->n_nics);
                cr_expect(fabs(t->brick_gbs - rows[i].brick) < 1e-9, "%s: brick %g", rows[i].file,
                          t->brick_gbs);
        }
}

#define GPU(bus, dev, links)                                                                  \
        "<pci busid=\"" bus "\" class=\"0x030200\">\n<gpu dev=\"" dev "\" sm=\"70\">\n" links \
        "</gpu></pci>\n"
#define LINK(to, count) "<nvlink target=\"" to "\" count=\"" count "\" tclass=\"0x030200\"/>\n"
#define SYSTEM(inside)  "<system version=\"1\">\n<cpu numaid=\"0\">\n" inside "</cpu></system>\n"

Test(topology, bad_input)
{
        static const struct {
                const char *text, *said;
        } rows[] = {
                {"", "not well-formed XML"},
                {"<system", ":1:"},
                {"<graphs version=\"1\"/>", "this is an NCCL graph file"},
                {SYSTEM(""), "expected a GPU"},
                {SYSTEM(GPU("01:00.0", "0", LINK("02:00.0", "1")) GPU("02:00.0", "1", "")),
                 "expected a link back"},
                {SYSTEM(GPU("01:00.0", "0", LINK("02:00.0", "1"))
                                GPU("02:00.0", "1", LINK("01:00.0", "2"))),
                 ":5: expected the same number of links both ways"},
                {SYSTEM(GPU("01:00.0", "0", LINK("03:00.0", "1")) GPU("02:00.0", "1", "")),
                 ":5: expected a link to a GPU of this file"},
                {SYSTEM(GPU("01:00.0", "0", "") GPU("01:00.0", "1", "")),
                 "found 0000:01:00.0 a second time"},
                {SYSTEM(GPU("01:00.0", "0", "") GPU("02:00.0", "0", "")),
                 "found dev 0 a second time"},
                {SYSTEM(GPU("01:00.0", "0", LINK("01:00.0", "1"))), "linked to itself"},
                {SYSTEM(GPU("01:00.0", "0", LINK("02:00.0", "none"))),
                 ":5: expected count of <nvlink>"},
                {SYSTEM(GPU("what", "0", "")), ":3: expected a PCI bus id"},
                {SYSTEM(GPU("01:00.0", "0", "<nvlink count=\"1\"/>")), "to have a target"},
                {SYSTEM("<gpu dev=\"0\"/>"), "expected <gpu> inside a <pci>"},
                {"<!DOCTYPE a [<!ENTITY b \"c\">]><system/>", "entity declarations"},
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                struct capo_topology *t = NULL;
                char why[512] = "";

                cr_assert_eq(read_text(rows[i].text, 0, &t, why, sizeof why), -EINVAL,
                             "row %zu: %s", i, why);
                cr_assert(strstr(why, rows[i].said), "row %zu: %s", i, why);
                cr_assert_null(t);
        }
}

/* RCCL has written its GPUs' generation as a number and by name. */
Test(topology, gcn)
{
#define XGMI(bus, dev, to, gcn)                                                                 \
        "<pci busid=\"" bus "\" class=\"0x038000\">\n<gpu dev=\"" dev "\" sm=\"94\" gcn=\"" gcn \
        "\"><xgmi target=\"" to "\" count=\"1\" tclass=\"0x038000\"/></gpu></pci>\n"
#define TWO(gcn) SYSTEM(XGMI("01:00.0", "0", "02:00.0", gcn) XGMI("02:00.0", "1", "01:00.0", gcn))
        static const struct {
                const char *text;
                double gbs;
        } rows[] = {{TWO("908"), 24},    {TWO("gfx908"), 24},
                    {TWO("910"), 36},    {TWO("gfx90a"), 36},
                    {TWO("940"), 48},    {TWO("gfx942:sramecc+:xnack-"), 48},
                    {TWO("gfx"), 0},     {TWO("gfx90b"), 0},
                    {TWO("gfx942x"), 0}, {TWO("gfx99999999999999999999"), 0}};

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                _cleanup_(capo_topology_freep) struct capo_topology *t = NULL;
                char why[512] = "";
                int r = read_text(rows[i].text, 0, &t, why, sizeof why);

                cr_expect_eq(r, rows[i].gbs > 0 ? 0 : -EINVAL, "row %zu: %s", i, why);
                cr_expect(rows[i].gbs > 0 ? t && t->brick_gbs == rows[i].gbs
                                          : strstr(why, "as 942 or gfx942") != NULL,
                          "row %zu: %g, %s", i, t ? t->brick_gbs : 0, why);
        }
}

/* A shell's pipe is read; one with a name has no writer, perhaps never. */
Test(topology, a_pipe_with_a_name_is_called_one)
{
        struct capo_topology *t = NULL;
        char path[64], why[512] = "";
        int ends[2];

        cr_assert_eq(pipe(ends), 0);
        snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
        cr_expect_gt(write(ends[1], "<system/>", 9), 0);
        close(ends[1]);
        cr_expect_eq(capo_topology_read(path, 0, 0, &t, why, sizeof why), -EINVAL);
        cr_expect(strstr(why, "expected a GPU"), "%s", why);
        close(ends[0]);
        snprintf(path, sizeof path, "/tmp/capo-topology-%d.fifo", getpid());
        cr_assert_eq(mkfifo(path, 0600), 0);
        cr_expect_eq(capo_topology_read(path, 0, 0, &t, why, sizeof why), -EINVAL);
        cr_expect(strstr(why, "is a pipe"), "%s", why);
        unlink(path);
}

#define PCI(attributes)                                         \
        "<pci busid=\"01:00.0\" class=\"0x030200\" " attributes \
        ">\n<gpu dev=\"0\" sm=\"70\"/></pci>\n"

/* A link that the file leaves to the driver has 16 lanes of generation 3, as NCCL takes it. */
Test(topology, pci_lanes)
{
        static const struct {
                const char *text;
                double gbs;
        } rows[] = {
                {SYSTEM(PCI("")), 12},
                {SYSTEM(PCI("link_speed=\"\" link_width=\"\"")), 12},
                {SYSTEM(PCI("link_speed=\"16.0 GT/s PCIe\"")), 24},
                {SYSTEM(PCI("link_speed=\"16.0 GT/s PCIe\" link_width=\"0\"")), 24},
                {SYSTEM(PCI("link_width=\"8\"")), 6},
                {SYSTEM(PCI("link_speed=\"2.5 GT/s PCIe\" link_width=\"1\"")), 15 / 80.0},
                {SYSTEM(PCI("link_speed=\"5 GT/s\" link_width=\"16\"")), 6},
                {SYSTEM(PCI("link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"")), 48},
                {SYSTEM(PCI("link_speed=\"64.0 GT/s PCIe\" link_width=\"4\"")), 24},
                {SYSTEM(PCI("link_speed=\"7 GT/s\" link_width=\"16\"")), 12},
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                _cleanup_(capo_topology_freep) struct capo_topology *t = NULL;
                char why[256] = "";

                cr_assert_eq(read_text(rows[i].text, 0, &t, why, sizeof why), 0, "%s", why);
                cr_expect(fabs(t->pcis[t->gpus[0].pci].gbs - rows[i].gbs) < 1e-9,
                          "row %zu: %g GB/s", i, t->pcis[t->gpus[0].pci].gbs);
        }
}

Test(topology, partial_drops_links_to_hidden_gpus)
{
        _cleanup_(capo_topology_freep) struct capo_topology *t = NULL;
        char why[256] = "";

        cr_assert_eq(read_text(SYSTEM(GPU("01:00.0", "0", LINK("03:00.0", "2"))),
                               CAPO_TOPOLOGY_PARTIAL, &t, why, sizeof why),
                     0, "%s", why);
        cr_assert_eq(t->hidden, 2);
        cr_assert_eq(t->n_links, 0);
}

Test(topology, busid)
{
        static const struct {
                const char *text, *canonical;
        } rows[] = {
                {"06:00.0", "0000:06:00.0"},
                {"0000:06:00.0", "0000:06:00.0"},
                {"00000000:8A:00.0", "0000:8a:00.0"},
                {"0000:06:00", "0000:06:00.0"},
                {"0000:06:00.0x", NULL},
                {"", NULL},
                {"C0:-6:0", NULL},
                {"-1:06:00.0", NULL},
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                char out[CAPO_BUSID_ROOM] = "";
                int r = capo_busid_canonical(rows[i].text, out);

                cr_assert_eq(r, rows[i].canonical ? 0 : -EINVAL, "%s", rows[i].text);
                if (rows[i].canonical)
                        cr_assert_str_eq(out, rows[i].canonical);
        }
}

/* hwloc's recording of a DGX-2H, taken for this machine: which GPUs are on which board, by PCI. */
Test(topology, dgx2_by_hwloc)
{
        _cleanup_(capo_topology_freep) struct capo_topology *t = NULL;
        char why[256], path[] = "/tmp/capo-test-XXXXXX", *text, *version;
        size_t size;
        int fd = mkstemp(path);

        cr_assert_eq(capo_file_read(DATA "dgx2-lstopo.xml", 1 << 20, &text, &size), 0);
        version = strstr(text, "<topology version=\"3.");
        cr_assert(version);
        version[19] = '2'; /* hwloc 2 refuses the file of hwloc 3 by its number only */
        cr_assert_eq(write(fd, text, size), (ssize_t)size);
        close(fd);
        free(text);
        setenv("HWLOC_XMLFILE", path, 1);
        cr_assert_eq(capo_topology_this_machine(0, &t, why, sizeof why), 0, "%s", why);
        unlink(path);
        cr_assert(t->pci_known && t->links_unknown);
        cr_assert_eq(t->n_gpus, 16);
        for (size_t i = 0; i < t->n_gpus; i++) {
                cr_assert_eq(t->gpus[i].dev, (int)i);
                cr_assert_eq(t->gpus[i].cpu, i / 8);
                cr_assert_eq(t->gpu_path[i], !i      ? CAPO_PATH_SELF
                                             : i < 2 ? CAPO_PATH_PIX
                                             : i < 4 ? CAPO_PATH_PXB
                                             : i < 8 ? CAPO_PATH_PHB
                                                     : CAPO_PATH_SYS);
        }
        cr_assert_str_eq(t->gpus[0].busid, "0000:34:00.0");
        cr_assert_str_eq(t->gpus[15].busid, "0000:e7:00.0");
        cr_assert_eq(capo_topology_gpu_by_busid(t, "5E:00.0"), 7);
}
