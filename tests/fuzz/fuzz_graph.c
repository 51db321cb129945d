/* SPDX-License-Identifier: Apache-2.0 */
/* What an NCCL that was asked left behind: the graphs it dumped (XML) and the lines it printed.
 * Input: where each call's part of the log ends (u8 each), the log up to a 0, the graphs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "profiles/plan/plan_answer.h"
#include "tests/fuzz/fuzz.h"

enum { ROWS = 3, RANKS = 2 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static const struct capo_plan_question question = {.graph = true, .log = true};
        static struct plan_job *job;
        struct fuzz_bytes b = {data, size};
        struct capo_plan_answer answer = {0};
        char why[256], warning[256], from[64];
        char *log;

        if (!job) {
                static const char *const names[] = {"log.0", "graph.0"};

                job = calloc(1, plan_job_size(RANKS, ROWS));
                must(job);
                job->n_ranks = RANKS;
                job->n_rows = ROWS;
                job->n_nodes = 1;
                for (uint32_t i = 0; i < RANKS * ROWS; i++)
                        plan_job_agree(job, 0)[i].done = 1;
                for (unsigned i = 0; i < 2; i++) {
                        snprintf(from, sizeof from, "%s/%s", fuzz_folder(), names[i]);
                        must(symlink(fuzz_file(i, "", 0), from) == 0);
                }
        }
        for (unsigned i = 0; i < ROWS; i++)
                job->rows[i].log_end = fuzz_number(&b, 1) * 4;
        log = fuzz_word(&b, 0);
        fuzz_file(0, log, strlen(log));
        fuzz_file(1, b.at, b.left);
        free(log);
        must(plan_answer_read(job, &question, fuzz_folder(), &answer, why, sizeof why) == 0);
        for (int i = 0; i < 5; i++) {
                const struct capo_plan_graph *g = capo_plan_graph_find(&answer, -1, i);

                for (size_t k = 0; g && k < g->n_paths; k++)
                        must(memchr(g->paths[k], 0, sizeof g->paths[k]));
        }
        plan_answer_warning(fuzz_folder(), 1, warning, sizeof warning);
        capo_plan_answer_finish(&answer);
        return 0;
}
