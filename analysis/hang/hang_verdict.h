/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why a job stands still, and whose fault it is: who waits for whom, told from the calls of all
 * ranks and nothing else. Makes a verdict from structs, without reading or writing anything.
 * analysis/hang/hang_load.h fills the structs from logs.
 *
 *      calls of all ranks -> waits.c: play them; what cannot go on is a front -> verdict.c: the
 * graph of waiting -> verdict
 *
 * A rank is a process here: one with several GPUs waits when one of them does.
 */
#ifndef CAPO_HANG_H
#define CAPO_HANG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capo/call_kinds.h"

#define CAPO_HANG_NONE UINT32_MAX

/* How many last calls of a process are looked at. */
#define CAPO_HANG_CALLS 256u

enum capo_hang_where {
        CAPO_HANG_RETURNED, /* the host's call has; what the GPU makes of it is another matter */
        CAPO_HANG_HOST,     /* the host is in it */
        CAPO_HANG_ENDING,   /* of a group whose ncclGroupEnd() the host is in */
        CAPO_HANG_OPEN,     /* of a group that was not closed yet: NCCL has not begun it */
};

enum capo_hang_gpu {
        CAPO_HANG_GPU_UNKNOWN, /* not timed */
        CAPO_HANG_GPU_ENDED,
        CAPO_HANG_GPU_RUNNING, /* its events were looked at, and the end had not come */
        CAPO_HANG_GPU_BUSY, /* its stream was asked: this call, or other work on it, had not ended
                             */
};

/* ncclResult_t */
enum { CAPO_NCCL_OK = 0, CAPO_NCCL_REMOTE_ERROR = 6, CAPO_NCCL_IN_PROGRESS = 7 };

struct capo_hang_call {
        uint64_t begin_ns; /* since 1970 */
        uint64_t end_ns;   /* 0: not returned */
        uint64_t bytes;
        uint32_t seq;
        uint32_t group;  /* 0 none; calls of one group stand together */
        uint32_t stream; /* of what makes a communicator: its uid, folded */
        int32_t peer;
        uint32_t comm;   /* index in the job; CAPO_HANG_NONE */
        uint32_t member; /* index in that communicator; CAPO_HANG_NONE */
        uint16_t thread;
        uint16_t site; /* in its process; 0 not known */
        uint8_t call, type, op;
        int8_t result;
        uint8_t where;                /* enum capo_hang_where */
        uint8_t gpu;                  /* enum capo_hang_gpu */
        uint8_t algo_proto, channels; /* as in struct capo_record; 0 not known */
        bool captured;                /* ran, if at all, in graph launches that nobody saw */
};

enum capo_hang_life {
        CAPO_HANG_ALIVE, /* at the moment that is judged */
        CAPO_HANG_STOPPED,
        CAPO_HANG_EXITED, /* by itself */
        CAPO_HANG_KILLED,
};

/* How a process ended. */
enum capo_hang_ending {
        CAPO_HANG_RUNS, /* as far as known */
        CAPO_HANG_BY_EXIT,
        CAPO_HANG_BY_KILL, /* a signal, or _exit() */
};

struct capo_hang_process {
        int32_t rank; /* in the job; -1 not known */
        enum capo_hang_life life;
        uint64_t end_ns; /* last sign of life; of the living the moment they were looked at */
        struct capo_hang_call *calls; /* the last ones, by begin */
        uint32_t n_calls;
        uint64_t known_ns; /* begin of its oldest call that was read, of which not all are kept in
                              `calls`; 0 none */
        char *tuned;       /* digest of its rules, "none"; NULL not known. Owned */
        char *settings;  /* those by which NCCL chooses, "NCCL_ALGO=Ring NCCL_MAX_CTAS=8"; "" none,
                            NULL not known. Owned */
        bool gpu_timed;  /* some of its calls were timed on the GPU */
        uint8_t ending;  /* enum capo_hang_ending; `life` is that of the moment judged */
        int exit_status; /* of exit(); -1 not known */
        bool stale; /* its log is not final and nothing else is known of it: as if it had none */
};

/* NCCL took it. */
static inline bool capo_hang_taken(int result)
{
        return result == CAPO_NCCL_OK || result == CAPO_NCCL_IN_PROGRESS;
}

struct capo_hang_member {
        uint32_t process;
        int32_t rank;    /* in the communicator; -1 not known */
        uint32_t issued; /* number of its last collective that NCCL took, 0 none */
        uint32_t splits; /* communicators it has made out of this one */
        bool whole_p2p;  /* all its sends and receives here are among the process's calls */
        bool dead;       /* destroyed or aborted by it */
        bool idle;       /* its GPU was asked: all calls of it here have ended */
        bool aborted;
};

struct capo_hang_comm {
        const char *name;
        uint64_t uid;
        int32_t n_ranks; /* -1 not known */
        struct capo_hang_member *members;
        uint32_t n_members;
};

struct capo_hang_job {
        struct capo_hang_process *processes;
        uint32_t n_processes;
        int32_t n_ranks; /* of the job */
        struct capo_hang_comm *comms;
        uint32_t n_comms;
        uint64_t now_ns;   /* the moment that is judged: of living processes now, of logs the last
                              sign of life */
        uint64_t after_ns; /* how long nothing must have moved where only time tells a hang from a
                              slow rank */
        bool over;         /* all processes that are known have ended */
        bool cut;     /* none is known to live, and a log is not final: its last part is missing */
        bool counted; /* all that is known are counts of calls, not the calls: nothing is certain */
        bool partial; /* and these not of all ranks */
        uint64_t
                dropped; /* calls that were not recorded: the last ones of a rank may be of these */
        bool any_kind;   /* and of all collectives together: which one a call is, is not known */
        uint32_t n_nodes; /* of the job, where a source that is no log says so; 0 not known */
        char **sites;     /* of a source that is no log: what a call's .site is, less 1. Owned */
        uint32_t n_sites;
};

/* ---- what cannot go on ---- */

/* A member and the next call of its communicator that cannot end. */
enum capo_hang_stand {
        CAPO_STAND_MISSING, /* never entered it */
        CAPO_STAND_OPENED,  /* in a group that is not closed */
        CAPO_STAND_BEHIND,  /* entered it; on its stream something before it does not end */
        CAPO_STAND_IN,      /* in it, waiting */
        CAPO_STAND_THROUGH, /* its part has ended */
        CAPO_STAND_STANDS,
};

/* The first collective of a communicator that cannot end. */
struct capo_hang_front {
        uint32_t seq;   /* 0: all that were begun can end */
        uint8_t *stand; /* enum capo_hang_stand by member; NULL when seq is 0 */
        uint32_t n[CAPO_STAND_STANDS];
        uint32_t unseen;   /* ranks without a log: taken to be in it */
        bool mismatch;     /* those in it do not agree on what it is */
        uint32_t differed; /* a call before it that ended although they did not agree, 0 none */
        uint64_t first_ns; /* when the first of those in it began to wait */
        const struct capo_hang_call **call; /* by member; NULL: not among its last calls */
};

/* A send or receive whose other half does not come. */
struct capo_hang_pair {
        uint32_t process, peer; /* processes */
        const struct capo_hang_call *call;
        enum capo_hang_stand stand; /* of the other half: MISSING, OPENED, BEHIND */
};

struct capo_hang_waits {
        struct capo_hang_front *fronts; /* by communicator */
        struct capo_hang_pair *pairs;
        uint32_t n_pairs;
        uint32_t n_comms;
        bool p2p_unknown; /* there are sends or receives that cannot be paired: too many for what is
                             kept */
};

/**
 * capo_hang_play() - let all calls go on that can: streams are queues, a collective ends when all
 * are in it
 * @lenient: a root of a broadcast, a leaf of a reduce and a small send do not wait for the others
 *
 * What was ended on a GPU (events) is ended; a communicator's calls are one after the other; calls
 * that the last ones of every rank do not go back to have ended.
 *
 * Return: 0; -ENOMEM. capo_hang_waits_finish() in any case.
 */
int capo_hang_play(const struct capo_hang_job *job, bool lenient, struct capo_hang_waits *out);
void capo_hang_waits_finish(struct capo_hang_waits *w);

/** capo_hang_differs() - in what two calls differ that NCCL wants alike on all ranks: "count";
 * NULL: in nothing. */
const char *capo_hang_differs(const struct capo_hang_call *a, const struct capo_hang_call *b);

/* ---- the verdict ---- */

enum capo_hang_kind {
#define HANG_KIND(id, name, exit, meaning) CAPO_HANG_##id,
#include "analysis/hang/hang_kinds.def"
        CAPO_HANG_KINDS,
};

enum capo_hang_why {
#define HANG_WHY(id, name, meaning, next) CAPO_HANG_WHY_##id,
#include "analysis/hang/hang_kinds.def"
        CAPO_HANG_WHYS,
};

enum capo_hang_sure { CAPO_HANG_UNSURE, CAPO_HANG_LIKELY, CAPO_HANG_CERTAIN };

struct capo_hang_culprit {
        uint32_t process;
        enum capo_hang_why why;
        const struct capo_hang_call
                *call;       /* the one it is in, or its different one; else its last; NULL none */
        const char *differs; /* of a mismatch or TUNED: in what; NULL: of the others' side */
        bool skipped;        /* of a mismatch: its call is the one that the others made next */
        bool works_on;       /* other threads of it have made calls since */
        bool elsewhere;      /* it is waited for in another call than the verdict's, which is ... */
        uint32_t comm, seq;  /* ... that one; comm: CAPO_HANG_NONE where it has no number */
        uint8_t missing;     /* enum capo_call_id; 0 not known */
        uint32_t n_waiting;  /* ranks that wait there */
};

/* One step of a circle: @process is in call @seq of @comm, which waits for the process of the next
 * step. */
struct capo_hang_step {
        uint32_t process, comm;
        uint32_t seq;
        uint8_t call;
};

struct capo_hang_verdict {
        enum capo_hang_kind kind;
        enum capo_hang_sure sure;
        uint32_t comm; /* where the others wait; CAPO_HANG_NONE */
        const struct capo_hang_call
                *call; /* that they wait in, as one of them made it; NULL not known */
        uint32_t seq;
        uint32_t n_waiting, n_ranks; /* of that communicator */
        struct capo_hang_culprit *culprits;
        uint32_t n_culprits;
        bool *accused; /* by process: it is one of these */
        struct capo_hang_step *steps;
        uint32_t n_steps;
        uint32_t most;     /* of TUNED: a process of the others' side */
        uint64_t since_ns; /* of 1970: nothing moved since */
        uint64_t still_ns;
        uint64_t waits_ns; /* of 1970: when the last rank began to wait in the call; 0 not known */
        uint64_t quiet_ns; /* of a job in which a process ended badly: nobody had made a call for so
                              long */
        uint32_t unseen;   /* ranks of the communicator without a log */
        uint32_t differed_comm, differed; /* a call that ended although its ranks did not agree on
                                             what it is; 0 none */
        bool p2p_unknown;
        bool graphs_unknown; /* there are calls captured into graphs, whose launches nobody records
                              */
        bool gpu_unknown;    /* nothing says whether the GPUs have ended what was given to them */
        uint32_t failed;     /* the process whose call failed first; CAPO_HANG_NONE: none */
        const struct capo_hang_call *failure;
        bool works_on;     /* of UNDECIDED: a rank that is waited for makes other calls */
        bool quiet;        /* of UNDECIDED: nobody waits in a call, and nobody has made one for
                              job->after_ns */
        bool busy;         /* of RUNNING: it may be other work on the stream that does not end */
        uint32_t together; /* of a job that has ended: so many ended so close together that the
                              first is not known; 0: it is known */
        uint32_t n_after;  /* of ENDED: processes that ended after the culprit */
};

/** capo_hang_judge() - Return: 0; -ENOMEM. capo_hang_verdict_finish() in any case. */
int capo_hang_judge(const struct capo_hang_job *job, struct capo_hang_verdict *out);
void capo_hang_verdict_finish(struct capo_hang_verdict *v);

/** capo_hang_kind_name(), _meaning() - "missing", a sentence; capo_hang_why_name() - "host", and so
 * on. */
const char *capo_hang_kind_name(enum capo_hang_kind kind);
const char *capo_hang_kind_meaning(enum capo_hang_kind kind);
int capo_hang_kind_exit(enum capo_hang_kind kind);
const char *capo_hang_why_name(enum capo_hang_why why);
const char *capo_hang_why_meaning(enum capo_hang_why why);
const char *capo_hang_why_next(enum capo_hang_why why);
const char *capo_hang_sure_name(enum capo_hang_sure sure);

#endif
