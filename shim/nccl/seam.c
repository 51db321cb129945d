/* SPDX-License-Identifier: Apache-2.0 */
/* The seam to the plugins (capo/seam.h): what they ask of the current call, and tell of it. */

#include "capo/kernels.h"
#include "capo/env.h"
#include "capo/frame_types.h"
#include "core/base/calls.h"
#include "shim/nccl/real.h"
#include "shim/nccl/tag.h"
#include "shim/nccl/reported.h"
#include "shim/nccl/untuned.h"
#include "shim/record/comms.h"

/* The communicator with @hash that the open group has calls of: this thread's, where several of its
 * ranks are in the process. Without a hash only where there is no other. */
static struct capo_comm *of_group(struct capo_tls *t, uint64_t hash)
{
        struct capo_comm *likely_ones[] = {t->group_comm, t->comm, t->comm_before};

        if (!t->group_uids)
                return t->group_comm;
        for (size_t i = 0; hash && i < N_ELEMENTS(likely_ones); i++) {
                if (likely_ones[i] && likely_ones[i]->comm_hash == hash)
                        return likely_ones[i];
        }
        for (uint64_t i = t->head; hash && i-- > t->group_head;) {
                const struct capo_record *r = &t->ring->records[i & t->mask];

                if (r->flags & CAPO_RECORD_MEMBER && capo_comm_same(r->comm, hash))
                        return capo_comm_numbered(r->comm);
        }
        return capo_comm_by_hash(hash);
}

/* Of a group no member's own number counts but the last collective's: which calls come first, and
 * of which other communicators, may differ from rank to rank. */
static bool seam_current(uint64_t comm_hash, struct capo_seam_call *out)
{
        struct capo_tls *t = &capo_tls;
        struct capo_shim_outer outer;
        const struct capo_comm *comm;

        if (!capo_shim_current(&outer))
                return false;
        comm = t->group_depth ? of_group(t, comm_hash) : t->comm;
        *out = (struct capo_seam_call){
                .comm_uid = comm && !comm->apart ? comm->uid : 0,
                .seq = comm ? comm->seq : 0,
        };
        return true;
}

static void seam_decided(uint16_t rule)
{
        struct capo_tls *t = &capo_tls;

        if (!t->ready || !(t->inside || t->group_depth))
                return;
        if (t->group_depth && t->rule && t->rule != rule)
                t->rules_differ = true; /* which member each was for is not reported */
        t->rule = rule;
}

/* Does @ran speak of member @m? Counts as NCCL's Coll event has them: bytes for AllGather and
 * Broadcast, else elements. All ranks of a communicator in one process (one thread driving several
 * GPUs) have one hash, and their events come one by one: each takes the next member that has not
 * been reported yet, whichever rank's it is. Where tags are reported (v7) they are equal: NCCL puts
 * the calls of a group into an order of its own, and two of one size differ in nothing else. */
static bool is_ran(const struct capo_record *m, const struct capo_comm *comm,
                   const struct capo_seam_ran *ran)
{
        enum capo_call_kind kind = capo_call_kind(m->call);
        uint64_t bytes = ran->count;

        if (!(m->flags & CAPO_RECORD_MEMBER) || m->algo_proto ||
            kind != capo_call_kind(ran->call) ||
            (ran->tagged && !capo_tag_fits(ran->tag, m->gpu_ns)) ||
            (comm && m->comm != comm->id && !capo_comm_same(m->comm, ran->comm_hash)))
                return false;
        if (kind != CAPO_KIND_ALLGATHER && kind != CAPO_KIND_BROADCAST)
                bytes *= capo_type_size(m->type);
        if (comm &&
            (kind == CAPO_KIND_ALLGATHER || kind == CAPO_KIND_REDUCESCATTER ||
             kind == CAPO_KIND_ALLTOALL || kind == CAPO_KIND_GATHER || kind == CAPO_KIND_SCATTER))
                bytes *= comm->n_ranks;
        return m->bytes == bytes;
}

static void seam_ran(const struct capo_seam_ran *ran)
{
        struct capo_tls *t = &capo_tls;
        bool kernels = capo_shim_env()->kernel_time;
        struct capo_comm *comm =
                kernels || t->group_depth ? capo_comm_by_hash(ran->comm_hash) : NULL;
        uint32_t nth = 0;

        if (kernels && comm &&
            ran->algo_proto != CAPO_KERNEL_COPY_ENGINE) /* counted whoever launches it:
                                                           capo_seam.kernel will speak of the nth */
                nth = __atomic_add_fetch(&comm->n_ran, 1, __ATOMIC_RELAXED);
        if (!t->ready)
                return;
        if (t->group_depth) {
                for (uint64_t i = t->group_head; i < t->head; i++) {
                        struct capo_record *m = &t->ring->records[i & t->mask];

                        if (is_ran(m, comm, ran)) {
                                m->algo_proto = ran->algo_proto;
                                m->channels = ran->channels;
                                return;
                        }
                }
        } else if (t->inside && !t->algo_proto &&
                   capo_call_kind(ran->call) == capo_call_kind(capo_call_record(t)->call) &&
                   (!ran->tagged || capo_tag_fits(ran->tag, t->tag))) {
                t->algo_proto = ran->algo_proto;
                t->channels = ran->channels;
                if (kernels) {
                        t->kernel_nth = nth;
                        t->kernel_hash = ran->comm_hash;
                }
        }
}

static void seam_comm(const struct capo_seam_comm *comm)
{
        if (comm->tuner)
                capo_untuned_loaded();
        capo_comm_reported(comm);
}

static void seam_rules(const char *text)
{
        if (capo_shim_start()) {
                capo_shim_thread();
                capo_shim_text(CAPO_FRAME_RULES, text, strlen(text));
        }
}

static bool seam_simulates(void) { return capo_tls.simulates; }

static bool seam_in_front(void) { return capo_shim_start() && capo_nccl_copies[0].base; }

static const struct capo_seam seam = {
        .current = seam_current,
        .comm = seam_comm,
        .decided = seam_decided,
        .ran = seam_ran,
        .kernel = capo_comm_kernel,
        .rules = seam_rules,
        .simulates = seam_simulates,
        .in_front = seam_in_front,
};
const struct capo_seam *capo_seam = &seam;
