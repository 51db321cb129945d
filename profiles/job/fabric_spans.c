/* SPDX-License-Identifier: Apache-2.0 */
/* The single calls of a log as spans of time on the host's clock. */
#include <errno.h>
#include <stdlib.h>

#include "core/base/array.h"
#include "core/base/calls.h"
#include "core/base/util.h"
#include "profiles/job/fabric_parts.h"

static uint32_t comm_of(const struct capo_job *job, uint32_t process, uint16_t id)
{
        for (uint32_t c = 0; c < job->n_comms; c++) {
                for (uint32_t m = 0; m < job->comms[c].n_members; m++) {
                        if (job->comms[c].members[m].process == process && job->comms[c].members[m].id == id)
                                return c;
                }
        }
        return CAPO_NO_COMM;
}

/* How long calls of this kind take on the GPU, where that was measured at all; 0 where it was not. */
static double gpu_mean(const struct capo_job *job, uint32_t comm, const struct capo_record *r)
{
        double best = 0;

        for (uint32_t i = 0; i < job->n_rows; i++) {
                const struct capo_job_row *row = &job->rows[i];

                if (row->comm != comm || row->call != r->call || row->bytes != r->bytes)
                        continue;
                for (unsigned c = CAPO_CLOCK_EVENT; c <= CAPO_CLOCK_KERNEL; c++) {
                        if (row->time[c].count)
                                best = capo_hist_mean(&row->time[c]);
                }
        }
        return best;
}

/* Was any call timed on the GPU? If so, what the host saw of another is its enqueueing. */
bool fabric_gpu_timed(const struct capo_job *job)
{
        for (uint32_t i = 0; i < job->n_rows; i++) {
                if (job->rows[i].time[CAPO_CLOCK_EVENT].count || job->rows[i].time[CAPO_CLOCK_KERNEL].count)
                        return true;
        }
        return false;
}

static int add_record(struct capo_fabric_job *f, const struct capo_job *job, uint32_t process,
                      const struct capo_record *r, uint64_t epoch, struct fabric_spans *s)
{
        bool measured = r->clock == CAPO_CLOCK_EVENT || r->clock == CAPO_CLOCK_KERNEL;
        uint32_t comm, share;
        uint64_t begin, end;

        if (r->flags & CAPO_RECORD_MEMBER || capo_call_kind(r->call) == CAPO_KIND_OTHER)
                return 0;
        comm = comm_of(job, process, r->comm);
        begin = r->t_begin;
        end = r->t_end;
        if (measured) {
                end = begin + r->gpu_ns > end ? begin + r->gpu_ns : end;
        } else if (!(r->flags & CAPO_RECORD_CAPTURED)) {
                uint64_t likely_end = begin + (uint64_t)gpu_mean(job, comm, r);

                end = likely_end > end ? likely_end : end;
        }
        if (end <= begin)
                return 0;
        if (fabric_share_of(f, comm, r->call, &share))
                return -ENOMEM;
        f->shares[share].calls++;
        f->shares[share].call_ns += (double)(end - begin);
        measured |= !f->gpu_timed;
        if (capo_array_room(&s->span, s->n, sizeof *s->span) < 0)
                return -ENOMEM;
        s->all_measured &= measured;
        s->span[s->n++] = (struct fabric_span){epoch + begin, epoch + end, share, measured};
        return 0;
}

int fabric_spans_read(struct capo_fabric_job *f, const struct capo_job *job, uint32_t process, struct fabric_spans *s)
{
        const struct capo_job_process *p = &job->processes[process];
        _cleanup_(capo_log_closep) struct capo_log *log = NULL;
        _cleanup_free_ struct capo_log_shape *shapes = NULL;
        struct capo_log_frame frame;
        char why[128];
        int r = 0;

        if (!p->n_records || capo_log_open(p->path, &log, why, sizeof why) < 0)
                return 0;
        shapes = calloc(65536, sizeof *shapes);
        if (!shapes)
                return -ENOMEM;
        while (r == 0 && capo_log_next(log, &frame) > 0) {
                if (frame.type == CAPO_FRAME_SHAPE) {
                        const struct capo_log_shape *shape;
                        unsigned n = capo_log_shapes(&frame, &shape);

                        for (unsigned i = 0; i < n; i++)
                                shapes[shape[i].id] = shape[i];
                } else if (frame.type == CAPO_FRAME_BLOCK) {
                        struct capo_log_columns columns;

                        if (capo_log_block(&frame, &columns))
                                continue;
                        for (uint32_t i = 0; i < columns.n && r == 0; i++) {
                                struct capo_record record;

                                capo_log_record(&columns, i, &shapes[columns.shape[i]], &record);
                                r = add_record(f, job, process, &record, p->header.t0_mono_ns, s);
                        }
                } else if (frame.type == CAPO_FRAME_WIDE) {
                        struct capo_record record;

                        for (unsigned i = 0; r == 0 && capo_log_wide(&frame, i, &record); i++)
                                r = add_record(f, job, process, &record, p->header.t0_mono_ns, s);
                }
        }
        return r;
}
