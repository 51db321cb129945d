/* SPDX-License-Identifier: Apache-2.0 */
/* A recorded job while its samples are made (import_log.c), and the runs that its communicators
 * are. */
#ifndef CAPO_IMPORT_LOG_RUNS_H
#define CAPO_IMPORT_LOG_RUNS_H

#include "profiles/import/import_private.h"
#include "profiles/import/log_labels.h"

struct log_call {
        uint64_t bytes;
        uint32_t seq, ns, run;
        uint8_t call, type, op, make, ran, channels;
        struct log_want want;
        bool unknown; /* what was forced */
        bool alone;   /* no other rank's time of it can be found */
};

/* Ranks that have their calls together. A communicator is one run; where logs of several jobs have
 * one of the same number (NCCL_COMM_ID), it is as many. */
struct log_run {
        uint32_t comm; /* in the job */
        int n_ranks;
        uint32_t copy; /* a rank's first log is in 0, a second one in 1, ... */
        uint32_t run;  /* in in->set->runs */
};

/* A communicator of the process that is read. */
struct log_comm {
        const struct capo_job_member *member; /* NULL: the log does not describe it */
        uint32_t comm;                        /* in the job */
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
        struct log_run *runs;
        size_t n_runs;
        uint64_t skipped_host, skipped_group; /* of the input being read */
        struct log_empty {
                const char *named;
                uint64_t host, group;
        } * empty; /* inputs without a call that is used */
        size_t n_empty;
};

/** log_run_of() - the run of communicator @c of the process. UINT32_MAX: no memory, or what
 * in->error says. */
uint32_t log_run_of(struct log_import *m, struct log_comm *c);

/** log_runs_settle() - where nobody reported how many nodes there are, the hosts of the logs do,
 * once every rank has left one. Return: 0; -ENOMEM. */
int log_runs_settle(struct log_import *m);

#endif
