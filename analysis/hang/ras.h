/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's own RAS (since 2.24): a thread of each process that tells whoever connects how many
 * collectives every rank of every communicator has launched. JSON since 2.28.7, before that text
 * for people, in which only what differs is told. Sources: src/ras/client.cc (the protocol),
 * client_support.cc (both formats), docs/userguide .../ras.rst.
 *
 *      ras_ask.c   asks a socket          -> text
 *      ras.c       JSON -> looks; two looks, some time apart -> a struct capo_hang_job
 *      ras_text.c  text -> looks
 */
#ifndef CAPO_HANG_RAS_H
#define CAPO_HANG_RAS_H

#include "analysis/hang/foreign.h"

enum {
        RAS_ANY = 8 /* up to 2.25 all kinds are counted together */,
        RAS_CALLS,
        RAS_PORT = 28028,
        RAS_UNKNOWN = -1
};

struct ras_rank {
        int32_t rank, device;
        uint32_t pid; /* 0 not known */
        char host[64];
        uint64_t count[RAS_CALLS]; /* by place in ras_calls[] */
        int error; /* ncclResult_t; 7 as the state of its making: still being made */
        bool making, ended, aborted;
        bool absent, dead; /* gave no answer; is taken to be dead */
};

struct ras_comm {
        char id[64];
        uint64_t hash;
        int32_t size;
        struct ras_rank *ranks;
        uint32_t n_ranks;
};

struct ras_look {
        uint64_t at_ns;         /* since 1970 */
        struct ras_comm *comms; /* after ras_read() the largest first, of one size by id; their
                                   ranks by number */
        uint32_t n_comms;
        uint32_t n_nodes; /* of the job, as the text's summary has it; 0 not known */
        bool partial; /* text: there are counts of which it is not told whose they are, or ranks of
                         which nothing is told */
};

/** ras_call_of() - place of the collective of that name; RAS_UNKNOWN. */
int ras_call_of(const char *name);

/** ras_read() - what RAS has answered, in either format. @text is changed. Return: 0; -EINVAL with
 * @why; -ENOMEM. ras_look_finish() in any case. */
int ras_read(char *text, struct ras_look *out, char *why, size_t room);
void ras_look_finish(struct ras_look *look);

/** ras_read_text(), ras_comm_new(), ras_rank_new() - for ras_read(). NULL, -ENOMEM: no memory. */
int ras_read_text(char *text, struct ras_look *out);
struct ras_comm *ras_comm_new(struct ras_look *look, const char *id, uint64_t hash, int32_t size);
struct ras_rank *ras_rank_new(struct ras_comm *comm, int32_t rank);

/**
 * ras_job() - two looks as a job; both the same: one look
 * What has not changed from the first to the second began with the first. Return: 0; -ENOMEM.
 * capo_hang_job_finish() in any case.
 */
int ras_job(const struct ras_look *first, const struct ras_look *second, struct capo_job *job,
            struct capo_hang_job *out);

/**
 * ras_ask() - connect, and ask for all
 * @where:     "host", "host:port", "[::1]:port"
 * @timeout_s: after which all of it has come to an end, but for the time that finding the address
 * of a name takes
 * @text:      owned by the caller
 *
 * Return: 0; -errno with @why.
 */
int ras_ask(const char *where, double timeout_s, char **text, char *why, size_t room);

#endif
