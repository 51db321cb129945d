/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What NCCL's cost table says for every layout that some ranks can have on a machine: the "layouts"
 * of a profile, by which a tuner tells one from another (core/profile/seen.h). Real NCCL is asked,
 * on virtual GPUs.
 */
#ifndef CAPO_LAYOUTS_H
#define CAPO_LAYOUTS_H

#include "profiles/plan/plan.h"

struct capo_layouts_machine {
        const char *tools; /* folder of the planner's parts */
        const char *libnccl;
        const char *topo;     /* NCCL topology XML of one node */
        const char *platform; /* NULL: the file says all */
        bool all_nics;        /* believe that no node ever lacks a NIC */
        unsigned at_once;     /* questions at a time; 0: as many as processors */
        unsigned max;         /* more questions than this are refused; 0: 1000 */
        void (*progress)(size_t done, size_t of, void *arg); /* may be NULL */
        void *arg;
};

struct capo_layouts_made {
        int version;               /* of the NCCL that was asked: 22707 */
        size_t n_asked, n_refused; /* allocations; refused: NCCL counts other nodes there, or there
                                      is no NIC left */
        size_t n_layouts,
                n_told; /* layouts; of these, such that some cost of theirs is no other's */
};

/**
 * capo_layouts_make() - ask, and append the entries to @profile
 *
 * Asked are all layouts of @n_ranks on @n_nodes nodes; for each, all choices of GPUs on each node
 * that the machine's symmetry does not make equal; and for the first GPUs of each node also with
 * each NIC of each node missing, one at a time, unless all_nics. Entries of one layout with equal
 * costs are one. What NCCL has under another number of nodes (GPUs that NVLink does not join) is
 * another communicator's, and left out.
 *
 * A list with a gap would be worse than none: one allocation that could not be asked ends it all.
 *
 * Return: 0; -EINVAL no such layout on this machine, or a bad file; -E2BIG more than max questions;
 * -ENODATA there is no table to compare (NCCL before 2.22 shows none); what capo_plan_ask_all()
 * returns. @why: one line.
 */
int capo_layouts_make(const struct capo_layouts_machine *machine, int n_ranks, int n_nodes,
                      struct capo_profile *profile, struct capo_layouts_made *made, char *why,
                      size_t room);

#endif
