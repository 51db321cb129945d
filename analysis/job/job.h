/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All logs of a job together: processes, communicators, and one row per (communicator, call, bytes,
 * algorithm, protocol, channels, rule). Rows are exact. Single calls are only sampled, to find
 * ranks that come late. analysis/job/stats.h fills it.
 */
#pragma once

#include <stdlib.h>

#include "capo/call_kinds.h"
#include "analysis/job/sampled.h"
#include "core/base/layout.h"

#define CAPO_NO_COMM UINT32_MAX

struct capo_job_info {
        char *key, *value;
        size_t size_; /* bytes of a value that was put together from several lines; else 0 */
};

/* The part of a call's record that is kept (capo/record.h). */
struct capo_job_call {
        uint64_t t_begin, t_end; /* ns since the log's epoch */
        uint32_t seq;
        uint16_t comm;
        uint8_t call, clock, flags;
};

/* One log. */
struct capo_job_process {
        char *path;           /* as given by the user; replace control bytes before printing it */
        struct capo_log *log; /* for capo_job_log(); NULL: not made from a log. Owned */
        char *host;           /* INFO host; if there is none, the file name up to its first dot */
        struct capo_log_header header;
        struct capo_log_health health;
        struct capo_log_end end; /* the last one; all zero when there is none */
        bool has_end;
        int read_error; /* negative errno when reading stopped early, else 0 */
        int rank; /* in the job, by the launcher; else in its largest communicator; -1 not known */
        uint32_t node;      /* index in job->nodes */
        uint32_t clock;     /* processes with equal numbers share CLOCK_MONOTONIC */
        int64_t ahead_ns;   /* how far its host's clock was ahead of job->clock's, if that is more
                               than a minute; already subtracted from header.t0_real_ns */
        uint64_t first_ns;  /* begin of the earliest single call in the log, ns since its epoch */
        uint64_t last_ns;   /* latest time in the log, ns since its epoch */
        uint64_t n_records; /* single calls in the log */
        uint32_t stream;    /* stream of the first call whose shape is known */
        bool has_stream;
        bool many_streams; /* its calls went to several streams */
        struct {
                uint64_t calls, timed, ns;
        } messages; /* its sends and receives; those timed on the GPU, and their time */
        struct capo_job_call last_call; /* the latest one; t_begin 0: none */
        struct capo_silences silent; /* longest silences of the thread with the most calls; shorter
                                        ones than 1/1024 of the job are left out */
        struct capo_silences
                still; /* of the same thread, including silences in which all calls were timed */
        struct capo_job_info
                *info; /* in order of first appearance; "key+" lines are joined by newlines */
        uint32_t n_info;
        bool shared_; /* host and the texts of info are the job's: many logs have the same */
        char *fabric; /* the last two snapshots of FABRIC frames (core/log/fabric_frame.h); NULL */
        size_t fabric_last_, fabric_size_;
        char *machine; /* MACHINE frames (core/log/machine_frame.h), joined: the first ones, and as
                          many of the last as there is room for; NULL: none */
        size_t machine_size_;
        char *rules; /* the last RULES frame; NULL when there is none */
};

/* A node as NCCL counts them: one host, or one value of NCCL_HOSTID. */
struct capo_job_node {
        char *key, *name;
        uint32_t n_processes;
};

/* One rank of a communicator, as one process saw it. */
struct capo_job_member {
        int32_t rank;     /* in the communicator; -1 not known */
        int32_t job_rank; /* in the job, as pages print it (capo_job_member_text()); -1 not known */
        uint32_t process;
        uint16_t id; /* the communicator's id in that process */
        int32_t device;
        uint32_t flags;                       /* enum capo_comm_flag */
        uint64_t t_created_ns;                /* CLOCK_REALTIME */
        uint64_t t_destroyed_ns;              /* CLOCK_REALTIME; 0 alive at the end */
        struct capo_layout_reported reported; /* NCCL's numbers of the communicator, to this rank */
        struct {
                uint64_t calls, bytes, least, most; /* least, most: bytes of one call */
        } given;                                    /* what it gave to EpDispatch, at most */
        bool masked;                                /* it was told that NCCL EP masked a rank */
};

/* One rank in the sampled calls of a communicator. */
struct capo_skew_rank {
        uint32_t last;      /* calls it started last */
        uint32_t seen;      /* calls it is in */
        double late_p50_ns; /* behind the first rank, median over calls */
        double wait_ns;     /* mean over calls: how long it waited for the last one */
        double wait_p50_ns; /* the same, median */
        double late_ns; /* over all calls: how much less it waited than the rank that waited most */
        double caused_ns;    /* how long the others waited in the calls in which it was last, summed
                                over them; estimated for the whole job from the calls compared */
        double caused_pm_ns; /* half of that estimate's 95 % interval; 0: all calls were compared */
        double clocks_pm_ns; /* as that: by how much the starts that hosts and GPUs give differ */
        double spared; /* times caused_ns: how much earlier the calls would have begun without it */
        double stopped_ns;      /* how long its process did not run while the others waited */
        double stopped_rest_ns; /* of that waiting, summed over the others: in no call compared */
        double hole_ns; /* the most it was behind the median of the ranks in a call but the first */
        uint32_t hole_seq; /* that call; 0: none */
        uint8_t hole_call;
};

/* Where the start times come from, best first. */
enum capo_skew_from {
        CAPO_SKEW_GPU_DURATION, /* on the GPU: it ends on all ranks together, so who is in it
                                   shortest came last */
        CAPO_SKEW_HOST_START,   /* the host's call: the enqueue */
        CAPO_SKEW_KERNEL_WAIT,  /* of one call of those by GPU durations: its kernel reported how
                                   long it  waited (n_kernel) */
};

/* Why there is nothing to compare. */
enum capo_skew_missing {
        CAPO_SKEW_COMPARED,
        CAPO_SKEW_ONE_LOG,   /* fewer than two of its ranks left a log */
        CAPO_SKEW_NO_CALLS,  /* the logs hold no single calls of it */
        CAPO_SKEW_NO_COMMON, /* no call is in the logs of all its ranks */
        CAPO_SKEW_NO_ROOM,   /* it has too many ranks, or those before it had */
};

struct capo_skew {
        uint32_t n_calls; /* calls compared: those found on all ranks that left a log */
        uint32_t n_host; /* compared by host start times while others have GPU times (see skew.h) */
        uint32_t n_kernel; /* compared by the waiting time that NCCL's kernels reported */
        double long_ns; /* waiting in calls that stand for themselves: long, or after a silence */
        uint32_t n_own; /* calls that stand only for themselves: they followed a silence, or were
                           chosen to be timed */
        uint32_t mismatched;   /* calls whose kind or size differed between ranks: not compared */
        uint32_t mismatch_seq; /* the first of them; 0: none */
        enum capo_skew_from from;
        bool host_late; /* the worst rank's calls are late by host time too, for most of what it
                           caused; or nothing is known of its host times */
        double p50_ns, p95_ns, max_ns; /* last start minus first, over calls */
        bool aligned;    /* start times can be compared: from durations, or from one host's clock */
        uint32_t worst;  /* the member with the largest caused_ns */
        bool worst_sure; /* 95 %: of all the waiting it caused more than its share by chance */
        uint32_t
                origin; /* 1 + the communicator in which `worst` waited, and was late for that; 0: the
                                 delay began with it */
        bool waits_more;     /* `worst` waited longer elsewhere than it is late here */
        bool by_message;     /* `worst` was late for sends or receives that took long */
        double worst_p50_ns; /* its delay behind the first rank in the calls where it was last */
        double worst_max_ns;
        uint32_t worst_from_seq; /* from this call on it was last in most; 0: from the beginning */
        uint32_t worst_to_seq;   /* until this one; 0: to the end */
        uint32_t few; /* compared calls that hold most of the waiting for it; 0: not few */
        uint32_t few_from_seq, few_to_seq; /* the first and the last of these */
        double few_ns; /* the waiting in these, if it is most of all that was compared; else 0 */
        bool worst_over; /* that was in the first half of the calls, and it does not stand out since */
        uint64_t worst_from_ns, worst_to_ns; /* when it made those calls, since 1970; 0: as above */
        double worst_outside;                /* share of what it caused besides these calls */
        double others_p50_ns;                /* spread of the other ranks in the same calls */
        double wait_share;   /* time spent waiting for the last rank, as a share of the job's
                                    duration: mean over ranks, scaled from the sample to all calls; < 0:
                                    not known (host times) */
        double wait_pm;      /* half of its 95 % interval */
        double waited_pm_ns; /* the same for the sum of caused_ns over all ranks */
        struct capo_skew_rank *ranks; /* n_members of the communicator */
};

struct capo_job_comm {
        uint64_t uid;
        uint64_t comm_hash; /* NCCL's, 0 not known */
        char *name;      /* never empty, unique in the job: given by the program, or made ("world",
                            "world/1", "comm3") */
        bool named;      /* given by the program */
        int32_t n_ranks; /* as the program passed it; -1 not known */
        uint32_t parent; /* index in job->comms; CAPO_NO_COMM */
        int32_t color;
        struct capo_job_member *members; /* sorted by rank */
        uint32_t n_members;
        uint32_t n_nodes;    /* nodes of the members that left a log */
        char *layout;        /* as core/base/layout.h: "3+5", "8", "4x8" */
        uint64_t n_calls;    /* collectives issued on it (count, see capo_job_row) */
        uint64_t n_captured; /* of them, captured into a graph: no data moves, no rank waits */
        struct capo_skew
                *skew; /* NULL when the logs hold no matching calls: then `no_skew` says why */
        enum capo_skew_missing no_skew;
};

/* The histograms of a row: one per enum capo_clock, then those timed by events that stand only for
 * themselves (sampled.h), then the waiting times that NCCL's kernels reported. */
enum { CAPO_TIMES_CHOSEN = CAPO_CLOCKS, CAPO_TIMES_WAITED, CAPO_TIMES };

struct capo_job_row {
        uint32_t comm; /* index in job->comms, CAPO_NO_COMM */
        uint64_t bytes;
        uint64_t calls;  /* over all ranks seen */
        uint64_t count;  /* collectives: calls of the rank with the most; p2p: as calls */
        uint64_t failed; /* calls that returned an error */
        uint16_t rule;   /* capo_record.rule */
        uint8_t call, algo_proto, channels;
        uint8_t flags; /* MEMBER, GROUP, CAPTURED of enum capo_record_flag */
        /* untimed calls that are known to have waited on the GPU for a late rank, longer than any
         * timed call took (skew.h) */
        uint64_t inferred_calls;
        double inferred_ns;                /* their total time on the GPU */
        struct capo_hist time[CAPO_TIMES]; /* HOST: of every call; EVENT, KERNEL: of those timed so.
                                              NONE is empty. */
        uint64_t tally_, tally_of_;        /* only used while logs are added */
};

/* Calls of one process with the same error, communicator and kind. */
struct capo_job_failure {
        uint64_t calls;
        uint32_t process, comm; /* comm: index in job->comms, CAPO_NO_COMM */
        uint8_t call;
        int8_t result; /* ncclResult_t */
};

struct capo_job_site {
        char *text; /* innermost frame first, one per line */
        uint64_t count, host_ns, gpu_ns, gpu_count;
        struct capo_log_site_chosen chosen; /* the part of gpu_ns and gpu_count from calls that
                                               stand only for themselves */
};

static inline void capo_skew_free(struct capo_skew *skew)
{
        if (skew)
                free(skew->ranks);
        free(skew);
}

struct capo_job {
        struct capo_job_process *processes;
        uint32_t n_processes;
        struct capo_job_node *nodes;
        uint32_t n_nodes;
        struct capo_job_comm *comms;
        uint32_t n_comms;
        struct capo_job_row *rows;
        uint32_t n_rows;
        struct capo_job_failure *failures;
        uint32_t n_failures;
        struct capo_job_site *sites; /* sorted by host time, most first */
        uint32_t n_sites;
        /* made by capo_job_finish() */
        int32_t n_ranks;   /* of the job: by the launcher, its largest communicator, or its logs */
        uint32_t n_clocks; /* hosts with their own clock */
        uint32_t clock; /* the one all times are converted to, if hosts' are over a minute apart */
        uint64_t t_begin_ns; /* CLOCK_REALTIME: first epoch, and last time seen */
        uint64_t t_end_ns;
        uint64_t calls, n_records, dropped, gpu_dropped, shape_overflow, bytes_lost;
        double cost_ns;   /* capo's own time per call, mean of the processes that measured it; 0 */
        bool no_lateness; /* set by the caller before the first log: comms[].skew is not wanted */
        struct job_scratch *scratch; /* private */
};

struct capo_job *capo_job_new(void);
void capo_job_free(struct capo_job *job);
static inline void capo_job_freep(struct capo_job **job) { capo_job_free(*job); }

/**
 * capo_job_log() - the log of a process, rewound to its first frame, to read it again
 *
 * The log has been open since it was added. Call capo_log_park() when it is read.
 * capo_log_calls_each() walks its calls, capo_log_next() its frames.
 *
 * Return: a log that the job owns; NULL: the job was not made from logs.
 */
struct capo_log *capo_job_log(const struct capo_job *job, uint32_t process);

/* A communicator of a process, and its member there. A process with several GPUs can be in one
 * communicator several times. */
struct capo_job_use {
        uint32_t comm, member;
};

/** capo_job_uses() - the communicators of a process, in the order of job->comms; after
 * capo_job_finish(). Return: *n items, owned by the job. */
const struct capo_job_use *capo_job_uses(const struct capo_job *job, uint32_t process, uint32_t *n);

/** capo_job_info() - value of @key (core/log/info.h) in the INFO of a process; NULL: none. */
const char *capo_job_info(const struct capo_job_process *process, const char *key);

/** capo_job_member_text() - "rank 3"; "rank 1 of tp/1" if only the rank in the communicator is
 * known. @text: at least 300 bytes. */
char *capo_job_member_text(const struct capo_job_comm *comm, const struct capo_job_member *member,
                           char *text);

/** capo_job_masked() - did NCCL EP mask a rank of @comm? @who: set to the member with the fewest
 * dispatches, where it alone has fewer than another; else NULL. */
bool capo_job_masked(const struct capo_job_comm *comm, const struct capo_job_member **who);

/** capo_job_gpus() - GPUs that its processes used; 1 for a process whose GPUs are not known. */
uint32_t capo_job_gpus(const struct capo_job *job);

/** capo_job_ranks_text() - "4 ranks on 2 nodes"; "4 ranks, logs of 2 on 1 node" where the others left
 * none. @nodes: how many. @text: 120 bytes; returned. */
char *capo_job_ranks_text(const struct capo_job *job, uint32_t nodes, char *text);

/** capo_job_duration_ns() - from the first log's epoch to the last time seen. */
uint64_t capo_job_duration_ns(const struct capo_job *job);

/** capo_job_row_clock() - the best clock that timed the row: KERNEL, EVENT, HOST, else NONE. */
enum capo_clock capo_job_row_clock(const struct capo_job_row *row);

/** capo_job_times_sampled() - the histograms of @clock among @time (CAPO_TIMES of them), for @calls
 * calls. The result points into @time. */
struct capo_sampled capo_job_times_sampled(const struct capo_hist *time, enum capo_clock clock,
                                           uint64_t calls);

/** capo_job_row_sampled() - the same for a row and its best clock. */
struct capo_sampled capo_job_row_sampled(const struct capo_job_row *row);

/** capo_job_row_total_ns() - time of all calls of the row over all ranks, by its best clock.
 * Untimed calls count with the mean of those drawn at random. */
double capo_job_row_total_ns(const struct capo_job_row *row);

/**
 * capo_job_row_bandwidth() - GB/s by nccl-tests' convention: algbw = bytes over the p50 of GPU
 * times, busbw = algbw * factor
 *
 * Return: false, with both 0, when it is not known: only host times (they measure the enqueue), no
 * bytes, a group (its calls differ), or an unknown communicator size.
 */
bool capo_job_row_bandwidth(const struct capo_job *job, const struct capo_job_row *row,
                            double *algbw, double *busbw);

/** capo_job_row_merge() - add the calls and times of @from to @to, whatever their keys. */
void capo_job_row_merge(struct capo_job_row *to, const struct capo_job_row *from);
