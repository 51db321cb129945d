/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of capo watch:
 *
 *      watch_jobs.c       reads the memory of the recorded processes, job by job
 *      watch_users.c      the users: for root, all of them
 *      metrics.c          figures of a sample as text, also with the names of Inspector; metrics.def lists them
 *      metric_files.c     one file per job for the node exporter
 *      watch_serve.c      the same over HTTP
 *      watch_alarm.c      the verdict on a stuck job: hang.txt, hang.json, --on-hang */
#pragma once

#include "analysis/network/network.h"
#include "analysis/watch/live_rows.h"
#include "cli/hang/cmd_hang.h"
#include "cli/watch/watch_users.h"

struct watch_options {
        const char *metrics, *dir, *listen, *token, *on_hang;
        double hang, every;
        int style; /* enum watch_style */
        int until; /* a pid; 0: none */
        bool once, lines;
        bool below; /* if no job has its logs in dir: use jobs in its subfolders */
};

enum watch_style { WATCH_STYLE_CAPO, WATCH_STYLE_INSPECTOR };

enum { WATCH_CULPRITS = 8 };

struct watch_culprit {
        int rank; /* -1 not known */
        char host[72], why[16];
};

/* A job that may be stuck. */
struct watch_stuck {
        uint64_t since_ns;        /* since 1970; 0: not stuck */
        enum capo_hang_kind kind; /* over all visible ranks */
        struct watch_culprit culprit[WATCH_CULPRITS];
        unsigned n_culprits;
        /* state of the report */
        bool ours;               /* this watch is elected to judge it */
        bool reported, decided;  /* a verdict was reported; one with a culprit */
        unsigned refreshed;      /* how often the pages were written again, and when next */
        uint64_t refresh_ns;     /* CLOCK_MONOTONIC */
        uint64_t suspected_ns;   /* CLOCK_MONOTONIC: it may be stuck since then; 0: not */
        struct timespec claimed; /* last time stamp of the elected watch's file ... */
        uint64_t claim_seen_ns;  /* ... and when it was first seen, CLOCK_MONOTONIC */
};

struct watch_job {
        char id[128]; /* from the launcher, else the name of the folder of its logs */
        char user[64];
        struct watch_user owner;
        char folder[1024]; /* of its logs; "" not known */
        struct hang_logs logs;
        struct hang_page page; /* the last sample; page.late has the rows, too */
        struct capo_fabric_job *fabric;
        struct capo_live_rows rows;
        struct capo_page_ceiling *ceiling; /* by communicator; NULL: the machine was not recorded */
        uint32_t ceiling_comms, ceiling_processes; /* numbers when they were computed */
        struct watch_stuck stuck;
        uint64_t steps; /* the highest count of steps in any sample, and their period */
        uint32_t period;
        bool here;     /* in the last sample */
        bool readable; /* page is complete */
};

struct watch {
        const struct watch_options *options;
        const struct watch_user *only; /* this user's jobs; NULL: of all that the caller may see */
        struct watch_job *job;
        uint32_t n_jobs;
        char node[72];
        uint64_t sampled_ns; /* time of the sample, since 1970 */
};

/** watch_sample() - take a sample of all jobs. Jobs without running processes are removed after
 * @gone was called for them; the memory of their killed processes is added to their logs.
 *
 * Return: 0; -errno. */
int watch_sample(struct watch *w, void (*gone)(struct watch *w, struct watch_job *job));
void watch_finish(struct watch *w);

/** watch_finish_logs() - after the processes have ended: add the memory of killed ones to their
 * logs and, with CAPO_GATHER=node, pack the logs of the watched folder. */
void watch_finish_logs(const struct watch *w);

/** watch_kind() - the verdict to report: over all ranks if known, else over those here. */
enum capo_hang_kind watch_kind(const struct watch_job *job);

/** watch_nic_name() - of the network interface of a link. */
static inline const char *watch_nic_name(const struct capo_fabric_link *l)
{
        return *l->domain->name ? l->domain->name : l->domain->nic;
}

/** watch_age_ns() - age of the oldest unfinished call of the job's process @i; 0: none. */
uint64_t watch_age_ns(const struct watch_job *job, uint32_t i);
