/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Logs for tests, written straight from include/capo/log.h and knowing nothing of the real writer:
 * small ones frame by frame, and whole made-up jobs whose truth is known (who was late by how much,
 * how far each host's clock is off). Everything follows from the numbers given; the same call makes
 * the same bytes.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "capo/log_layout.h"

struct gen_log {
        FILE *file;
        struct capo_log_header header;
};

/** gen_log_open() - header with version 1 and an epoch of 1 s monotonic; ends the process when it
 * cannot write. */
void gen_log_open(struct gen_log *g, const char *path, uint32_t pid);
void gen_log_open_with(struct gen_log *g, const char *path, const struct capo_log_header *header);
void gen_log_close(struct gen_log *g);

void gen_log_frame(struct gen_log *g, unsigned type, const void *payload, uint32_t size);
void gen_log_text(struct gen_log *g, unsigned type, const char *text);
void gen_log_comm(struct gen_log *g, struct capo_log_comm comm, const char *name);
void gen_log_site(struct gen_log *g, struct capo_log_site site, const char *text);
void gen_log_shapes(struct gen_log *g, const struct capo_log_shape *shapes, unsigned n);

/* A histogram of at most a few thousand values being put together. */
struct gen_hist {
        struct capo_log_hist head;
        uint64_t count[CAPO_HIST_BUCKETS];
};
void gen_hist_add(struct gen_hist *h, uint64_t ns, uint64_t times);

/** gen_noise() - noise that is the same everywhere it is asked for: splitmix64 of the place (@a,
 * @b). Return: 0 .. @below - 1. */
uint64_t gen_noise(uint64_t a, uint64_t b, uint64_t below);

/** gen_log_cell() - sets cell.hists from which of @host and @gpu are not NULL. */
void gen_log_cell(struct gen_log *g, struct capo_log_cell cell, const struct gen_hist *host,
                  const struct gen_hist *gpu);

/** gen_log_cell_waited() - the same with how long kernels waited. */
void gen_log_cell_waited(struct gen_log *g, struct capo_log_cell cell, const struct gen_hist *host,
                         const struct gen_hist *gpu, const struct gen_hist *waited);

/** gen_log_block() - @gpu_ns, @aux may be NULL. */
void gen_log_block(struct gen_log *g, uint64_t base, unsigned thread, uint32_t n,
                   const uint32_t *t_begin, const uint32_t *host_ns, const uint32_t *seq,
                   const uint16_t *shape, const uint32_t *gpu_ns, const uint32_t *aux);

/* A made-up data-parallel job: one "dp" communicator of all ranks; per step one AllReduce of each
 * size. */
struct gen_job {
        const char *dir;
        const unsigned *layout; /* ranks on each node */
        unsigned n_nodes;
        uint32_t n_steps;
        const uint64_t *sizes;
        unsigned n_sizes;
        bool trace;  /* write BLOCKs of every call, else only the cells */
        bool gpu;    /* GPU event times; else host times only */
        bool symk;   /* with gpu: symmetric kernels that tell how long they waited, and every fourth
                        size copy engines */
        bool queued; /* with gpu and trace: logs have the begins, and no call begins on the GPU
                        before the one before it ended */
        unsigned late_rank; /* this rank comes late ... */
        uint64_t slow_ns; /* more on the GPU, every call; above 32 bits in cells only: without trace
                           */
        unsigned late_ns; /* ... by this, in 3 of 4 steps; all ranks have up to 1 us of noise */
        int64_t clock_ns; /* host i's clocks are ahead by i * clock_ns ... */
        double drift;     /* ... and gain i * drift seconds per second */
        unsigned missing; /* the last so many ranks leave no log */
        bool killed; /* no clean END; with `stale` its cells and END know of the first half of the
                        calls only */
        bool stale;
        unsigned modelled;   /* this rank allows modelled rules, all others of the same profile do
                                not; 0: no profile */
        unsigned kept_calls; /* with trace: only the last so many (0: all) */
        bool bus; /* GPUs have bus ids: 0000:01:00.0 for the first of each node, and so on */
};

/** gen_job_write() - one log per rank in job->dir, which exists. Returns the records written, over
 * all logs. */
uint64_t gen_job_write(const struct gen_job *job);

/** gen_mixed_write() - four logs with something of everything: splits, groups, p2p, captured and
 * failed calls, many sizes, three clocks, rules, sites, drops. */
void gen_mixed_write(const char *dir);
