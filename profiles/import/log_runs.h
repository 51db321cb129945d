/* SPDX-License-Identifier: Apache-2.0 */
/* The state of import_log.c while it converts a job, and the runs that its communicators become. */
#pragma once

#include "profiles/import/log_labels.h"

struct log_call {
        uint64_t bytes;
        uint32_t seq, ns, run;
        uint8_t call, type, op, make, ran, channels;
        struct log_want want;
        bool unknown; /* it is not known what was forced */
        bool alone;   /* no other rank's time of it can be found */
};

/* A communicator is one run. With NCCL_COMM_ID, several jobs can have a communicator of the same
 * number: then each job's is a run of its own. */
struct log_run {
        uint32_t comm; /* index in job->comms */
        int n_ranks;
        uint32_t copy; /* 0: has the first log of each rank; 1: the second; ... */
        uint32_t run;  /* index in in->set->runs */
};

/* A communicator of the process that is read. */
struct log_comm {
        const struct capo_job_member *member; /* NULL: the log does not describe it */
        uint32_t comm;                        /* index in job->comms */
        uint32_t run;                         /* 1 + the run of its calls; 0: none yet */
};

struct log_import {
        struct capo_input *in; /* path: what the user called the log that is read */
        const struct capo_job *job;
        const struct capo_job_process *process;
        struct log_labels labels; /* of the process */
        struct log_comm comms[UINT16_MAX + 1];
        struct log_call *calls;
        size_t n, n_unknown;
        size_t n_taken, merge_at; /* how many there were; when to drop those that are not needed */
        struct log_run *runs;
        size_t n_runs;
        uint64_t skipped_host, skipped_group; /* of the input being read */
        struct log_empty {
                const char *named;
                uint64_t host, group;
        } * empty; /* inputs without a call that is used */
        size_t n_empty;
};

/** log_run_of() - the run of communicator @c of the process, added if new. Return: its index;
 * UINT32_MAX: an error that in->error names. */
uint32_t log_run_of(struct log_import *m, struct log_comm *c);

/** log_runs_settle() - set the hosts of each run, and its nodes and layout if they are not known
 * yet, from the hosts of the logs. A run that lacks logs of some ranks stays as it is. */
void log_runs_settle(struct log_import *m);
