/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "capo/frame_types.h"
#include "capo/log_layout.h"
#include "core/base/util.h"
#include "analysis/job/job.h"
#include "analysis/job/scratch.h"
#include "analysis/job/stats.h"
#include "tests/fuzz/frames.h"
#include "tests/fuzz/fuzz.h"
#include "tests/job_add.h"

enum {
        HEADER = sizeof(struct capo_log_header),
        HEAD = sizeof(struct capo_frame),
        FRAMES = 512,
        ROOM = 1 << 16
};

static size_t padded(uint32_t size) { return HEAD + (((size_t)size + 7) & ~(size_t)7); }

size_t fuzz_frames_next(const uint8_t *data, size_t size, size_t at)
{
        const uint8_t *found =
                size - at > 8 ? memmem(data + at + 8, size - at - 8, CAPO_LOG_MAGIC, 8) : NULL;

        return found ? (size_t)(found - data) : size;
}

/* Where the frames of all logs begin, and behind them the end of the last. */
static unsigned find(const uint8_t *data, size_t size, size_t *at)
{
        struct capo_frame f;
        unsigned n = 0;

        for (size_t log = 0, next; log < size; log = next) {
                size_t p = log + HEADER;

                next = fuzz_frames_next(data, size, log);
                for (; p + HEAD <= next && n < FRAMES; p += padded(f.size)) {
                        memcpy(&f, data + p, HEAD);
                        if (padded(f.size) > next - p)
                                break;
                        at[n++] = p;
                }
        }
        return n;
}

static uint32_t size_at(const uint8_t *data, size_t at)
{
        struct capo_frame f;

        memcpy(&f, data + at, HEAD);
        return f.size;
}

static void make_right(uint8_t *data, size_t at)
{
        struct capo_frame f;

        memcpy(&f, data + at, HEAD);
        f.check = XXH3_64bits_withSeed(data + at + HEAD, f.size,
                                       f.type | (uint64_t)f.flags << 16 | (uint64_t)f.size << 32);
        memcpy(data + at, &f, HEAD);
}

/* The bytes from @at to @end become @n others. Return: the new size, or @size where there is no
 * room. */
static size_t splice(uint8_t *data, size_t size, size_t max_size, size_t at, size_t end,
                     const uint8_t *with, size_t n)
{
        if (size - (end - at) + n > max_size)
                return size;
        memmove(data + at + n, data + end, size - end);
        memcpy(data + at, with, n);
        return size - (end - at) + n;
}

static size_t change_payload(uint8_t *data, size_t size, size_t max_size, size_t at)
{
        static uint8_t frame[HEAD + ROOM + 8];
        uint32_t old = size_at(data, at), new;

        if (old > ROOM)
                return size;
        memcpy(frame, data + at, HEAD + old);
        new = (uint32_t)LLVMFuzzerMutate(frame + HEAD, old, old + 64 < ROOM ? old + 64 : ROOM);
        memset(frame + HEAD + new, 0, padded(new) - HEAD - new);
        memcpy(frame + offsetof(struct capo_frame, size), &new, sizeof new);
        return splice(data, size, max_size, at, at + padded(old), frame, padded(new));
}

/* A frame once more, behind another; or without it. */
static size_t move_frame(uint8_t *data, size_t size, size_t max_size, size_t from, size_t to,
                         bool remove)
{
        static uint8_t frame[HEAD + ROOM + 8];
        size_t n = padded(size_at(data, from));

        if (remove)
                return splice(data, size, max_size, from, from + n, frame, 0);
        if (n > sizeof frame)
                return size;
        memcpy(frame, data + from, n);
        return splice(data, size, max_size, to, to, frame, n);
}

size_t fuzz_frames_mutate(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
        static size_t at[FRAMES];
        uint64_t random = XXH3_64bits(&seed, sizeof seed);
        unsigned what = random & 15, n = find(data, size, at);
        size_t some = n ? at[(random >> 8) % n] : 0, other = n ? at[(random >> 24) % n] : 0;

        if (!n || what == 0)
                return LLVMFuzzerMutate(data, size,
                                        max_size); /* whatever comes of it: checksums too */
        if (what == 1)
                LLVMFuzzerMutate(data, HEADER < size ? HEADER : size,
                                 HEADER < size ? HEADER : size);
        else if (what == 2)
                data[some] = (uint8_t)((random >> 40) % (CAPO_FRAMES + 1)); /* its type */
        else if (what <= 4)
                size = move_frame(data, size, max_size, some, other, what == 3);
        else
                size = change_payload(data, size, max_size, some);
        n = find(data, size, at);
        for (unsigned i = 0; i < n; i++)
                make_right(data, at[i]);
        return size;
}

struct capo_job *fuzz_frames_job(const uint8_t *data, size_t size)
{
        static struct reading
                *kept; /* 3 MB of tables, new ones for each job, were half of the time */
        struct capo_job *job = capo_job_new();
        char why[512];
        size_t at = 0;
        bool any = false;

        must(job);
        job->scratch->spare = steal(&kept);
        for (unsigned i = 0; i < FUZZ_FILES && at < size; i++) {
                size_t next = fuzz_frames_next(data, size, at);

                if (add_log(job, fuzz_file(i, data + at, next - at), why, sizeof why) == 0)
                        any = true;
                else
                        must(*why);
                at = next;
        }
        capo_job_finish(job);
        kept = steal(&job->scratch->spare);
        if (!any)
                capo_job_free(steal(&job));
        return job;
}
