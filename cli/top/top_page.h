/* SPDX-License-Identifier: Apache-2.0 */
/* capo top: what it knows, as lines of a page, whatever shows them. */
#ifndef CAPO_TOP_PAGE_H
#define CAPO_TOP_PAGE_H

#include "analysis/watch/live_rates.h"
#include "cli/watch/watch_jobs.h"

/* What rows are sorted by, in the order in which the key s goes through them. */
enum top_sort {
        TOP_SORT_TIME, /* share of the ranks' time */
        TOP_SORT_CALLS,
        TOP_SORT_BYTES,
        TOP_SORT_P50,
        TOP_SORT_BUSBW,
        TOP_SORT_NAME, /* communicator, call, size */
        TOP_SORTS,
};

/* Beside a job of the watch: what changed since the look before. */
struct top_job {
        char id[sizeof((struct watch_job *)0)->id];
        struct capo_live_rates rates;
        struct top_nic {
                char name[64];
                uint64_t sent, received, since_ns; /* as of then, since 1970 */
                double sent_s, received_s;         /* bytes */
        } * nic;
        size_t n_nics;
        uint64_t looked_ns;
        bool here;
};

struct top {
        struct watch watch;
        struct top_job *job;
        uint32_t n_jobs;
        enum top_sort sort;
        char filter[64]; /* rows whose communicator or call has this in it; "" all */
        bool all_time;   /* one look: rates are since the start of the job */
};

enum { TOP_LINE = 512 };

struct top_line {
        bool strong, alarm;
        char text[TOP_LINE];
};

struct top_lines {
        struct top_line *line;
        size_t n;
        bool whole; /* set by the caller: lines are not cut, only the rows fit the width */
};

extern const char *const top_sort_names[TOP_SORTS + 1];

/** top_look() - jobs and rates as they are now. Return: 0; -ENOMEM; -errno. */
int top_look(struct top *t);
void top_finish(struct top *t);

/** top_page() - the page, @width columns wide: what has no room is cut, columns that matter less
 * first; dots show where. Return: 0; -ENOMEM. top_lines_finish() in any case.
 */
int top_page(const struct top *t, unsigned width, struct top_lines *out);
void top_lines_finish(struct top_lines *lines);

/** top_json() - the same for programs. Return: 0; -ENOMEM. */
int top_json(const struct top *t, FILE *out);

/** top_rows() - numbers of the rows to show of a job, in order. @order: room for all. Return: how
 * many. */
uint32_t top_rows(const struct top *t, const struct top_job *job, uint32_t *order);

/** top_job_of() - the job of the watch that @job is; NULL: it is gone. */
const struct watch_job *top_job_of(const struct top *t, const struct top_job *job);

/** top_show() - on the terminal until the user leaves, a look every @every_s. Says what is wrong.
 * Return: 0; -errno. */
int top_show(struct top *t, double every_s);

#endif
