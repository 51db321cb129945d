/* SPDX-License-Identifier: Apache-2.0 */
/* Trays of GB200 and GB300: machines whose GPUs share an NVLink domain, which NCCL counts as one
 * node. Computations on links need the trays of a domain as one machine; questions to NCCL need
 * them separate. */
#pragma once

#include "profiles/fragment/nccl_model.h"

struct fragment_trays {
        struct fragment_machine machine; /* `t` is a domain, `tray` one of its machines */
        struct capo_topology *t;
        struct capo_alloc a; /* its nodes are domains */
};

/** fragment_trays_join() - convert an allocation on trays to one on domains: the first m->domain
 * trays become the first domain, and so on
 * @out: ended by the caller with fragment_trays_free(), in any case
 *
 * Return: 0; negative errno with @why. */
int fragment_trays_join(const struct fragment_machine *m, const struct capo_alloc *a,
                        struct fragment_trays *out, char *why, size_t room);
void fragment_trays_free(struct fragment_trays *trays);

/** fragment_trays_gpu() - GPU @gpu of domain @node in the numbering of questions to NCCL. */
struct capo_plan_gpu fragment_trays_gpu(const struct fragment_machine *m, int node, int gpu);

/** fragment_trays_number() - replace "1:2" (tray 1, GPU 2) and "net1:0" in the answer's graphs by
 * numbers of m->t. */
void fragment_trays_number(const struct fragment_machine *m, struct capo_plan_answer *answer);
