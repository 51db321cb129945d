/* SPDX-License-Identifier: Apache-2.0 */
/* Fast network devices as the kernel lists them, and what would leave them unused. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "core/base/util.h"
#include "cli/doctor/doctor.h"

struct devices {
        unsigned efa, infiniband, cxi;
};

static unsigned count_devices(const char *folder, const char *driver)
{
        DIR *dir = opendir(folder);
        unsigned n = 0;

        for (struct dirent *e; dir && (e = readdir(dir));) {
                char path[600], target[600];
                ssize_t k;

                if (*e->d_name == '.')
                        continue;
                snprintf(path, sizeof path, "%s/%s/device/driver", folder, e->d_name);
                k = readlink(path, target, sizeof target - 1);
                target[k > 0 ? k : 0] = 0;
                if (!driver || strstr(target, driver))
                        n++;
        }
        if (dir)
                closedir(dir);
        return n;
}

static bool is_set(const char *name, const char *value)
{
        const char *v = getenv(name);

        return v && !strcmp(v, value);
}

void capo_doctor_network(struct capo_findings *f)
{
        struct devices d = {.efa = count_devices("/sys/class/infiniband", "efa"),
                            .cxi = count_devices("/sys/class/cxi", NULL)};
        const char *provider = getenv("FI_PROVIDER"), *net = getenv("NCCL_NET"),
                   *plugin = getenv("NCCL_NET_PLUGIN");
        unsigned fast;

        d.infiniband = count_devices("/sys/class/infiniband", NULL) - d.efa;
        fast = d.efa + d.infiniband + d.cxi;
        if (!fast) {
                capo_finding_add(
                        f, CAPO_FINDING_NOTE, "network",
                        "no EFA, InfiniBand, RoCE or Slingshot device: nodes talk over TCP");
                return;
        }
        capo_finding_add(f, CAPO_FINDING_OK, "network",
                         "%u EFA, %u InfiniBand or RoCE, %u Slingshot devices", d.efa, d.infiniband,
                         d.cxi);
        if (is_set("NCCL_IB_DISABLE", "1") && d.infiniband)
                capo_finding_add(f, CAPO_FINDING_WARN, "network",
                                 "NCCL_IB_DISABLE=1 leaves %u InfiniBand or RoCE devices unused",
                                 d.infiniband);
        if (net && !strcasecmp(net, "Socket"))
                capo_finding_add(
                        f, CAPO_FINDING_WARN, "network",
                        "NCCL_NET=%s sends everything over TCP although %u fast devices are here",
                        net, fast);
        if (provider &&
            (strstr(provider, "tcp") || strstr(provider, "sockets") || strstr(provider, "udp")))
                capo_finding_add(
                        f, CAPO_FINDING_WARN, "network",
                        "FI_PROVIDER=%s keeps libfabric off the %u fast devices of this machine",
                        provider, fast);
        if ((d.efa || d.cxi) && plugin && !strcasecmp(plugin, "none"))
                capo_finding_add(
                        f, CAPO_FINDING_WARN, "network",
                        "NCCL_NET_PLUGIN=none: NCCL reaches EFA and Slingshot only through the libfabric plugin");
        if (d.efa && is_set("FI_EFA_USE_DEVICE_RDMA", "0"))
                capo_finding_add(f, CAPO_FINDING_NOTE, "network",
                                 "FI_EFA_USE_DEVICE_RDMA=0: EFA without RDMA");
}
