/* SPDX-License-Identifier: Apache-2.0 */
/* Parsed lines of NCCL_DEBUG: debug_lines.c reads them, debug_judge.c judges. Private to these two.
 */
#ifndef CAPO_DEBUG_LINES_H
#define CAPO_DEBUG_LINES_H

#include "analysis/diagnose/evidence.h"
#include "analysis/hang/foreign.h"

enum { DEBUG_NAME = 96, DEBUG_KEY = 96, DEBUG_MOST = 4096, DEBUG_HEADS = 4096 };

struct debug_process {
        char name[DEBUG_NAME]; /* "host:pid" */
        int32_t rank, of;      /* in the largest communicator; -1 */
        uint32_t n_kept;       /* number of its calls that are kept */
        uint32_t next;         /* index of the older one with the same hash, + 1; 0: none */
};

/* A communicator in one process. */
struct debug_comm {
        uint32_t process, number; /* number: of the job-wide communicator; CAPO_HANG_NONE */
        uint64_t address;
        int32_t rank, n_ranks;
        char key[DEBUG_KEY]; /* equal on all ranks; "": not known */
        bool began, ended;
        struct capo_evidence_mark mark;
        uint64_t hash, last_count;
        uint32_t n_calls;
        bool rising;  /* opCount grew by 1 with each call */
        bool counted; /* so its numbers are equal on all ranks */
        uint64_t first_count;
        uint32_t next; /* index of the older one with the same hash, + 1; 0: none */
};

struct debug_call {
        uint32_t comm; /* index of the process's communicator */
        uint64_t count, op_count;
        uint32_t nth;
        uint8_t call, type, op;
        int32_t root;
        struct capo_evidence_mark mark;
};

struct debug {
        struct capo_evidence *e;
        uint32_t text;
        struct debug_process *processes;
        struct debug_comm *comms;
        struct debug_call *calls;
        uint32_t n_processes, n_comms, n_calls;
        uint32_t last; /* process of the line before */
        uint32_t process_heads[DEBUG_HEADS],
                comm_heads[DEBUG_HEADS]; /* newest item of a hash, + 1 */
        bool cut; /* more processes or communicators than can be kept: calls prove nothing */
};

/** capo_debug_job() - convert the lines to the input of capo_hang_judge(). Return: 0; -ENOMEM. */
int capo_debug_job(struct debug *d, struct capo_hang_foreign *to);

/** capo_debug_judge() - add the findings. Return: 0; -ENOMEM. */
int capo_debug_judge(struct debug *d);

#endif
