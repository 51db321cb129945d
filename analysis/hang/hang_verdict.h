/* SPDX-License-Identifier: Apache-2.0 */
/* Why a job is stuck and which rank caused it, derived only from the calls of all ranks. Makes a
 * verdict from structs, without input or output. analysis/hang/hang_load.h fills the structs from
 * logs.
 *
 *      calls of all ranks -> waits.c: replay them; what cannot go on is a front
 *                         -> verdict.c: the graph of waiting -> verdict
 *
 * A rank is a process here: one with several GPUs waits if one of them does. */
#pragma once

#include "capo/call_kinds.h"
#include "core/base/util.h"

struct capo_job;

#define CAPO_HANG_NONE UINT32_MAX

/* number of last calls per process that are examined */
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
        CAPO_HANG_GPU_BUSY,    /* its stream was asked: this call, or other work, had not ended */
};

/* ncclResult_t */
enum { CAPO_NCCL_OK = 0, CAPO_NCCL_REMOTE_ERROR = 6, CAPO_NCCL_IN_PROGRESS = 7 };

struct capo_hang_call {
        uint64_t begin_ns; /* since 1970 */
        uint64_t end_ns;   /* 0: not returned */
        uint64_t bytes;
        uint32_t seq;
        uint32_t group;  /* 0: none; calls of one group are consecutive */
        uint32_t stream; /* for calls that create a communicator: hash of its uid */
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
        bool captured;                /* it runs only in graph launches, which are not recorded */
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

/* How far the GPU was seen to have come with the calls of one communicator that are timed. */
struct capo_hang_ended {
        uint32_t comm; /* index in the job */
        uint32_t stream;
        uint32_t seq;      /* the newest that has ended */
        uint32_t next_seq; /* the next one that tells: it has not ended; 0: not known */
        uint64_t at_ns;    /* since 1970: when the end was seen; 0: none was */
        uint64_t each_ns;  /* that a call takes there */
};

struct capo_hang_process {
        int32_t rank; /* in the job; -1 not known */
        enum capo_hang_life life;
        uint64_t end_ns; /* last time it was alive; for live processes the time of the sample */
        uint64_t paused_ns,
                resumed_ns; /* its last ended stop, or time without a processor; 0: none */
        struct capo_hang_call *calls; /* the last ones, by begin */
        uint32_t n_calls;
        uint64_t known_ns; /* begin of the oldest call read; calls[] may lack later ones; 0: none */
        char *tuned;       /* digest of its rules; "none"; NULL: not known. Owned */
        char *settings; /* settings that affect NCCL's choice, "NCCL_ALGO=Ring NCCL_MAX_CTAS=8"; "":
                           none; NULL: not known. Owned */
        bool lost;      /* its last calls may be among those that were not recorded */
        struct capo_hang_ended *ended; /* by communicator with timed calls */
        uint32_t n_ended;
        uint8_t ending;  /* enum capo_hang_ending; `life` is the state at the time judged */
        int exit_status; /* of exit(); -1 not known */
        bool stale;      /* its log is incomplete, nothing else is known: as if it had no log */
};

/* Did NCCL accept the call? */
static inline bool capo_hang_taken(int result)
{
        return result == CAPO_NCCL_OK || result == CAPO_NCCL_IN_PROGRESS;
}

/* When a call that failed did so: it can have waited for long before. */
static inline uint64_t capo_hang_failed_ns(const struct capo_hang_call *c)
{
        return c->end_ns ? c->end_ns : c->begin_ns;
}

struct capo_hang_member {
        uint32_t process;
        int32_t rank;     /* in the communicator; -1 not known */
        int32_t job_rank; /* in the job, for a process with several ranks here */
        uint32_t issued;  /* number of its last collective that NCCL accepted; 0: none */
        uint32_t splits;  /* communicators created from this one */
        bool whole_p2p;   /* all its sends and receives here are in the process's calls */
        bool dead;        /* the process destroyed or aborted it */
        bool idle;        /* all its calls here have ended on the GPU */
};

struct capo_hang_comm {
        const char *name;
        uint64_t uid;
        int32_t n_ranks; /* -1 not known */
        struct capo_hang_member *members;
        uint32_t n_members;
        bool several; /* a process has several members; job_rank is theirs */
};

struct capo_hang_job {
        struct capo_hang_process *processes;
        uint32_t n_processes;
        int32_t n_ranks; /* of the job */
        struct capo_hang_comm *comms;
        uint32_t n_comms;
        uint64_t now_ns; /* the time judged: now if processes run; else the last time in the logs */
        uint64_t after_ns; /* how long nothing must have moved, if only time tells a hang */
        bool over;         /* all known processes have ended */
        bool cut;          /* no process is known to run, and the end of a log is missing */
        bool counted;      /* the source has only counts of calls: nothing is certain */
        bool partial;      /* and not the counts of all ranks */
        uint64_t dropped;  /* calls that were not recorded; a rank's last ones may be among them */
        bool any_kind;     /* counts are over all kinds of collectives */
        uint32_t n_nodes;  /* of the job, if a source other than logs tells it; 0 not known */
        char **sites;      /* from a source other than logs; index: a call's .site - 1. Owned */
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
        uint32_t seq;   /* 0: all calls can end */
        uint8_t *stand; /* enum capo_hang_stand by member; NULL when seq is 0 */
        uint32_t n[CAPO_STAND_STANDS];
        uint32_t unseen;   /* ranks without a log: assumed to be in it */
        bool mismatch;     /* the ranks in it do not agree on what it is */
        uint32_t differed; /* an earlier call that ended although they did not agree; 0: none */
        const struct capo_hang_call **call; /* by member; NULL: not among its last calls */
};

/* A send or receive without its other half, or whose other half has another size. */
struct capo_hang_pair {
        uint32_t process, peer; /* processes */
        const struct capo_hang_call *call;
        const struct capo_hang_call *unlike; /* its other half, if that has another size */
        enum capo_hang_stand stand;          /* state of the other half: MISSING, OPENED, BEHIND */
};

struct capo_hang_waits {
        struct capo_hang_front *fronts; /* by communicator */
        struct capo_hang_pair *pairs;
        uint32_t n_pairs;
        uint32_t n_comms;
        bool p2p_unknown; /* some sends or receives cannot be paired: more than were kept */
        struct capo_hang_pair unlike; /* the last receive whose send has another size, although both
                                         have ended; .call NULL: none */
};

/** capo_hang_play() - replay: let all calls finish that can. Streams are queues; a collective ends
 * when all ranks are in it
 * @lenient: a root of a broadcast, a leaf of a reduce and a small send do not wait for others
 *
 * Calls with a recorded end on the GPU have ended. Calls of a communicator run one after the other.
 * Calls older than the last ones of every rank have ended. Call capo_hang_waits_finish() in any
 * case. */
void capo_hang_play(const struct capo_hang_job *job, bool lenient, struct capo_hang_waits *out);
void capo_hang_waits_finish(struct capo_hang_waits *w);

/** capo_hang_differs() - in what two calls differ that must be equal on all ranks, "count"; NULL: nothing */
const char *capo_hang_differs(const struct capo_hang_call *a, const struct capo_hang_call *b);

/* ---- the verdict ---- */

enum capo_hang_kind {
#define HANG_KIND(id, name, exit) CAPO_HANG_##id,
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
        int32_t rank; /* in the job, of a process with several ranks; -1: the process's */
        enum capo_hang_why why;
        const struct capo_hang_call *call; /* that it is in, or that differs; else its last; NULL */
        const char *differs; /* MISMATCH, TUNED: the property; NULL: it is on the other side */
        bool skipped;        /* MISMATCH: its call is the one that the others made next */
        bool works_on;       /* its other threads have made calls since */
        bool elsewhere;      /* ranks wait for it in another call than the verdict's, namely ... */
        uint32_t comm, seq;  /* ... this one; comm: CAPO_HANG_NONE if it has no number */
        uint8_t missing;     /* enum capo_call_id; 0 not known */
        uint32_t n_waiting;  /* ranks that wait there */
};

/** capo_hang_culprit_rank() - its rank in the job; -1 not known. */
static inline int32_t capo_hang_culprit_rank(const struct capo_hang_job *job,
                                             const struct capo_hang_culprit *c)
{
        return c->rank >= 0 ? c->rank : job->processes[c->process].rank;
}

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
        uint32_t comm;                     /* where the others wait; CAPO_HANG_NONE */
        const struct capo_hang_call *call; /* that they wait in, of one of them; NULL: not known */
        uint32_t seq;
        uint32_t n_waiting, n_ranks; /* of that communicator */
        struct capo_hang_culprit *culprits;
        uint32_t n_culprits;
        bool *accused; /* by process: is it a culprit? */
        struct capo_hang_step *steps;
        uint32_t n_steps;
        uint32_t most;     /* TUNED: a process of the other side */
        uint64_t since_ns; /* since 1970: nothing moved after this */
        uint64_t still_ns;
        uint64_t waits_ns; /* since 1970: when the last rank began to wait; 0 not known */
        uint64_t quiet_ns; /* if a process ended badly: time without any call before that */
        uint32_t unseen;   /* ranks of the communicator without a log */
        struct capo_hang_pair unlike; /* as in struct capo_hang_waits */
        uint32_t differed_comm,
                differed; /* a call that ended although its ranks did not agree on it; 0: none */
        struct capo_hang_pair disagreed; /* ENDED, UNDECIDED: a collective that the ranks did not
                                            agree on was under way: `call` of .process, `unlike`
                                            that of the others; .call NULL: none */
        bool p2p_unknown;
        bool graphs_unknown; /* some calls were captured into graphs: no launch is recorded */
        bool gpu_unknown;    /* it is not known whether the GPUs finished their work */
        uint32_t failed;     /* the process whose call failed first; CAPO_HANG_NONE: none */
        const struct capo_hang_call *failure;
        const struct capo_hang_call
                *behind; /* MISMATCH: `call` ended, this later one stands; NULL */
        bool works_on;   /* UNDECIDED: a rank that others wait for makes other calls */
        bool quiet;      /* UNDECIDED: no rank waits in a call, none made one for job->after_ns */
        bool queued;     /* UNDECIDED: GPUs may work off calls that are not timed */
        bool lost; /* UNDECIDED: the last calls of who would be the culprit were not recorded */
        bool busy; /* RUNNING: other work on the stream may be what does not end */
        uint32_t together; /* processes that ended too close together to order them; 0: known */
        uint32_t n_after;  /* ENDED: processes that ended after the culprit */
        bool unordered;    /* ENDED: a process without a recorded end may have ended before it */
};

/** capo_hang_judge() - make the verdict. Call capo_hang_verdict_finish(). */
void capo_hang_judge(const struct capo_hang_job *job, struct capo_hang_verdict *out);
void capo_hang_verdict_finish(struct capo_hang_verdict *v);

/** capo_hang_kind_name()    - "missing"
 * capo_hang_kind_exit()    - exit status of capo hang
 * capo_hang_why_name()     - "host"; and so on */
const char *capo_hang_kind_name(enum capo_hang_kind kind);
int capo_hang_kind_exit(enum capo_hang_kind kind);
const char *capo_hang_why_name(enum capo_hang_why why);
const char *capo_hang_why_meaning(enum capo_hang_why why);

/** capo_hang_next() - what to look at next, with the PIDs and the node of the first culprit where
 * its log has them. @text: CAPO_HANG_NEXT of room; returned. */
#define CAPO_HANG_NEXT 512
const char *capo_hang_next(const struct capo_job *job, const struct capo_hang_verdict *v,
                           char text[CAPO_HANG_NEXT]);
const char *capo_hang_sure_name(enum capo_hang_sure sure);
