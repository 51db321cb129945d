/* SPDX-License-Identifier: Apache-2.0 */
/* A machine in memory: GPUs, CPUs, the PCI tree, NICs, NVSwitches and fast links. Sources: an NCCL
 * topology file (NCCL_TOPO_FILE, NCCL_TOPO_DUMP_FILE; also RCCL's), the text of
 * `nvidia-smi topo -m`, this machine, or a named platform.
 *
 * All bandwidths are GB/s (1e9 bytes) in each direction of a full-duplex link. They are NCCL's
 * planning constants, so they can be compared with NCCL's search; platforms.def has the source of
 * each. */
#pragma once

#include "core/base/util.h"
#include "profiles/machine/xml.h"

#define CAPO_BUSID_ROOM 24 /* "0000:06:00.0", and longer domains */

struct capo_topology_cpu {
        int numa;
        char host_hash[32]; /* distinguishes the machines of a rack; "": not in the file */
        char arch[16], vendor[24];
        int model; /* 0 not known */
};

/* A PCI function: bridge, GPU, NIC or other. Parents come before their children. */
struct capo_topology_pci {
        char busid[CAPO_BUSID_ROOM]; /* lower case, domain first */
        uint32_t class; /* 0x030200: GPU, 0x060400: bridge, 0x068000: NVSwitch, 0x02....: NIC; 0 not
                           known */
        int parent;     /* index in pci; -1: directly at the CPU */
        int cpu;
        double gbs; /* of the link to the parent */
        const struct capo_xml *xml;
};

struct capo_topology_gpu {
        int dev;  /* number on its host, as in CUDA and nvidia-smi */
        int rank; /* in the communicator that was dumped; -1: not given */
        int sm;   /* compute capability, 70 for V100; 0 not known */
        int gcn;  /* AMD: 908, 910, 940, ...; 0 otherwise */
        bool gdr;
        char busid[CAPO_BUSID_ROOM];
        bool mig;     /* divided into MIG slices: capo_topology_slice() */
        int cpu, pci; /* -1: not in the description */
        int before;   /* its place in the description */
        const struct capo_xml
                *xml; /* <gpu>, or <pci> if there is no <gpu>; NULL for other formats */
};

/* One <net>: a NIC port as NCCL counts them. */
struct capo_topology_nic {
        char name[48];
        int dev, port;
        double gbs; /* 0: not known */
        bool gdr;
        int cpu, pci; /* pci -1: a virtual interface without a PCI device */
};

enum capo_wire { CAPO_WIRE_NVLINK, CAPO_WIRE_XGMI, CAPO_WIRE_C2C };
enum capo_link_end { CAPO_END_GPU, CAPO_END_SWITCH, CAPO_END_CPU };

/* A bundle of links. GPU-to-GPU bundles are listed once, with from < to. */
struct capo_topology_link {
        enum capo_wire kind;
        enum capo_link_end end; /* kind of device that `to` indexes */
        int from;               /* gpu */
        int to;
        int count;  /* bricks */
        double gbs; /* of the bundle, per direction: count times brick_gbs, or from the file */
};

struct capo_topology_switch {
        char busid[CAPO_BUSID_ROOM];
};

/* Distance between two devices, nearest first, with the names of nvidia-smi and NCCL. */
enum capo_path {
        CAPO_PATH_SELF,
        CAPO_PATH_NVL,
        CAPO_PATH_PIX,
        CAPO_PATH_PXB,
        CAPO_PATH_PHB,
        CAPO_PATH_NODE,
        CAPO_PATH_SYS,
        CAPO_PATH_UNKNOWN
};

struct capo_topology {
        char *name;     /* of the file or platform, for messages */
        char *platform; /* "dgx1v", "dgx2", ...: recognised from the shape; "": no known name */
        struct capo_xml *xml; /* the parsed document, or NULL; owned */

        struct capo_topology_cpu *cpus;
        struct capo_topology_pci *pcis;
        struct capo_topology_gpu *gpus; /* sorted by dev within a host */
        struct capo_topology_nic *nics;
        struct capo_topology_switch *switches;
        struct capo_topology_link *links;
        size_t n_cpus, n_pcis, n_gpus, n_nics, n_switches, n_links;

        double brick_gbs; /* one NVLink or xGMI link, per direction; 0: the machine has none */
        const char *brick_source; /* source of that number */
        bool pci_known;     /* the PCI tree and its speeds are known (not from nvidia-smi text) */
        bool links_unknown; /* an NCCL file with only PCI, or no driver: NCCL asks the driver for
                               links when it runs */
        int hidden; /* link ends to GPUs that are not in the description, or that the driver does
                       not show (CAPO_TOPOLOGY_PARTIAL) */
        uint8_t *gpu_path; /* [a * n_gpus + b], enum capo_path over PCI only, ignoring NVLink */
        uint8_t *nic_path; /* [gpu * n_nics + nic] */
};

enum capo_topology_flag {
        CAPO_TOPOLOGY_PARTIAL =
                1, /* a link to a GPU that is not described is dropped and counted in `hidden`:
                      dumps made in a container or for a smaller communicator have those */
};

/** capo_topology_read() - read a description of any supported format
 * @path: NCCL topology XML or `nvidia-smi topo -m` text; "-": standard input
 * @flags: enum capo_topology_flag
 * @brick_gbs: bandwidth of one NVLink or xGMI link, instead of the table's; 0: the table's
 * @out: the caller frees it with capo_topology_free()
 * @why: on failure "FILE:LINE: what was expected, what was found"
 *
 * Return: 0; -EINVAL: wrong content (not a topology, one-way links, links to unknown devices, a
 * duplicate bus id, no GPU); other negative errno from reading. */
int capo_topology_read(const char *path, unsigned flags, double brick_gbs,
                       struct capo_topology **out, char *why, size_t room);

/** capo_topology_slice() - mark GPU @gpu as used in MIG slices. Its NVLinks are removed, because
 * slices have no P2P over NVLink or PCIe (NVIDIA's MIG User Guide). Its PCI place stays; users of
 * that path must consider that data of slices goes through host memory. */
void capo_topology_slice(struct capo_topology *t, int gpu);

/** capo_topology_this_machine() - what capo_topology_capture() writes here. GPUs are numbered by bus
 * id; links to those that the driver does not show are dropped. Return: as capo_topology_read(). */
int capo_topology_this_machine(double brick_gbs, struct capo_topology **out, char *why,
                               size_t room);

/** capo_topology_made() - a rack of platforms.def, from its data sheet. Return: 0; -ENOENT: no such
 * rack. */
int capo_topology_made(const char *name, double brick_gbs, struct capo_topology **out, char *why,
                       size_t room);

/** capo_topology_read_trays() - @n machines of one NCCL file, with NVLinks to the same switches, as
 * one topology. GPU g of machine i gets index and number i * (GPUs per machine) + g; NICs likewise.
 */
int capo_topology_read_trays(const char *path, int n, double brick_gbs, struct capo_topology **out,
                             char *why, size_t room);

/**
 * capo_topology_write_nccl() - write a description without a PCI tree (nvidia-smi's text) as NCCL's
 * XML
 * @taken: set to a text about assumptions for what the description lacks
 *
 * Return: 0; -E2BIG: more than 32 GPUs or 64 NICs; -EIO.
 */
int capo_topology_write_nccl(const struct capo_topology *t, FILE *f, char *taken, size_t room);

void capo_topology_free(struct capo_topology *t);
void capo_topology_freep(struct capo_topology **t);

/** capo_topology_gpu_by_dev() - index of the GPU with this number (on the first host that has it),
 * or -1. */
int capo_topology_gpu_by_dev(const struct capo_topology *t, int dev);

/** capo_topology_gpu_by_busid() - index, or -1. "00000000:06:00.0", "0000:06:00.0" and "06:00.0"
 * are equal. */
int capo_topology_gpu_by_busid(const struct capo_topology *t, const char *busid);

/** capo_path_name() - "PIX" and so on; static. */
const char *capo_path_name(enum capo_path path);

/** capo_busid_canonical() - lower case, with a domain of at least four digits. Return: 0; -EINVAL.
 */
int capo_busid_canonical(const char *text, char out[CAPO_BUSID_ROOM]);
