/* SPDX-License-Identifier: Apache-2.0 */
/* One file per job for the node exporter's textfile collector: DIR/capo-UID-JOB-NODE.prom; how
 * watch writes any file. */
#pragma once

#include "cli/watch/watch_claim.h"
#include "cli/watch/watch_jobs.h"

/** metric_files_begin() - check that the folder is writable, and remove files that a killed watch
 * left; prints errors. Return: 0; -errno. */
int metric_files_begin(const struct watch *w, struct watch_claim *claim);

/** metric_files_clear() - remove the files of @user's jobs on this node; NULL: of all users. */
void metric_files_clear(const struct watch *w, const struct watch_user *user);

/** metric_files_write() - write the files of all jobs; each is replaced atomically. An error is
 * printed once. Return: 0; -errno. */
int metric_files_write(const struct watch *w);

/** watch_write_file() - write a file in @dir atomically; an earlier one is renamed to @old (NULL: not
 * kept). @shown: all users may read it, and it need not outlive the machine. Return: 0; -errno. */
int watch_write_file(const char *dir, const char *name, const char *old, bool shown,
                     const char *text, size_t n);

/** metric_files_remove() - remove the file of a job that has ended. */
void metric_files_remove(const struct watch *w, const struct watch_job *job);
