/* SPDX-License-Identifier: Apache-2.0 */
/* The seam between the recorder (shim/) and the plugins (tuner/) where both live in libcapo.so. In
 * the plugin library on its own there is no recorder and capo_seam is NULL: every use tests it. No
 * function here blocks, allocates on a path a job takes per call, or fails; all may be called from
 * any thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The outermost NCCL call, or open group, that the calling thread is in, as one communicator sees
 * it: equal on all its ranks, whatever else any of them has in its group. */
struct capo_seam_call {
        uint64_t comm_uid; /* capo_log_comm.uid; 0: its ranks have several, or it is not known */
        uint32_t seq; /* capo_record.seq of the call; of the communicator's last collective in a
                         group */
};

/* A communicator as NCCL describes it to a plugin at its init. Unknown numbers are -1, an unknown
 * hash 0, an unknown name NULL. */
struct capo_seam_comm {
        uint64_t comm_hash;
        int n_ranks, rank, n_nodes, min_local, max_local;
        const char *name; /* commName, copied */
        bool tuned;       /* a profile rule applies to this communicator */
        bool tuner;       /* it is the tuner that tells: NCCL has loaded it */
};

/* One collective that NCCL put on its way, as the profiler plugin's Coll event has it. */
struct capo_seam_ran {
        uint64_t comm_hash;
        uint64_t count;     /* as in the event: bytes for AllGather and Broadcast from 2.22 on */
        uint8_t call;       /* enum capo_call_id */
        uint8_t algo_proto; /* as capo_record.algo_proto; its kernels too */
        uint8_t channels;
        bool tagged;  /* this interface tells tags (v7) */
        uint64_t tag; /* userProfilerTag of the call; 0 none */
};

/* Time stamps of the kernel of the @nth `ran` of a communicator (not counting copy engines,
 * which have no kernel), in ns of the GPU's global timer. */
struct capo_seam_kernel {
        uint64_t comm_hash;
        uint32_t nth;
        uint64_t begin, end; /* of the first channel, of the last */
        uint64_t moved;      /* since when a channel moved data; 0: not reported */
};

struct capo_seam {
        /* the plugins ask the recorder */
        /* false: not inside a wrapped call (another thread, or no recorder). @comm_hash: who asks;
         * 0 not known */
        bool (*current)(uint64_t comm_hash, struct capo_seam_call *out);
        /* the plugins tell the recorder */
        void (*comm)(const struct capo_seam_comm *comm); /* on the thread of a plugin's init */
        void (*decided)(uint16_t rule); /* 1 + row, or sweep candidate: goes into the call being
                                           recorded; 0: after a trial, NCCL's own */
        void (*ran)(const struct capo_seam_ran *ran); /* goes into the call or group member being
                                                         recorded on this thread */
        void (*kernel)(const struct capo_seam_kernel *kernel);
        void (*rules)(const char *text); /* payload of a RULES frame: digest, path, rows */
        /* and ask it again */
        bool (*simulates)(void); /* is the group that this thread ends only simulated? */
        bool (*in_front)(void);  /* is the recorder on, and do calls of NCCL come through it? */
};

extern const struct capo_seam *capo_seam;

/** capo_tuner_overrides() - the recorder asks the tuner, where both are one library: which calls of
 * the communicator that NCCL gave the hash @comm_hash are turned (core/profile/profile_table.h,
 * capo_tables_turn). NULL: none. What it returns stays. */
struct capo_tables;
__attribute__((weak)) const struct capo_tables *capo_tuner_overrides(uint64_t comm_hash);
