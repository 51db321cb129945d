/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as the logs of a job that stands still, read a second time for capo hang: their last
 * calls, HANG frames, and the verdict. Input: what is known of each process beside its log (u8, two
 * bits each), whether now is later than all of it (u8), the logs one behind another. Frames are
 * changed as in fuzz_log.c.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/util.h"
#include "analysis/hang/hang_load.h"
#include "analysis/report/job_judge.h"
#include "tests/fuzz/frames.h"
#include "tests/fuzz/fuzz.h"

enum { HEAD = 2 };

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
        if (size <= HEAD || max_size <= HEAD || seed % 16 == 0)
                return LLVMFuzzerMutate(data, size, max_size);
        return HEAD + fuzz_frames_mutate(data + HEAD, size - HEAD, max_size - HEAD, seed);
}

static void judge(const struct capo_hang_job *hang, const struct capo_job *job)
{
        struct capo_hang_verdict verdict = {0};

        must(hang->n_processes == job->n_processes && hang->n_comms <= job->n_comms);
        for (uint32_t i = 0; i < hang->n_processes; i++) {
                for (uint32_t k = 0; k < hang->processes[i].n_calls; k++) {
                        const struct capo_hang_call *c = &hang->processes[i].calls[k];

                        must(c->comm == CAPO_HANG_NONE || c->comm < hang->n_comms);
                        must(c->comm == CAPO_HANG_NONE || c->member == CAPO_HANG_NONE ||
                             c->member < hang->comms[c->comm].n_members);
                }
        }
        capo_hang_judge(hang, &verdict);
        must(verdict.kind < CAPO_HANG_KINDS);
        capo_hang_verdict_finish(&verdict);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct fuzz_bytes b = {data, size};
        unsigned known = (unsigned)fuzz_number(&b, 1);
        uint64_t now = fuzz_number(&b, 1) & 1 ? 4000000000000000000 : 0;
        struct capo_hang_job hang = {.after_ns = 1000000000};
        struct capo_job *job = fuzz_frames_job(b.at, b.left);
        struct capo_page late = {.job = job};
        uint8_t each[FUZZ_FILES];
        uint32_t n_stale = 0;

        for (unsigned i = 0; i < FUZZ_FILES; i++)
                each[i] = known >> 2 * i & 3;
        if (!job)
                return 0;
        must(capo_hang_read(job, each, now, &hang, &n_stale) == 0);
        must(n_stale <= job->n_processes);
        judge(&hang, job);
        capo_hang_job_finish(&hang);
        capo_judge_waits(&late);
        capo_page_finish(&late);
        return 0;
}
