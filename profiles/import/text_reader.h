/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files that read nccl-tests' output: import_text.c splits lines and builds rows,
 * text_header.c reads headers and labels, text_run.c finishes a run. */
#pragma once

#include "profiles/import/import_private.h"

enum { MAX_HOSTS = 4096, MAX_WORDS = 32, HOST_ROOM = 64 };

struct row {
        struct capo_sample sample[2]; /* out-of-place, in-place */
        unsigned n;
        double algbw, busbw; /* of the last group of columns */
        unsigned line;
};

/* The run being read. */
struct block {
        struct capo_trial run;
        struct capo_nccl_log log;
        uint8_t call, algo, proto, channels; /* from headers and label lines */
        bool auto_said;                      /* ALGO=auto or PROTO=auto: NCCL chose */
        bool command;          /* its command line was read: variables not set there are not set */
        unsigned unsure_line;  /* says something about forced settings, but not in the grammar */
        unsigned heading_line; /* "### LL128": names something that may be forced ... */
        uint8_t heading_algo, heading_proto; /* ... namely these; 0: not; CAPO_HEADING_SEVERAL */
        char restricted_by[32]; /* a variable that restricts NCCL's choice; "": NCCL_ALGO,
                                          NCCL_PROTO */
        bool inline_label;      /* its label is in its command line, and ends with it */
        bool exported;          /* its label is an export of the shell before it */
        bool has_root;          /* from the header */
        bool several; /* NCCL_ALGO or NCCL_PROTO is a list, which does not tell what ran */
        unsigned label_line;
        bool per_iteration, timestamp;
        uint8_t make;
        unsigned groups; /* number of groups of time columns in the header; 0: no header */
        int root;        /* of its last row; -1: none */
        int n_hosts, n_devices, device_rank0, last_rank;
        struct row *rows;
        size_t n_rows;
        char *rejected;
};

struct reader {
        struct capo_input *in;
        char (*hosts)[HOST_ROOM];   /* all host names of the file */
        uint64_t hashes[MAX_HOSTS]; /* of the names: logs of many hosts have a name in every line */
        int on_host[MAX_HOSTS];     /* the run's devices; struct block is cleared often */
        int n_hosts;
        struct block block;
        char words[MAX_WORDS][40]; /* of the row being built */
        unsigned n_words, row_line;
        unsigned task;          /* the number that srun -l puts before a line */
        unsigned labelled_line; /* of the last label that names a candidate; 0: none */
        unsigned
                standing_line; /* the same where it may hold for later runs: an export, a heading */
        char joined[16384];    /* joined lines that end with a backslash */
        size_t n_joined;
        unsigned joined_line;
};

/* Another table begins under the headers of this run: it is not known what ran in it. */
void capo_text_next_table(struct reader *r, unsigned line);

/* in->error is about this run, not about the file: reject the run with it, and clear it. */
void capo_text_fault(struct reader *r);

/* Parse nccl-tests' line for a device, "#  Rank  3 Group  0 Pid 123 on host device  3 ...": rank
 * and host. */
bool capo_text_device(const char *line, int *rank, char host[HOST_ROOM]);

/* Read a line that begins with '#', changed in place. Return: 0; -errno with the error set. */
int capo_text_header(struct reader *r, char *line, unsigned n);

/* Read KEY=VALUE words and program names in any other line, changed in place. Return: 0; -errno
 * with the error set. */
int capo_text_labels(struct reader *r, char *text, unsigned line);

/* Finish the run: add its rows to the samples, or the reason of its rejection to the notes, and
 * begin an empty one. */
void capo_text_run_end(struct reader *r);
void capo_text_run_clear(struct reader *r);
