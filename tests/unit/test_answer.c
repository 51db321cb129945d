/* SPDX-License-Identifier: Apache-2.0 */
/* The graphs that an NCCL left behind, with numbers that are none. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <criterion/criterion.h>

#include "profiles/plan/plan_answer.h"

static void write_file(const char *folder, const char *name, const char *text)
{
        char path[64];
        FILE *f;

        snprintf(path, sizeof path, "%s/%s", folder, name);
        f = fopen(path, "w");
        cr_assert(f && fputs(text, f) >= 0);
        fclose(f);
}

Test(answer, numbers_that_no_int_holds)
{
        static const char graphs[] =
                "<graphs version=\"1\">"
                "<graph id=\"1\" pattern=\"4\" nchannels=\"2\" speedintra=\"20\"/>"
                "<graph id=\"2\" pattern=\"1e50\" nchannels=\"-1e50\" speedintra=\"1e50\"/>"
                "<graph id=\"nan\" pattern=\"inf\" nchannels=\"x\"/></graphs>";
        const struct capo_plan_question question = {.graph = true};
        struct plan_job *job = calloc(1, plan_job_size(1, 1));
        struct capo_plan_answer answer = {0};
        char folder[] = "/tmp/capo-answer-XXXXXX", path[64], why[256];

        cr_assert(job && mkdtemp(folder));
        job->n_ranks = job->n_rows = job->n_nodes = 1;
        plan_job_agree(job, 0)->done = 1;
        write_file(folder, "graph.0", graphs);
        cr_expect_eq(plan_answer_read(job, &question, folder, &answer, why, sizeof why), 0);
        snprintf(path, sizeof path, "%s/graph.0", folder);
        unlink(path);
        rmdir(folder);
        cr_assert_eq(answer.n_graphs, 3);
        cr_expect(answer.graphs[0].id == 1 && answer.graphs[0].pattern == 4 &&
                  answer.graphs[0].n_channels == 2);
        cr_expect(answer.graphs[1].id == 2 && answer.graphs[1].pattern == 0 &&
                  answer.graphs[1].n_channels == 0);
        cr_expect(answer.graphs[2].id == 0 && answer.graphs[2].pattern == 0 &&
                  answer.graphs[2].n_channels == 0);
        capo_plan_answer_finish(&answer);
        free(job);
}
