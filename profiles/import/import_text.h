/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader of nccl-tests' output, between its files: import_text.c takes lines apart and puts
 * rows together, text_header.c hears what headers and labels say, text_run.c settles a run at its
 * end.
 */
#ifndef CAPO_IMPORT_TEXT_H
#define CAPO_IMPORT_TEXT_H

#include "profiles/import/import_private.h"

enum { MAX_HOSTS = 4096, MAX_WORDS = 32, HOST_ROOM = 64 };

struct row {
        struct capo_sample sample[2]; /* out-of-place, in-place */
        unsigned n;
        double algbw, busbw; /* of the last */
        unsigned line;
};

/* The run being read. */
struct block {
        struct capo_trial run;
        struct capo_nccl_log log;
        uint8_t call, algo, proto, channels; /* said by headers and label lines */
        bool auto_said;                      /* ALGO=auto or PROTO=auto: NCCL chose */
        bool command;          /* its command line is there: what that does not set is not set */
        unsigned unsure_line;  /* a line that says something of what was forced, and not in the
                                  grammar */
        unsigned heading_line; /* "### LL128": names something that may be forced ... */
        uint8_t heading_algo, heading_proto; /* ... these; 0 not; CAPO_HEADING_SEVERAL */
        char restricted_by[32];        /* a variable that restricts what NCCL chooses; "" NCCL_ALGO,
                                          NCCL_PROTO */
        bool inline_label;             /* its label stands in its command line, and ends with it */
        struct capo_settings settings; /* other NCCL_* of its labels and command line */
        bool has_root;                 /* by the header */
        bool several; /* NCCL_ALGO or NCCL_PROTO is a list: does not say what ran */
        unsigned label_line;
        bool per_iteration, timestamp;
        uint8_t make;
        unsigned groups; /* of time columns, by the header; 0 no header */
        int root;        /* of its last row; -1 none */
        int n_hosts, n_devices, device_rank0;
        struct row *rows;
        size_t n_rows;
        char *rejected;
};

struct reader {
        struct capo_input *in;
        char (*hosts)[HOST_ROOM];   /* all host names of the file */
        uint64_t hashes[MAX_HOSTS]; /* of their names: logs of many hosts have a name in every line
                                     */
        int on_host[MAX_HOSTS]; /* devices of the run on each; here, for a run is cleared often */
        int n_hosts;
        struct block block;
        char words[MAX_WORDS][40]; /* of the row that is being put together */
        unsigned n_words, row_line;
        unsigned task;          /* of capo_text_untag() */
        unsigned labelled_line; /* of the last run that a label names a candidate for; 0 none */
        unsigned standing_line; /* the same, where the label may hold for more than its run: an
                                   export, a heading */
        char joined[16384];     /* lines that end with a backslash, put together */
        size_t n_joined;
        unsigned joined_line;
};

/* @line with those before it that ended with a backslash; NULL: it ends with one, and the command
 * goes on. @n: its number, or that of the first (text_command.c). */
char *capo_text_join(struct reader *r, char *line, unsigned *n);

/* Is it a heading with names of algorithms or protocols, and no setting? Which: 0 none,
 * CAPO_HEADING_SEVERAL more than one. */
enum { CAPO_HEADING_SEVERAL = 255 };
bool capo_text_heading(const char *text, uint8_t *algo, uint8_t *proto);

/* How often @text names a setting that decides what runs (NCCL_ALGO, NCCL_TUNER_PLUGIN, MSCCL,
 * ...): each must be understood, or the run is unknown. */
unsigned capo_text_mentions(const char *text);

/* Is it one of them? */
bool capo_text_forces(const char *key);

/* "-genv NCCL_ALGO Ring", "--env NCCL_ALGO Ring", "setenv NCCL_ALGO Ring", "NCCL_ALGO = Ring",
 * "NCCL_ALGO: Ring" become "NCCL_ALGO=Ring", and values lose their quotes. In place. */
void capo_text_normalise(char *text);

/* Another table begins under the headers of this run: nobody says what ran in it. */
int capo_text_next_table(struct reader *r, unsigned line);

/* Ranks from the bandwidths, where exactly one number fits all rows (between @lo and @hi); else 0,
 * and *@factor is busbw/algbw of the fastest row where that is large enough to tell. */
int capo_text_ranks(const struct block *b, unsigned call, double *factor, double *lo, double *hi);

/* The collective of a reduction without root whose rates are too low to tell by themselves, as
 * those of a broken network: the listed ranks may leave one. CAPO_CALL_NONE: both or neither. */
uint8_t capo_text_call(const struct reader *r);

/* This run is left out, and why; the first reason stays. */
void capo_text_reject(struct block *b, const char *format, ...)
        __attribute__((format(printf, 2, 3)));

/* in->error is about this run, not about the file: reject the run with it, and clear it. */
void capo_text_fault(struct reader *r);

/* The number of a host by its name, new names included; -1 when there is no room or @name has no or
 * too many bytes. */
int capo_text_host(struct reader *r, const char *name, size_t size);

/* nccl-tests' line of a device, "#  Rank  3 Group  0 Pid 123 on host device  3 ...": its rank and
 * host. */
bool capo_text_device(const char *line, int *rank, char host[HOST_ROOM]);

/* @line without what was put before it, and without Open MPI's tags inside it, where pieces of a
 * row were flushed; in place (text_prefix.c). @task: 1 + the number that srun -l puts before what
 * nccl-tests prints, as the lines so far show; 0 none. */
char *capo_text_untag(char *line, unsigned *task);

/* Is it the beginning of a row: size, count and type? */
bool capo_text_begins_row(const char *text);

/* A line that begins with '#', changed in place. 0, or -errno after the fault is said. */
int capo_text_header(struct reader *r, char *line, unsigned n);

/* KEY=VALUE words and program names in any other line, changed in place. 0, or -errno after the
 * fault is said. */
int capo_text_labels(struct reader *r, char *text, unsigned line);

/* The row being put together, if there is one, is over. 0, or -errno after the fault is said. */
int capo_text_row_end(struct reader *r);

/* The run is over: its rows go to the samples, or the reason why not to the notes. The next begins
 * empty. 0, -errno. */
int capo_text_run_end(struct reader *r);
void capo_text_run_clear(struct reader *r);

#endif
