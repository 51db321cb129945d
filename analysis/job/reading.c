/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of a reading: made once, emptied and kept for the next log. */
#include "analysis/job/reading.h"

#include "core/base/xalloc.h"

/* The tables as they are in a new one. */
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
        struct reading *rd = steal(&job->scratch->spare) ?: xcalloc(1, sizeof *rd);

        clear_reading(rd);
        memset(rd, 0, offsetof(struct reading, threads));
        rd->job = job;
        rd->log = log;
        rd->process = process;
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
        if (rd)
                clear_reading(rd);
        free(rd);
}

void job_reading_comm(struct reading *rd, uint16_t id, uint32_t comm, int32_t rank)
{
        rd->comms[id] = comm + 1;
        rd->ranks[id] = rank;
        rd->n_ids = id >= rd->n_ids ? id + 1u : rd->n_ids;
}
