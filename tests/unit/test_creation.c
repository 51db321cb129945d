/* SPDX-License-Identifier: Apache-2.0 */
/* How long communicators took to be created, by the recorder. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <unistd.h>

#include "analysis/job/stats.h"
#include "analysis/report/job_judge.h"
#include "core/base/util.h"
#include "tests/golden/gen_log.h"
#include "tests/job_add.h"
#include "tests/log_numbers.h"

static char dir[] = "/tmp/capo-test-creation-XXXXXX";
static char log_path[64];

static void write_log(uint32_t flags)
{
        static struct gen_hist h;
        struct gen_log g;

        cr_assert(mkdtemp(dir));
        snprintf(log_path, sizeof log_path, "%s/node-a.42.capo", dir);
        gen_log_open(&g, log_path, 42);
        gen_log_text(&g, CAPO_FRAME_INFO, "host\tnode-a\nrank\t0\n");
        gen_log_comm(
                &g,
                (struct capo_log_comm){.id = 1, .n_ranks = 2, .rank = 0, .uid = 7, .flags = flags},
                "dp");
        gen_hist_add(&h, 2000000000, 1);
        gen_hist_add(&h, 500000000, 1);
        gen_log_cell(&g,
                     (struct capo_log_cell){.id = 1,
                                            .comm = 1,
                                            .call = CAPO_CALL_COMMINIT,
                                            .clock = CAPO_CLOCK_HOST,
                                            .count = 2},
                     &h, NULL);
        gen_log_close(&g);
}

static void judge(struct capo_page *page)
{
        char why[128];

        page->job = capo_job_new();
        cr_assert_eq(add_log(page->job, log_path, why, sizeof why), 0);
        capo_job_finish(page->job);
        capo_judge_creation(page);
}

static void clean(void)
{
        unlink(log_path);
        rmdir(dir);
}

Test(creation, recorded, .fini = clean)
{
        struct capo_page page = {0};

        write_log(0);
        judge(&page);
        cr_expect_eq(page.creation.n, 1);
        cr_expect_eq(page.creation.comm, 0);
        cr_expect_float_eq(page.creation.ns, 2e9, 1);
        cr_expect_float_eq(page.created[0].least_ns, 5e8, 1);
        capo_page_finish(&page);
}

/* Such a call returns before there is a communicator. */
Test(creation, nonblocking, .fini = clean)
{
        struct capo_page page = {0};

        write_log(CAPO_COMM_NONBLOCKING);
        judge(&page);
        cr_expect_eq(page.creation.n, 0);
        cr_expect_eq(page.creation.comm, CAPO_NO_COMM);
        capo_page_finish(&page);
}
