/* SPDX-License-Identifier: Apache-2.0 */
/* The machine that capo run recorded beside a job's logs. */
#ifndef CAPO_CLI_RECORDED_H
#define CAPO_CLI_RECORDED_H

#include "analysis/job/job.h"

/**
 * cli_recorded_topology() - the topology file in a folder of the job's logs that has all its GPUs
 *
 * Return: 0 with @path; -ENOENT there is none; -EXDEV the machines that were recorded are not
 * alike, so that one file does not describe all.
 */
int cli_recorded_topology(const struct capo_job *job, char *path, size_t room);

#endif
