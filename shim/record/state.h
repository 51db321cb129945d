/* SPDX-License-Identifier: Apache-2.0 */
/* What the recorder knows of the process: its segment, its communicators, and, from shim/site, the
 * stacks of its threads. Without the state of a thread and the record in the making: recorder.h. */
#pragma once

#include "core/log/segment.h"
#include "shim/record/nccl_abi.h"
#include "shim/record/shim.h"

/* A communicator. Never freed, but used again when it has been dead for a while: comms.h. */
struct capo_comm {
        void *handle; /* the ncclComm_t; NULL once destroyed (handles are used again by NCCL) */
        struct capo_nccl *lib;
        struct capo_nccl *into; /* where its calls go: lib, or lib with those turned that a rule
                                   turns (shim/nccl/call_override.h) */
        uint64_t uid;
        uint32_t seq,
                p2p_seq; /* of the last call; NCCL forbids concurrent calls on one communicator */
        uint32_t n_ranks;
        void *stream;      /* of the last call; NULL: none, or the default stream ... */
        void *context;     /* ... of this context; NULL not known */
        uint32_t gpu_wait; /* calls until the next one drawn to be timed on the GPU; 0 none yet */
        uint32_t gpu_turn; /* state of the generator of those distances */
        uint32_t gpu_shapes[64]; /* hashes of call and size; their last bit: more than once */
        uint64_t gpu_asked_ms;   /* when the last call was made, coarse; 0: none was */
        uint16_t id;
        _Atomic bool pending; /* non-blocking and not known to be ready */
        int rank, device;
        uint64_t begun;                  /* ticks: when the call, or group, that made it began */
        uint64_t nccl_hash;              /* what its commHash will be; 0 not known */
        const struct capo_tables *turns; /* what calls are turned for; NULL: none is */
        bool apart; /* uid is not that of all its ranks: it was grown, or comes of one that was */
        enum capo_guest {
                CAPO_GUEST_NONE,
                CAPO_GUEST_EP_LL,
                CAPO_GUEST_EP_HT,
                CAPO_GUEST_M2N
        } guest; /* no communicator of NCCL's: an EP group, or the reshards of one */
        const void *guest_error; /* ncclEpGetAsyncError, where it may be asked */
        uint32_t experts;        /* of an EP group */
        _Atomic uint8_t
                guest_masked; /* NCCL EP has masked a rank of it: 1 capo saw it, 2 the program was told */
        uint32_t guests;   /* EP groups made of it so far: the same number on all ranks */
        uint32_t children; /* splits, shrinks and grows so far: the same number on all ranks */
        uint32_t n_ran;    /* collectives the profiler has named so far, with CAPO_KERNEL_TIME */
        /* The table's own (shim/record/comms.c), read without its lock, also of a dead entry. */
        uint64_t comm_hash; /* NCCL's, if a plugin reported it */
        struct capo_comm *next, *next_by_hash;
        struct capo_comm *next_dead; /* the one that died next */
        uint64_t died;               /* CLOCK_MONOTONIC, ns */
};

/* comms.c: stands for "no communicator": id 0 */
struct capo_comm *capo_comm_none(void);

extern struct capo_segment capo_seg;
extern _Atomic bool capo_gpu_on; /* the driver is here and calls are to be timed; acquire: with all
                                    that gpu.c knows of it */

void capo_gpu_switch(bool on);

/* site_python.c. Frames have been read, so the offsets hold: capo_python_place() may be asked. */
extern _Atomic bool capo_python_seen;

/** capo_python_threads() - the frames of every thread, at a moment when nobody waits for us
 * @found: of one with frames: its number, 0 the one that began first (the program's main thread),
 * and @text as capo_python_frames() has it
 *
 * For the watch: neither a lock is taken nor a symbol looked up, so it may be asked while the
 * process stands, whatever in. Threads that run meanwhile may be reported wrongly, never with harm.
 * Nothing is found before a call site of Python has been (capo_python_frames()).
 *
 * Return: threads, with and without frames; 256 at most are looked at, the newest. */
unsigned capo_python_threads(void (*found)(unsigned nth, char *text, void *arg), void *arg);

/* native.c. What a thread of this process is in. */
struct capo_native {
        int tid;
        bool running;  /* on a processor, or about to be: nothing can be said of its stack */
        char wait[64]; /* the function of the kernel that it waits in; "" not known */
        char name[16];
};

/** capo_native_threads() - the C stacks of all threads but the calling one, the main thread first,
 * at a moment when nobody waits for us
 * @text: room for the frames of one thread, static for the drain thread's sake, @room bytes
 * @found: @text has a line of each frame, "function+0x1f module+0x2a3c" or "module+0x2a3c",
 * innermost first; the last one is "..." where it goes on and nobody can tell exactly where. "as
 * TID" for a thread whose frames are those of one printed before. False: enough
 *
 * For the watch: no thread is stopped, signalled or traced. The kernel says where those that wait
 * in it stand (/proc/self/task), and the way up from there is read from the tables of the objects
 * (shim/site/cfi.h), of memory that may change: a thread that has gone on meanwhile is reported as
 * running. No lock of the loader is taken. 64 threads and half a second at most; after a quarter,
 * no names are looked up.
 *
 * Return: threads there are. */
unsigned capo_native_threads(char *text, unsigned room,
                             bool (*found)(const struct capo_native *thread, char *text, void *arg),
                             void *arg);

/** capo_python_place() - a number that tells the places apart from which this thread's Python calls
 * us
 *
 * From 3.11 on a Python function that calls another does not deepen the C stack, so what tells C's
 * call sites apart (return address and depth) is the same for all of a program's. Made of where the
 * innermost 6 frames are: the user's line is the third when PyTorch calls. No lock; no system call
 * in the process's first thread; in others, whose frames the end of the interpreter frees, one, and
 * of a call from another place some ten. 0 for a thread that runs no Python. */
uintptr_t capo_python_place(void);
