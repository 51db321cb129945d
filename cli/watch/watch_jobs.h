/* SPDX-License-Identifier: Apache-2.0 */
/*
 * capo watch: what its files share.
 *
 *      watch_jobs.c       looks at the memory of the recorded processes, job by job
 *      watch_users.c      whose jobs: for root, all users'
 *      metrics.c          the figures of a look as text; metrics.def lists them
 *      inspector_names.c  the same under the names of NVIDIA's Inspector
 *      metric_files.c     one file per job for the node exporter
 *      watch_serve.c      the same over HTTP and a socket
 *      watch_alarm.c      the verdict on a job that is stuck: hang.txt, hang.json, --on-hang
 */
#ifndef CAPO_WATCH_JOBS_H
#define CAPO_WATCH_JOBS_H

#include <stdio.h>

#include "analysis/network/network.h"
#include "analysis/watch/live_rows.h"
#include "cli/hang/cmd_hang.h"
#include "cli/watch/watch_users.h"

struct watch_options {
        const char *metrics, *dir, *listen, *socket, *on_hang;
        double hang, every;
        int style; /* enum watch_style */
        int until; /* a pid; 0: none */
        bool once, lines;
        bool below; /* where no job has its logs in dir: jobs in folders below it */
};

enum watch_style { WATCH_STYLE_CAPO, WATCH_STYLE_INSPECTOR };

enum { WATCH_CULPRITS = 8 };

struct watch_culprit {
        int rank; /* -1 not known */
        char host[72], why[16];
};

/* A job that may be stuck. */
struct watch_stuck {
        uint64_t since_ns;        /* since 1970; 0: it is not stuck */
        enum capo_hang_kind kind; /* of all ranks that can be seen */
        struct watch_culprit culprit[WATCH_CULPRITS];
        unsigned n_culprits;
        /* how far it is reported */
        bool ours;               /* this watch is elected to judge it */
        bool reported, decided;  /* a verdict was reported; with a culprit */
        unsigned refreshed;      /* so often the pages were written again, and when next */
        uint64_t refresh_ns;     /* CLOCK_MONOTONIC */
        uint64_t suspected_ns;   /* CLOCK_MONOTONIC: since then it may be; 0 not */
        struct timespec claimed; /* the other watch's last sign of life, by its file ... */
        uint64_t claim_seen_ns;  /* ... and when it was new, CLOCK_MONOTONIC */
};

struct watch_job {
        char id[128]; /* of the launcher, else the name of the folder of its logs */
        char user[64];
        struct watch_user owner;
        char folder[1024]; /* of its logs; "" not known */
        struct hang_logs logs;
        struct hang_page page; /* of the last look; page.late has the rows, too */
        struct capo_fabric_job *fabric;
        struct capo_live_rows rows;
        struct capo_page_ceiling *ceiling; /* by communicator; NULL: the machine is not recorded */
        uint32_t ceiling_comms, ceiling_processes; /* when they were computed there were so many */
        struct watch_stuck stuck;
        uint64_t steps; /* the most that a look counted, with so many calls in each */
        uint32_t period;
        bool here;     /* in the last look */
        bool readable; /* page is whole */
};

struct watch {
        const struct watch_options *options;
        struct watch_job *job;
        uint32_t n_jobs;
        char node[72];
        uint64_t looked_ns; /* since 1970 */
};

/**
 * watch_look() - all jobs as they are now
 * Jobs that have no living process any more are removed after @gone was called with them; what
 * their killed processes left is brought into their logs. Return: 0; -ENOMEM; -errno.
 */
int watch_look(struct watch *w, void (*gone)(struct watch *w, struct watch_job *job));
void watch_finish(struct watch *w);

/** watch_finish_logs() - when the processes have ended: what killed ones left goes into their logs,
 * and with CAPO_GATHER=node the logs of the folder that is watched are packed. */
void watch_finish_logs(const struct watch *w);

/** watch_kind() - the verdict to report: of all ranks where that is known, else of those here. */
enum capo_hang_kind watch_kind(const struct watch_job *job);

/** watch_age_ns() - age of the oldest call that process @i of the job is in; 0: in none. */
uint64_t watch_age_ns(const struct watch_job *job, uint32_t i);

#endif
