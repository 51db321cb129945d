/* SPDX-License-Identifier: Apache-2.0 */
/* The logs that are read together (import_log.c), and the runs that their communicators are. */
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

struct log_comm_run {
        uint64_t uid;
        uint32_t run;
        int n_ranks;
        uint32_t *ranks_on; /* ranks seen, by host; of n_hosts_ hosts */
        uint32_t n_hosts_;
        uint8_t *ranks; /* seen, a bit each; NULL: too many to tell */
};

struct log_job {
        struct capo_input *in;
        struct log_call *calls;
        size_t n;
        struct log_comm_run *comms; /* by uid */
        size_t n_comms;
        char (*hosts)[64]; /* as NCCL tells nodes apart: NCCL_HOSTID, else the host's name */
        uint32_t n_hosts;
        uint64_t skipped_host, skipped_group; /* of the input being read */
        struct log_empty {
                const char *named;
                uint64_t host, group;
        } * empty; /* inputs without a call that is used */
        size_t n_empty;
};

/** log_job_run() - the run of communicator @c of the log that @f is of. UINT32_MAX: no memory, or
 * what in->error says. */
uint32_t log_job_run(struct log_job *j, struct log_said *f, const struct capo_log_comm *c);

/** log_job_settle() - where nobody told how many nodes there are, the hosts of the logs do, once
 * every rank has left one. Return: 0; -ENOMEM. */
int log_job_settle(struct log_job *j);

#endif
