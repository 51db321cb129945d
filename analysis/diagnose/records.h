/* SPDX-License-Identifier: Apache-2.0 */
/* An input as records: one line of the result for each thing that one writer said.
 *
 * Launchers, terminals and log stores put lines together and take them apart. Before anybody
 * searches a text, it is made plain: an answer of a log store (JSON) gives its lines, two writers
 * on one line give two records, colours are gone, a progress bar ends at its carriage return. */
#pragma once

#include "core/base/util.h"

enum { CAPO_POD_NAME = 64, CAPO_PODS_MOST = 256 };

/* What a launcher put before each line. */
enum capo_line_label {
        CAPO_LABEL_NONE,
        CAPO_LABEL_SRUN,
        CAPO_LABEL_MPIRUN,
        CAPO_LABEL_MPIEXEC,
        CAPO_LABELS,
};

struct capo_record {
        uint32_t begin;   /* its first byte in the text */
        uint32_t line;    /* of the input, from 1 */
        uint16_t pod;     /* number in the list of pods, from 1; 0: not known */
        uint16_t attempt; /* from 0 */
        uint16_t story;   /* of one job and attempt; evidence_judge.c sets it */
        bool cut;         /* the next record is of another writer, on the same line */
        bool known;       /* a table has its line */
};

struct capo_records {
        char *text; /* zero-terminated; a newline ends each record */
        size_t size;
        struct capo_record *v;
        uint32_t n, n_cut_lines; /* n_cut_lines: longer than what is kept of a line */
        char (*pods)[CAPO_POD_NAME];
        uint32_t n_pods;
        enum capo_line_label label;
};

/** capo_records_read() - take apart @size bytes of @input, which has no 0 inside. */
void capo_records_read(const char *input, size_t size, struct capo_records *out);
void capo_records_finish(struct capo_records *r);

/** capo_record_at() - the record that contains @at, which points into the text. NULL: there is
 * none. */
struct capo_record *capo_record_at(const struct capo_records *r, const char *at);

/** capo_record_when() - seconds from the begin of a year, by the first time that the line names;
 * -1: it names none. Zones are not known: compare only times of one kind. */
int64_t capo_record_when(const char *line);

/** capo_line_rank() - the rank in "[rank3]:", "[Rank 3]"; -1: none. capo_record_rank() - also from
 * a launcher's label ("3: " of srun) if the whole text has labels. */
int32_t capo_line_rank(const char *line);
int32_t capo_record_rank(const struct capo_records *r, const char *line);
