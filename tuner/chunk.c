/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL asks for the chunk size after it has settled algorithm, protocol and channels of all calls
 * of a group, up to three times a call: with the bytes of its first channel, of its last, of each
 * between (scheduleCollTasksToPlan in enqueue.cc of 2.30; 2.31.2 and 2.32.3 ask the same). Which
 * call that is it does not say, nor how many channels there are. So:
 *
 * What counts is the last cost table of the same collective, and only where it was answered with
 * this algorithm and protocol. In a group of several calls the last table may be another call's. A
 * question is answered only where a call of that table's bytes, alone, on some number of channels,
 * would be cut like this: by NCCL's own arithmetic, in cells of 32 KiB of traffic. Else NCCL keeps
 * its own chunk.
 *
 * Ranks whose chunks differ hang. All of it is worked out from what they share: the last table of a
 * collective is the same on all of them when a call is enqueued. What was asked earlier plays no
 * part, because there they may differ: a rank may have called ncclGroupSimulateEnd() by itself,
 * which asks for cost tables and no chunks. */
#include "capo/algorithms.h"
#include "capo/collectives.h"
#include "core/base/calls.h"
#include "tuner/chunk.h"

#define TRAFFIC_MIN 32768u /* MinTrafficPerChannel */

/* NCCL counts all-gather and reduce-scatter over all ranks, and cuts what one of them has. */
static uint64_t count_parts(const struct capo_chunks *c, int func)
{
        return func == CAPO_COLL_ALLGATHER || func == CAPO_COLL_REDUCESCATTER ? (uint64_t)c->n_ranks
                                                                              : 1;
}

static uint64_t traffic_per_byte(const struct capo_chunks *c, int func, int proto)
{
        return (func == CAPO_COLL_ALLREDUCE ? 2 : count_parts(c, func)) *
               (proto == CAPO_PROTO_LL - 1 ? 4 : 1);
}

static uint64_t round_up(uint64_t x, uint64_t step) { return (x + step - 1) / step * step; }

/* Could @part be the first channel's of a lone call of @bytes? With fewer channels it is larger. */
static bool cut_like_this(uint64_t bytes, uint64_t part, uint64_t per_byte)
{
        uint64_t cell = round_up((TRAFFIC_MIN + per_byte - 1) / per_byte, 16);
        uint64_t traffic = bytes * per_byte, low = 2, high = CAPO_CHANNELS_MAX;

        if (part >= bytes || traffic < TRAFFIC_MIN)
                return part == bytes;
        while (low <= high) {
                uint64_t n = (low + high) / 2,
                         first = round_up(round_up(traffic / n + (traffic % n != 0), 16),
                                          cell * per_byte) /
                                 per_byte;

                if (first == part)
                        return true;
                if (first > part)
                        low = n + 1;
                else
                        high = n - 1;
        }
        return false;
}

void capo_chunks_note(struct capo_chunks *c, int func, uint64_t bytes, struct capo_choice choice)
{
        c->last[func] = (struct capo_chunk_asked){0};
        if (choice.algo && choice.chunk)
                c->last[func] = (struct capo_chunk_asked){.bytes = bytes / count_parts(c, func),
                                                          .chunk = choice.chunk,
                                                          .algo = (uint8_t)(choice.algo - 1),
                                                          .proto = (uint8_t)(choice.proto - 1)};
}

bool capo_chunks_answer(struct capo_chunks *c, int func, uint64_t bytes, int algo, int proto,
                        size_t *chunk)
{
        struct capo_chunk_asked *a;
        unsigned grain = capo_proto_grain((unsigned)proto + 1);
        uint64_t part;

        if ((unsigned)func >= CAPO_COLLS)
                return false;
        a = &c->last[func];
        if (!a->bytes || a->algo != algo || a->proto != proto || !bytes)
                return false;
        part = bytes / count_parts(c, func);
        if (!a->first) {
                if (!cut_like_this(a->bytes, part, traffic_per_byte(c, func, proto)))
                        return false;
                a->first = part;
        } else if (part != a->first && part != (a->bytes - 1) % a->first + 1) {
                return false;
        }
        if (algo == CAPO_ALGO_TREE - 1 || algo == CAPO_ALGO_PAT - 1 || a->chunk < *chunk)
                *chunk = a->chunk > grain ? a->chunk : grain;
        return true;
}
