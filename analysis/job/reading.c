/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of a reading: made once, emptied and kept for the next log. */
#include "analysis/job/reading.h"

#include "core/base/xalloc.h"

/* What is zero in a new one. */
static void clear_reading(struct reading *rd)
{
        memset(rd->comms, 0, rd->n_ids * sizeof *rd->comms);
        memset(rd->ranks, 0, rd->n_ids * sizeof *rd->ranks);
        memset(rd->shapes, 0, rd->n_shapes * sizeof *rd->shapes);
        memset(rd->wanted, 0, rd->n_shapes * sizeof *rd->wanted);
        for (size_t i = 0; i < JOB_GAP_THREADS; i++) {
                if (!rd->threads[i].n_calls)
                        continue;
                free(rd->threads[i].silent.v);
                free(rd->threads[i].still.v);
                rd->threads[i] = (struct reading_thread){0};
        }
}

struct reading *job_reading_new(struct capo_job *job, uint32_t process, struct capo_log *log)
{
        struct reading *rd = steal(&job->scratch->spare);

        if (!rd) {
                rd = xcalloc(1, sizeof *rd);
                rd->comms = xcalloc(65536, sizeof *rd->comms);
                rd->ranks = xcalloc(65536, sizeof *rd->ranks);
                rd->shapes = xcalloc(65536, sizeof *rd->shapes);
                rd->wanted = xcalloc(65536, sizeof *rd->wanted);
                rd->threads = xcalloc(JOB_GAP_THREADS, sizeof *rd->threads);
        }
        clear_reading(rd);
        *rd = (struct reading){.job = job,
                               .log = log,
                               .process = process,
                               .comms = rd->comms,
                               .ranks = rd->ranks,
                               .shapes = rd->shapes,
                               .wanted = rd->wanted,
                               .threads = rd->threads};
        return rd;
}

void job_reading_end(struct reading *rd)
{
        free(steal(&rd->cells.at));
        free(steal(&rd->sites.at));
        rd->job->scratch->spare = rd;
}

void job_reading_free(struct reading *rd)
{
        if (!rd)
                return;
        clear_reading(rd);
        xfree(rd->comms, rd->ranks, rd->shapes, rd->wanted, rd->threads, rd);
}

void job_reading_comm(struct reading *rd, uint16_t id, uint32_t comm, int32_t rank)
{
        rd->comms[id] = comm + 1;
        rd->ranks[id] = rank;
        rd->n_ids = id >= rd->n_ids ? id + 1u : rd->n_ids;
}
