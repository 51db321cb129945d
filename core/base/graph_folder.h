/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A folder of graph files, as `capo graph -o FOLDER` leaves it and a job reads it: graph-0.xml, graph-1.xml ... for
 * NCCL, one per machine, and "machines", which says whose they are:
 *
 *      capo-graph 1 nccl 22809
 *      machine 1@0000:07:00.0 2@0000:0a:00.0 3@0000:0b:00.0 nics mlx5_0 mlx5_1
 *      machine ...
 *
 * GPU number (NVML's) at PCI address, then the NICs by rising number; machines in the order of the allocation. One
 * machine alone has no NICs.
 */
#ifndef CAPO_GRAPH_FOLDER_H
#define CAPO_GRAPH_FOLDER_H

#include "core/base/layout.h"

enum { CAPO_GRAPH_MACHINES = 16, CAPO_GRAPH_GPUS = 12, CAPO_GRAPH_NICS = 32 };

struct capo_graph_machine {
        int n_gpus, n_nics;
        struct {
                int dev;
                char busid[20];
        } gpus[CAPO_GRAPH_GPUS];
        char nics[CAPO_GRAPH_NICS][48];
};

struct capo_graph_folder {
        int nccl; /* 22809: the release whose search the files were made against */
        int n_machines, n_ranks;
        struct capo_graph_machine machines[CAPO_GRAPH_MACHINES];
};

/** capo_graph_folder_parse() - the text of "machines". Return: 0; -EINVAL with @why, "line N: expected ..., found ...".
 */
int capo_graph_folder_parse(const char *text, struct capo_graph_folder *out, char *why, size_t room);

/**
 * capo_graph_folder_machine() - which of the machines a process of the job is on
 * @get: getenv, or a stand-in for tests
 *
 * Only what is the same in every process of a machine is looked at, and where nothing says so for certain, nothing does
 * on any machine: SLURM_NODEID of a task that srun started, torchrun's GROUP_RANK, or a number of local ranks
 * (torchrun, Open MPI, MPICH and Hydra) that no other machine has. Then the local ranks must be as many as the
 * machine's GPUs, and CUDA_VISIBLE_DEVICES must name GPUs of it; without that variable they must be the first ones,
 * which is what a program takes then.
 *
 * Return: the machine's number; -ENODATA nothing says which, -EINVAL a variable contradicts; @why says what.
 */
int capo_graph_folder_machine(const struct capo_graph_folder *f, capo_layout_getenv get, void *user, char *why,
                              size_t room);

#endif
