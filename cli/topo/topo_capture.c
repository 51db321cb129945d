/* SPDX-License-Identifier: Apache-2.0 */
/* capo topo capture: this machine as an NCCL topology file. */
#include "capo/msg.h"
#include "cli/base/cli.h"
#include "cli/base/cli_output.h"
#include "profiles/machine/topology_capture.h"

struct options {
        const char *out;
};

static int capture_machine(void *options, int n, char **words)
{
        struct capo_capture found;
        struct cli_output out;
        char why[256] = "";
        int r = cli_output_open(&out, ((struct options *)options)->out);

        if (r < 0)
                return CAPO_EXIT_FAIL;
        r = capo_topology_capture(out.file, &found, why, sizeof why);
        if (r < 0)
                capo_error("topo capture: %s", why[0] ? why : strerror(-r));
        if (cli_output_close(&out, r < 0 ? -ECANCELED : 0) < 0)
                return CAPO_EXIT_FAIL;
        capo_info("captured: NUMA nodes %u, NVIDIA GPUs %u, NICs %u, NVLinks %u%s", found.n_cpus,
                  found.n_gpus, found.n_nets, found.n_links,
                  found.nvml ? "" : "; no NVML here, so no NVLinks and no compute capability");
        if (!found.n_gpus)
                capo_warn("no NVIDIA GPU here: the file describes a machine that NCCL cannot use");
        return CAPO_EXIT_OK;
}

static const struct cli_option options[] = {{"output", CLI_FILE(struct options, out, "FILE"),
                                             "write there instead of standard output",
                                             .letter = 'o'},
                                            {0}};

const struct cli_command topo_capture_command = {
        .usage = "[-o FILE]",
        .about =
                "Writes this machine as an NCCL topology file: CPUs, PCI tree, GPUs and NICs by hwloc, link speeds from "
                "sysfs, compute capability and NVLinks from the driver (NVML). capo plan --topo FILE then asks NCCL "
                "about it anywhere, and NCCL_TOPO_FILE takes it too. Where there is no driver, --platform NAME of capo "
                "plan supplies the NVLinks.",
        .options = options,
        .status = "0 written, 1 not written, 2 the command line is wrong",
        .size = sizeof(struct options),
        .run = capture_machine,
};
