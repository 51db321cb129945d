/* SPDX-License-Identifier: Apache-2.0 */
/* Symmetries of a machine: permutations of its GPUs that change nothing. */
#pragma once

#include "profiles/machine/topology.h"

struct capo_symmetry {
        size_t n_gpus;
        size_t n_maps;       /* 1: only the identity */
        uint8_t (*maps)[32]; /* maps[m][gpu index] = gpu index */
};

/** capo_symmetry_find() - all permutations of the GPUs that keep every link, PCI distance and NIC
 * @t: up to 32 GPUs
 *
 * A permutation must keep, for every pair of GPUs, the NVLinks (count, to GPUs and to switches),
 * the PCI distance, compute capability and GPUDirect; and the NICs must be interchangeable along
 * with the GPUs. The search stops at 40,320 permutations (8!): those found are right, but there may
 * be more.
 *
 * Return: 0; -E2BIG: more than 32 GPUs. */
int capo_symmetry_find(const struct capo_topology *t, struct capo_symmetry *out);

/** capo_set_next() - the next larger set with as many bits (Gosper). */
static inline uint64_t capo_set_next(uint64_t set)
{
        uint64_t low = set & (~set + 1), ripple = set + low;

        return ripple | (((set ^ ripple) >> 2) / low);
}

/** capo_symmetry_least() - the smallest image of a set (bit i is GPU index i); equal for symmetric
 * sets. */
uint32_t capo_symmetry_least(const struct capo_symmetry *s, uint32_t set);
