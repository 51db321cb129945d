/* SPDX-License-Identifier: Apache-2.0 */
/* The data of capo top, and the lines of its page, independent of the terminal. */
#pragma once

#include "analysis/watch/live_rates.h"
#include "cli/watch/watch_jobs.h"

/* Sort orders, in the order in which the key s cycles through them. */
enum top_sort {
        TOP_SORT_TIME, /* share of the ranks' time */
        TOP_SORT_CALLS,
        TOP_SORT_BYTES,
        TOP_SORT_P50,
        TOP_SORT_BUSBW,
        TOP_SORT_NAME, /* communicator, call, size */
        TOP_SORTS,
};

/* The changes of a watch's job since the last sample. */
struct top_job {
        char id[sizeof((struct watch_job *)0)->id];
        struct capo_live_rates rates;
        struct top_nic {
                char name[64];
                uint64_t sent, received, since_ns; /* counters and their time, since 1970 */
                double sent_s, received_s;         /* bytes per second */
        } * nic;
        size_t n_nics;
        uint64_t sampled_ns;
        bool here;
};

struct top {
        struct watch watch;
        struct top_job *job;
        uint32_t n_jobs;
        enum top_sort sort;
};

enum { TOP_LINE = 512 };

struct top_line {
        bool strong, alarm;
        char text[TOP_LINE];
};

struct top_lines {
        struct top_line *line;
        size_t n;
        /* set by the caller */
        unsigned width; /* columns */
        bool whole;     /* only rows fit the width, lines are not cut */
};

extern const char *const top_sort_names[TOP_SORTS + 1];

/** top_sample() - take a sample of jobs and rates. Return: 0; -errno. */
int top_sample(struct top *t);
void top_finish(struct top *t);

/** top_page() - the page. What does not fit is cut, less important columns first; dots mark it.
 * free() out->line. */
void top_page(const struct top *t, struct top_lines *out);

/** top_json() - the same as JSON. Return: 0; negative: not printed. */
int top_json(const struct top *t, FILE *out);

/** top_rows() - sorted indices of a job's rows to show. @order: room for all. Return: how many. */
uint32_t top_rows(const struct top *t, const struct top_job *job, uint32_t *order);

/** top_job_of() - the watch's job for @job; NULL: it has ended. */
const struct watch_job *top_job_of(const struct top *t, const struct top_job *job);
