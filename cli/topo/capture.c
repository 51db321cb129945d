/* SPDX-License-Identifier: Apache-2.0 */
/* capo topo capture: this machine as an NCCL topology file. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "capo/msg.h"
#include "cli/base/cli.h"
#include "cli/topo/topo.h"
#include "core/base/util.h"
#include "profiles/plan/capture.h"

static void help(void)
{
        puts("usage: capo topo capture [-o FILE]\n\n"
             "Writes this machine as an NCCL topology file: CPUs, PCI tree, GPUs and NICs by hwloc, link speeds from "
             "sysfs,\n"
             "compute capability and NVLinks from the driver (NVML). capo plan --topo FILE then asks NCCL about it "
             "anywhere,\n"
             "and NCCL_TOPO_FILE takes it too. Where there is no driver, --platform NAME of capo plan supplies the "
             "NVLinks.\n\n"
             "  -o FILE   write there instead of standard output\n\n"
             "exit status: 0 written, 1 not written, 2 the command line is wrong");
}

int topo_capture(int argc, char **argv)
{
        struct capo_capture found;
        const char *path = NULL;
        char why[256] = "";
        FILE *out = stdout;
        int r;

        for (int i = 1; i < argc; i++) {
                if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
                        help();
                        return CAPO_EXIT_OK;
                }
                if (strcmp(argv[i], "-o") != 0 || i + 1 == argc) {
                        capo_error("topo capture: expected -o FILE, found \"%s\"", argv[i]);
                        return CAPO_EXIT_USAGE;
                }
                path = argv[++i];
        }
        if (path && !(out = fopen(path, "we"))) {
                capo_error("%s: %s", path, strerror(errno));
                return CAPO_EXIT_FAIL;
        }
        r = capo_topology_capture(out, &found, why, sizeof why);
        if (path && fclose(out) != 0 && r == 0) {
                snprintf(why, sizeof why, "%s: %s", path, strerror(errno));
                r = -EIO;
        }
        if (r < 0) {
                capo_error("topo capture: %s", why[0] ? why : strerror(-r));
                return CAPO_EXIT_FAIL;
        }
        capo_info("captured %u NUMA nodes, %u NVIDIA GPUs, %u NICs, %u NVLinks%s", found.n_cpus, found.n_gpus,
                  found.n_nets, found.n_links,
                  found.nvml ? "" : "; no NVML here, so no NVLinks and no compute capability");
        if (!found.n_gpus)
                capo_warn("no NVIDIA GPU here: the file describes a machine that NCCL cannot use");
        return CAPO_EXIT_OK;
}
