/* SPDX-License-Identifier: Apache-2.0 */
/* What the parsers of profiles/import/ share. Each takes the whole input in memory,
 * zero-terminated. */
#ifndef CAPO_IMPORT_PRIV_H
#define CAPO_IMPORT_PRIV_H

#include "analysis/job/job.h"
#include "profiles/import/import.h"

struct capo_input {
        const char *path;
        char *text;
        size_t size;
        const struct capo_label *label;
        struct capo_samples *set;
        char *error;
        size_t room;
        const char *named; /* by the user: the file, or the folder that it is in; NULL: the file */
        int fd; /* of the file while it is read, at any offset; -1 when it was taken over */
};

/* What waits for the other inputs of its label, because the ranks of a job are in several files. */
struct capo_late {
        bool labelled;
        struct capo_label label;
        struct capo_job *job; /* of capo's logs; NULL: there are none */
        char **named;         /* what the user called each, by process */
        char *unread;         /* why the first of those that cannot be read cannot; NULL: none */
        struct inspector *records;
};

/** capo_late_of() - what waits with the label of @in; NULL: no memory. Another label's may move it.
 */
struct capo_late *capo_late_of(struct capo_input *in);

/** capo_late_count() - logs and records that wait, of all labels. */
size_t capo_late_count(const struct capo_samples *set);

void capo_late_free(struct capo_samples *set);

/* Parts of an input (documents, rows) that are not used. */
struct capo_input_faults {
        char text[5][320]; /* of the first few */
        unsigned n;
};

/** capo_input_fault() - in->error is about one part of the input only: keep it, and go on. */
void capo_input_fault(struct capo_input *in, struct capo_input_faults *faults);

/**
 * capo_input_faults_end() - at the end of the input
 * @what: "documents", "rows"
 * @used: something of it is used
 *
 * Return: 0, and each fault is a note, of the first few; -EINVAL when nothing is used: in->error is
 * the first.
 */
int capo_input_faults_end(struct capo_input *in, const struct capo_input_faults *faults,
                          const char *what, bool used);

/** capo_input_error() - "path:line: ..." into in->error; line 0 leaves it out. Returns -EINVAL. */
int capo_input_error(struct capo_input *in, unsigned line, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

/**
 * capo_input_label() - let the user's label have its say about a run
 * @run: layout, ranks, nodes, GPU and release are taken over where the label has them
 *
 * Return: 0, or -EINVAL when both speak and differ (release, GPU): the input must not be overruled
 * silently. Ranks and layout given by the user do overrule: logs lose device lines.
 */
int capo_input_label(struct capo_input *in, struct capo_trial *run);

/** capo_input_number() - a number in full, as strtod() reads it, for the many of a table; false: it
 * is none, or not finite. */
bool capo_input_number(const char *text, double *out);

/** capo_input_hosts() - put the names of the hosts that @run ran on into it; @names are sorted. */
void capo_input_hosts(struct capo_trial *run, const char **names, size_t n);

/**
 * capo_input_tuner() - NCCL_TUNER_PLUGIN of @run's environment
 * @forced: what the run forces decides in the tuner's place
 *
 * With a plugin that is neither NCCL's own nor capo's the run has it as its tuner, and takes no
 * part unless @forced.
 */
void capo_input_tuner(struct capo_trial *run, const char *value, bool forced);

/** capo_stamp_read() - a time stamp at the beginning of @text: "2025-11-20T10:00:00.5Z ...",
 * "[2025-11-20 10:00:00] ...", "Thu Jul 18 15:41:05 2024..."; all 0 where there is none. */
struct capo_stamp capo_stamp_read(const char *text);

/** capo_input_layout() - put layout @text ("3+5", "10x8") with its ranks and nodes into @run.
 * Return: 0 or -EINVAL. */
int capo_input_layout(const char *text, struct capo_trial *run);

#define IMPORTER(name, whole, what)                             \
        bool capo_import_is_##name(const char *head, size_t n); \
        int capo_import_##name(struct capo_input *in);
#include "profiles/import/importers.def"

/** capo_import_job_as() - capo_import_job() with where things go in @in; @named: what the user
 * called the log of each process. Errors are said. */
int capo_import_job_as(struct capo_input *in, const struct capo_job *job, char *const *named);

/* ---- what NCCL says about itself in its log, profiles/import/nccl_log.c ---- */

enum { CAPO_TABLE_CALLS = 5 }; /* Broadcast, Reduce, AllGather, ReduceScatter, AllReduce */

/* NCCL_* of a run, by name, without those that say what was forced or only talk. */
struct capo_settings {
        char text[128];
};

/** capo_settings_add() - one more, in its place; a name that is there already keeps its first
 * value. Settings that decide nothing about times (NCCL_DEBUG, ...) and those that are labels
 * (NCCL_ALGO, ...) are left out. */
void capo_settings_add(struct capo_settings *settings, const char *name, const char *value);

struct capo_decision {
        uint64_t bytes;
        unsigned line;
        uint8_t call, ran, channels;
        bool split; /* the same size was decided in more than one way */
};

struct capo_nccl_log {
        uint32_t version;
        uint8_t env_algo, env_proto; /* "NCCL_ALGO set by environment to Ring." */
        int n_nodes;                 /* as NCCL counts them; 0 it did not say */
        char tuner[32];              /* a tuner plugin it loaded, "" none */
        char driver[32];             /* as in struct capo_trial */
        struct capo_settings settings;
        bool env_said;    /* it says which variables it obeys */
        bool env_several; /* a list or an exclusion: does not say what ran */
        float bw[CAPO_TABLE_CALLS][CAPO_NCCL_ALGOS + 1]
                [CAPO_NCCL_PROTOS + 1]; /* of the tuning table, GB/s */
        uint8_t columns[3];             /* algorithms of the table part being read */
        unsigned table_line;
        bool have_table;
        struct capo_decision *decisions;
        size_t n_decisions, n_settled; /* settled: sorted and each once, from the first on */
};

/** capo_nccl_log_line() - learn from one line, the part after "NCCL INFO ". */
void capo_nccl_log_line(struct capo_nccl_log *log, const char *text, unsigned line);

/** capo_nccl_log_ran() - what ran for @call at @bytes; NULL when the log does not say. */
const struct capo_decision *capo_nccl_log_ran(struct capo_nccl_log *log, unsigned call,
                                              uint64_t bytes);

/** capo_nccl_log_call() - the only collective that decisions name; CAPO_CALL_NONE: none, or
 * several. */
unsigned capo_nccl_log_call(struct capo_nccl_log *log);

/**
 * capo_nccl_log_forced() - what the tuning table says was forced for all-reduce
 *
 * NCCL_ALGO and NCCL_PROTO zero the bandwidth of what they exclude when the communicator is made
 * (NCCL src/graph/tuning.cc), and Ring and Tree, LL and Simple are never absent by themselves for
 * all-reduce on two ranks or more. So a table without Ring or without Tree tells what NCCL_ALGO
 * was, one without LL or Simple what NCCL_PROTO was.
 *
 * Return: true when there is a table with all-reduce; @forced is then algo << 4 | proto, 0 parts
 * were free unless @several: NCCL had a choice of some, but not of all.
 */
bool capo_nccl_log_forced(const struct capo_nccl_log *log, uint8_t *forced, bool *several);

void capo_nccl_log_free(struct capo_nccl_log *log);

#endif
