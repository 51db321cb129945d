/* SPDX-License-Identifier: Apache-2.0 */
/* The topology that capo run recorded beside a job's logs. */
#pragma once

#include "analysis/job/job.h"
#include "profiles/machine/topology.h"
#include "profiles/plan/plan.h"

/** cli_recorded_beside() - find a topology file beside logs
 * @paths: logs or their folders; the topology files there must be alike
 * @job: the file must have all its GPUs; NULL: that is not checked
 *
 * Return: 0 with @path; -ENOENT: none; -EXDEV: the recorded machines differ, so one file does not
 * describe all. */
int cli_recorded_beside(const char *const *paths, size_t n, const struct capo_job *job, char *path,
                        size_t room);

/** cli_recorded_topology() - the same beside the logs of @job. */
int cli_recorded_topology(const struct capo_job *job, char *path, size_t room);

/** cli_recorded_gpus() - find the GPU of @t for each rank of communicator @comm
 * @gpus: room for its members; nodes are numbered in order of appearance
 * @slices: likewise: is it a MIG slice?
 *
 * Return: 0; -ENOENT with @why: a log is missing, or a GPU is not in @t; -EEXIST: two ranks are on
 * one GPU. */
int cli_recorded_gpus(const struct capo_job *job, uint32_t comm, const struct capo_topology *t,
                      struct capo_plan_gpu *gpus, bool *slices, char *why, size_t room);
