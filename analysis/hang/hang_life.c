/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "analysis/hang/hang_judge.h"
#include "analysis/hang/hang_life.h"
#include "analysis/log/hang_frame_read.h"
#include "analysis/report/job_judge.h"
#include "capo/frame_types.h"
#include "core/log/info.h"

static bool is_final(const struct capo_job_process *p, uint8_t known)
{
        return known != CAPO_HANG_BY_LOG || (p->has_end && p->end.clean);
}

/* Find the last HANG frame after which no call was recorded. */
static void find_frame(const struct capo_job_process *jp, struct hang_moment *out)
{
        struct capo_log *log = jp->log;
        struct capo_hang_text t = {0}, read;
        struct capo_log_frame f;
        struct capo_log_end end;

        capo_log_rewind(log);
        while (capo_log_next(log, &f) > 0) {
                if (f.type == CAPO_FRAME_HANG && capo_hang_text_read(&f, &read) == 0) {
                        t = read;
                        out->offset = f.offset;
                } else if (f.type == CAPO_FRAME_END && t.at_ns && capo_log_end(&f, &end) == 0 &&
                           end.calls != t.calls) {
                        t.at_ns = 0; /* it made calls later */
                }
        }
        capo_log_park(log);
        out->at_ns = t.at_ns ? jp->header.t0_real_ns + t.at_ns : 0;
}

static int exit_status_of(const struct capo_job_process *p)
{
        const char *text = capo_job_info(p, CAPO_INFO_EXIT);

        return text ? atoi(text) : -1;
}

void hang_tell_lives(const struct capo_job *job, const uint8_t *known, uint64_t now_ns,
                     struct capo_hang_job *out, struct hang_moment *moments)
{
        bool alive = false, over = true;
        uint64_t last = 0;

        for (uint32_t i = 0; i < out->n_processes; i++) {
                const struct capo_job_process *jp = &job->processes[i];
                struct capo_hang_process *p = &out->processes[i];

                p->rank = jp->rank;
                if (!is_final(jp, known[i]))
                        find_frame(jp, &moments[i]);
                p->stale = !is_final(jp, known[i]) && !moments[i].at_ns;
                p->end_ns = jp->header.t0_real_ns + jp->last_ns;
                p->life = known[i] == CAPO_HANG_IS_ALIVE     ? CAPO_HANG_ALIVE
                          : known[i] == CAPO_HANG_IS_STOPPED ? CAPO_HANG_STOPPED
                          : capo_process_ended(job, jp)      ? CAPO_HANG_EXITED
                                                             : CAPO_HANG_KILLED;
                p->ending = p->life == CAPO_HANG_EXITED   ? CAPO_HANG_BY_EXIT
                            : p->life == CAPO_HANG_KILLED ? CAPO_HANG_BY_KILL
                                                          : CAPO_HANG_RUNS;
                p->exit_status = exit_status_of(jp);
                if (p->stale)
                        p->ending = CAPO_HANG_RUNS;
                if (p->life <= CAPO_HANG_STOPPED) {
                        p->end_ns = now_ns;
                        alive = true;
                }
                if (moments[i].at_ns) { /* it may be on another node; nothing newer is known */
                        p->life = CAPO_HANG_ALIVE;
                        p->ending = CAPO_HANG_RUNS;
                        p->end_ns = moments[i].at_ns;
                }
                over &= p->ending != CAPO_HANG_RUNS;
                if (!p->stale && p->end_ns > last)
                        last = p->end_ns;
        }
        out->over = over && out->n_processes;
        out->cut = !over && !alive;
        out->now_ns = alive ? now_ns : last;
        for (uint32_t i = 0; i < out->n_processes && !alive; i++) {
                struct capo_hang_process *p = &out->processes[i];

                if (p->life >= CAPO_HANG_EXITED && p->end_ns + HANG_TOGETHER_NS >= last)
                        p->life = CAPO_HANG_ALIVE;
        }
}
