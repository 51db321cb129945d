/* SPDX-License-Identifier: Apache-2.0 */
/* The fast network devices of this machine, from sysfs. */
#pragma once

#include <stdbool.h>

enum capo_network_kind { CAPO_NET_EFA, CAPO_NET_INFINIBAND, CAPO_NET_ROCE, CAPO_NET_CXI };

struct capo_network_device {
        enum capo_network_kind kind;
        char name[32];
        char rate[40]; /* "400 Gb/sec (4X NDR)"; "" not known */
        bool active;   /* its first port is active, or the kernel does not say */
        int mtu;       /* of the Ethernet interface of RoCE; 0 not known */
};

struct capo_network {
        unsigned n, of[CAPO_NET_CXI + 1]; /* all, and by kind */
        unsigned efa_functions;           /* EFA functions on the PCI bus, with a driver or not */
        struct capo_network_device devices[64];
};

/** capo_network_read() - fill @network; more than 64 devices are only counted. */
void capo_network_read(struct capo_network *network);

/** capo_network_word() - "EFA", "InfiniBand", "RoCE", "Slingshot" */
const char *capo_network_word(enum capo_network_kind kind);
