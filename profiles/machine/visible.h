/* SPDX-License-Identifier: Apache-2.0 */
/* The GPUs that CUDA would show to a program started here: CUDA_VISIBLE_DEVICES, MIG, containers.
 */
#pragma once

#include "profiles/machine/nvml.h"

struct capo_visible {
        int n;
        struct {
                int gpu;        /* index in the topology */
                bool slice;     /* a MIG slice of it */
                char name[120]; /* as in the list */
        } devices[256];         /* in CUDA's order */
        int n_shared;           /* slices on the same GPU as an earlier one */
        char said[1024];        /* remarks for the user, one per line; "": none */
};

typedef const char *(*capo_visible_getenv)(const char *name, void *user); /* NULL when unset */

/** capo_visible_find() - resolve the settings on a machine
 * @t: capo_topology_this_machine(): all on the PCI bus, accessible or not
 * @nvml: what the driver shows to this process; NULL: not known (then UUIDs are not, and all GPUs of
 * the topology count as accessible)
 *
 * CUDA's rules (CUDA C++ Programming Guide, environment variables; MIG User Guide): entries are
 * numbers, UUIDs or unambiguous prefixes of UUIDs, of GPUs (GPU-...), of slices (MIG-...) or, with
 * drivers before R470, MIG-GPU-<uuid>/<gpu instance>/<compute instance>. The first invalid entry
 * ends the list. Numbers count the accessible GPUs by PCI bus (CUDA_DEVICE_ORDER=PCI_BUS_ID) or
 * fastest first. For equal GPUs both orders are the same; for unequal ones the second is not known
 * here, and a number is rejected.
 *
 * CUDA shows a process only the first slice of a list. Here each entry counts as the slice of one
 * rank, because schedulers mean it that way.
 *
 * Return: 0 with at least one device; -EINVAL with @why. */
int capo_visible_find(const struct capo_topology *t, const struct capo_nvml *nvml,
                      capo_visible_getenv get, void *user, struct capo_visible *out, char *why,
                      size_t room);
