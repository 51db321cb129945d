/* SPDX-License-Identifier: Apache-2.0 */
/* Compares GPUs, NVLinks and NICs with what is expected and with each other; checks the clock. */
#include <sys/timex.h>

#include "cli/base/cli_machine.h"
#include "cli/check/check.h"
#include "cli/doctor/network_devices.h"
#include "core/base/among.h"
#include "core/base/text.h"
#include "profiles/machine/nvml.h"

enum { CLOCK_WARN_US = 100000 }; /* the clocks of nodes order the logs of several nodes */

static int count_links(const struct capo_nvml_gpu *g)
{
        int links = 0;

        for (int k = 0; k < g->n_links; k++)
                links += g->links[k].count;
        return links;
}

/* With NVSwitches, all GPUs of a machine have as many active NVLinks. On an older machine with a
 * mesh they need not. */
static void check_links(struct capo_findings *f, const struct capo_nvml *nvml, double expected)
{
        int most = (int)MOST_OF(g, nvml->gpus, nvml->n_gpus, (uint64_t)count_links(g)), all = 0;
        char fewer[200] = "";

        for (int i = 0; i < nvml->n_gpus; i++) {
                int links = count_links(&nvml->gpus[i]);

                all += links;
                if (links < most)
                        capo_append(fewer, sizeof fewer, "%sGPU %d has %d", *fewer ? ", " : "",
                                    nvml->gpus[i].dev, links);
        }
        if (*fewer)
                capo_finding_add(f, CAPO_FINDING_WARN, "gpu",
                                 "active NVLinks: %s, another GPU has %d", fewer, most);
        if (expected > 0 && all < expected)
                capo_finding_add(f, CAPO_FINDING_FAIL, "gpu",
                                 "%d NVLink ends are active, %.0f are expected", all, expected);
        else if (all && !*fewer)
                capo_finding_add(f, CAPO_FINDING_OK, "gpu", "%d active NVLinks on each of %d GPUs",
                                 most, nvml->n_gpus);
}

/* Link ends at GPUs, the number that a driver reports. */
static double count_ends(const struct capo_topology *t)
{
        double ends = 0;

        for (size_t i = 0; i < t->n_links; i++) {
                if (t->links[i].kind == CAPO_WIRE_NVLINK)
                        ends += t->links[i].count * (t->links[i].end == CAPO_END_GPU ? 2 : 1);
        }
        return ends;
}

void check_machine(struct capo_findings *f, const struct check_options *o)
{
        static struct capo_nvml nvml;
        static struct capo_network network;
        struct capo_topology *t = NULL;
        struct cli_machine_words words = {.topo = o->topo, .platform = o->platform};
        struct cli_machine_source source;
        char why[256];
        int r = capo_nvml_read(&nvml, why, sizeof why), expected = o->gpus;
        int gpus = r == 0 ? nvml.n_gpus : (int)capo_doctor_pci_gpus();

        if (o->topo || o->platform) {
                if (cli_machine_load("check", &words, &t, &source) < 0) {
                        capo_finding_add(f, CAPO_FINDING_FAIL, "gpu",
                                         "the expected machine is not known: %s",
                                         o->topo ? o->topo : o->platform);
                        return;
                }
                if (expected < 0)
                        expected = (int)t->n_gpus;
                capo_network_read(&network);
                if (network.n < t->n_nics)
                        capo_finding_add(f, CAPO_FINDING_FAIL, "network",
                                         "%u fast network devices are here, %zu are expected",
                                         network.n, t->n_nics);
        }
        if (r < 0 && r != -ENOENT && (gpus || r == -ETIMEDOUT))
                return; /* reported: the driver fails, and so does the node */
        if (expected >= 0 && gpus != expected)
                capo_finding_add(f, gpus < expected ? CAPO_FINDING_FAIL : CAPO_FINDING_WARN, "gpu",
                                 "%d GPU%s here, %d %s expected", gpus, gpus == 1 ? " is" : "s are",
                                 expected, expected == 1 ? "is" : "are");
        else if (expected >= 0)
                capo_finding_add(f, CAPO_FINDING_OK, "gpu", "%d GPU%s, as expected", gpus,
                                 gpus == 1 ? "" : "s");
        else if (!gpus)
                capo_finding_add(f, CAPO_FINDING_WARN, "gpu",
                                 "no NVIDIA GPU is here: --gpus N fails where there are fewer, "
                                 "--gpus 0 expects none");
        if (r == 0)
                check_links(f, &nvml, t && !t->links_unknown ? count_ends(t) : 0);
}

void check_clock(struct capo_findings *f)
{
        struct timex t = {0};
        int state = adjtimex(&t);

        if (state < 0)
                return;
        if (state == TIME_ERROR || t.status & STA_UNSYNC)
                capo_finding_add(
                        f, CAPO_FINDING_NOTE, "clock",
                        "the kernel does not know this clock to be synchronised (chrony, ntpd or PTP would say so)");
        else if (t.maxerror > CLOCK_WARN_US)
                capo_finding_add(f, CAPO_FINDING_NOTE, "clock",
                                 "synchronised, but the error may be %.1f s",
                                 (double)t.maxerror / 1e6);
        else
                capo_finding_add(f, CAPO_FINDING_OK, "clock", "synchronised within %.1f ms",
                                 (double)t.maxerror / 1e3);
}
