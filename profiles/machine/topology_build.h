/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the readers of topology formats: growing arrays, matching of half links, final checks.
 */
#pragma once

#include "capo/msg.h"
#include "profiles/machine/topology.h"

/* One end of a link bundle, from the description of its owner. */
struct half_link {
        enum capo_wire kind;
        int from; /* gpu */
        char to[CAPO_BUSID_ROOM];
        char class_text[12]; /* NCCL's tclass; "": not given */
        int count;
        double gbs; /* of the bundle; 0: count times the rate of a brick */
        int line;
};

struct topology_build {
        struct capo_topology *t;
        struct half_link *halves;
        size_t n_halves;
        unsigned flags;
        double brick_gbs;
        char *why;
        size_t room;
};

void topology_build_begin(struct topology_build *b, const char *name, unsigned flags,
                          double brick_gbs, char *why, size_t room);
/* A zeroed new element at the end of an array of b->t. Pointers are valid until the next. */
void *topology_grow(void *array, size_t *n, size_t size);
#define TOPOLOGY_GROW(array, n) ((__typeof__(array))topology_grow(&(array), &(n), sizeof *(array)))
struct capo_topology_gpu *topology_add_gpu(struct topology_build *b);
struct capo_topology_nic *topology_add_nic(struct topology_build *b);
int topology_add_switch(struct topology_build *b, const char *busid); /* finds or adds; index */

/** topology_fail() - write "NAME:LINE: ..." to why (no line if it is 0). Return: -EINVAL. */
#define topology_fail(b, line, ...) \
        capo_why_at(-EINVAL, (b)->why, (b)->room, (b)->t->name, line, __VA_ARGS__)

/** topology_build_end() - match half links, check, sort the GPUs, compute distances, name the
 * platform. @r: 0, or the error of reading. Return: 0 and *out; or an error, with everything freed.
 */
int topology_build_end(struct topology_build *b, int r, struct capo_topology **out);
