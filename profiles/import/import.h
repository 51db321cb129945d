/* SPDX-License-Identifier: Apache-2.0 */
/* Converts measurements to samples, whichever program wrote the file. Each format has a parser in
 * profiles/import/. The format is recognised by the content, never by the name.
 *
 * What ran is taken from the input (its header lines, NCCL's own log lines in it, its columns) or
 * from the user's flags. It is never guessed: if it is not known it stays 0, and the fit reports
 * that. Two sources that contradict each other are an error. A run that cannot be right (ranks that
 * ran alone, wrong results, no bandwidth) is left out completely, with the reason. */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "capo/call_kinds.h"
#include "core/base/order.h"

/* What made a time; samples of different makes are never compared with each other. */
enum capo_make {
        CAPO_MAKE_UNKNOWN,
        CAPO_MAKE_LOOP,   /* nccl-tests: wall clock around many calls, divided by their number */
        CAPO_MAKE_CPU,    /* nccl-tests -C: the host's time to enqueue */
        CAPO_MAKE_GRAPH,  /* nccl-tests -G: as LOOP, the calls replayed from a CUDA graph */
        CAPO_MAKE_EVENT,  /* one call between two CUDA events */
        CAPO_MAKE_KERNEL, /* one call, stamped by NCCL's kernel on the GPU */
        CAPO_MAKE_HOST,   /* one call, host clock: enqueue only */
        CAPO_MAKE_REPORT, /* a column of a table that does not say */
        CAPO_MAKES,
};

enum capo_place { CAPO_PLACE_UNKNOWN, CAPO_PLACE_OUT, CAPO_PLACE_IN };

/* What is common to the samples of one program run, or of one communicator of a recorded job. */
struct capo_trial {
        char *source;  /* file, as the user named it */
        unsigned line; /* where the run begins there; 0 for binary files */
        /* "" and 0: not recorded */
        char layout[48]; /* ranks per node as core/base/layout.h prints it: "4", "3+5", "10x8" */
        char gpu[48];    /* "H100 80GB HBM3" */
        uint32_t nccl;   /* ncclGetVersion's number */
        int n_ranks, n_nodes;
        uint32_t iterations; /* calls averaged in one time; 1 for single calls */
        /* what decides whether runs can be compared */
        char hosts[64];  /* by name, shortened with a check sum where there are many */
        char driver[32]; /* "CUDA 12.4", its highest version; or as the user named it to a store */
        char settings[128]; /* "KEY=VALUE ...", other NCCL_* */
        char tuner[32];     /* a tuner plugin that is neither NCCL's own nor capo's */
        struct capo_stamp {
                int64_t at; /* seconds since 1970; 0 when not recorded */
                bool local; /* in a time zone that is not recorded */
        } began;
        char job[48]; /* the launcher's id of the job */
        char uid[12]; /* number of the user */
        /* How it is labelled: for capo fit --runs, and for profiles/fit/fit_guard.c. */
        char why[96]; /* who said what was forced, or why the run takes no part */
        bool left_out;
};

/** capo_trial_order() - by allocation, GPU and release, as qsort() asks; 0: of one class. */
static inline int capo_trial_order(const struct capo_trial *a, const struct capo_trial *b)
{
        return a->n_ranks - b->n_ranks ?: a->n_nodes - b->n_nodes ?: strcmp(a->layout, b->layout) ?:
               strcmp(a->gpu, b->gpu) ?: CAPO_ORDER(a->nccl, b->nccl);
}

struct capo_sample {
        uint64_t bytes; /* nccl-tests' "size": all-gather, reduce-scatter the total over ranks */
        double us;      /* per call */
        uint32_t run;   /* index into capo_samples.runs */
        uint32_t order; /* line number, or sequence number: order in time within the run */
        uint8_t call;   /* enum capo_call_id */
        uint8_t make;   /* enum capo_make */
        uint8_t place;  /* enum capo_place */
        uint8_t type;   /* ncclDataType_t, 255 unknown */
        uint8_t op;     /* ncclRedOp_t, 255 none or unknown */
        uint8_t want;   /* enum capo_algo << 4 | enum capo_proto that was forced; 0: left to NCCL */
        uint8_t want_channels;
        uint8_t ran;          /* the same, of what ran; 0 parts are not known */
        uint8_t ran_channels; /* 0 not known */
        uint8_t reserved[3];
        uint32_t want_chunk; /* bytes; 0: not forced */
};
static_assert(sizeof(struct capo_sample) == 40, "a million of these are sorted");

#define CAPO_ALGO_OF(algo_proto)   ((unsigned)(algo_proto) >> 4)
#define CAPO_PROTO_OF(algo_proto)  ((unsigned)(algo_proto)&15)
#define CAPO_ALGO_PROTO(algo, pro) ((uint8_t)((algo) << 4 | (pro)))

struct capo_samples {
        struct capo_sample *v;
        size_t n;
        struct capo_trial *runs;
        size_t n_runs;
        char **notes; /* for the user: runs rejected and why, rows cut, sizes skipped */
        size_t n_notes;
        size_t n_rejected; /* runs */
        size_t n_files;
        size_t n_empty; /* rows of size 0 */
        struct capo_samples_file {
                char *path;
                uint64_t size, hash;
        } * files; /* that were read: one of the same content is not counted again */
        size_t n_known, n_again;
        struct capo_late *late; /* what capo_import_more() has put off; by label */
        size_t n_late;
        void (*late_free)(struct capo_samples *set);
};

/* What the user says about the inputs that follow on the command line; 0, "" and UNKNOWN say
 * nothing. */
struct capo_label {
        uint8_t call, algo, proto, channels;
        bool nothing_forced; /* --default: the same, and takes the others back */
        bool default_choice; /* --algo auto: NCCL chose by itself, whatever ran */
        int n_ranks, n_nodes;
        uint32_t nccl;
        char layout[48];
        char gpu[48];
};

/** capo_import() - read one input, of any format capo knows
 * @path:  a file, or a folder: every regular file in it and below that is not hidden; those that cannot
 *         be read are noted
 * @label: what the user says about it, or NULL
 * @set:   zero at first; it grows, also on errors; freed by capo_samples_free(). A file of the same
 *         content and label as one before is noted and not counted again
 * @error: one line, "file:line: expected ..., found ..."
 *
 * Return: 0; -EINVAL: malformed, of no known format, or contradicts itself or @label; -ENODATA: no
 * measurement, or only rejected runs (the notes say why); another negative errno: cannot be read. */
int capo_import(const char *path, const struct capo_label *label, struct capo_samples *set,
                char *error, size_t room);

/** capo_import_more() - capo_import() of one input of several. capo's logs and Inspector's records are
 * put off, to be read together by capo_import_end(): the ranks of a job time the same calls, and file by
 * file they would pass for repeats. */
int capo_import_more(const char *path, const struct capo_label *label, struct capo_samples *set,
                     char *error, size_t room);

struct capo_job;

/** capo_import_job() - samples of the calls of a job that capo recorded
 * @job: finished (analysis/job/stats.h)
 *
 * Return: as capo_import(); a process whose log contradicts @label is left out. */
int capo_import_job(const struct capo_job *job, const struct capo_label *label,
                    struct capo_samples *set, char *error, size_t room);

/** capo_import_end() - samples of what capo_import_more() has put off. Return: as capo_import(), the first
 * error; an input of logs without measurements is noted where another has some. */
int capo_import_end(struct capo_samples *set, char *error, size_t room);

void capo_samples_free(struct capo_samples *set);

/** capo_samples_run() - append a run; returns its index. @run is copied, its source duplicated. */
uint32_t capo_samples_run(struct capo_samples *set, const struct capo_trial *run);

/** capo_samples_add() - append a sample. */
void capo_samples_add(struct capo_samples *set, const struct capo_sample *sample);

/** capo_samples_note() - append a line for the user. */
void capo_samples_note(struct capo_samples *set, const char *format, ...)
        __attribute__((format(printf, 2, 3)));

/** capo_make_name() - "GPU events", "nccl-tests loop", ... */
const char *capo_make_name(unsigned make);
