/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a communicator comes to be: from a unique id, or from a parent by split, shrink or grow. What
 * is common - finding the members, the ring among them, then comm_setup() - runs as one job: at
 * once, at the group's end, or on a thread of its own.
 */
#include <stdlib.h>
#include <string.h>

#include "std.h"

static uint64_t mix(uint64_t a, uint64_t b)
{
        a ^= b + 0x9e3779b97f4a7c15ull + (a << 6) + (a >> 2);
        a *= 0xbf58476d1ce4e5b9ull;
        return a ^ a >> 31;
}

/* NCCL's hash of what tells a communicator apart (init.cc and bitops.h of 2.31): the same on all
 * ranks. */
uint64_t init_hash(const struct piece *pieces, int n)
{
        uint64_t a = 1, b = 1;

        for (int i = 0; i < n; i++) {
                a ^= pieces[i].bytes;
                for (size_t k = 0; k < pieces[i].bytes; k += 8) {
                        size_t left = pieces[i].bytes - k;
                        uint64_t word = 0;

                        a += b;
                        b ^= a;
                        a = (a ^ a >> 31) * 0x9de62bbc8cef3ce3;
                        b = (b ^ b >> 32) * 0x485cd6311b599e79;
                        memcpy(&word, (const char *)pieces[i].at + k, left < 8 ? left : 8);
                        a += word;
                }
        }
        a = (a ^ a >> 31) * 0xbac3bd562846de6b + b;
        return (a ^ a >> 32) * 0x995a187a14e7b445;
}

struct split_word {
        int color, key, rank;
};

static int by_key(const void *a, const void *b)
{
        const struct split_word *x = a, *y = b;

        if (x->key != y->key)
                return x->key < y->key ? -1 : 1;
        return x->rank - y->rank;
}

static ncclResult_t init_split(struct init *in)
{
        struct comm *parent = in->parent, *comm = in->comm;
        struct split_word *all = calloc((size_t)parent->n, sizeof *all);
        int *members = calloc((size_t)parent->n, sizeof *members), n = 0;
        ncclResult_t r = ncclSystemError;

        if (all && members) {
                all[parent->rank] = (struct split_word){in->color, in->key, parent->rank};
                r = boot_allgather(parent, all, sizeof *all);
        }
        if (!r && comm) {
                for (int i = 0; i < parent->n; i++)
                        if (all[i].color == in->color)
                                all[n++] = all[i];
                qsort(all, (size_t)n, sizeof *all, by_key);
                for (int i = 0; i < n; i++) {
                        members[i] = all[i].rank;
                        if (members[i] == parent->rank)
                                comm->rank = i;
                }
                comm->n = n;
                r = boot_join(comm, parent, members,
                              init_hash((struct piece[]){{&parent->hash, sizeof parent->hash},
                                                         {&in->nth, sizeof in->nth},
                                                         {&in->color, sizeof in->color}},
                                        3));
        }
        free(all);
        free(members);
        return r;
}

/* The ranks that are already in tell each other the id; whoever has one says it. */
static ncclResult_t init_grow(struct init *in)
{
        struct comm *parent = in->parent;
        ncclResult_t r = ncclSuccess;

        if (parent) {
                struct {
                        int has;
                        ncclUniqueId id;
                } *all = calloc((size_t)parent->n, sizeof *all);

                if (!all)
                        return ncclSystemError;
                all[parent->rank].has = in->has_id;
                all[parent->rank].id = in->id;
                r = boot_allgather(parent, all, sizeof *all);
                for (int i = 0; i < parent->n && !in->has_id; i++)
                        if (all[i].has) {
                                in->id = all[i].id;
                                in->has_id = true;
                        }
                free(all);
        }
        if (!r && !in->has_id)
                r = fail(in->comm, ncclInvalidArgument, "ncclCommGrow: no rank has a unique id");
        return r ? r : boot_open(in->comm, &in->id);
}

static ncclResult_t run_init(void *arg)
{
        struct init *in = arg;
        struct comm *comm = in->comm;
        ncclResult_t r = ncclSuccess;
        CUcontext old;

        if (comm)
                cu.p_cuCtxPushCurrent(comm->ctx);
        switch (in->kind) {
        case INIT_ID: r = boot_open(comm, &in->id); break;
        case INIT_SPLIT: r = init_split(in); break;
        case INIT_SHRINK: {
                uint64_t tag = mix(in->parent->hash, in->parent->split_count);

                for (int i = 0; i < in->n_members; i++)
                        tag = mix(tag, (uint64_t)in->members[i]);
                r = boot_join(comm, in->parent, in->members, tag);
                break;
        }
        case INIT_GROW: r = init_grow(in); break;
        }
        if (!r && comm)
                r = comm_setup(comm);
        if (comm)
                cu.p_cuCtxPopCurrent(&old);
        if (r && comm && comm->blocking) { /* a non-blocking one is the caller's to abort */
                *in->out = NULL;
                comm_unref(comm);
        }
        free(in->members);
        free(in);
        return r;
}

ncclResult_t init_start(struct init in)
{
        struct init *copy = malloc(sizeof *copy);
        struct comm *runs = in.comm ? in.comm : in.parent;

        if (!copy)
                return ncclSystemError;
        *copy = in;
        *in.out = (ncclComm_t)in.comm;
        return group_job(runs, run_init, copy);
}
