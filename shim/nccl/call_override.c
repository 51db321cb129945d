/* SPDX-License-Identifier: Apache-2.0 */
/* Turning calls. All ranks must decide alike, so a decision is made of what they share: the
 * communicator's shape as NCCL reported it to the tuner (by NCCL's own hash of the communicator, so
 * that it is this one's shape and no other's), the collective, the bytes. Whether a buffer is
 * registered plays no part: a kernel that NCCL cannot run with it is replaced by NCCL, on all ranks
 * as for a plain call, because forceAlgSelection is 0.
 *
 * What the application asks for in a config of its own wins, field by field; the numbers of CTAs
 * are one field.
 *
 * A twin that is refused for its arguments has enqueued nothing and leaves an open group as it was
 * (2.31.2, 2.32.3: the config is read before anything else), on all ranks alike, for they give the
 * same: the call is made again as the application wrote it. */

#include "capo/collectives.h"
#include "capo/msg.h"
#include "capo/seam.h"
#include "core/profile/profile_table.h"
#include "shim/nccl/call_override.h"
#include "shim/nccl/tag.h"

/* ---- NCCL's hash ---- */

struct hash {
        uint64_t a, b;
};

static void hash_bytes(struct hash *h, const void *bytes, size_t size)
{
        const char *at = bytes;

        for (h->a ^= size; size;) {
                size_t n = size < sizeof(uint64_t) ? size : sizeof(uint64_t);
                uint64_t word = 0;

                h->a += h->b;
                h->b ^= h->a;
                h->a ^= h->a >> 31;
                h->a *= 0x9de62bbc8cef3ce3;
                h->b ^= h->b >> 32;
                h->b *= 0x485cd6311b599e79;
                memcpy(&word, at, n);
                h->a += word;
                at += n;
                size -= n;
        }
}

static uint64_t finish_hash(const struct hash *h)
{
        uint64_t x = h->a;

        x ^= x >> 31;
        x *= 0xbac3bd562846de6b;
        x += h->b;
        x ^= x >> 32;
        return x * 0x995a187a14e7b445;
}

uint64_t capo_override_hash(const ncclUniqueId *id)
{
        struct hash h = {1, 1};

        hash_bytes(&h, id, sizeof *id);
        return finish_hash(&h);
}

uint64_t capo_override_hash_split(uint64_t parent, int nth, int color)
{
        struct hash h = {1, 1};

        if (!parent)
                return 0;
        hash_bytes(&h, &parent, sizeof parent);
        hash_bytes(&h, &nth, sizeof nth);
        hash_bytes(&h, &color, sizeof color);
        return finish_hash(&h);
}

/* ---- a call ---- */

/* A config, with room for what a newer NCCL's has behind the fields known here. */
union config {
        ncclCollConfig_t config;
        unsigned char bytes[256];
};

enum { V31_SIZE = offsetof(ncclCollConfig_t, launchCompletionEvent), UNSET = INT_MIN };

static void begin_config(ncclCollConfig_t *config, int version)
{
        bool v32 = version >= 23200;

        *config = (ncclCollConfig_t){.size = v32 ? sizeof *config : V31_SIZE,
                                     .magic = CAPO_NCCL_CONFIG_MAGIC,
                                     .version = v32 ? 23200 : 23100,
                                     .minCTAs = UNSET,
                                     .maxCTAs = UNSET,
                                     .nvlsCTAs = UNSET,
                                     .cgaClusterSize = UNSET,
                                     .forceAlgSelection = 1,
                                     .CTAPolicy = UNSET};
}

/* All collectives of a group must have one cluster size (nccl.h): that of its first member.
 * @wanted: of this call; UNSET none. */
static int cluster_of(struct capo_tls *t, int own, int wanted)
{
        if (!t->group_depth)
                return wanted;
        if (t->group_members == 0)
                t->group_cluster = own != UNSET ? own : wanted;
        return t->group_cluster;
}

#define INLINE                        \
        static inline __attribute__(( \
                always_inline)) /* a call without a config of its own looks at none */

/* Is this call turned? Then @out is the config of its twin; @own: the application's, NULL none. */
INLINE bool turn_call(const struct capo_comm *c, unsigned coll, const struct capo_what *what,
                      const ncclCollConfig_t *own, union config *out)
{
        const struct capo_turn *to =
                c->turns ? capo_tables_turn(c->turns, coll, capo_bytes(what, c->n_ranks)) : NULL;
        ncclCollConfig_t *config = &out->config;
        struct capo_tls *t = &capo_tls;
        bool any = false;
        int cluster;

        if (own && (own->magic != CAPO_NCCL_CONFIG_MAGIC || own->size < V31_SIZE ||
                    own->size > sizeof *out))
                return false; /* NCCL's to judge */
        cluster = cluster_of(t, own ? own->cgaClusterSize : UNSET,
                             to && to->cluster ? to->cluster - 1 : UNSET);
        if (!to && cluster == UNSET)
                return false;
        if (own)
                memcpy(out, own, own->size);
        else
                begin_config(config, c->lib->version);
        if (to && to->selection && !(config->algSelection && *config->algSelection)) {
                config->algSelection = to->selection;
                config->forceAlgSelection = 0;
                any = true;
        }
        if (to && to->ctas && config->minCTAs == UNSET && config->maxCTAs == UNSET) {
                config->minCTAs = config->maxCTAs = to->ctas;
                any = true;
        }
        if (to && to->cta_policy && config->CTAPolicy == UNSET) {
                config->CTAPolicy = to->cta_policy;
                any = true;
        }
        if (cluster != UNSET && config->cgaClusterSize == UNSET) {
                config->cgaClusterSize = cluster;
                any = true;
        }
        if (any && t->ready && t->inside) {
                config->userProfilerTag = capo_tag_give(t);
                if (to)
                        capo_call_record(t)->rule = to->rule;
        }
        return any;
}

static bool nccl_refuses(ncclResult_t rc)
{
        if (likely(rc != ncclInvalidArgument && rc != ncclInvalidUsage))
                return false;
        capo_warn_once(
                "NCCL refuses a call as a rule of the profile wants it; such calls are made as the program wrote "
                "them");
        return true;
}

static const struct capo_comm *comm_of(ncclComm_t handle)
{
        const struct capo_comm *c = capo_tls.comm;

        if (likely(c && __atomic_load_n(&c->handle, __ATOMIC_RELAXED) == handle))
                return c;
        c = capo_comm_known(handle);
        return c ? c : capo_tls.comm;
}

/* A plain call, and one with a config of the program's: both are do_NAME. */
#define WITH_OWN(...) (__VA_ARGS__, const ncclCollConfig_t *own)
#define AND_OWN(...)  (__VA_ARGS__, own)
#define AND_NONE(...) (__VA_ARGS__, NULL)
#define AND_OUR(...)  (__VA_ARGS__, &config.config)
#define TURNED(name, coll, params, args, ...)                                                  \
        INLINE ncclResult_t do_##name WITH_OWN params                                          \
        {                                                                                      \
                const struct capo_what what = {__VA_ARGS__, .type = datatype};                 \
                const struct capo_comm *c = comm_of(comm);                                     \
                union config config;                                                           \
                ncclResult_t rc;                                                               \
                                                                                               \
                if (turn_call(c, CAPO_COLL_##coll, &what, own, &config)) {                     \
                        rc = c->lib->name##Config AND_OUR args;                                \
                        if (!capo_tls.group_depth) /* a member's is used at the group's end */ \
                                capo_tls.tag = 0;                                              \
                        if (!nccl_refuses(rc))                                                 \
                                return rc;                                                     \
                }                                                                              \
                return own ? c->lib->name##Config AND_OWN args : c->lib->name args;            \
        }                                                                                      \
        static ncclResult_t plain_##name params { return do_##name AND_NONE args; }            \
        static ncclResult_t turned_##name WITH_OWN params { return do_##name AND_OWN args; }
TURNED(ncclAllReduce, ALLREDUCE,
       (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
        ncclComm_t comm, cudaStream_t stream),
       (sendbuff, recvbuff, count, datatype, op, comm, stream), .count = count)
TURNED(ncclBroadcast, BROADCAST,
       (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root,
        ncclComm_t comm, cudaStream_t stream),
       (sendbuff, recvbuff, count, datatype, root, comm, stream), .count = count)
TURNED(ncclReduce, REDUCE,
       (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
        int root, ncclComm_t comm, cudaStream_t stream),
       (sendbuff, recvbuff, count, datatype, op, root, comm, stream), .count = count)
TURNED(ncclAllGather, ALLGATHER,
       (const void *sendbuff, void *recvbuff, size_t sendcount, ncclDataType_t datatype,
        ncclComm_t comm, cudaStream_t stream),
       (sendbuff, recvbuff, sendcount, datatype, comm, stream), .count = sendcount,
       .per_rank = true)
TURNED(ncclReduceScatter, REDUCESCATTER,
       (const void *sendbuff, void *recvbuff, size_t recvcount, ncclDataType_t datatype,
        ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream),
       (sendbuff, recvbuff, recvcount, datatype, op, comm, stream), .count = recvcount,
       .per_rank = true)

/* in place, as ncclBroadcast of one buffer */
static ncclResult_t plain_ncclBcast(void *buff, size_t count, ncclDataType_t datatype, int root,
                                    ncclComm_t comm, cudaStream_t stream)
{
        return do_ncclBroadcast(buff, buff, count, datatype, root, comm, stream, NULL);
}

/* ---- a communicator ---- */

/* Each copy of NCCL, with these in the place of its own. */
static struct capo_nccl *overriding_of(const struct capo_nccl *lib)
{
        static struct capo_nccl overriding[CAPO_NCCL_COPIES];
        static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
        struct capo_nccl *s = &overriding[lib->number];

        capo_lock(&lock);
        if (!s->base) {
                *s = *lib;
#define OVERRIDE(name) s->name = plain_##name, s->name##Config = turned_##name
                OVERRIDE(ncclAllReduce);
                OVERRIDE(ncclBroadcast);
                OVERRIDE(ncclReduce);
                OVERRIDE(ncclAllGather);
                OVERRIDE(ncclReduceScatter);
#undef OVERRIDE
                s->ncclBcast = plain_ncclBcast;
        }
        capo_unlock(&lock);
        return s;
}

void capo_override_settle(struct capo_comm *comm)
{
        const struct capo_tables *turns =
                capo_tuner_overrides ? capo_tuner_overrides(comm->nccl_hash) : NULL;

        if (!turns)
                return;
        comm->turns = turns;
        __atomic_store_n(&comm->into, overriding_of(comm->lib), __ATOMIC_RELEASE);
        capo_debug("communicator %u: calls are turned as rows of the profile say", comm->id);
}

struct capo_nccl *capo_override_unrecorded(const struct capo_tls *t, struct capo_nccl *into,
                                           const void *handle)
{
        const struct capo_comm *c = handle && !t->inside ? capo_comm_known(handle) : NULL;

        return c && c->turns ? c->into : into;
}
