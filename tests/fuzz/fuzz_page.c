/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as logs, one behind another, as the job that capo report makes a page of. Frames are
 * changed as in fuzz_log.c.
 */
#include "analysis/log/rules_read.h"
#include "analysis/network/network.h"
#include "analysis/report/job_judge.h"
#include "analysis/job/stats.h"
#include "tests/fuzz/frames.h"
#include "tests/fuzz/fuzz.h"

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
        return fuzz_frames_mutate(data, size, max_size, seed);
}

static void judge(struct capo_job *job)
{
        struct capo_page page = {.job = job, .what = "fuzz"};

        for (uint32_t i = 0; i < job->n_processes; i++) {
                const char *rules = job->processes[i].rules;
                struct capo_rules_row row;
                char text[64];

                for (unsigned k = 0; rules && k < 4; k++) {
                        capo_rules_place(rules, k, text, sizeof text);
                        capo_rules_find(rules, k, &row);
                }
        }
        page.fabric = capo_fabric_job_new(job);
        capo_judge(&page);
        for (uint32_t i = 0; i < page.rows.n; i++) {
                double algbw, busbw;

                if (capo_job_row_bandwidth(job, &page.rows.row[i].row, &algbw, &busbw))
                        must(algbw >= 0 && busbw >= 0);
        }
        capo_page_finish(&page);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct capo_job *job = fuzz_frames_job(data, size);

        if (job)
                judge(job);
        return 0;
}
