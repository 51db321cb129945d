/* SPDX-License-Identifier: Apache-2.0 */
/* The figures of a running job for repeated sampling: one row per communicator, call and class of
 * sizes. Rows keep their places, so that counters only grow. There are at most CAPO_LIVE_ROWS of
 * them; what comes later is counted together, per call. */
#pragma once

#include "analysis/report/job_page.h"

#define CAPO_LIVE_ROWS   128u /* of communicators; the rest is one row per call */
#define CAPO_LIVE_OTHERS "other"

/* Number of size classes; class CAPO_LIVE_SIZES means any size. */
enum { CAPO_LIVE_SIZES = 14, CAPO_LIVE_NAME = 64 };

struct capo_live_row {
        char comm[CAPO_LIVE_NAME];  /* "world", "dp", "8 ranks"; "-": none, "other": the rest */
        uint8_t call;               /* enum capo_call_id */
        uint8_t size;               /* class, see capo_live_size_text() */
        uint64_t calls, bytes;      /* over the ranks seen */
        struct capo_hist host, gpu; /* gpu: of the calls timed there */
        double total_ns;            /* of all calls over the ranks, by the best clock */
        double busbw;               /* GB/s, of the last one to two minutes; 0 not known */
        double reached;             /* share of what the links allow; < 0 not known */
        struct capo_live_since {
                uint64_t at_ns, calls, sum_ns; /* those timed on the GPU until then */
        } since[2];                            /* a minute ago or more, and after that */
};

struct capo_live_rows {
        struct capo_live_row *row;
        uint32_t n;
};

/** capo_live_rows_update() - update the rows from @page
 * @page: filled by capo_judge_rows()
 * @now_ns: time of the sample. Until two samples are a minute apart, bandwidths are of the whole job
 *
 * Rows that are no longer in @page become zero. */
void capo_live_rows_update(struct capo_live_rows *rows, const struct capo_page *page,
                           uint64_t now_ns);
void capo_live_rows_finish(struct capo_live_rows *rows);

/** capo_live_size_text() - "0", "1MiB-4MiB" (without the upper end), "4GiB-", "any". @text: 32
 * bytes. Returns @text. */
char *capo_live_size_text(unsigned size, char *text);
