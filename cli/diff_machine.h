/* SPDX-License-Identifier: Apache-2.0 */
/* What the machine said in one run and not in the other: a lower clock, a narrower link, errors. */
#pragma once

#include "analysis/job/job.h"
#include "core/log/machine_frame.h"

enum { DIFF_MACHINE_ROWS = 16 };

struct diff_reading {
        enum capo_machine_id id;
        int32_t rank; /* whose process read it */
        char node[128], object[64];
        uint64_t before, after; /* of a gauge its lowest value, of a counter its growth */
};

struct diff_machine {
        struct diff_reading row[DIFF_MACHINE_ROWS];
        unsigned n;
};

/** diff_machine_make() - compare object by object what processes of equal rank read of themselves
 * and their GPUs, and what any process read of a node. */
struct diff_machine diff_machine_make(const struct capo_job *a, const struct capo_job *b);

/** diff_machine_text() - "gpu 3:0000:04:00.0 of node-b: sm 1410 MHz instead of 1980". @text: 300
 * bytes. */
const char *diff_machine_text(const struct diff_reading *r, char *text);
