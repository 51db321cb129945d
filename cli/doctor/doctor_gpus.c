/* SPDX-License-Identifier: Apache-2.0 */
/* The GPUs that a job started here would get: those that the driver shows, CUDA_VISIBLE_DEVICES,
 * MIG slices. */
#include "core/base/xalloc.h"
#include "cli/base/cli_machine.h"
#include "cli/doctor/doctor.h"
#include "profiles/machine/sysfs.h"
#include "profiles/machine/platform.h"
#include "profiles/machine/visible.h"

#define FOUND(level, ...) capo_finding_add(f, CAPO_FINDING_##level, "gpu", __VA_ARGS__)

static void count_gpu(const char *busid, void *n)
{
        long class = capo_sysfs_number(0, "bus/pci/devices/%s/class", busid) >> 8;

        *(unsigned *)n += (class == 0x0300 || class == 0x0302) &&
                          capo_sysfs_number(0, "bus/pci/devices/%s/vendor", busid) == 0x10de;
}

unsigned capo_doctor_pci_gpus(void)
{
        unsigned n = 0;

        capo_sysfs_each("bus/pci/devices", count_gpu, &n);
        return n;
}

/* GPUs on the PCI bus that the driver does not show; a topology file of another machine. */
static void check_numbers(struct capo_findings *f, int shown)
{
        unsigned here = capo_doctor_pci_gpus();
        const char *file = getenv("NCCL_TOPO_FILE");
        _cleanup_(capo_topology_freep) struct capo_topology *t = NULL;
        char why[512];

        if (here && !capo_sysfs_exists("module/nvidia"))
                FOUND(WARN, "%u NVIDIA GPUs are on the PCI bus and the nvidia module is not loaded",
                      here);
        else if (shown >= 0 && (unsigned)shown < here)
                FOUND(WARN,
                      "%u NVIDIA GPUs are on the PCI bus, the driver shows %d: the others were not given to this "
                      "container, or failed (dmesg: Xid)",
                      here, shown);
        if (shown > 0 && file && *file &&
            capo_topology_read(file, CAPO_TOPOLOGY_PARTIAL, 0, &t, why, sizeof why) == 0 &&
            t->n_gpus != (size_t)shown)
                FOUND(WARN,
                      "NCCL_TOPO_FILE=%s describes %zu GPUs, the driver shows %d: NCCL counts on a machine that is "
                      "not this one",
                      file, t->n_gpus, shown);
}

/* The best order of the nodes that the launcher names, where they differ. */
static void suggest_order(struct capo_findings *f, const struct capo_reach *reach,
                          const struct capo_topology *t)
{
        _cleanup_(capo_topology_freep) struct capo_topology *read = NULL;
        const char *file = getenv("NCCL_TOPO_FILE");
        const struct capo_platform *known = t ? capo_platform_find(t->platform) : NULL;
        struct cli_machine_words words = {.platform = known ? known->name : NULL};
        struct capo_layout_launch launch;
        struct fragment_advice advice = {0};
        char layout[CAPO_LAYOUT_TEXT];

        if (capo_layout_from_launcher(capo_getenv, NULL, false, &launch) < 0 ||
            !capo_layout_ordered(&launch.layout))
                return;
        if (file && *file &&
            capo_topology_read(file, CAPO_TOPOLOGY_PARTIAL, 0, &read, layout, sizeof layout) == 0)
                words.topo = file;
        capo_layout_print(&launch.layout, layout, sizeof layout);
        if (words.topo || words.platform)
                cli_machine_advise(&words, layout, true, *reach->library ? reach->library : NULL,
                                   &advice);
        if (*advice.order)
                capo_finding_add(f, CAPO_FINDING_NOTE, "order", "%s (%s); %s", advice.order,
                                 launch.source, FRAGMENT_ORDER_HOW);
        else
                capo_finding_add(
                        f, CAPO_FINDING_NOTE, "order",
                        "%s ranks per node (%s): the order may matter; capo fit --model %s %s %s names the best",
                        layout, launch.source, layout, words.topo ? "--topo" : "--platform",
                        words.topo       ? words.topo
                        : words.platform ? words.platform
                                         : "NAME");
}

int capo_doctor_gpus(struct capo_findings *f, const struct capo_reach *reach)
{
        _cleanup_(capo_topology_freep) struct capo_topology *t = NULL;
        _cleanup_free_ struct capo_nvml *nvml = xmalloc(sizeof *nvml);
        _cleanup_free_ struct capo_visible *v = xmalloc(sizeof *v);
        char why[1600], no_driver[256], *save = NULL;
        const char *list = getenv("CUDA_VISIBLE_DEVICES");
        bool driver;
        int r;

        r = capo_nvml_read(nvml, no_driver, sizeof no_driver);
        driver = r == 0;
        if (r == -ETIMEDOUT || (r == -EIO && capo_doctor_pci_gpus()))
                FOUND(FAIL, "the NVIDIA driver: %s", no_driver);
        check_numbers(f, driver ? nvml->n_gpus : -1);
        if (capo_topology_this_machine(0, &t, why, sizeof why) <
            0) { /* the job may be for other machines */
                suggest_order(f, reach, NULL);
                if (list && strstr(list, "MIG"))
                        FOUND(NOTE,
                              "CUDA_VISIBLE_DEVICES=%.80s names MIG slices: neither NVLink nor P2P reaches them",
                              list);
                return 0;
        }
        if (capo_visible_find(t, driver ? nvml : NULL, capo_getenv, NULL, v, why, sizeof why) < 0) {
                FOUND(WARN, "%s", why);
                return 0;
        }
        FOUND(OK,
              driver ? "%d of %zu GPUs"
                     : "%d of %zu GPUs; which are open to this process is not known: %s",
              v->n, t->n_gpus, no_driver);
        for (char *line = strtok_r(v->said, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
                capo_finding_add(f,
                                 v->n_shared && strstr(line, "NCCL") ? CAPO_FINDING_WARN
                                                                     : CAPO_FINDING_NOTE,
                                 "gpu", "%s", line);
        suggest_order(f, reach, t);
        return v->n;
}
