/* SPDX-License-Identifier: Apache-2.0 */
/* The GPUs CUDA would show to a program started here: CUDA_VISIBLE_DEVICES, MIG, containers. */
#ifndef CAPO_VISIBLE_H
#define CAPO_VISIBLE_H

#include "profiles/machine/nvml.h"

struct capo_visible {
        int n;
        struct {
                int gpu;        /* index in the topology */
                bool slice;     /* a MIG slice of it */
                char name[120]; /* as the list names it */
        } devices[256];         /* in CUDA's order */
        int n_shared;           /* slices whose GPU an earlier one has too */
        char said[1024]; /* what a person should know, one sentence each, lines; "" nothing */
};

typedef const char *(*capo_visible_getenv)(const char *name, void *user); /* NULL when unset */

/**
 * capo_visible_find() - resolve the settings against a machine
 * @t:    the machine, by hwloc: what is on the PCI bus, open to this process or not
 * @nvml: what the driver shows to this process; NULL: not known (then UUIDs are those of the
 * topology, if it has them, and all its GPUs count as open)
 *
 * CUDA's rules (CUDA C++ Programming Guide, environment variables; MIG User Guide): entries are
 * numbers, UUIDs or unambiguous beginnings of UUIDs, of GPUs (GPU-...), of slices (MIG-...) or, as
 * drivers before R470 name them, MIG-GPU-<uuid>/<gpu instance>/<compute instance>; the first entry
 * that is none ends the list. A number counts the GPUs that are open to the process, by PCI bus
 * (CUDA_DEVICE_ORDER=PCI_BUS_ID) or the fastest first; of equal GPUs both are one order, of unequal
 * ones the second is not known here and a number is refused.
 *
 * CUDA shows a process only the first slice of a list; here each entry is taken for the slice of
 * some rank, as schedulers mean it.
 *
 * Return: 0 with at least one device; -EINVAL with @why.
 */
int capo_visible_find(const struct capo_topology *t, const struct capo_nvml *nvml,
                      capo_visible_getenv get, void *user, struct capo_visible *out, char *why,
                      size_t room);

#endif
