/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What others say of a job that stands still: dumps of PyTorch's flight recorder, one behind
 * another with a 0 between, or two answers of NCCL's own RAS; and the verdict on it.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/util.h"
#include "analysis/hang/ras.h"
#include "analysis/hang/hang_load.h"
#include "tests/fuzz/fuzz.h"

/* Whatever they said, capo hang has an answer. */
static void judge(const struct capo_hang_job *hang, const struct capo_job *job)
{
        struct capo_hang_verdict verdict = {0};

        must(hang->n_processes == job->n_processes);
        for (uint32_t i = 0; i < hang->n_processes; i++) {
                for (uint32_t k = 0; k < hang->processes[i].n_calls; k++)
                        must(hang->processes[i].calls[k].comm < hang->n_comms);
        }
        capo_hang_judge(hang, &verdict);
        capo_hang_verdict_finish(&verdict);
}

static void flight(struct fuzz_bytes *b)
{
        _cleanup_(capo_job_freep) struct capo_job *job = capo_job_new();
        struct capo_hang_job hang = {.after_ns = 1};
        char why[512] = "", *paths[FUZZ_FILES];
        size_t n = 0;

        for (; n < FUZZ_FILES && (b->left || !n); n++) {
                char *dump = fuzz_word(b, 0);

                paths[n] = (char *)(uintptr_t)fuzz_file((unsigned)n, dump, strlen(dump));
                free(dump);
        }
        if (capo_hang_flight(paths, n, job, &hang, why, sizeof why) == 0)
                judge(&hang, job);
        else
                must(*why);
        capo_hang_job_finish(&hang);
}

static void ras(struct fuzz_bytes *b)
{
        _cleanup_(capo_job_freep) struct capo_job *job = capo_job_new();
        struct capo_hang_job hang = {.after_ns = 1};
        struct ras_snapshot snapshots[2] = {{0}, {0}};
        char why[512] = "";
        bool good = true;

        for (unsigned i = 0; i < 2; i++) {
                char *text = fuzz_word(b, 0);

                if (ras_read(text, &snapshots[i], why, sizeof why) < 0) {
                        must(*why);
                        good = false;
                }
                free(text);
        }
        if (good) {
                ras_job(&snapshots[0], &snapshots[1], job, &hang);
                judge(&hang, job);
        }
        capo_hang_job_finish(&hang);
        ras_snapshot_finish(&snapshots[0]);
        ras_snapshot_finish(&snapshots[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct fuzz_bytes b = {data, size};

        (fuzz_number(&b, 1) & 1 ? ras : flight)(&b);
        return 0;
}
