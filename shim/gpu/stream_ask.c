/* SPDX-License-Identifier: Apache-2.0 */
/* Has the GPU ended the last call of a communicator? One call in eight has events; of the others
 * nobody would know, and a job that is stuck makes no further call that could be timed. So where a
 * communicator has been quiet for some seconds, the drain thread asks the stream of its last call,
 * which needs no event: cuStreamQuery() waits for nothing.
 *
 * It is not asked
 *   - of a thread's own default stream (handle 2): only that thread can ask about it. Of the legacy
 *     one (0, 1) the context has to be known, which it is from the first call that was timed on;
 *   - of a stream that is being captured, and the answer of a capture's stream says nothing of the
 *     graph's launches;
 *   - of a communicator that was destroyed. Of a non-blocking one that was not seen to be ready
 * only "busy" counts: its call may not be on the stream yet;
 *   - again once it was idle, until the next call: the job may have destroyed the stream since.
 *     While it is busy it is asked again, each time after twice as long.
 * CAPO_HANG=0 and CAPO_GPU_SAMPLE=0 turn it off. */
#include "shim/gpu/driver.h"
#include "shim/record/comms.h"
#include "shim/record/start.h"

enum {
        FOLLOWED = 1024
}; /* communicators, by the last bits of their numbers: of more, one of a few */

/* The drain thread's. */
static struct {
        uint32_t seq, p2p_seq;
        uint64_t since_ns, next_ns; /* CLOCK_MONOTONIC: without a call; of the next question */
        uint16_t id;
} quiet[FOLLOWED];

/* cuStreamQuery() wants the stream's context in older drivers. */
static enum capo_comm_gpu ask_stream(const struct capo_gpu_driver *cu, void *stream, void *context)
{
        int capturing = 0, mode = CU_CAPTURE_MODE_RELAXED;
        enum capo_comm_gpu said = CAPO_COMM_NOT_ASKED;
        void *popped;

        if ((uintptr_t)stream == 2 || cu->ThreadExchangeStreamCaptureMode(&mode) != CU_OK)
                return said;
        if (((uintptr_t)stream <= 1 || cu->StreamGetCtx(stream, &context) == CU_OK) && context &&
            cu->CtxPushCurrent(context) == CU_OK) {
                cu_result r = cu->StreamIsCapturing(stream, &capturing);

                r = r == CU_OK && !capturing ? cu->StreamQuery(stream) : CU_CAPTURE_IMPLICIT;
                said = r == CU_OK          ? CAPO_COMM_IDLE
                       : r == CU_NOT_READY ? CAPO_COMM_BUSY
                                           : CAPO_COMM_NOT_ASKED;
                cu->CtxPopCurrent(&popped);
        }
        cu->ThreadExchangeStreamCaptureMode(&mode);
        return said;
}

/* The job's threads count on meanwhile: a number that is one behind says "quiet" a poll later. */
CAPO_UNSANITIZED static void check_comm(const struct capo_gpu_driver *cu,
                                        struct capo_seg_comm *entry, const struct capo_comm *comm,
                                        uint64_t now_ns, uint64_t quiet_ns)
{
        uint32_t seq = __atomic_load_n(&comm->seq, __ATOMIC_RELAXED),
                 p2p_seq = __atomic_load_n(&comm->p2p_seq, __ATOMIC_RELAXED);
        __typeof__(quiet[0]) *q = &quiet[comm->id % FOLLOWED];
        enum capo_comm_gpu said;

        if (q->id != comm->id || q->seq != seq || q->p2p_seq != p2p_seq) {
                *q = (__typeof__(*q)){seq, p2p_seq, now_ns, now_ns + quiet_ns, comm->id};
                atomic_store_explicit(&entry->gpu, CAPO_COMM_NOT_ASKED, memory_order_relaxed);
        }
        if (now_ns < q->next_ns || !(seq | p2p_seq) ||
            atomic_load_explicit(&entry->gpu, memory_order_relaxed) == CAPO_COMM_IDLE)
                return;
        q->next_ns = now_ns + (now_ns - q->since_ns);
        entry->gpu_seq = seq;
        entry->gpu_p2p_seq = p2p_seq;
        said = ask_stream(cu, __atomic_load_n(&comm->stream, __ATOMIC_RELAXED),
                          __atomic_load_n(&comm->context, __ATOMIC_RELAXED));
        if (comm->pending && said == CAPO_COMM_IDLE)
                said = CAPO_COMM_NOT_ASKED;
        atomic_store_explicit(&entry->gpu, said, memory_order_release);
}

void capo_stream_poll(uint64_t now_ns, uint64_t quiet_ns)
{
        const struct capo_gpu_driver *cu = capo_gpu_driver();
        uint32_t n = atomic_load_explicit(&capo_seg.header->areas[CAPO_AREA_COMMS].used,
                                          memory_order_acquire);

        for (uint32_t id = n > FOLLOWED ? n - FOLLOWED + 1 : 1; cu && id <= n; id++) {
                struct capo_seg_comm *entry = capo_area_at(&capo_seg, CAPO_AREA_COMMS, id - 1);
                const struct capo_comm *comm =
                        __atomic_load_n(&entry->log.t_destroyed, __ATOMIC_RELAXED)
                                ? NULL
                                : capo_comm_numbered((uint16_t)id);

                if (comm)
                        check_comm(cu, entry, comm, now_ns, quiet_ns);
        }
}

void capo_stream_fork(void) { memset(quiet, 0, sizeof quiet); }
