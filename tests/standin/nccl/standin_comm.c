/* SPDX-License-Identifier: Apache-2.0 */
/* A communicator's life: made, checked, aborted, and freed when its last plan is done with it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "std.h"

/* FNV-1a: host names to numbers. */
static uint64_t hash(const char *text)
{
        uint64_t h = 0xcbf29ce484222325ull;

        for (; *text; text++)
                h = (h ^ (unsigned char)*text) * 0x100000001b3ull;
        return h;
}

static uint64_t host_hash(void)
{
        const char *id = getenv("NCCL_HOSTID");
        char name[256] = "";

        if (id && *id)
                return hash(id);
        gethostname(name, sizeof name - 1);
        return hash(name);
}

ncclResult_t comm_new(struct comm **out, int n, int rank, const ncclConfig_t *config,
                      struct comm *parent)
{
        long limit =
                std_env_long("NCCL_MAX_NCHANNELS", std_env_long("NCCL_MAX_CTAS", MAX_CHANNELS));
        struct comm *c;
        ncclResult_t r = driver_open();

        if (r)
                return r;
        if (config && (config->size < 20 || config->magic != NCCL_CONFIG_MAGIC))
                return fail(NULL, ncclInvalidArgument,
                            "ncclConfig_t argument not initialized via NCCL_CONFIG_INITIALIZER");
        c = calloc(1, sizeof *c);
        if (!c)
                return fail(NULL, ncclSystemError, "out of memory");
        c->magic = COMM_MAGIC;
        c->refs = 1;
        c->n = n;
        c->rank = rank;
        c->blocking = parent ? parent->blocking : true;
        pthread_mutex_init(&c->lock, NULL);
        pthread_cond_init(&c->served, NULL);
        if (config) {
                int max_ctas = NCCL_CONFIG_UNDEF_INT;

                if (config->blocking != NCCL_CONFIG_UNDEF_INT)
                        c->blocking = config->blocking != 0;
                if (config->size > offsetof(ncclConfig_t, maxCTAs))
                        max_ctas = config->maxCTAs;
                if (max_ctas != NCCL_CONFIG_UNDEF_INT && max_ctas < limit)
                        limit = max_ctas;
                if (config->size > offsetof(ncclConfig_t, commName) + sizeof(char *) - 1 &&
                    config->commName)
                        snprintf(c->name, sizeof c->name, "%s", config->commName);
        }
        c->n_channels = limit < 1 ? 1 : limit > MAX_CHANNELS ? MAX_CHANNELS : (int)limit;
        for (int i = 0; i < MAX_CHANNELS; i++) {
                c->chans[i].comm = c;
                c->chans[i].id = i;
                pthread_mutex_init(&c->chans[i].lock, NULL);
                pthread_cond_init(&c->chans[i].cond, NULL);
        }
        if (parent) {
                c->device = parent->device;
                c->ctx = parent->ctx;
        } else {
                r = driver_device(&c->device);
                if (r) {
                        free(c);
                        return r;
                }
                cu.p_cuCtxGetCurrent(&c->ctx);
        }
        *out = c;
        return ncclSuccess;
}

ncclResult_t comm_check(struct comm *comm, const char *what)
{
        if (!comm)
                return fail(NULL, ncclInvalidArgument, "%s: comm argument is NULL", what);
        if (comm->magic != COMM_MAGIC)
                return fail(NULL, ncclInvalidArgument, "%s: corrupted comm object detected", what);
        if (comm->state == ncclInProgress)
                return fail(
                        comm, ncclInvalidArgument,
                        "%s: attempt to use communicator before the previous operation returned ncclSuccess",
                        what);
        return ncclSuccess;
}

void comm_ref(struct comm *comm) { atomic_fetch_add(&comm->refs, 1); }

/* The last one out frees: ncclCommDestroy or a plan that ran late. */
void comm_unref(struct comm *comm)
{
        if (atomic_fetch_sub(&comm->refs, 1) != 1)
                return;
        comm->magic = 0;
        for (int i = 0; i < MAX_CHANNELS; i++) {
                struct chan *ch = &comm->chans[i];

                chan_close(ch);
                free(ch->peers);
                free(ch->recv_slots);
                free(ch->send_slots);
                free(ch->steps);
                free(ch->scratch);
                pthread_mutex_destroy(&ch->lock);
                pthread_cond_destroy(&ch->cond);
        }
        rma_free(comm);
        boot_close(comm);
        free(comm->windows);
        free(comm->ranks);
        free(comm->node_of);
        free(comm->user_ops);
        free(comm->p2p_sent);
        free(comm->p2p_received);
        pthread_mutex_destroy(&comm->lock);
        pthread_cond_destroy(&comm->served);
        free(comm);
}

struct async {
        struct comm *comm;
        ncclResult_t (*run)(void *);
        void *arg;
};

static void *async_thread(void *arg)
{
        struct async *a = arg;
        ncclResult_t r;

        cu.p_cuCtxSetCurrent(a->comm->ctx);
        r = a->run(a->arg);
        a->comm->state = (int)r;
        if (r)
                a->comm->error = (int)r;
        comm_unref(a->comm);
        free(a);
        return NULL;
}

ncclResult_t comm_async(struct comm *comm, ncclResult_t (*run)(void *), void *arg)
{
        struct async *a = malloc(sizeof *a);
        pthread_t thread;

        if (!a)
                return fail(comm, ncclSystemError, "out of memory");
        *a = (struct async){comm, run, arg};
        comm->state = ncclInProgress;
        comm_ref(comm);
        if (pthread_create(&thread, NULL, async_thread, a)) {
                comm_unref(comm);
                free(a);
                comm->state = ncclSystemError;
                return fail(comm, ncclSystemError, "cannot start a thread");
        }
        pthread_detach(thread);
        return ncclInProgress;
}

/* After the host network stands: everything else an init does. Collective over the communicator. */
ncclResult_t comm_setup(struct comm *c)
{
        ncclResult_t r;

        c->ranks = calloc((size_t)c->n, sizeof *c->ranks);
        c->node_of = calloc((size_t)c->n, sizeof *c->node_of);
        c->p2p_sent = calloc((size_t)c->n, sizeof *c->p2p_sent);
        c->p2p_received = calloc((size_t)c->n, sizeof *c->p2p_received);
        if (!c->ranks || !c->node_of || !c->p2p_sent || !c->p2p_received)
                return fail(c, ncclSystemError, "out of memory");
        c->ranks[c->rank] = (struct rank_info){.host_hash = host_hash(),
                                               .device = c->device,
                                               .pid = getpid(),
                                               .version = std_version(),
                                               .has_shm = c->n > 1 && net_shm_usable()};
        r = boot_allgather(c, c->ranks, sizeof *c->ranks);
        if (r)
                return r;
        c->min_local = c->n;
        for (int i = 0; i < c->n; i++) {
                int local = 0, first = i;

                if (c->ranks[i].version != c->ranks[c->rank].version)
                        return fail(c, ncclInvalidUsage, "mismatched NCCL versions between ranks");
                for (int k = c->n - 1; k >= 0; k--)
                        if (c->ranks[k].host_hash == c->ranks[i].host_hash)
                                first = k, local++;
                c->node_of[i] = first == i ? c->n_nodes++ : c->node_of[first];
                c->min_local = local < c->min_local ? local : c->min_local;
                c->max_local = local > c->max_local ? local : c->max_local;
        }
        r = chan_open(&c->chans[0]);
        if (!r)
                r = model_init(c);
        if (!r)
                r = profiler_open(c);
        if (!r)
                r = tuner_open(c);
        if (!r)
                INFO(SUB_INIT,
                     "ncclComm %p rank %d nranks %d cudaDev %d nNodes %d localRanks %d..%d commId 0x%llx - Init "
                     "COMPLETE",
                     (void *)c, c->rank, c->n, c->device, c->n_nodes, c->min_local, c->max_local,
                     (unsigned long long)c->hash);
        return r;
}
