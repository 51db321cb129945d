/* SPDX-License-Identifier: Apache-2.0 */
/* What the faces of `capo report` (text, JSON, CSV, HTML) share: the job, and the rows chosen to be shown. */
#ifndef CAPO_CLI_REPORT_H
#define CAPO_CLI_REPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "profiles/job/fabric.h"
#include "profiles/job/skew.h"
#include "profiles/job/stats.h"
#include "profiles/fragment/atlas.h"

/* A row to show: one of the job's, or several put together. */
struct report_row {
        struct capo_job_row row;
        uint64_t bytes_max; /* largest call put together here; row.bytes is the smallest */
        uint32_t n_comms;   /* communicators put together here */
        enum capo_clock clock;
        double total_ns; /* over all ranks, by `clock` */
        double share;    /* of the time of all rows timed by that kind of clock; < 0: not comparable */
        bool has_bandwidth;
        double algbw, busbw; /* GB/s; of sizes put together: all bytes over all time of the calls timed */
        double timed_bytes[CAPO_CLOCKS];
};

/* How far the NIC of one rank and domain is from the nearest GPU of the rank, on the machine of --topo. */
struct report_near {
        enum capo_path path; /* CAPO_PATH_UNKNOWN: the log or the topology lacks one of them; the rest is empty then */
        enum capo_path nearer_path;
        char nearer[48];  /* a NIC at least as fast that is nearer to that GPU, the nearest, idle ones first; "" none */
        bool nearer_idle; /* no rank of this host moved data over it */
};

struct report {
        struct capo_job *job;
        const char *what;        /* the folder or file, for the heading */
        struct report_row *rows; /* collectives, p2p and groups, sorted as asked */
        uint32_t n_rows;
        struct report_row *others; /* calls that move no data: create, destroy, register */
        uint32_t n_others;
        char **problems; /* sentences, most important first */
        uint32_t n_problems;
        struct capo_fabric_job *fabric;    /* NULL: no process used libfabric */
        uint64_t collectives, moved_bytes; /* count, and count * bytes, of collectives and p2p */
        double gpu_share;                  /* of the job's rank-time spent in timed GPU calls; < 0: not known */
        bool gpu;                          /* there are GPU times: shares are of GPU time, else of host time */
        bool all;                          /* show everything */
        uint32_t *class_of;                /* communicator -> the one it is shown as: many alike are shown together */
        uint32_t *class_size;              /* of that one: how many are shown as it; 1 alone */
        struct fragment_bound *bounds;     /* per communicator, class "" not known; NULL: no topology was given */
        struct report_near *near;          /* per fabric->links; NULL: no topology was given */
        char topology[128];                /* its name */
        char no_bound[256];                /* why a communicator has none; "" all have */
};

enum report_format { REPORT_TEXT, REPORT_JSON, REPORT_CSV };
enum report_sort {
        BY_TIME,
        BY_COUNT,
        BY_SIZE,
        BY_P50,
        BY_P95,
        BY_P99,
        BY_MAX,
        BY_ALGBW,
        BY_BUSBW,
        BY_COMM,
        BY_CALL,
        SORTS,
};

struct report_options {
        enum report_format format;
        enum report_sort sort;
        const char *comm, *html, *topo, *platform;
        unsigned call; /* enum capo_call_id; 0: all */
        bool all, recover;
        char **args;
        int n_args;
};

/** report_choose_rows() - fill rows, others, classes, totals from r->job. Return: 0, -ENOMEM. */
int report_choose_rows(struct report *r, const struct report_options *o);

/** report_bound() - classes and ceilings of the communicators, and how near the NICs are, on the machine of --topo or
 * --platform. Return: 0; negative errno, said. */
int report_bound(struct report *r, const struct report_options *o);

/** report_ceiling() - busbw in GB/s that nothing exceeds for a row; 0 not known. */
double report_ceiling(const struct report *r, const struct report_row *row);

/** report_find_problems() - what is wrong with the logs, appended to r->problems. */
void report_find_problems(struct report *r);
void report_problem(struct report *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** report_base_name() - the last part of a path. */
const char *report_base_name(const char *path);

/** report_text() - the page. Colour and Unicode only when @out is a terminal. */
void report_text(const struct report *r, FILE *out);
/** report_json(), report_csv() - docs/report.md lists the keys. Return: 0 or negative errno. */
int report_json(const struct report *r, FILE *out);
int report_csv(const struct report *r, FILE *out);
/** report_html() - one file that needs no other. Return: 0; negative errno, said. */
int report_html(const struct report *r, const char *path);

/** report_ranks_text() - ranks 0..n_ranks-1 for which @is is false as "3, 17-19"; owned by the caller; NULL when all
 * are. */
char *report_ranks_text(const bool *is, uint32_t n_ranks);

/** report_size() - "25 MiB", "1-2 MiB" for rows put together. */
char *report_size(const struct report_row *row, char *text, size_t room);

/** report_call() - call name, with what is special about these calls: "AllReduce", "AllReduce in group". */
const char *report_call(const struct capo_job_row *row, char *text, size_t room);

const char *report_comm_name(const struct report *r, uint32_t comm);

/** report_comm_label() - name and ranks as the page has it: "dp (8)", "tp (8) x16" for many shown together. */
char *report_comm_label(const struct report *r, uint32_t comm, char *text, size_t room);

/** report_site_line() - the innermost @n frames of a call site in one line, "a <- b <- c". */
char *report_site_line(const struct capo_job_site *site, unsigned n, char *text, size_t room);

/** report_rule_text() - what capo_record.rule = @rule stands for, "" when the text does not tell. */
char *report_rule_text(const char *rules, unsigned rule, char *out, size_t room);

/** report_sites_by_gpu() - are the call sites' GPU times complete enough to rank them by? */
bool report_sites_by_gpu(const struct report *r);
double report_site_time(const struct report *r, const struct capo_job_site *site);

#endif
