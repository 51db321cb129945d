/* SPDX-License-Identifier: Apache-2.0 */
/* What recording costs in this process: the hot path itself, run on the drain thread with a ring of
 * its own, around a call that does nothing; less the same call bare. The median of batches, so that
 * one interrupt does not count. */
#include <sys/mman.h>

#include "capo/call_ids.h"
#include "core/base/order.h"
#include "shim/record/own_cost.h"
#include "shim/record/recorder.h"

#define BATCH   256
#define BATCHES 15

static __attribute__((noinline)) ncclResult_t call_bare(void *comm)
{
        __asm__ volatile("" : : "r"(comm) : "memory");
        return ncclSuccess;
}

static __attribute__((noinline)) ncclResult_t call_recorded(struct capo_tls *t,
                                                            struct capo_comm *comm)
{
        const struct capo_what what = {.count = 1, .type = 7, .op = 0, .peer = -1};
        const void *caller = __builtin_return_address(0), *frame = __builtin_frame_address(0);
        struct capo_record *r;
        ncclResult_t rc;

        r = capo_call_usual(t, comm->handle, caller, frame)
                    ? capo_call_begin(t, comm, NULL, CAPO_CALL_ALLREDUCE, &what, caller, frame)
                    : capo_call_begin_long(t, NULL, CAPO_CALL_ALLREDUCE, &what, caller, frame);
        rc = call_bare(comm);
        capo_call_end(t, r, capo_clock_ticks(), rc, false, NULL);
        return rc;
}

double capo_own_cost(void)
{
        static struct capo_site_entry sites[CAPO_SITE_CACHE];
        static struct capo_tls scratch;
        struct capo_comm comm = {.handle = &comm, .n_ranks = 1, .gpu_wait = UINT32_MAX};
        struct capo_tls *t = &scratch;
        double ns_per_tick = capo_seg.header->clock.ns_per_tick, cost[BATCHES];
        struct capo_ring *ring = capo_shim_alloc(sizeof *ring + BATCH * sizeof *ring->records);

        if (!ring)
                return 0;
        *t = (struct capo_tls){.ready = 1,
                               .ring = ring,
                               .mask = BATCH - 1,
                               .limit = UINT64_MAX,
                               .comm = &comm,
                               .site_misses = UINT32_MAX,
                               .sites = sites};
        for (int b = 0; b < BATCHES; b++) {
                uint64_t t0, t1, t2;

                t0 = capo_clock_ticks();
                for (int i = 0; i < BATCH; i++)
                        call_recorded(t, &comm);
                t1 = capo_clock_ticks();
                for (int i = 0; i < BATCH; i++)
                        call_bare(&comm);
                t2 = capo_clock_ticks();
                cost[b] = ((double)(t1 - t0) - (double)(t2 - t1)) * ns_per_tick / BATCH;
        }
        munmap(ring, sizeof *ring + BATCH * sizeof *ring->records);
        qsort(cost, BATCHES, sizeof *cost, capo_order_double);
        return cost[BATCHES / 2] > 0 ? cost[BATCHES / 2] : 0;
}
