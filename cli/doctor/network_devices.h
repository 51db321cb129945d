/* SPDX-License-Identifier: Apache-2.0 */
/* The fast network devices of this machine, from sysfs, and the providers of libfabric. */
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

struct capo_fabric_found {
        char names[400];  /* "efa, tcp, shm", in libfabric's order of preference */
        char version[16]; /* "1.22" */
        char path[1024];  /* of the library */
};

/** capo_fabric_providers() - ask libfabric for its providers, in a child process. Return: 0;
 * -ENOENT: no libfabric.so.1; -EIO: it does not answer. */
int capo_fabric_providers(struct capo_fabric_found *found);
