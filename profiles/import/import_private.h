/* SPDX-License-Identifier: Apache-2.0 */
/* What the parsers of profiles/import/ share. Each takes the whole input in memory,
 * zero-terminated. */
#pragma once

#include "analysis/job/job.h"
#include "profiles/import/import_run.h"

/* Logs and records that wait for further inputs with the same label, because the ranks of a job are
 * in several files. */
struct capo_late {
        bool labelled;
        struct capo_label label;
        struct capo_job *job; /* of capo's logs; NULL: there are none */
        char **named;         /* what the user called each, by process */
        char *unread;         /* why the first unreadable log cannot be read; NULL: none */
        struct inspector *records;
};

/** capo_late_of() - what waits with the label of @in, added if new. Valid until the next call. */
struct capo_late *capo_late_of(struct capo_input *in);

/** capo_late_count() - number of logs and records that wait. */
size_t capo_late_count(const struct capo_samples *set);

void capo_late_free(struct capo_samples *set);

/** capo_stamp_read() - a time stamp at the beginning of @text: "2025-11-20T10:00:00.5Z ...",
 * "[2025-11-20 10:00:00] ...", "Thu Jul 18 15:41:05 2024..."; all 0 where there is none. */
struct capo_stamp capo_stamp_read(const char *text);

#define IMPORTER(name, whole, what)                             \
        bool capo_import_is_##name(const char *head, size_t n); \
        int capo_import_##name(struct capo_input *in);
#include "profiles/import/importers.def"

/** capo_import_job_as() - capo_import_job() with set, label and error in @in. @named: the log of
 * each process as the user named it. in->error is set on any error. */
int capo_import_job_as(struct capo_input *in, const struct capo_job *job, char *const *named);

/* ---- what NCCL says about itself in its log, profiles/import/nccl_log.c ---- */

enum { CAPO_TABLE_CALLS = 5 }; /* Broadcast, Reduce, AllGather, ReduceScatter, AllReduce */

/** capo_settings_add() - add a variable to the settings of a run, unless it is a label (NCCL_ALGO, ...) or
 * does not affect times (NCCL_DEBUG, ...). They are sorted by name; the first value counts.
 * capo_settings_add_all() - the same for each of @text, "NCCL_A=1 NCCL_B=2". */
void capo_settings_add(char settings[128], const char *name, const char *value);
void capo_settings_add_all(char settings[128], const char *text);

struct capo_decision {
        uint64_t bytes;
        unsigned line;
        uint8_t call, ran, channels;
        bool split; /* the same size was decided in more than one way */
};

struct capo_nccl_log {
        uint32_t version;
        uint8_t env_algo, env_proto; /* "NCCL_ALGO set by environment to Ring." */
        int n_nodes;                 /* as NCCL counts them; 0: not known */
        char tuner[32];              /* the tuner plugin that NCCL loaded; "": none */
        char driver[32];             /* as in struct capo_trial */
        char settings[128];
        bool env_said;    /* it names the variables that NCCL obeys */
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

/** capo_nccl_log_ran() - what ran for @call at @bytes; NULL: not known. */
const struct capo_decision *capo_nccl_log_ran(struct capo_nccl_log *log, unsigned call,
                                              uint64_t bytes);

/** capo_nccl_log_call() - the only collective that decisions name; CAPO_CALL_NONE: none, or
 * several. */
unsigned capo_nccl_log_call(struct capo_nccl_log *log);

/** capo_nccl_log_forced() - what the tuning table says was forced for all-reduce: algo << 4 | proto; a
 * part that is 0 was not
 * @several: NCCL could choose among some, but not all
 *
 * NCCL_ALGO and NCCL_PROTO zero the bandwidth of what they exclude (NCCL src/graph/tuning.cc). Ring and
 * Tree, LL and Simple are never absent by themselves for all-reduce on two ranks or more.
 *
 * Return: is there a table with all-reduce? */
bool capo_nccl_log_forced(const struct capo_nccl_log *log, uint8_t *forced, bool *several);

void capo_nccl_log_free(struct capo_nccl_log *log);
