/* SPDX-License-Identifier: Apache-2.0 */
/* The contents of a report: which rows, in which order, which rank stands out, what is wrong, what
 * to do next. All of it is judged once (analysis/report/job_judge.h fills it); text, JSON, CSV and
 * HTML only print it and decide how much to show. Sentences that several formats print are made
 * here as well, so that they cannot differ. */
#pragma once

#include "analysis/causes/causes.h"
#include "analysis/report/late_cause.h"
#include "analysis/network/network.h"
#include "analysis/job/interval.h"
#include "analysis/steps/job_steps.h"

/* A row to show: one of the job's, or several merged. */
struct capo_page_row {
        struct capo_job_row row;
        uint64_t bytes_max; /* largest size merged; row.bytes is the smallest */
        enum capo_clock clock;
        double total_ns; /* over all ranks, by `clock` */
        double share;    /* of the time of all rows of its kind of clock; < 0: not comparable */
        bool has_bandwidth, has_algbw; /* a group has only algbw, because its calls differ */
        double algbw, busbw; /* GB/s; of merged sizes: all bytes over all time of the timed calls */
        double ceiling;      /* busbw in GB/s that the links allow; 0 not known */
        double reached;      /* busbw over it; < 0 not known */
        double timed_bytes[CAPO_TIMES];
};

struct capo_page_rows {
        struct capo_page_row *row;
        uint32_t n;
};

/* What the links of a communicator allow; filled by the caller that knows the machine. */
struct capo_page_ceiling {
        char class[256];                  /* "" not known */
        double busbw_gbs[CAPO_CALL_ROOM]; /* 0 not known */
        const char *on[CAPO_CALL_ROOM];   /* what it assumes, static: capo_ceiling_word() */
};

/* The allocation of the job's largest communicator, and alternatives with as many GPUs; filled by
 * the caller that knows the machine. Best possible bus bandwidth of AllReduce in GB/s. */
struct capo_page_allocation {
        char layout[64]; /* "" not known */
        char class[256];
        bool uneven;  /* nodes have different numbers of ranks */
        bool reduced; /* some node has GPUs that the job does not use */
        double best;  /* 0 not known */
        struct {
                char layout[64];
                double best;
        } others[4]; /* best first */
        unsigned n_others;
        char machine[512]; /* "--platform p5": how a command names the machine; "" not known */
        bool asked;        /* NCCL's model was asked about an uneven or reduced one: */
        char *experiment;  /* the sweep that it proposes for AllReduce; NULL: none */
        char *advice[6];   /* sentences, as capo fit --model has them */
        unsigned n_advice;
};

/* Distance from a NIC of a rank to the rank's nearest GPU; filled by the caller that knows the
 * machine. */
struct capo_page_near {
        const char *path; /* "PIX", "PXB", "PHB", "SYS"; NULL: not known, and the rest is empty */
        bool far;         /* the path is SYS, the longest */
        char nearer[48];  /* an equally fast NIC that is nearer to that GPU, idle ones first */
        const char *nearer_path; /* its path */
        bool nearer_idle;        /* no rank of this host used it */
};

/* How long the creation of a communicator took on the rank that was in it longest, and shortest; it
 * ends on all ranks together. ns; 0 not known. */
struct capo_page_created {
        double ns, least_ns;
};

struct capo_page_creation {
        uint32_t n;    /* communicators with a known creation time */
        double ns;     /* sum over communicators, each on its slowest rank */
        uint32_t comm; /* the slowest one; CAPO_NO_COMM: none */
};

/* Which rank the others wait for on one communicator. */
struct capo_page_wait {
        uint32_t comm;
        bool stands_out;     /* more waits for one rank than chance or clocks explain */
        uint32_t last;       /* index of the member that most of the waiting is for */
        double last_share;   /* share of the compared calls in which it started last */
        double caused_share; /* its caused_ns over the ranks' time; < 0: not known (host times) */
        struct capo_interval caused; /* 95 % interval of its caused_ns, capped at ranks x time */
        double unseen_ns; /* of its upper end what may be in long silences, mean over ranks */
        bool wide;     /* the interval is wider than half of what is possible: no rank is named */
        bool by_order; /* the time is not known, but it was last in nearly all calls: it is named */
        bool follows;  /* the rank was late because it waited elsewhere: none is named here */
        bool alike;    /* most ranks come as late: the others come early, and none is named */
        bool handed_on;   /* a message may have made the rank late: none is named */
        bool by_messages; /* most of the time is in sends and receives, which are not compared */
        bool by_clocks;   /* it may be the hosts' clocks: no rank is named */
        struct capo_late_cause cause; /* if it stands out */
        char *text;                   /* all of this in a sentence */
};

/** capo_wait_counts() - is the rank to be named: does it stand out and cost 1 % of the job? */
static inline bool capo_wait_counts(const struct capo_page_wait *w)
{
        return w->stands_out && w->caused_share >= 0.01;
}

/* A communicator on which nothing could be compared, and the reason. */
struct capo_page_unknown {
        uint32_t comm;
        const char *why;
};

struct capo_problem {
        unsigned kind; /* enum capo_problem_kind */
        char *text;
        uint32_t comm; /* CAPO_NO_COMM: none */
        struct capo_rank_run {
                int32_t first;
                uint32_t n;
        } * runs;           /* ranks of the job, or of comm; ascending; owned */
        uint32_t n_runs;    /* 0: no particular ranks */
        const char *log;    /* name of the one log concerned, or NULL */
        uint8_t call;       /* 0: none */
        uint32_t seq;       /* number of that call; 0 not known */
        const char *result; /* what it returned, as text, or NULL */
        double at_s;        /* when, after the job's start; < 0 not known */
        int8_t in_call; /* 1: it was in the call then; 0: the call had returned; -1: not known */
};

struct capo_next {
        unsigned kind; /* enum capo_next_kind */
        char *text;
        uint32_t comm;                   /* CAPO_NO_COMM: none */
        int32_t rank;                    /* in comm; -1: none */
        int32_t job_rank;                /* in the job; -1: none or not known */
        uint8_t call;                    /* 0: none */
        uint64_t bytes_least, bytes_max; /* range of sizes */
        double share; /* the number that is the reason, as in the sentence; < 0: none */
};

/* Call sites with the same one-line text, merged. */
struct capo_page_place {
        char *line;   /* "f <- g <- main" */
        double time;  /* GPU time if the job has any, else host time; ns */
        double share; /* of all places; < 0: not timed */
        uint64_t calls;
};

/* A row of the profile, or a candidate of the sweep. */
struct capo_page_rule {
        unsigned rule;
        uint64_t calls; /* calls it decided */
        char text[768];
};

#define CAPO_NOTE_ROOM 16 /* notes of one row; page_kinds.h */

/* Something to note about a row of the network, most important first. */
struct capo_page_note {
        unsigned kind; /* enum capo_page_note_kind */
        char text[128];
};

struct capo_page_link {
        struct capo_page_note note[CAPO_NOTE_ROOM];
        unsigned n_notes;
};

struct capo_page {
        /* given by the caller, who keeps pointers valid until capo_page_finish(); that frees those
         * marked owned */
        struct capo_job *job;           /* finished; owned */
        struct capo_fabric_job *fabric; /* NULL: no process used libfabric; owned */
        const char *what;               /* the folder or file */
        const char *only_comm;          /* shell pattern for communicator names; NULL: all */
        unsigned only_call;             /* enum capo_call_id, 0 all */
        bool exact; /* many sizes are not merged to ranges, nor similar communicators to one */
        bool all;   /* leave nothing out for brevity */
        bool bytes; /* pages print sizes in bytes */
        bool notes; /* pages also print how numbers were obtained */
        struct capo_page_ceiling *ceiling; /* by communicator; NULL: no topology; owned */
        struct capo_page_near *near;       /* by fabric->links; NULL: no topology; owned */
        struct capo_page_allocation allocation;
        bool topology_recorded; /* the topology was found beside the logs, not given by the user */
        char topology[128];     /* its name */
        char link_speed[160];   /* assumed speed of a link, and its source; "" not known */
        char no_ceiling[1024];  /* why a communicator has no ceiling; "": all have one */
        capo_clocks_now *clocks_now; /* for ranks that cost the job; NULL: only the logs */

        /* judged */
        struct capo_page_rows rows;   /* collectives, p2p and groups; most costly first */
        struct capo_page_rows judged; /* the same merged to ranges: what every format judges by */
        struct capo_page_rows others; /* calls that move no data: create, destroy, register */
        uint64_t collectives, moved_bytes; /* and p2p: count, and sum of count * bytes */
        double gpu_share; /* of the ranks' time with a call on the GPU; < 0: not known well enough */
        struct capo_interval gpu_range; /* its 95 % interval */
        double gpu_sum; /* the same, overlapping calls counted each; < 0: not known */
        uint64_t gpu_timed, gpu_calls; /* calls on the GPU of all ranks: those timed; all */
        bool overlapping;     /* calls of several streams were on one GPU at the same time */
        double exposed_most;  /* most of it that computation did not hide; < 0: not known */
        bool gpu;             /* there are GPU times: shares are of GPU time, else of host time */
        uint32_t *class_of;   /* communicator -> the one that it is shown as */
        uint32_t *class_size; /* how many are shown as that one; 1: no others */
        struct capo_page_wait *waits; /* most costly first */
        uint32_t n_waits;
        double wait_share; /* of the ranks' time waiting for late ranks; < 0: not known well enough */
        struct capo_interval wait_range; /* its 95 % interval; {0, 0}: no GPU times compared */
        struct capo_causes *causes; /* of ranks named as late; without any, of the slow calls */
        uint32_t n_causes;
        double unseen_ns; /* waiting that may come on top of that, mean over ranks */
        struct capo_page_unknown *unknown; /* not compared; most calls first */
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
        uint64_t ruled_calls;              /* calls that rules decided */
        struct capo_page_link *links;      /* by fabric->links */
        struct capo_page_created *created; /* by communicator */
        struct capo_page_creation creation;
        struct capo_job_steps steps; /* of the whole job, whatever the filters */
};

void capo_page_finish(struct capo_page *page);

/* By kind: the words in JSON. An "error": the job is broken, or figures here are not whole; a
 * "warning": figures here mean less than they seem to; a "note" explains something. */
extern const struct capo_problem_is {
        const char *name, *severity;
} capo_problem_is[];
extern const char *const capo_next_names[], *const capo_page_note_names[];

/** capo_page_info() - the value of @key (core/log/info.h) in the first process that has it; NULL:
 * none has. */
const char *capo_page_info(const struct capo_page *page, const char *key);

/** capo_page_title() - job id and name from the launcher, else the command; "" when neither is
 * known. */
char *capo_page_title(const struct capo_page *page, char *text, size_t room);

/** capo_page_unseen() - share of the job that ranks can have waited in long silences. */
static inline double capo_page_unseen(const struct capo_page *page)
{
        double ns = (double)capo_job_duration_ns(page->job);

        return ns > 0 ? page->unseen_ns / ns : 0;
}

/** capo_page_is_filtered() - do rows, collectives, moved_bytes and gpu_share cover only only_comm
 * and only_call? Everything else covers the whole job. */
static inline bool capo_page_is_filtered(const struct capo_page *page)
{
        return page->only_comm || page->only_call;
}

/** capo_page_comm() - the name of a communicator; "-" for none. */
const char *capo_page_comm(const struct capo_page *page, uint32_t comm);

/** capo_page_comm_label() - name and ranks: "dp (8)"; "tp (8) x16" for merged ones. */
char *capo_page_comm_label(const struct capo_page *page, uint32_t comm, char *text, size_t room);

/** capo_page_size() - "25 MiB"; "1-2 MiB" for merged rows. */
char *capo_page_size(const struct capo_page_row *row, char *text, size_t room);

/** capo_page_group_of() - the kinds of a group's members: "AllReduce", "Send, Recv"; NULL: no
 * group, or other kinds. */
const char *capo_page_group_of(const struct capo_job_row *row);

/** capo_page_call() - call name with group: "AllReduce", "AllReduce in group", "Group of
 * AllReduce". */
char *capo_page_call(const struct capo_job_row *row, char *text, size_t room);

/** capo_page_site_line() - a call site (capo_job_site.text) in one line, innermost frame first: "f
 * <- g <- main".
 * @all: all frames, else the few most telling */
char *capo_page_site_line(const char *site, bool all, char *text, size_t room);

/** capo_page_share_empty() - is there too little traffic for a row? A share that got a single byte
 * of another's window keeps its row, so that rows add up to all that was sent. */
static inline bool capo_page_share_empty(const struct capo_fabric_share *s)
{
        return s->ops < 0.5 && s->sent < 0.5 && s->received < 0.5 && !s->own_ops;
}
