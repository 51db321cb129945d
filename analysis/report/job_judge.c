/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/report/job_judge.h"
#include "analysis/report/waits_causes.h"

/* Too few calls were timed to know the job's GPU share, so that of its steps is not known either. */
static bool is_gpu_share_unknown(const struct capo_page *page)
{
        return page->gpu_sum >= 0 && page->gpu_share < 0;
}

double capo_known_nccl_share(struct capo_job *job, const struct capo_job_steps *steps)
{
        struct capo_page page = {.job = job};
        bool unknown;

        capo_judge_rows(&page);
        unknown = is_gpu_share_unknown(&page);
        page.job = NULL; /* the caller's */
        capo_page_finish(&page);
        return unknown ? -1 : steps->nccl_share;
}

static void judge_steps(struct capo_page *page)
{
        capo_job_steps(page->job, &page->steps);
        if (!capo_page_is_filtered(page) && is_gpu_share_unknown(page))
                page->steps.nccl_share = -1;
        if (capo_page_unseen(page) >= 0.01 || page->wait_share < 0) /* the same for waiting */
                page->steps.wait_share = -1;
        capo_judge_change(page);
}

void capo_judge(struct capo_page *page)
{
        static void (*const steps[])(struct capo_page *) = {
                capo_judge_rows,     capo_judge_exposed,  capo_judge_waits,
                capo_judge_places,   capo_judge_links,    judge_steps,
                capo_judge_creation, capo_judge_problems, capo_judge_next,
        };

        for (size_t i = 0; i < N_ELEMENTS(steps); i++)
                steps[i](page);
}
