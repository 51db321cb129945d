/* SPDX-License-Identifier: Apache-2.0 */
/* All ranks of a communicator time the same calls, without a word between them: a rank is late or
 * early by comparison only. So all but the pauses depends on what ranks have in common, and each
 * run draws others, because the communicator's number is another one.
 *
 * Nothing is drawn more often after a slow call: the rank that was late sees no slow call. */
#include "shim/gpu/draw.h"
#include "shim/record/state.h"

/* So many calls of a communicator are all timed: a short job would else have too few to compare. */
enum { EARLY = 32, PAUSE_MS = 20 };

static uint32_t one_in;
static bool early_too;

void capo_draw_one_in(uint32_t n, bool early)
{
        one_in = n;
        early_too = early;
}

/* Calls to the next one that is timed: 1 .. 2 * one_in - 1, `one_in` on average. Not always
 * `one_in`: a training step with, say, 38 calls would then have some that are never timed. (The
 * generator is the linear congruential one of Numerical Recipes, its upper bits.) */
static uint32_t next_wait(struct capo_comm *comm)
{
        uint64_t span = 2 * (uint64_t)one_in - 1;

        comm->gpu_turn = comm->gpu_turn * 1664525u + 1013904223u;
        span = span < UINT32_MAX ? span : UINT32_MAX;
        return 1 + (uint32_t)(comm->gpu_turn * span >> 32);
}

/* Is it the turn of this call? Every call takes part in the draw, whatever else it is timed for. */
static bool is_drawn(struct capo_comm *comm)
{
        if (!comm->gpu_wait) { /* where one comes in between two that are timed: nearer to the next
                                  than they are apart */
                uint32_t a, b;

                /* ranks of some grown communicators do not know each other's number */
                comm->gpu_turn = comm->apart ? 0 : (uint32_t)(comm->uid >> 32 ^ comm->uid);
                a = next_wait(comm);
                b = next_wait(comm);
                comm->gpu_wait = a < b ? a : b;
        }
        if (--comm->gpu_wait)
                return false;
        comm->gpu_wait = next_wait(comm);
        return true;
}

/* The first call of each kind and size, which NCCL's preparations are in, and the second, which is
 * like all that follow: so what a short job spends its time on is not left without any. */
static bool is_new(struct capo_comm *comm, unsigned call, uint64_t bytes)
{
        enum { N = N_ELEMENTS(comm->gpu_shapes), PROBES = 8 };
        uint64_t hash = (bytes * 64 + call + 1) * 0x9e3779b97f4a7c15u;
        uint32_t is = (uint32_t)(hash >> 20) | 3;

        for (uint32_t k = 0; k < PROBES; k++) { /* its place, or the next that is free */
                uint32_t *seen = &comm->gpu_shapes[((hash >> 58) + k) % N];

                if (*seen && *seen != is - 1 && *seen != is)
                        continue;
                if (*seen == is)
                        return false;
                *seen = *seen ? is : is - 1;
                return true;
        }
        return false;
}

static bool is_early(const struct capo_comm *comm)
{
        return early_too && (uint64_t)comm->seq + comm->p2p_seq <= EARLY;
}

/* Has the communicator paused? The first call of a step shows which rank is late, and two events in
 * so long a time are nothing. A rank may see a pause where another one sees none: a call stands for
 * itself only if all of them chose it (analysis/job/meet.c). */
static bool is_after_pause(struct capo_comm *comm, uint64_t now_ms)
{
        uint64_t before = comm->gpu_asked_ms;

        comm->gpu_asked_ms = now_ms;
        return early_too && before && now_ms - before >= PAUSE_MS;
}

/* So large that two events beside it are nothing: all of them are timed. */
static bool is_large(uint64_t bytes) { return bytes >= 256 << 20; }

struct capo_draw capo_draw_call(struct capo_comm *comm, unsigned id, uint64_t bytes,
                                uint64_t now_ms)
{
        bool drawn = is_drawn(comm), new = is_new(comm, id, bytes),
             paused = is_after_pause(comm, now_ms);
        struct capo_draw draw = {.chosen = one_in > 1 &&
                                           (new || paused || is_early(comm) || is_large(bytes))};

        draw.timed = drawn || draw.chosen;
        return draw;
}
