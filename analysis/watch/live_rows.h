/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The figures of a running job that are looked at again and again: one row per communicator, call
 * and class of sizes. Rows stay in their places from look to look, so that a counter only grows,
 * and there are at most CAPO_LIVE_ROWS of them: what comes later is counted together, per call.
 */
#ifndef CAPO_LIVE_ROWS_H
#define CAPO_LIVE_ROWS_H

#include "analysis/report/job_page.h"

#define CAPO_LIVE_ROWS   128u /* of communicators; beside those, one per call for all the rest */
#define CAPO_LIVE_OTHERS "other"

/* Classes of sizes; the number itself stands for any size. */
enum { CAPO_LIVE_SIZES = 14, CAPO_LIVE_NAME = 64 };

struct capo_live_row {
        char comm[CAPO_LIVE_NAME];  /* "world", "dp", "8 ranks"; "-" none, "other" the rest */
        uint8_t call;               /* enum capo_call_id */
        uint8_t size;               /* class, see capo_live_size_text() */
        uint64_t calls, bytes;      /* over the ranks seen */
        struct capo_hist host, gpu; /* gpu: of the calls timed there */
        double total_ns;            /* of all calls by the best clock, over the ranks */
        double busbw;               /* GB/s; 0 not known */
        double reached;             /* of what the links allow; < 0 not known */
};

struct capo_live_rows {
        struct capo_live_row *row;
        uint32_t n;
};

/**
 * capo_live_rows_update() - the rows as @page has them now
 * @page: capo_judge_rows() has filled it
 *
 * Rows that @page has no longer become zero. Return: 0; -ENOMEM: figures are not whole.
 */
int capo_live_rows_update(struct capo_live_rows *rows, const struct capo_page *page);
void capo_live_rows_finish(struct capo_live_rows *rows);

/** capo_live_size_text() - "0", "1MiB-4MiB" (the upper end is not in it), "4GiB-", "any". Returns
 * @text, of 32 bytes. */
char *capo_live_size_text(unsigned size, char *text);

#endif
