/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Logs of a job that makes the calls of a pattern file (docs/internals/patterns.md), with its ranks
 * multiplied along the data-parallel dimension: what real programs were recorded to do, on as many
 * ranks as wanted, with a fault whose truth is known. Everything follows from the numbers given;
 * the same call makes the same bytes.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define PATTERN_NAME 48

/* The communicators that one line of the program made. */
struct pattern_comm {
        char name[PATTERN_NAME];
        bool grows; /* with more copies there are as many of them, each of more ranks; else more of
                       them */
        unsigned parent;    /* number of the family it was split from; 0 none */
        unsigned n, n_inst; /* ranks of each, and how many */
        unsigned *member;   /* n_inst times n ranks of the pattern */
};

struct pattern_call {
        uint64_t count; /* elements, as passed to NCCL */
        uint32_t stream;
        int32_t peer;   /* root or peer, a rank of the communicator; -1 neither */
        uint32_t group; /* 1, 2, ... within the class; 0: in none */
        uint8_t call, type, op;
        uint8_t comm; /* family */
        bool captured;
};

/* Ranks that call the same. */
struct pattern_class {
        unsigned n_calls;
        struct pattern_call *call;
};

enum { PATTERN_RANKS = 64, PATTERN_COMMS = 32 };

struct pattern {
        unsigned ranks, n_comms, n_classes;
        struct pattern_comm comm[PATTERN_COMMS + 1]; /* by number, from 1 */
        struct pattern_class class[PATTERN_RANKS];
        unsigned class_of[PATTERN_RANKS];
};

/** pattern_read() - ends the process with a line when the file is none. pattern_free() afterwards.
 */
void pattern_read(const char *path, struct pattern *out);
void pattern_free(struct pattern *p);

enum pattern_fault {
        PATTERN_WHOLE,
        PATTERN_MISSING, /* in the last round the rank does no more from its call @at on: host code
                            for ever */
        PATTERN_DIFFERS, /* that call, a collective, with another count on that rank */
};

struct pattern_job {
        const char *dir;
        unsigned
                copies; /* of the model: ranks are copies * pattern->ranks, numbered copy by copy */
        unsigned rounds; /* how often all but the making and ending of communicators is done */
        int late_rank;   /* comes late to every call in 3 of 4; -1 nobody. All have up to 1 us of
                            noise */
        uint64_t late_ns;
        bool busy; /* one call close behind the other; else a pause between them */
        enum pattern_fault fault;
        unsigned fault_rank, fault_at; /* number of the call in the rank's sequence, from 0 */
};

/** pattern_write() - one log per rank in job->dir, which exists. Returns the records written, over
 * all logs. */
uint64_t pattern_write(const struct pattern *p, const struct pattern_job *job);
