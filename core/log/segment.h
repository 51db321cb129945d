/* SPDX-License-Identifier: Apache-2.0 */
/* The segment: all the memory the recorder of one process works in, as one file
 * /dev/shm/capo-<uid>-<pid>-<start>, so that a killed process leaves everything it knew to the next
 * reader.
 *
 *      +---------+-------+-------+-------+-------+--------+-------+------+------+--------+- - -
 *      | header  | comms | sites | cells | hists | flight | slots | text | kept | ring 0 | ring 1
 * ...
 *      +---------+-------+-------+-------+-------+--------+-------+------+------+--------+- - -
 *
 * Each area is an array of equal items with room for many more than are used; only its first
 * `committed` items are backed by memory (posix_fallocate, so a full tmpfs is an error code and not
 * SIGBUS: then the process goes on in memory of its own). The living process maps an area piece by
 * piece, as it grows: a job that locks its memory (mlockall) gets no more of it than is in use. The
 * segment holds no pointers, so the drain (core/log/drain.c) runs alike in the living process and
 * in one that maps the file afterwards.
 *
 * Who writes what, in the living process:
 *   ring records, ring.head    the thread that owns the ring; head is stored with release once a
 *                              record is whole
 *   ring.tail, cells, hists,
 *   flight, commit             the drain, one at a time
 *   comms, sites, text         any thread, under the segment's lock (struct capo_segment, not in
 *                              the file)
 *   slots                      by state, see segment_calls.h
 *   kept                       the drain thread: two halves, the one that kept_now names is whole
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "capo/log_layout.h"
#include "core/base/clock.h"
#include "core/base/lock.h"

#define CAPO_SEGMENT_MAGIC   "CAPOSEG\n"
#define CAPO_SEGMENT_VERSION 8 /* layouts never mix: another version is left alone */
#define CAPO_SEGMENT_DIR     "/dev/shm"
#define CAPO_SEGMENT_RINGS   1024u /* threads at once */
#define CAPO_RING_FIRST      512u  /* records of the ring a thread begins with, at most */

enum capo_area_id {
        CAPO_AREA_COMMS,
        CAPO_AREA_SITES,
        CAPO_AREA_CELLS,
        CAPO_AREA_HISTS,
        CAPO_AREA_FLIGHT,
        CAPO_AREA_SLOTS,
        CAPO_AREA_TEXT,
        CAPO_AREA_KEPT,
        CAPO_AREA_RINGS,
        CAPO_AREAS,
};

struct capo_area {
        uint64_t offset; /* from the start of the segment; a multiple of the page */
        uint64_t item;   /* bytes of one item */
        uint32_t capacity;
        _Atomic uint32_t committed; /* items backed by memory */
        _Atomic uint32_t used;      /* items in use: 0 .. used - 1 */
        uint32_t reserved;
};

struct capo_seg_comm {
        struct capo_log_comm log; /* times in ticks */
        char name[156];
        uint32_t stamp;                /* changes with every change; 0 not yet whole */
        uint32_t written;              /* the drain's: the stamp last written to the log */
        _Atomic uint32_t gpu;          /* enum capo_comm_gpu, by the drain thread */
        uint32_t gpu_seq, gpu_p2p_seq; /* numbers of the last calls when the GPU was asked */
        /* its newest call that the GPU was seen to end, of those that are timed; the drain thread
         * writes it */
        uint64_t ended_at;    /* ticks: when that was seen; 0: none yet */
        uint64_t ended_begin; /* ticks: when the call began on the host */
        uint64_t ended_ns;    /* on the GPU, a mean in which new calls weigh more */
        uint32_t ended_seq, ended_stream;
};
static_assert(sizeof(struct capo_seg_comm) == 288, "layout");

/* State of a communicator's last stream, by the driver (shim/gpu/stream_ask.c). */
enum capo_comm_gpu {
        CAPO_COMM_NOT_ASKED,
        CAPO_COMM_BUSY, /* something on it had not ended */
        CAPO_COMM_IDLE, /* all on it had ended */
};

#define CAPO_SITE_FRAMES 28
struct capo_seg_site {
        struct capo_log_site log; /* counters are the drain's, and those of chosen */
        struct capo_log_site_chosen chosen;
        _Atomic uint32_t ready;        /* pc and py are whole */
        uint32_t n_pc;                 /* innermost first */
        uint64_t pc[CAPO_SITE_FRAMES]; /* return addresses */
        uint64_t written;              /* the drain's: 1 + log.count when last written; 0 never */
        uint16_t py_size, text_size; /* the thread's Python frames; the text that the drain made */
        char reserved[4];
        char py[720]; /* "file.py:12 function\n" ... */
        char text[2048 - 40 - 16 - 8 - 8 * CAPO_SITE_FRAMES - 16 - 720];
};
static_assert(sizeof(struct capo_seg_site) == 2048, "layout");

struct capo_seg_cell {
        struct capo_log_cell key; /* count and hists live below; clock: NONE, EVENT (host and
                                     events) or KERNEL */
        uint64_t count;
        uint64_t written;           /* count when last written to the log */
        uint32_t host, gpu, waited; /* 1 + index of the histogram; 0 none */
        uint32_t reserved;
};
static_assert(sizeof(struct capo_seg_cell) == 64, "layout");

struct capo_seg_hist {
        uint64_t count, sum_ns, min_ns, max_ns;
        double sum_sq;
        uint64_t bucket[CAPO_HIST_BUCKETS];
        char reserved[4096 - 40 - 8 * CAPO_HIST_BUCKETS];
};
static_assert(sizeof(struct capo_seg_hist) == 4096, "layout");

/* Text that replaces itself: frames (type, size, bytes, up to the next multiple of 8) that belong
 * in the log only when nobody lives to write newer ones. Each new edition goes into the half that
 * is not in force. */
#define CAPO_KEPT_HALF (192u << 10)

/* What the log file has. Two of them, so that one store makes the new one true. */
struct capo_commit {
        uint64_t log_bytes;   /* bytes of the file that are good */
        uint64_t flight_tail; /* records of the flight area already in the file, or left out */
        uint64_t text_tail;
        uint64_t left_out; /* calls that are only counted: the file was at its limit */
};

struct capo_segment_header {
        char magic[8];
        uint32_t version;
        uint32_t header_size;
        uint64_t size; /* of the mapping */
        int32_t pid;
        uint32_t uid;
        uint64_t start_time; /* of the process, /proc/<pid>/stat field 22 */
        uint64_t pid_ns;     /* inode of /proc/self/ns/pid */
        char boot_id[40];
        char host[72];
        char log_path[1024];         /* absolute; "" when there is nowhere to write */
        _Atomic uint32_t ready;      /* everything above and the areas are valid */
        uint32_t trace_all;          /* every call goes to the log */
        uint32_t ring_records;       /* a power of two: the most that a ring has */
        uint32_t flight_records;     /* a power of two */
        uint32_t flight_keep;        /* of them, the last to keep: CAPO_FLIGHT */
        _Atomic uint32_t commit_now; /* which of the two is true */
        struct capo_commit commit[2];
        uint64_t log_max;             /* bytes of the file: CAPO_LOG_MAX; 0: no limit */
        struct capo_timebase clock;   /* the drain's */
        _Atomic uint64_t flight_head; /* records ever put there */
        _Atomic uint64_t text_head;
        _Atomic uint64_t text_tail; /* as committed: room up to here is free again */
        _Atomic uint64_t dropped;   /* calls of threads that got no ring */
        _Atomic uint64_t gpu_dropped;
        _Atomic uint64_t text_lost; /* bytes */
        _Atomic uint32_t kept_now;  /* 1 or 2: the half of the kept area that is whole; 0 none */
        uint32_t kept_size[2];      /* bytes */
        uint32_t unkept;            /* calls that found no memory in the flight area */
        _Atomic uint32_t threads;   /* numbers given out */
        uint64_t calls;             /* taken out of rings and slots */
        uint64_t shape_overflow, bytes_lost;
        double cost_ns;
        uint64_t last_write_ns; /* CLOCK_MONOTONIC of the last checkpoint */
        _Atomic uint32_t
                went_private;   /* 1: some of the areas is not in the file: there was no room */
        _Atomic uint32_t steps; /* changes as long as whoever drains gets on */
        _Atomic uint32_t ended; /* 1: the process came to its exit */
        _Atomic uint32_t exit_status; /* 1 + the argument of exit(); 0: it was not called */
        struct capo_area areas[CAPO_AREAS];
};

/* Where an area is mapped. */
struct capo_pieces {
        char **at;      /* by number of the piece; NULL: not yet */
        uint64_t item;  /* as in the header */
        uint32_t shift; /* a piece has 1 << shift items */
};

/* A mapped segment. */
struct capo_segment {
        struct capo_segment_header *header;
        struct capo_pieces pieces[CAPO_AREAS];
        size_t whole;         /* bytes that are mapped as one; 0: piece by piece */
        uint64_t budget;      /* bytes that the file may still take */
        uint32_t n_large;     /* rings with more than CAPO_RING_FIRST records */
        pthread_mutex_t lock; /* comms, sites, text, committing areas */
        int fd;               /* -1: anonymous memory, nothing to recover */
        dev_t dev;
        ino_t ino;
        char path[512];
};

struct capo_segment_config {
        uint64_t ring_bytes;     /* per thread; rounded to a power of two of records, 64 .. 1 M */
        uint64_t flight_records; /* rounded up to a power of two, at least 16384 when trace_all */
        bool trace_all;
        uint64_t log_max; /* bytes; 0: no limit */
};

struct capo_ring; /* core/log/segment_calls.h */

/** capo_ring_records() - records of @ring, 0 when it is damaged. */
uint32_t capo_ring_records(const struct capo_segment_header *h, const struct capo_ring *ring);

static inline void *capo_area_at(const struct capo_segment *seg, enum capo_area_id id, uint64_t i)
{
        const struct capo_pieces *p = &seg->pieces[id];

        return p->at[i >> p->shift] + (i & ((UINT64_C(1) << p->shift) - 1)) * p->item;
}

/** capo_segment_step() - whoever drains gets on. */
static inline void capo_segment_step(struct capo_segment_header *h)
{
        atomic_fetch_add_explicit(&h->steps, 1, memory_order_relaxed);
}

/** capo_segment_lay_out() - where everything lies follows from a few numbers: fills areas, size and
 * the counts of records of @h. */
void capo_segment_lay_out(struct capo_segment_header *h, const struct capo_segment_config *config);

/** capo_segment_whole() - @seg as @header lays it out, one map of @size. Return: 0; -ENOMEM. */
int capo_segment_whole(struct capo_segment *seg, struct capo_segment_header *header, size_t size);

/** capo_segment_unmap() - what is mapped of @seg; the file stays as it is. */
void capo_segment_unmap(struct capo_segment *seg);

/** capo_segment_create() - the segment of this process
 * @dir: CAPO_SEGMENT_DIR; tests give another
 *
 * Falls back to anonymous memory, with one line, if the file cannot be made; then a kill loses what
 * is not in the log. Holds a POSIX record lock on the file for the life of the process, so that
 * others know that it is alive. The file takes at most a quarter of what its folder has free, at
 * the start and at any time later: NCCL and data loaders need it, too. Beyond that the recorder
 * uses private memory.
 *
 * Return: 0; -ENOMEM when there is no memory at all. */
int capo_segment_create(struct capo_segment *seg, const char *dir,
                        const struct capo_segment_config *config);

/** capo_area_commit() - make the first @n items usable Caller holds the lock. A descriptor that the
 * program has closed is opened again. If the folder has no room, or the file was removed, the items
 * are private memory, with one line. Return: 0; -ENOSPC when the capacity is used up, or all memory
 * (nothing changed). */
int capo_area_commit(struct capo_segment *seg, enum capo_area_id id, uint32_t n);

/** capo_ring_commit() - make ring @nth usable, the first that is not; caller holds the lock
 * @large: for a thread that fills one of CAPO_RING_FIRST records
 *
 * The first two large rings have all the records that were asked for, the next ones half, from the
 * ninth on a quarter, because few threads of a process make most of its calls. With little memory
 * they have fewer. capo_area_commit() makes large ones. Return: as capo_area_commit(). */
int capo_ring_commit(struct capo_segment *seg, uint32_t nth, bool large);

/** capo_segment_hold() - others see by a lock that the process lives, which goes when a program
 * closes descriptors that are not its own: taken again. Now and then, any thread. */
void capo_segment_hold(struct capo_segment *seg);

/** capo_segment_remove() - unlink the file, if it is still ours. It stays open and the memory
 * mapped: threads may be in it, and may need more of it. */
void capo_segment_remove(struct capo_segment *seg);

/** capo_segment_forget() - in a fork's child: let go of the parent's file without touching it. */
void capo_segment_forget(struct capo_segment *seg);

/* ---- between segment.c and segment_layout.c ---- */

#define CAPO_PIECE 65536u /* of the file, mapped at once; the largest page there is */

uint64_t capo_round_up(uint64_t v, uint64_t to);

/** capo_ring_bytes() - of a ring with so many records. */
uint64_t capo_ring_bytes(uint64_t records);

/** capo_step_end() - where memory for @bytes of an area ends: whole pages, later some ahead. */
uint64_t capo_step_end(uint64_t bytes);

/** capo_map_own() - memory of the process alone; NULL: there are no addresses. */
void *capo_map_own(size_t size);

/** capo_pieces_lay() - the pieces of @seg's areas, of which none is mapped yet. Return: 0; -ENOMEM.
 */
int capo_pieces_lay(struct capo_segment *seg, const struct capo_segment_header *h);

/** capo_pieces_table() - bytes of the table that it makes, at seg->pieces[0].at. */
size_t capo_pieces_table(const struct capo_segment_header *h);

/** capo_piece_bytes() - bytes of the file that piece @nth of an area has. */
size_t capo_piece_bytes(const struct capo_segment *seg, int id, size_t nth);
