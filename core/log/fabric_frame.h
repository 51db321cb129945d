/* SPDX-License-Identifier: Apache-2.0 */
/* The text of FABRIC frames, in both directions: what a process did over libfabric, a line per
 * object. docs/internals/log-format.md describes the lines, core/log/fabric_frame.def lists them
 * and their keys. fabric_write.c puts snapshots together (in the job: no allocation, bounded),
 * fabric_read.c takes the last whole one apart (afterwards). No libfabric header here. */
#pragma once

#include "capo/log_layout.h"
#include "core/base/util.h"

/* Tables by kind of operation (core/log/fabric_kinds.h) have so much room. */
#define CAPO_FI_KIND_ROOM 12

/* Size class of a message: number of bits of its size. Class 0 holds empty messages, class b those
 * of 2^(b-1) .. 2^b - 1 bytes, the last everything larger. */
#define CAPO_FI_SIZES 40

/* Times in ns. */
struct capo_fabric_hist {
        uint64_t count, sum_ns, max_ns;
        uint32_t bucket[CAPO_HIST_BUCKETS]; /* capo/log.h */
};

#define CAPO_FABRIC_ERRORS 8
struct capo_fabric_error {
        int code; /* FI_E..., positive */
        uint64_t count;
        char text[64]; /* libfabric's own words */
};

/* Counters of an object, or the sum over a domain. */
struct capo_fabric_counts {
        struct {
                uint64_t count, bytes; /* posted; of receives the bytes are the buffers' */
                uint64_t sizes[CAPO_FI_SIZES];
        } kind[CAPO_FI_KIND_ROOM];
        uint64_t blind, blind_bytes; /* of these, receives to queues whose entries have no length:
                                        their buffers */
        uint64_t eagain;             /* posts refused for the moment */
        uint64_t empty, reads;       /* queue reads that found nothing, and something */
        uint64_t completions;        /* entries they returned */
        uint64_t received,
                received_bytes; /* completed receives of known length (formats MSG, DATA, TAGGED) */
        struct capo_fabric_error
                error[CAPO_FABRIC_ERRORS]; /* by code; a row whose count is 0 ends them */
        uint64_t errors_other;             /* of codes that have no row */
        /* the reader's sums */
        unsigned n_errors; /* rows used */
        uint64_t errors;   /* all */
        uint64_t overruns; /* of those FI_EOVERRUN: a queue was too small */
};

/* Devices of the machine, comma separated; "" none. */
struct capo_fabric_machine {
        char infiniband[2048], cxi[2048], net[2048];
};

/* A struct fid_fabric. */
struct capo_fabric_root {
        uint32_t id, domain; /* domain: 0 */
        bool closed;
        char provider[64], name[64];
        uint32_t api; /* FI_VERSION(): major << 16 | minor */
        struct capo_fabric_counts n;
};

struct capo_fabric_domain {
        uint32_t id, domain; /* domain: 0 */
        bool closed;
        uint32_t fabric_id;
        char provider[64], fabric[64], name[64], device[64];
        char nic[16];                /* PCI address, "" not known */
        int numa;                    /* -1 not known */
        bool unseen;                 /* what was opened on it could not be followed */
        uint64_t speed_bps;          /* 0 not known */
        unsigned sample;             /* one in so many posts was timed; 0 none */
        uint64_t lost_samples;       /* timed posts whose completion could not be identified */
        uint64_t folded;             /* objects that have no line; `n` is their sum */
        struct capo_fabric_counts n; /* the reader's: of all its endpoints, queues and counters */
        unsigned endpoints, queues;  /* the reader's */
        uint64_t mr_count, mr_bytes, mr_failed;
        struct capo_fabric_hist mr; /* how long registrations took */
        struct capo_fabric_hist
                tx; /* post to completion of sends, reads, writes, atomics (CLOCK_MONOTONIC) */
        struct capo_fabric_hist rx; /* of receives: waiting for the peer included */
};

/* An endpoint, queue, counter, event queue or passive endpoint. */
struct capo_fabric_object {
        char kind[8]; /* the reader's: ep, cq, cntr, eq, pep */
        uint32_t id, domain;
        bool closed;
        char type[8];            /* of an endpoint: msg, rdm, dgram, other */
        char contexts_repeat[8]; /* tx, rx, txrx: not timed, because contexts were not unique */
        uint32_t tx_cq, rx_cq;
        uint64_t waits, value, events, listens, rejects;
        uint64_t outstanding;  /* of a queue: posted to leave, and not seen to complete at the last
                                  count */
        bool unsure;           /* how many are is not known */
        uint64_t completed_ns; /* CLOCK_MONOTONIC: when a count found a completion last; 0 never */
        struct capo_fabric_counts n;
};

struct capo_fabric_window {
        uint64_t begin_ns, end_ns; /* CLOCK_MONOTONIC */
        uint64_t ops, tx_bytes, rx_bytes;
};

struct capo_fabric_last_count {
        uint64_t at_ns; /* CLOCK_MONOTONIC: when what is outstanding was counted last */
};

/* Operations that a thread posted inside its own NCCL call. */
struct capo_fabric_inside {
        uint64_t comm_uid;
        uint8_t call; /* enum capo_call_id */
        uint64_t ops, bytes;
};

#define CAPO_FABRIC_PIECE 32768 /* bytes of text handed over at once, at most */

/* A snapshot under way. */
struct capo_fabric_text {
        char room[CAPO_FABRIC_PIECE];
        size_t n;
        size_t line;       /* where the line under construction began */
        size_t lines_size; /* bytes of all whole lines so far, but those that begin the pieces */
        uint64_t snapshot;
        void (*out)(unsigned type, const char *text, size_t size); /* of frame CAPO_FRAME_FABRIC */
};

/** capo_fabric_begin() - begin snapshot @snapshot; @out is called with pieces of whole lines */
void capo_fabric_begin(struct capo_fabric_text *t, uint64_t snapshot,
                       void (*out)(unsigned type, const char *text, size_t size));

/** capo_fabric_put() - one line
 * @line: enum capo_fabric_line (core/log/fabric_kinds.h)
 * @what: the struct that core/log/fabric_frame.def names for @line; a value of 0, false or "" is
 *        left out unless its row says COUNT
 *
 * Control characters in names become spaces; values are cut at 63 bytes, lists at their room. */
void capo_fabric_put(struct capo_fabric_text *t, unsigned line, const void *what);

/** capo_fabric_end() - the snapshot is complete: hand over what is left. */
void capo_fabric_end(struct capo_fabric_text *t);
