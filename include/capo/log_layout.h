/* SPDX-License-Identifier: Apache-2.0 */
/* The log: one file per process, named <host>.<pid>[.<n>].capo, mode 0600, appended to, never
 * rewritten.
 *
 *      +-------------------+----------------+----------------+-- - -
 *      | capo_log_header   | frame          | frame          |
 *      +-------------------+----------------+----------------+-- - -
 *
 *      frame:  | type u16 | flags u16 | size u32 | check u64 | payload, size bytes | zeros to a
 *              multiple of 8 |
 *
 * check = XXH3_64bits of the payload, seeded with (type | flags << 16 | size << 32) (xxhash.h,
 * XXH3_64bits_withSeed). A frame type a reader does not know is skipped by its size. A later frame
 * that describes the same id replaces the earlier one. A file that ends inside a frame was cut: all
 * before it is good. All integers are in the byte order of `order`.
 *
 * Times: the file's epoch is `t0_mono_ns` (CLOCK_MONOTONIC) = `t0_real_ns` (CLOCK_REALTIME) =
 * `t0_ticks` (time-stamp counter). On disk every time is nanoseconds since that epoch; the writer
 * converts ticks, and END carries the drift seen.
 *
 * The same call is described once, by a SHAPE, and then named by a 16-bit number; so a traced call
 * costs 14 to 22 bytes. A BLOCK holds its calls by column, because that is how they are read: the
 * report needs two of the columns. Statistics live in CELLs: exact counts per (communicator, call,
 * bytes, algo, proto, channels, clock, rule, result). */
#pragma once

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define CAPO_LOG_MAGIC "CAPOLOG\n"
#define CAPO_LOG_VERSION \
        2 /* what this release writes; docs/internals/log-format.md says what changed */
#define CAPO_LOG_MIN_READER 2 /* the oldest reader that understands it */
#define CAPO_LOG_ORDER      0x01020304u

struct capo_log_header {
        char magic[8];
        uint32_t order; /* CAPO_LOG_ORDER as the writer sees it */
        uint16_t version;
        uint16_t min_reader;
        uint32_t header_size; /* bytes to the first frame */
        uint32_t pid;
        uint64_t t0_ticks;
        uint64_t t0_mono_ns;
        uint64_t t0_real_ns;
        uint64_t ticks_per_s; /* first calibration; 1000000000: the ticks are CLOCK_MONOTONIC */
        uint64_t reserved[2];
};
static_assert(sizeof(struct capo_log_header) == 72, "layout");

struct capo_frame {
        uint16_t type;  /* enum capo_frame_type (capo/frame_types.h) */
        uint16_t flags; /* 0 */
        uint32_t size;  /* of the payload, without padding; at most CAPO_FRAME_MAX */
        uint64_t check;
};
static_assert(sizeof(struct capo_frame) == 16, "layout");
#define CAPO_FRAME_MAX (16u << 20)

struct capo_log_comm {
        uint16_t id;       /* 1.. in this process; as in capo_record.comm */
        uint16_t parent;   /* id of the communicator it was split, shrunk or grown from; 0 none */
        int32_t rank;      /* -1 not known */
        int32_t n_ranks;   /* -1 not known */
        int32_t device;    /* CUDA device; -1 not known */
        int32_t n_nodes;   /* as NCCL reported to a plugin; -1 not known */
        int32_t min_local; /* ranks on the smallest and largest node, as NCCL reported to a plugin;
                              -1 not known */
        int32_t max_local;
        int32_t color; /* of the split; -1 none */
        uint64_t uid;  /* the same on every rank of this communicator and on no other of the job */
        uint64_t comm_hash;   /* NCCL's own commHash if a plugin got it; else 0 */
        uint64_t t_created;   /* ns since epoch: the init call's return */
        uint64_t t_destroyed; /* 0 while alive */
        uint64_t handle;      /* the ncclComm_t, to tell copies apart */
        uint16_t library; /* which libnccl of this process: INFO nccl.path (0), nccl.path.1, ... */
        uint16_t name_size;
        uint32_t flags; /* enum capo_comm_flag */
};
static_assert(sizeof(struct capo_log_comm) == 80, "layout");

enum capo_comm_flag {
        CAPO_COMM_NONBLOCKING = 1,
        CAPO_COMM_ABORTED = 2,
        CAPO_COMM_TUNED = 4, /* a profile rule applied at init */
        CAPO_COMM_SEVERAL =
                8, /* stands for several that are alike: there were more than 64,512; uid is 0 */
};

struct capo_log_site {
        uint16_t id;
        uint16_t chosen; /* 1: a struct capo_log_site_chosen follows the text (unaligned) */
        uint32_t text_size;
        uint64_t count;   /* calls from here */
        uint64_t host_ns; /* their host time */
        uint64_t gpu_ns;  /* GPU time of those that were timed there, not scaled */
        uint64_t gpu_count;
};
static_assert(sizeof(struct capo_log_site) == 40, "layout");

/* Of gpu_ns and gpu_count, those of calls that stand for themselves (CAPO_RECORD_CHOSEN). */
struct capo_log_site_chosen {
        uint64_t gpu_ns, gpu_count;
};

struct capo_log_shape {
        uint64_t bytes;
        uint32_t stream;
        int32_t peer;
        uint16_t id;   /* 0 .. 65534 */
        uint16_t cell; /* the CELL its calls are counted in; 65535 none */
        uint16_t comm;
        uint16_t site;
        uint16_t rule;
        uint8_t call;
        uint8_t type;
        uint8_t op;
        int8_t result;
        uint8_t clock;
        uint8_t flags;
        uint8_t algo_proto;
        uint8_t channels;
        uint16_t reserved[3];
};
static_assert(sizeof(struct capo_log_shape) == 40, "layout");
static_assert(offsetof(struct capo_log_shape, reserved) + 6 == 40,
              "no padding: shapes are compared as bytes, and written");

/* Columns, in this order, each n values, each column padded to 8 bytes:
 *   u32 t_begin    ns after base          always
 *   u32 host_ns    t_end - t_begin        always
 *   u32 seq                               always
 *   u16 shape                             always
 *   u32 gpu_ns                            if CAPO_COLUMN_GPU
 *   u32 aux                               if CAPO_COLUMN_AUX: group number for members, begin on
 *                                         the GPU of calls timed by events (capo_record.group),
 *                                         else 0; a group's own number is its seq. (Version 1 kept
 *                                         a place here that nobody filled: skip it.)
 * An absent column is all zero. */
struct capo_log_block {
        uint64_t base; /* ns since epoch */
        uint32_t n;
        uint16_t columns; /* enum capo_column */
        uint16_t thread;  /* number of the recording thread in this process */
};
static_assert(sizeof(struct capo_log_block) == 16, "layout");
enum capo_column { CAPO_COLUMN_GPU = 1, CAPO_COLUMN_AUX = 2 };

/* Histogram of nanoseconds: 16 buckets per power of two, exact below 16. Bucket of v:
 *   v < 16: v;  else e = floor(log2 v), 16 * (e - 3) + ((v >> (e - 4)) & 15)
 * 32-bit values: buckets 0 .. 463; larger values count in the last. A bucket's width is at most
 * 1/16 of its value. */
#define CAPO_HIST_BUCKETS 464

/* One histogram in a CELL: header, then n pairs, by rising bucket. */
struct capo_log_hist {
        uint64_t count, sum_ns, min_ns, max_ns;
        double sum_sq; /* of ns, for the coefficient of variation */
        uint32_t n;    /* pairs that follow */
        uint32_t reserved;
};
struct capo_log_hist_pair {
        uint32_t bucket;
        uint32_t reserved;
        uint64_t count;
};

struct capo_log_cell {
        uint64_t bytes;
        uint64_t count; /* calls, timed or not */
        uint16_t id;
        uint16_t comm;
        uint16_t rule;
        uint8_t call;
        uint8_t algo_proto;
        uint8_t channels;
        uint8_t clock; /* of the second histogram: EVENT or KERNEL; NONE when there is none */
        int8_t result;
        uint8_t hists; /* bit 0: a host histogram follows; bit 1: then a GPU histogram; bit 2: then
                          one of how long kernels waited (capo_record_waited()), which older readers
                          do not see */
        uint8_t flags; /* enum capo_record_flag: MEMBER, GROUP, CAPTURED, CHOSEN keep cells apart */
        uint8_t reserved[3];
};
static_assert(sizeof(struct capo_log_cell) == 32, "layout");

struct capo_log_end {
        uint64_t t_ns;    /* when this was written, ns since epoch */
        uint64_t mono_ns; /* CLOCK_MONOTONIC and CLOCK_REALTIME at one moment: the drift of ticks */
        uint64_t real_ns;
        uint64_t calls;       /* recorded */
        uint64_t dropped;     /* lost because a ring was full or no memory was available */
        uint64_t gpu_dropped; /* wanted to be timed on the GPU, but no event was free, or the driver
                                 took none */
        uint64_t shape_overflow; /* counted in a catch-all cell because a table was full */
        uint64_t bytes_lost;     /* log bytes that could not be written (disk full, folder gone) */
        double cost_ns;     /* capo's own cost per call, measured in this process; 0: it was not */
        double ticks_per_s; /* calibration over the whole run */
        uint32_t clean; /* 1: process exit; 2: killed, written by `capo recover`; 0: a checkpoint */
        uint32_t threads;
};
static_assert(sizeof(struct capo_log_end) == 88, "layout");

/** capo_hist_bucket() - bucket of @ns; see above. */
static inline unsigned capo_hist_bucket(uint64_t ns)
{
        unsigned e;

        if (ns < 16)
                return (unsigned)ns;
        if (ns > UINT32_MAX)
                return CAPO_HIST_BUCKETS - 1;
        e = 63 - (unsigned)__builtin_clzll(ns);
        return 16 * (e - 3) + ((ns >> (e - 4)) & 15);
}

/** capo_hist_floor() - smallest value of @bucket; capo_hist_floor(b + 1) is one past its largest.
 */
static inline uint64_t capo_hist_floor(unsigned bucket)
{
        unsigned e = bucket / 16 + 3;

        return bucket < 16 ? bucket : (uint64_t)(16 + bucket % 16) << (e - 4);
}
