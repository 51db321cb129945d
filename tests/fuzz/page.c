/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as logs, one behind another: every call in them, and all of them as the job that capo report makes a page of. Frames
 * are changed as in log.c.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/util.h"
#include "core/log/rules.h"
#include "profiles/job/fabric.h"
#include "profiles/job/judge.h"
#include "profiles/job/log_calls.h"
#include "profiles/job/scratch.h"
#include "profiles/job/stats.h"
#include "tests/fuzz/frames.h"
#include "tests/fuzz/fuzz.h"

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
        return fuzz_frames_mutate(data, size, max_size, seed);
}

static int call(const struct capo_record *r, unsigned thread, void *arg)
{
        return ++*(unsigned *)arg > 100000;
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
        must(capo_fabric_job_new(job, &page.fabric) == 0);
        must(capo_judge(&page) == 0);
        for (uint32_t i = 0; i < page.rows.n; i++) {
                double algbw, busbw;

                if (capo_job_row_bandwidth(job, &page.rows.row[i].row, &algbw, &busbw))
                        must(algbw >= 0 && busbw >= 0);
        }
        capo_page_finish(&page);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static struct reading *kept; /* 3 MB of tables, new ones for each job, were half of the time */
        struct capo_job *job = capo_job_new();
        struct capo_log *log;
        char why[512];
        unsigned n = 0;
        size_t at = 0;
        bool any = false;

        must(job);
        job->scratch->spare = steal(&kept);
        for (unsigned i = 0; i < FUZZ_FILES && at < size; i++) {
                size_t next = fuzz_frames_next(data, size, at);
                const char *path = fuzz_file(i, data + at, next - at);

                if (capo_log_open(path, &log, why, sizeof why) == 0) {
                        capo_log_calls_each(log, call, &n);
                        capo_log_close(log);
                }
                if (capo_job_add_log(job, path, why, sizeof why, NULL, NULL) == 0)
                        any = true;
                else
                        must(*why);
                at = next;
        }
        must(capo_job_finish(job) == 0);
        kept = steal(&job->scratch->spare);
        if (any)
                judge(job);
        else
                capo_job_free(job);
        return 0;
}
