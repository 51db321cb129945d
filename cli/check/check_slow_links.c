/* SPDX-License-Identifier: Apache-2.0 */
/* Links of PCIe below their maximum, errors of ports so far. */
#include <stdlib.h>
#include <string.h>

#include "cli/check/check_slow_links.h"
#include "cli/doctor/sysfs.h"
#include "core/base/text.h"
#include "core/base/util.h"

/* GPUs lower the speed of an idle link, so only lanes are compared, and of NICs both. */
static void check_pcie(const char *device, void *findings)
{
        static const char path[] = "class/infiniband/%s/device/%s";
        long lanes = capo_sysfs_number(0, path, device, "current_link_width"),
             most = capo_sysfs_number(0, path, device, "max_link_width");
        char speed[64], fastest[64];

        if (lanes > 0 && lanes < most)
                capo_finding_add(findings, CAPO_FINDING_WARN, "network",
                                 "%s has %ld PCIe lanes, it could have %ld: reseat it, or check "
                                 "riser and BIOS",
                                 device, lanes, most);
        if (capo_sysfs_text(speed, sizeof speed, path, device, "current_link_speed") &&
            capo_sysfs_text(fastest, sizeof fastest, path, device, "max_link_speed") &&
            atof(speed) > 0 && atof(speed) < atof(fastest))
                capo_finding_add(findings, CAPO_FINDING_WARN, "network",
                                 "%s runs PCIe at %s, it could at %s", device, speed, fastest);
}

static void check_gpu_lanes(const char *device, void *findings)
{
        static const char path[] = "bus/pci/devices/%s/%s";
        long lanes = capo_sysfs_number(0, path, device, "current_link_width"),
             most = capo_sysfs_number(0, path, device, "max_link_width");
        char vendor[16], kind[16];

        if (lanes > 0 && lanes < most &&
            capo_sysfs_text(vendor, sizeof vendor, path, device, "vendor") &&
            capo_sysfs_text(kind, sizeof kind, path, device, "class") &&
            !strcmp(vendor, "0x10de") && !strncmp(kind, "0x03", 4))
                capo_finding_add(findings, CAPO_FINDING_WARN, "gpu",
                                 "the GPU at %s has %ld PCIe lanes, it could have %ld: reseat it, "
                                 "or check riser and BIOS",
                                 device, lanes, most);
}

/* Since the driver was loaded; what grows now, capo report and capo watch say. */
static void check_errors(const char *device, void *findings)
{
        static const char *const counters[] = {"symbol_error", "link_downed",
                                               "local_link_integrity_errors", "port_rcv_errors"};
        char text[200] = "";

        for (size_t i = 0; i < N_ELEMENTS(counters); i++) {
                long n = capo_sysfs_number(0, "class/infiniband/%s/ports/1/counters/%s", device,
                                           counters[i]);

                if (n > 0)
                        capo_append(text, sizeof text, "%s%s %ld", *text ? ", " : "", counters[i],
                                    n);
        }
        if (*text)
                capo_finding_add(findings, CAPO_FINDING_NOTE, "network",
                                 "%s has counted errors since its driver was loaded: %s", device,
                                 text);
}

void check_slow_links(struct capo_findings *f)
{
        capo_sysfs_each("class/infiniband", check_pcie, f);
        capo_sysfs_each("class/infiniband", check_errors, f);
        capo_sysfs_each("bus/pci/devices", check_gpu_lanes, f);
}
