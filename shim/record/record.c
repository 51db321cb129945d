/* SPDX-License-Identifier: Apache-2.0 */
/* The rare half of recording: what recorder.h calls when a thread, a group or a ring begins or
 * ends. Nothing here runs per call in the steady state, so here there may be a lock, but still
 * nothing that blocks on the disk or on another process.
 *
 * A group. Its members are written to the ring as they come but stay unpublished: NCCL decides and
 * launches all of them at the outermost GroupEnd, and only then do the plugins hear what ran. ran()
 * finds its member by call, communicator and size, in order. Then the group's own record, which has
 * the time, follows its members. A group larger than half the ring is let go early: its first
 * members then lack what the plugins know. */
#include "capo/call_ids.h"
#include "core/base/calls.h"
#include "shim/record/comms.h"
#include "shim/record/recorder.h"
#include "shim/record/start.h"

static _Atomic uint32_t groups;

/* The same collective, for another rank of its communicator? The next has another number. */
static bool is_alike(const struct capo_record *r, const struct capo_record *first)
{
        enum capo_call_kind kind = capo_call_kind(r->call);

        return r->seq && r->seq == first->seq && kind != CAPO_KIND_P2P && kind != CAPO_KIND_RMA &&
               r->call == first->call && r->bytes == first->bytes && r->type == first->type &&
               r->op == first->op && r->peer == first->peer && r->comm != first->comm;
}

/* What a group is that was all @of, with one more call. */
static uint8_t group_with(uint8_t of, uint8_t call)
{
        bool sends = (call == CAPO_CALL_SEND || call == CAPO_CALL_RECV) &&
                     (of == CAPO_CALL_SEND || of == CAPO_CALL_RECV || of == CAPO_CALL_GROUP);

        return of == call ? of : sends ? CAPO_CALL_GROUP : 0;
}

/* A group's members lie in the ring until NCCL has said what ran; then their tags are of no use. */
static void forget_tags(struct capo_tls *t)
{
        for (uint64_t i = t->group_head; t->group_tagged && i < t->head; i++)
                t->ring->records[i & t->mask].gpu_ns = 0;
        t->group_tagged = false;
}

/* A member of the open group. */
static void group_note(struct capo_tls *t, struct capo_record *r, void *stream)
{
        if (t->group_members++ == 0) {
                t->group_comm = t->comm;
                t->group_call = t->group_kind = r->call;
                t->group_seq = r->seq;
                t->group_stream = stream;
                t->group_first = *r;
                if (!t->group_site)
                        t->group_site = r->site;
        } else {
                t->group_kind = group_with(t->group_kind, r->call);
                t->group_mixed |= t->group_comm != t->comm;
                t->group_uids |= t->group_comm != t->comm &&
                                 (!t->comm->uid || t->group_comm->uid != t->comm->uid);
                t->group_alike = t->group_alike && t->group_mixed && !t->group_uids &&
                                 is_alike(r, &t->group_first);
        }
        if (t->group_members <= CAPO_GROUP_TIMED) {
                t->group_of[t->group_members - 1].comm = t->comm;
                t->group_of[t->group_members - 1].stream = stream;
        }
        t->group_bytes += r->bytes;
        r->group = t->group;
        r->flags |= CAPO_RECORD_MEMBER;
        r->clock = CAPO_CLOCK_NONE;
        if (t->head - t->group_head > t->mask / 2) {
                forget_tags(t);
                capo_ring_publish(t);
                t->group_head = t->head;
        }
        r->gpu_ns = t->tag;
        t->group_tagged |= t->tag != 0;
        t->tag = 0;
}

/* A call that NCCL refused took none of its numbers: on a rank where it failed the next one has the
 * number that it has on all others. The refused call itself has none. */
static void give_number_back(struct capo_comm *comm, struct capo_record *r)
{
        enum capo_call_kind kind = capo_call_kind(r->call);

        if (!r->seq)
                return;
        if (kind == CAPO_KIND_P2P || kind == CAPO_KIND_RMA)
                comm->p2p_seq--;
        else
                comm->seq--;
        r->seq = 0;
}

/* The end of a call that failed, is in a group, is timed on the GPU, or of which plugins spoke. */
void capo_call_end_unusual(struct capo_tls *t, ncclResult_t result, bool other, void *stream)
{
        struct capo_record *r = capo_call_record(t);
        struct capo_gpu_call gpu = t->gpu ? t->gpu_call : (struct capo_gpu_call){.slot = -1};
        uint32_t kernel_nth = t->algo_proto | t->rule ? t->kernel_nth : 0;
        bool spare = t->spare;

        r->result = (int8_t)result;
        if (result == ncclInProgress)
                r->flags |= CAPO_RECORD_ASYNC;
        else if (result != ncclSuccess)
                give_number_back(t->comm, r);
        if (t->rule) /* else a rule may have turned the call, which stands there already */
                r->rule = t->rule;
        r->algo_proto = t->algo_proto;
        r->channels = t->channels;
        if (t->algo_proto | t->rule) {
                t->kernel_nth = 0;
                t->algo_proto = t->channels = 0;
                t->rule = 0;
        }
        t->gpu = t->spare = false;
        if (gpu.captured) {
                r->flags |= CAPO_RECORD_CAPTURED;
                r->clock = CAPO_CLOCK_NONE;
        }
        if (t->group_depth && !other)
                group_note(t, r, stream);
        if (gpu.slot >= 0) /* the record goes on from the slot */
                capo_gpu_end(t, gpu.slot, stream, *r);
        else if (kernel_nth && r->clock == CAPO_CLOCK_HOST && result == ncclSuccess &&
                 capo_kernel_wait(t->kernel_hash, kernel_nth, r))
                ;       /* the record goes on when the stamps have come */
        else if (spare) /* perhaps there is room by now */
                capo_record_put(t, *r);
        else
                capo_ring_advance(t);
}

/* ---- groups ---- */

void capo_group_begin(struct capo_tls *t, uint64_t begin, uint32_t site)
{
        t->group = atomic_fetch_add_explicit(&groups, 1, memory_order_relaxed) + 1;
        t->group_begin = begin;
        t->group_head = t->head;
        t->group_bytes = 0;
        t->group_cluster = INT_MIN;
        t->group_comm = NULL;
        t->group_members = 0;
        t->group_stream = NULL;
        t->group_site = (uint16_t)site;
        t->group_call = CAPO_CALL_GROUP;
        t->group_kind = 0;
        t->group_mixed = t->group_uids = t->group_tagged = false;
        t->group_alike = true;
        t->rule = 0;
        t->rules_differ = false;
}

/* Events before what the group puts on the GPU; of a group that is one call of several ranks
 * (below) for each, on its stream. */
void capo_group_time(struct capo_tls *t, struct capo_group_gpu *gpu)
{
        bool each = t->group_alike && t->group_members <= CAPO_GROUP_TIMED &&
                    t->head - t->group_head == t->group_members;
        unsigned call = t->group_alike ? t->group_call : CAPO_CALL_GROUP;
        uint64_t bytes = t->group_alike ? t->group_first.bytes : t->group_bytes;

        gpu->n = each ? t->group_members : 1;
        for (uint32_t i = 0; i < gpu->n; i++)
                gpu->call[i] =
                        capo_gpu_begin(t->group_of[i].comm, t->group_of[i].stream, call, bytes);
}

/* A group of one call is that call, and its time the call's: PyTorch puts each collective in a
 * group. So is a group of one collective for each of its ranks that this thread drives (nccl-tests
 * -g N): it is the call of each of them, with the time on its own GPU. */
static void ungroup_calls(struct capo_tls *t, const struct capo_record *group,
                          const struct capo_group_gpu *gpu)
{
        struct capo_record timed[CAPO_GROUP_TIMED]; /* these go on from their slots */
        uint64_t to = t->group_head;

        for (uint64_t i = t->group_head; i < t->head; i++) {
                struct capo_record r = t->ring->records[i & t->mask];
                uint64_t nth = i - t->group_head;

                r.t_begin = group->t_begin;
                r.t_end = group->t_end;
                r.result = group->result;
                r.clock = group->clock;
                r.flags = (uint8_t)(group->flags & ~CAPO_RECORD_GROUP);
                r.group = 0;
                if (nth < gpu->n && gpu->call[nth].slot >= 0)
                        timed[nth] = r;
                else
                        t->ring->records[to++ & t->mask] = r;
        }
        for (uint64_t i = to; i < t->head;
             i++) /* not published yet, nor in a group that has not ended */
                t->ring->records[i & t->mask].flags = 0;
        t->head = to;
        capo_ring_publish(t);
        for (uint32_t i = 0; i < gpu->n; i++) {
                if (gpu->call[i].slot >= 0)
                        capo_gpu_end(t, gpu->call[i].slot, t->group_of[i].stream, timed[i]);
        }
}

void capo_group_end(struct capo_tls *t, const struct capo_group_gpu *gpu, ncclResult_t result,
                    uint64_t end)
{
        bool captured = gpu->n && gpu->call[0].captured;
        struct capo_record r = {
                .t_begin = t->group_begin,
                .t_end = end,
                .bytes = t->group_bytes,
                .stream = capo_fold(t->group_stream),
                .seq = t->group,
                .group = t->group,
                .peer = -1,
                .comm = t->group_mixed || !t->group_comm ? 0 : t->group_comm->id,
                .site = t->group_site,
                .rule = t->rules_differ ? 0 : t->rule,
                .call = CAPO_CALL_GROUP,
                .type = NO_TYPE,
                .op = NO_OP,
                .result = (int8_t)result,
                .clock = captured ? CAPO_CLOCK_NONE : CAPO_CLOCK_HOST,
                .flags = (uint8_t)(CAPO_RECORD_GROUP | (captured ? CAPO_RECORD_CAPTURED : 0) |
                                   (result == ncclInProgress ? CAPO_RECORD_ASYNC : 0)),
                .thread = (uint16_t)t->thread,
                .channels = t->group_kind,
        };
        uint32_t n_whole = 0; /* members that are in the ring */

        forget_tags(t);
        for (uint64_t i = t->group_head; i < t->head; i++) {
                struct capo_record *m = &t->ring->records[i & t->mask];

                if (!(m->flags & CAPO_RECORD_MEMBER))
                        continue;
                n_whole++;
                if (!m->rule)
                        m->rule = r.rule;
                if (captured)
                        m->flags |= CAPO_RECORD_CAPTURED;
                if (result == ncclInProgress)
                        m->flags |= CAPO_RECORD_ASYNC;
        }
        t->rule = 0;
        t->rules_differ = false;
        if (t->group_alike && t->group_members && n_whole == t->group_members &&
            t->head - t->group_head == n_whole) {
                ungroup_calls(t, &r, gpu);
                return;
        }
        capo_ring_publish(t);
        if (gpu->n && gpu->call[0].slot >= 0)
                capo_gpu_end(t, gpu->call[0].slot, t->group_stream, r);
        else if (t->group_members || t->n_creations)
                capo_record_put(t, r);
}

/* The group was tried and not made: its members were no calls, and their numbers are those of the
 * next ones. Of a group that is let go early the first ones stay: they are out of reach. */
void capo_group_forget(struct capo_tls *t)
{
        uint64_t to = t->group_head;

        forget_tags(t);
        for (uint64_t i = t->group_head; i < t->head; i++) {
                struct capo_record *r = &t->ring->records[i & t->mask];
                struct capo_comm *comm;

                if (!(r->flags & CAPO_RECORD_MEMBER))
                        t->ring->records[to++ & t->mask] = *r;
                else if ((comm = r->comm == t->group_comm->id ? t->group_comm
                                                              : capo_comm_numbered(r->comm)))
                        give_number_back(comm, r);
        }
        t->head = to;
        t->rule = 0;
        t->rules_differ = false;
        capo_ring_publish(t);
}

void capo_record_fork(void)
{
        memset(&capo_tls, 0, sizeof capo_tls);
        atomic_store(&groups, 0);
        capo_gpu_switch(false);
}
