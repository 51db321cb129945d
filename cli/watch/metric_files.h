/* SPDX-License-Identifier: Apache-2.0 */
/* One file per job for the node exporter's textfile collector: DIR/capo-UID-JOB-NODE.prom. */
#ifndef CAPO_METRIC_FILES_H
#define CAPO_METRIC_FILES_H

#include "cli/watch/watch_jobs.h"

/** metric_files_begin() - is the folder there and ours to write in? What a killed watch left there
 * is removed. Says what is wrong. Return: 0; -errno. */
int metric_files_begin(const struct watch *w);

/** metric_files_write() - of all jobs; a file is the old one or the new one at any time. What goes
 * wrong is said once. Return: 0; -errno. */
int metric_files_write(const struct watch *w);

/** metric_files_remove() - of a job that is gone. */
void metric_files_remove(const struct watch *w, const struct watch_job *job);

#endif
