/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs put together by hand, field by field, for tests of what is concluded from them;
 * capo_job_free() frees all. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <criterion/criterion.h>

#include "analysis/job/job.h"
#include "tests/log_numbers.h"

/* @n ranks on one node "n0", all with a log that ended well, in one communicator "dp"; the job
 * lasted 1 s. */
static inline struct capo_job *made_job(uint32_t n)
{
        struct capo_job *job = capo_job_new();
        struct capo_job_comm *c;

        job->processes = calloc(n + 1, sizeof *job->processes);
        job->nodes = calloc(2, sizeof *job->nodes);
        job->comms = calloc(16, sizeof *job->comms);
        job->rows = calloc(64, sizeof *job->rows);
        job->sites = calloc(16, sizeof *job->sites);
        job->nodes[0] =
                (struct capo_job_node){.key = strdup("n0"), .name = strdup("n0"), .n_processes = n};
        job->n_nodes = job->n_clocks = 1;
        c = &job->comms[job->n_comms++];
        *c = (struct capo_job_comm){.name = strdup("dp"),
                                    .layout = strdup("8"),
                                    .named = true,
                                    .n_ranks = (int32_t)n,
                                    .n_members = n,
                                    .parent = CAPO_NO_COMM,
                                    .color = -1,
                                    .members = calloc(n + 1, sizeof *c->members)};
        for (uint32_t i = 0; i < n; i++) {
                char path[64];

                snprintf(path, sizeof path, "/logs/n0.%u.capo", 100 + i);
                job->processes[i] = (struct capo_job_process){.path = strdup(path),
                                                              .host = strdup("n0"),
                                                              .rank = (int32_t)i,
                                                              .has_end = true,
                                                              .end = {.clean = 1}};
                c->members[i] = (struct capo_job_member){
                        .rank = (int32_t)i, .job_rank = (int32_t)i, .process = i, .device = -1};
        }
        job->n_processes = n;
        job->n_ranks = (int32_t)n;
        job->t_end_ns = 1000000000;
        return job;
}

/* What a launcher or the recorder noted about a process. */
static inline void made_info(struct capo_job_process *p, const char *key, const char *value)
{
        p->info = realloc(p->info, (p->n_info + 1) * sizeof *p->info);
        p->info[p->n_info++] = (struct capo_job_info){strdup(key), strdup(value)};
}

/* A row of @call of the first communicator, timed by @clock: each took @ns. */
static inline struct capo_job_row *made_row(struct capo_job *job, unsigned call, uint64_t bytes,
                                            uint64_t count, enum capo_clock clock, uint64_t ns)
{
        struct capo_job_row *row = &job->rows[job->n_rows++];

        *row = (struct capo_job_row){.call = (uint8_t)call,
                                     .bytes = bytes,
                                     .count = count,
                                     .calls = count * job->n_processes};
        capo_hist_add(&row->time[CAPO_CLOCK_HOST], 1000, row->calls);
        if (clock > CAPO_CLOCK_HOST)
                capo_hist_add(&row->time[clock], ns, row->calls);
        return row;
}

/* Lateness of the first communicator: @last[i] of @n_calls calls had rank i last, for which the
 * others waited @caused[i] ns in all; NULL: 10 us each time. */
static inline struct capo_skew *made_skew(struct capo_job *job, uint32_t n_calls,
                                          const uint32_t *last, const double *caused)
{
        struct capo_job_comm *c = &job->comms[0];

        c->skew = calloc(1, sizeof *c->skew);
        *c->skew = (struct capo_skew){.n_calls = n_calls,
                                      .from = CAPO_SKEW_GPU_DURATION,
                                      .p50_ns = 50000,
                                      .p95_ns = 60000,
                                      .worst_p50_ns = 50000,
                                      .worst_max_ns = 70000,
                                      .others_p50_ns = 1000,
                                      .wait_share = 0.05,
                                      .ranks = calloc(c->n_members, sizeof *c->skew->ranks)};
        for (uint32_t i = 0; i < c->n_members; i++) {
                c->skew->ranks[i] =
                        (struct capo_skew_rank){.last = last[i],
                                                .seen = n_calls,
                                                .caused_ns = caused ? caused[i] : 1e4 * last[i]};
                c->skew->worst =
                        c->skew->ranks[i].caused_ns > c->skew->ranks[c->skew->worst].caused_ns
                                ? i
                                : c->skew->worst;
        }
        return c->skew;
}
