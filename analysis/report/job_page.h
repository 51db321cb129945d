/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a report says about a job: which rows, in which order, who stands out, what is wrong, what
 * to do next. Everything is judged here, once (analysis/report/job_judge.h fills it); text, JSON,
 * CSV and HTML print it and decide nothing but how much of it has room. Sentences that several of
 * them print are made here as well, so that they cannot differ.
 */
#ifndef CAPO_PAGE_H
#define CAPO_PAGE_H

#include "analysis/report/late_cause.h"
#include "analysis/network/network.h"
#include "analysis/job/job.h"
#include "analysis/job/interval.h"
#include "analysis/steps/job_steps.h"

/* A row to show: one of the job's, or several put together. */
struct capo_page_row {
        struct capo_job_row row;
        uint64_t bytes_max; /* largest call put together here; row.bytes is the smallest */
        enum capo_clock clock;
        double total_ns; /* over all ranks, by `clock` */
        double share; /* of the time of all rows timed by that kind of clock; < 0: not comparable */
        bool has_bandwidth, has_algbw; /* a group has the latter alone: its calls differ */
        double algbw,
                busbw; /* GB/s; of sizes put together: all bytes over all time of the calls timed */
        double ceiling; /* busbw in GB/s that the links allow; 0 not known */
        double reached; /* busbw over it; < 0 not known */
        double timed_bytes[CAPO_TIMES];
};

struct capo_page_rows {
        struct capo_page_row *row;
        uint32_t n;
};

/* Which communicator's links allow what; made by whoever knows the machine. */
struct capo_page_ceiling {
        char class[256];                  /* "" not known */
        double busbw_gbs[CAPO_CALL_ROOM]; /* 0 not known */
        const char *on[CAPO_CALL_ROOM];   /* what that counts on: "NVLink", "NVLink+NVLS" (the
                                         switches   add), "NVLink+PCIe+NIC",   "NVLink+PCIe+NIC+NVLS";
                                         NULL not   known; static */
};

/* What NCCL's model expects of a size; made by whoever asks NCCL. */
struct capo_page_predicted {
        uint32_t comm;
        uint8_t call; /* enum capo_call_id */
        uint64_t bytes;
        double busbw_gbs;
};

/* The job's largest communicator on this machine, and as many GPUs taken otherwise; made by whoever
 * knows the machine. Bus bandwidth of AllReduce in GB/s, the best possible. */
struct capo_page_allocation {
        char layout[64]; /* "" not known */
        char class[256];
        bool uneven;  /* nodes have unlike numbers of ranks */
        bool reduced; /* some machine has GPUs that the job does not use */
        double best;  /* 0 not known */
        struct {
                char layout[64];
                double best;
        } others[4]; /* better first */
        unsigned n_others;
};

/* How far the NIC of one rank and domain is from the nearest GPU of the rank; made by whoever knows
 * the machine. */
struct capo_page_near {
        const char
                *path; /* "PIX", "PXB", "PHB", "SYS"; NULL not known, and the rest is empty then */
        bool far;      /* it is the longest way there is, SYS */
        char nearer[48]; /* a NIC at least as fast that is nearer to that GPU, the nearest, idle
                            ones first */
        const char *nearer_path; /* of that */
        bool nearer_idle;        /* no rank of this host moved data over it */
};

/* How long the creation of a communicator took on the rank that was in it longest and shortest: it
 * ends on all together. ns; 0 not known. */
struct capo_page_created {
        double ns, least_ns;
};

/* What NCCL says in a debug line of one creation on one rank. */
enum { CAPO_INIT_PARTS = 10 };
struct capo_page_init {
        int rank, n_ranks;
        double total_s;
        struct capo_page_init_part {
                char name[16];
                double seconds;
        } part[CAPO_INIT_PARTS];
        unsigned n_parts;
};

struct capo_page_creation {
        uint32_t n;       /* communicators of which it is known how long they took */
        double ns;        /* all of them, each on its slowest rank */
        uint32_t comm;    /* the slowest; CAPO_NO_COMM none */
        uint32_t n_inits; /* debug lines of NCCL that were found */
        struct capo_page_init slowest;
};

/* Who waits for whom on one communicator. */
struct capo_page_wait {
        uint32_t comm;
        bool stands_out;   /* clearly more of the waiting is for one rank than by chance, and beyond
                              the clocks' doubt */
        uint32_t last;     /* index of the member that most of the waiting is for */
        double last_share; /* of the calls compared: how often it was the last to start */
        double caused_share; /* its caused_ns of the ranks' time in the job; < 0: not known (host
                                times) */
        struct capo_interval caused; /* 95 % interval of its caused_ns; no more than ranks x time */
        double unseen_ns;            /* of it at the upper end: what a rank can have waited in long
                                        silences, mean over ranks */
        bool wide;      /* that is more than half of what is possible: nobody is named */
        bool by_clocks; /* what the hosts' times tell may be by their clocks: nobody is named */
        struct capo_late_cause cause; /* where it stands out */
        char *text;                   /* all that in a sentence */
};

/** capo_wait_counts() - is the rank that most waiting on it is for to be named: it stands out, and
 * costs 1 % of the job? */
static inline bool capo_wait_counts(const struct capo_page_wait *w)
{
        return w->stands_out && w->caused_share >= 0.01;
}

/* A communicator of which nothing is compared, and the reason. */
struct capo_page_unknown {
        uint32_t comm;
        const char *why;
};

enum capo_severity {
        CAPO_SEVERITY_ERROR,   /* the job is broken, or figures here are not whole */
        CAPO_SEVERITY_WARNING, /* figures here mean less than they seem to */
        CAPO_SEVERITY_NOTE,    /* not wrong, but it explains something */
};

struct capo_problem {
        unsigned kind; /* enum capo_problem_kind */
        char *text;
        uint32_t comm; /* CAPO_NO_COMM: it is of none */
        struct capo_rank_run {
                int32_t first;
                uint32_t n;
        } * runs;           /* ranks of the job, or of comm: one after another, ascending; owned */
        uint32_t n_runs;    /* 0: not of certain ranks */
        const char *log;    /* name of the one log that it is about, or NULL */
        uint8_t call;       /* 0 none */
        uint32_t seq;       /* number of that call, 0 not known */
        const char *result; /* what it returned, in words, or NULL */
        double at_s;        /* when, after the job's start; < 0 not known */
        int8_t in_call;     /* 1: the call had not returned then, 0: it had, -1: not known */
};

struct capo_next {
        unsigned kind; /* enum capo_next_kind */
        char *text;
        uint32_t comm;                   /* CAPO_NO_COMM: of none */
        int32_t rank;                    /* in comm; -1 of none */
        int32_t job_rank;                /* in the job; -1 of none, not known */
        uint8_t call;                    /* 0 none */
        uint64_t bytes_least, bytes_max; /* of calls */
        double share; /* the number that asks for it, as in the sentence; < 0 none */
};

/* Call sites that read the same in one line, together. */
struct capo_page_place {
        char *line;   /* "f <- g <- main" */
        double time;  /* GPU time where there is any in the job, else host time; ns */
        double share; /* of all places; < 0: not timed */
        uint64_t calls;
};

/* A row of the profile, or a candidate of the sweep. */
struct capo_page_rule {
        unsigned rule;
        uint64_t calls; /* it decided */
        char text[768];
};

#define CAPO_NOTE_ROOM 16 /* of one row; page_kinds.h */

/* What a person should look at in a row of the network; the most telling things first. */
struct capo_page_note {
        unsigned kind; /* enum capo_page_note_kind */
        char text[128];
};

struct capo_page_link {
        struct capo_page_note note[CAPO_NOTE_ROOM];
        unsigned n_notes;
};

enum capo_page_sort {
        CAPO_SORT_TIME,
        CAPO_SORT_COUNT,
        CAPO_SORT_SIZE,
        CAPO_SORT_P50,
        CAPO_SORT_P95,
        CAPO_SORT_P99,
        CAPO_SORT_MAX,
        CAPO_SORT_ALGBW,
        CAPO_SORT_BUSBW,
        CAPO_SORT_COMM,
        CAPO_SORT_CALL,
        CAPO_SORTS,
};

struct capo_page {
        /* given by the caller, who keeps what is a pointer until capo_page_finish(), which frees
         * what is said to be owned */
        struct capo_job *job;           /* finished; owned */
        struct capo_fabric_job *fabric; /* NULL: no process used libfabric; owned */
        const char *what;               /* the folder or file, for commands that are proposed */
        const char *only_comm;          /* pattern of the communicators' names, NULL all */
        unsigned only_call;             /* enum capo_call_id, 0 all */
        enum capo_page_sort sort;       /* of rows */
        bool exact; /* a row per size and communicator; else many sizes as ranges, many alike
                       communicators as one */
        bool all;   /* nothing is left out for brevity */
        struct capo_page_ceiling *ceiling; /* by communicator; NULL: no topology was given; owned */
        struct capo_page_near *near; /* by fabric->links; NULL: no topology was given; owned */
        struct capo_page_allocation allocation;
        bool topology_recorded; /* it lay beside the logs, nobody named it */
        char topology[128];     /* its name */
        char link_speed[160];   /* how fast it takes a link to be, and by what; "" not known */
        char no_ceiling[256];   /* why a communicator has none; "" all have */
        struct capo_page_predicted *predicted; /* by communicator; owned */
        size_t n_predicted;
        char predicted_by[512];      /* "NCCL 2.28.9"; where there are none, why; "": not asked */
        capo_clocks_now *clocks_now; /* asked of ranks that cost the job; NULL: the logs alone */

        /* judged */
        struct capo_page_rows rows;   /* collectives, p2p and groups, sorted as asked */
        struct capo_page_rows judged; /* the same as ranges, by time: what is said about them is the
                                         same in any face */
        struct capo_page_rows others; /* calls that move no data: create, destroy, register */
        uint64_t collectives, moved_bytes; /* count, and count * bytes, of collectives and p2p */
        double gpu_share; /* of the job's rank-time, with at least one call on the GPU; < 0: not
                             known, or not well enough (gpu_range) */
        struct capo_interval gpu_range; /* its 95 % interval */
        double gpu_sum; /* of the calls' times, those that overlap each for itself; over rank-time;
                           < 0: not known */
        uint64_t gpu_timed, gpu_calls; /* calls on the GPU, all ranks': timed there; all */
        bool overlapping;              /* calls of several streams were on one GPU at once */
        double exposed_most; /* of it, at most this much was communication that nothing can have
                                hidden: at least one call was on the GPU; < 0: not known */
        bool gpu;            /* there are GPU times: shares are of GPU time, else of host time */
        uint32_t *class_of; /* communicator -> the one it is shown as: many alike are shown together
                             */
        uint32_t *class_size;         /* of that one: how many are shown as it; 1 alone */
        struct capo_page_wait *waits; /* most costly first */
        uint32_t n_waits;
        double wait_share; /* of the job's rank-time, waiting for late ranks; < 0: not known, or not
                              well enough (wait_range) */
        struct capo_interval wait_range; /* its 95 % interval; {0, 0}: nothing was compared by GPU
                                            times */
        double unseen_ns; /* what ranks can have waited beside all that, mean over them */
        struct capo_page_unknown
                *unknown; /* who waits is not known on these, those with most calls first */
        uint32_t n_unknown;
        struct capo_problem *problems; /* most important first */
        uint32_t n_problems;
        struct capo_next *next; /* most important first */
        uint32_t n_next;
        struct capo_page_place *places; /* by time */
        uint32_t n_places;
        bool places_by_gpu;
        struct capo_page_rule *rules; /* by number */
        uint32_t n_rules;
        uint64_t ruled_calls;              /* of which rules decided some */
        struct capo_page_link *links;      /* by fabric->links */
        struct capo_page_created *created; /* by communicator */
        struct capo_page_creation creation;
        struct capo_job_steps steps; /* of the whole job, whatever the filters */
};

void capo_page_finish(struct capo_page *page);

/** capo_problem_name(), capo_next_name(), capo_page_note_name(), capo_severity_name() - for
 * programs: "killed", "late_rank", "idle", "error". */
const char *capo_problem_name(unsigned kind);
enum capo_severity capo_problem_severity(unsigned kind);
const char *capo_severity_name(enum capo_severity severity);
const char *capo_next_name(unsigned kind);
const char *capo_page_note_name(unsigned kind);

/** capo_page_info() - the value of @key (core/log/info.h) in the first process that has one; NULL
 * when none has. */
const char *capo_page_info(const struct capo_page *page, const char *key);

/** capo_page_title() - job id and name as the launcher tells them, else the command; "" when
 * nothing tells. */
char *capo_page_title(const struct capo_page *page, char *text, size_t room);

/** capo_page_unseen() - what ranks can have waited in long silences, of the job. */
static inline double capo_page_unseen(const struct capo_page *page)
{
        double ns = (double)capo_job_duration_ns(page->job);

        return ns > 0 ? page->unseen_ns / ns : 0;
}

/** capo_page_is_filtered() - are rows, collectives, moved_bytes and gpu_share those of only_comm
 * and only_call alone? All else is of the whole job. */
static inline bool capo_page_is_filtered(const struct capo_page *page)
{
        return page->only_comm || page->only_call;
}

/** capo_page_is_wanted() - does only_comm name the communicator? */
bool capo_page_is_wanted(const struct capo_page *page, uint32_t comm);

/** capo_page_comm() - name of a communicator, "-" for none. */
const char *capo_page_comm(const struct capo_page *page, uint32_t comm);

/** capo_page_comm_label() - name and ranks: "dp (8)", "tp (8) x16" for many shown together. */
char *capo_page_comm_label(const struct capo_page *page, uint32_t comm, char *text, size_t room);

/** capo_page_size() - "25 MiB", "1-2 MiB" for rows put together. */
char *capo_page_size(const struct capo_page_row *row, char *text, size_t room);

/** capo_page_group_of() - what a group's members are: "AllReduce", "Send, Recv"; NULL: no group, or
 * several kinds. */
const char *capo_page_group_of(const struct capo_job_row *row);

/** capo_page_call() - call name, with what is special about these calls: "AllReduce", "AllReduce in
 * group", "Group of AllReduce". */
char *capo_page_call(const struct capo_job_row *row, char *text, size_t room);

/** capo_page_site_line() - a call site (capo_job_site.text) in one line, innermost frame first: "f
 * <- g
 * <- main".
 * @all: all frames, else the few that say most. */
char *capo_page_site_line(const char *site, bool all, char *text, size_t room);

/** capo_page_share_empty() - traffic that is none: not worth a row. What got a byte of another's
 * window has one, so that rows add up to all that was sent. */
static inline bool capo_page_share_empty(const struct capo_fabric_share *s)
{
        return s->ops < 0.5 && s->sent < 0.5 && s->received < 0.5 && !s->own_ops;
}

#endif
