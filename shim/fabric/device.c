/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which piece of hardware a domain is: PCI address, link speed, NUMA node. First from what the
 * provider says itself (fi_info.nic, since API 1.7), else from the kernel by the domain's name,
 * which for tcp, udp and sockets is a network interface and for verbs and EFA a device of
 * /sys/class/infiniband. Read once per domain, when it is opened.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capo/env.h"
#include "shim/fabric/shim_fabric.h"
#include "shim/record/shim.h"

/* The PCI address that <class>/<name>/device points to. */
static bool sysfs_pci(const char *class, const char *name, char *pci, size_t room)
{
        char path[PATH_MAX], target[PATH_MAX];
        bool found = false;

        if (snprintf(path, sizeof path, "%s/class/%s/%s/device", capo_shim_env()->sysfs, class,
                     name) >= (int)sizeof path ||
            !realpath(path, target))
                return false;
        /* the last such part of the path: a virtio device lies one below its PCI function */
        for (const char *part = target; part; part = strchr(part, '/')) {
                unsigned domain, bus, dev, fn;

                part += *part == '/';
                if (sscanf(part, "%4x:%2x:%2x.%1x", &domain, &bus, &dev, &fn) == 4) {
                        snprintf(pci, room, "%04x:%02x:%02x.%x", domain & 0xffff, bus & 0xff,
                                 dev & 0x1f, fn & 7);
                        found = true;
                }
        }
        return found;
}

/* "100 Gb/sec (4X EDR)", "2.5 Gb/sec (1X SDR)" */
static uint64_t infiniband_speed(const char *name)
{
        char path[PATH_MAX];
        _cleanup_fclose_ FILE *f = NULL;
        unsigned gb, tenths = 0; /* and not %lf, which wants the comma of the job's locale */

        if (snprintf(path, sizeof path, "%s/class/infiniband/%s/ports/1/rate",
                     capo_shim_env()->sysfs, name) >= (int)sizeof path)
                return 0;
        f = fopen(path, "re");
        return f && fscanf(f, "%u.%1u", &gb, &tenths) >= 1 ? (gb * 10ull + tenths) * 100000000 : 0;
}

void capo_fi_device(struct fi_domain *d, const struct fi_info *info, uint32_t api_version)
{
        static const char *const classes[] = {"net", "infiniband", "cxi"};
        const struct fid_nic *nic = NULL;
        char name[64];

        d->numa = -1;
        if (info && info->domain_attr && info->domain_attr->name)
                strncpy(d->name, info->domain_attr->name, sizeof d->name - 1);
        if (info && api_version >= FI_VERSION(1, 7)) /* older callers' fi_info ends before nic */
                nic = info->nic;
        if (nic && nic->device_attr && nic->device_attr->name)
                strncpy(d->device, nic->device_attr->name, sizeof d->device - 1);
        if (nic && nic->bus_attr && nic->bus_attr->bus_type == FI_BUS_PCI) {
                const struct fi_pci_attr *a = &nic->bus_attr->attr.pci;

                snprintf(d->pci, sizeof d->pci, "%04x:%02x:%02x.%x", a->domain_id, a->bus_id,
                         a->device_id & 0x1f, a->function_id & 7);
        }
        if (nic && nic->link_attr)
                d->speed_bps = nic->link_attr->speed;
        /* verbs and EFA name domains after the device, with a suffix such as "-rdm" or "-dgrm" */
        snprintf(name, sizeof name, "%s", d->device[0] ? d->device : d->name);
        if (!d->device[0] && strrchr(name, '-'))
                *strrchr(name, '-') = 0;
        if (!name[0] || strchr(name, '/'))
                return;
        for (size_t i = 0; i < N_ELEMENTS(classes) && !d->pci[0]; i++)
                sysfs_pci(classes[i], name, d->pci, sizeof d->pci);
        if (!d->speed_bps) {
                long mbit = capo_shim_sysfs("class/net", name, "speed", 0);

                d->speed_bps = mbit > 0 ? (uint64_t)mbit * 1000000 : infiniband_speed(name);
        }
        if (d->pci[0])
                d->numa = (int)capo_shim_sysfs("bus/pci/devices", d->pci, "numa_node", -1);
}
