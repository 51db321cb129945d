/* SPDX-License-Identifier: Apache-2.0 */
/* The machines known by name, and the generations of their links: the rows of platforms.def. */
#pragma once

#include "profiles/machine/topology.h"

enum { CAPO_PLATFORM_GPUS = 8, CAPO_PLATFORM_SWITCHES = 6 };

enum capo_platform_from {
        CAPO_PLATFORM_FILE, /* a stored topology file has its PCI tree */
        CAPO_PLATFORM_RACK, /* written from its data sheet: capo_topology_made() */
        CAPO_PLATFORM_SHAPE /* only recognised by its shape */
};

struct capo_platform {
        const char *name;
        enum capo_platform_from from;
        const char *classes; /* the name in classes of its allocations */
        int n_gpus, sm;
        int nic_speed; /* Mb/s; 0: not described */
        /* NVLinks of one GPU to each NVSwitch, 0-terminated; all 0: `mesh` has the links between
         * GPUs */
        uint8_t to_switch[CAPO_PLATFORM_SWITCHES + 1];
        const uint8_t (*mesh)[CAPO_PLATFORM_GPUS];
        const char *tray;   /* RACK: the platform of one of its trays, ... */
        int trays;          /* ... and how many of these share the NVLink domain */
        const char *what;   /* description for people */
        const char *source; /* where the data is from */
        const char *unlike; /* what is not modelled; "": nothing that affects NCCL's choice */
};

struct capo_wire_kind {
        enum capo_wire wire;
        int from, to; /* range of sm or gcn */
        double gbs;   /* NCCL's planning constant, per direction */
        const char *source;
        bool adds;           /* behind a switch that adds and copies (NVLink SHARP) */
        double measured_gbs; /* 0: not measured */
        const char *measured_in;
};

/** capo_platform_at() - row @i; NULL after the last. */
const struct capo_platform *capo_platform_at(size_t i);

/** capo_platform_find() - by name, ignoring case; only names that --platform accepts (no SHAPE).
 * NULL: none. */
const struct capo_platform *capo_platform_find(const char *name);

/** capo_platform_names() - " dgx1p dgx1v ..." of those; @racks: include those without a file.
 * Return: @text. */
char *capo_platform_names(bool racks, char *text, size_t room);

/** capo_wire_kind() - of a GPU generation: @sm for NVLink, @gcn for xGMI. NULL: none, or not known.
 */
const struct capo_wire_kind *capo_wire_kind(enum capo_wire wire, int sm, int gcn);

/** capo_brick_measured_gbs() - the measured rate of one link of this machine's kind; *@source:
 * where. 0: not measured. */
double capo_brick_measured_gbs(const struct capo_topology *t, const char **source);

/** capo_platform_recognise() - name for classes from the shape: number of GPUs, links, generation.
 * "pcie", "nvlink", "xgmi" or "nvswitch" for machines without a row. Static. */
const char *capo_platform_recognise(const struct capo_topology *t);
