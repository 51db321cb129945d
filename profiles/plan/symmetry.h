/* SPDX-License-Identifier: Apache-2.0 */
/* Which GPUs of a machine can be exchanged for which others without anybody noticing. */
#ifndef CAPO_PLAN_SYMMETRY_H
#define CAPO_PLAN_SYMMETRY_H

#include <stddef.h>
#include <stdint.h>

#include "profiles/machine/topology.h"

struct capo_symmetry {
        size_t n_gpus;
        size_t n_maps;       /* 1: only the identity */
        uint8_t (*maps)[32]; /* maps[m][gpu index] = gpu index */
};

/**
 * capo_symmetry_find() - all permutations of the GPUs that keep every link, PCI distance and NIC
 * where it is
 * @t:   up to 32 GPUs
 * @out: the caller ends it with capo_symmetry_finish()
 *
 * A permutation counts when for every pair of GPUs the NVLinks (count, to GPUs and to switches),
 * the distance over PCI, compute capability and GPUDirect are the same, and when the NICs can be
 * exchanged along with the GPUs. Stops at 40,320 permutations (8!); what it has found is then still
 * right, but there are more.
 *
 * Return: 0; -ENOMEM; -E2BIG more than 32 GPUs.
 */
int capo_symmetry_find(const struct capo_topology *t, struct capo_symmetry *out);

/** capo_set_next() - the next set with as many bits, above @set (Gosper). */
static inline uint64_t capo_set_next(uint64_t set)
{
        uint64_t low = set & (~set + 1), ripple = set + low;

        return ripple | (((set ^ ripple) >> 2) / low);
}

/** capo_symmetry_least() - the smallest of all images of a set (bit i is GPU index i): equal for
 * symmetric sets. */
uint32_t capo_symmetry_least(const struct capo_symmetry *s, uint32_t set);

void capo_symmetry_finish(struct capo_symmetry *s);

#endif
