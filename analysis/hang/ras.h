/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's RAS (since 2.24): a thread in each process that reports how many collectives each rank of
 * each communicator has launched. JSON since 2.28.7; before that, text for people that names only
 * differences. Sources: NCCL's src/ras/client.cc (protocol), src/ras/client_support.cc (both
 * formats), docs/userguide .../ras.rst.
 *
 *      ras_ask.c   asks a socket     -> text
 *      ras.c       JSON -> samples; two samples, some time apart -> struct capo_hang_job
 *      ras.c       text -> samples */
#pragma once

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
        uint64_t count[RAS_CALLS]; /* by index in ras_calls[] */
        int error;                 /* ncclResult_t; 7: the communicator is still being created */
        bool making, ended;
        bool absent, dead; /* absent: did not answer; dead: RAS considers it dead */
};

struct ras_comm {
        char id[64];
        uint64_t hash;
        int32_t size;
        struct ras_rank *ranks;
        uint32_t n_ranks;
};

struct ras_snapshot {
        uint64_t at_ns;         /* since 1970 */
        struct ras_comm *comms; /* after ras_read() the largest first, equal sizes by id; their
                                   ranks by number */
        uint32_t n_comms;
        uint32_t n_nodes; /* of the job, from the text's summary; 0 not known */
        bool partial;     /* text: some counts are of unnamed ranks, or some ranks have no data */
};

/** ras_call_of() - index in ras_calls[] of the collective with that name; RAS_UNKNOWN. */
int ras_call_of(const char *name);

/** ras_read() - parse an answer of RAS in either format. @text is changed. Return: 0; -EINVAL with
 * @why. Call ras_snapshot_finish() in any case. */
int ras_read(char *text, struct ras_snapshot *out, char *why, size_t room);
void ras_snapshot_finish(struct ras_snapshot *snapshot);

struct ras_comm *ras_comm_new(struct ras_snapshot *snapshot, const char *id, uint64_t hash,
                              int32_t size);
struct ras_rank *ras_rank_new(struct ras_comm *comm, int32_t rank);

/** ras_job() - make a job from two samples; pass the same twice for a single one. State that did
 * not change between them began with the first. Call capo_hang_job_finish() in
 * any case. */
void ras_job(const struct ras_snapshot *first, const struct ras_snapshot *second,
             struct capo_job *job, struct capo_hang_job *out);

/** ras_ask() - connect, and request the state of all ranks
 * @where: "host", "host:port", "[::1]:port"
 * @timeout_s: limit for everything except name resolution
 * @text: owned by the caller
 *
 * Return: 0; -EDOM @where is no address, other -errno, with @why. */
int ras_ask(const char *where, double timeout_s, char **text, char *why, size_t room);
