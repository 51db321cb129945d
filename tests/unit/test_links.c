/* SPDX-License-Identifier: Apache-2.0 */
/* What is noted beside a rank's use of a NIC. */
#include "analysis/report/job_judge.h"
#include "tests/unit/made_job.h"

static struct capo_fabric_domain domain;
static struct capo_fabric_link link_;
static struct capo_page_near near;
static struct capo_job job;

/* The notes, separated by "; ". */
static const char *notes(void)
{
        static char text[1024];
        struct capo_fabric_job fabric = {.links = &link_, .n_links = 1};
        struct capo_page page = {.job = &job, .fabric = &fabric, .near = &near};
        size_t n = 0;

        link_.domain = &domain;
        capo_judge_links(&page);
        text[0] = 0;
        for (unsigned i = 0; i < page.links[0].n_notes; i++)
                n += (size_t)snprintf(text + n, sizeof text - n, "%s%s: %s", i ? "; " : "",
                                      capo_page_note_names[page.links[0].note[i].kind],
                                      page.links[0].note[i].text);
        free(page.links);
        return text;
}

static void begin(void)
{
        strcpy(domain.provider, "tcp");
        domain.numa = -1;
        link_ = (struct capo_fabric_link){.ops = 1, .gpu_numa = -1, .sharers = 1, .load = 1.9};
        near = (struct capo_page_near){0};
}

TestSuite(links, .init = begin);

Test(links, ranks_that_still_run_are_not_compared)
{
        struct capo_job_process runs = {.has_end = true};

        link_.load = 2.3;
        cr_assert(strstr(notes(), "times the mean"), "%s", notes());
        job = (struct capo_job){.processes = &runs, .n_processes = 1};
        cr_assert_null(strstr(notes(), "times the mean"));
        job = (struct capo_job){0};
}

Test(links, nothing_to_note) { cr_assert_str_eq(notes(), ""); }

Test(links, idle)
{
        link_.ops = 0;
        link_.sharers = 4;
        near.far = true;
        near.path = "SYS";
        cr_assert_str_eq(notes(), "idle: idle");
        strcpy(domain.provider, "shm");
        cr_assert_str_eq(notes(), "", "memory that nobody used is no idle NIC");
}

Test(links, where_the_nic_is)
{
        domain.numa = 1;
        link_.gpu_numa = 0;
        cr_assert_str_eq(notes(), "other_numa: far from the GPU (NUMA 1, GPU on 0)");
        near = (struct capo_page_near){.path = "SYS", .far = true};
        cr_assert_str_eq(notes(), "far_from_gpu: SYS from the GPU");
        strcpy(near.nearer, "mlx5_3");
        near.nearer_path = "PIX";
        cr_assert_str_eq(notes(), "nearer_nic: SYS from the GPU, mlx5_3 is PIX");
        near.nearer_idle = true;
        cr_assert_str_eq(notes(), "nearer_nic: SYS from the GPU, mlx5_3 is PIX and idle");
}

Test(links, how_much_it_carries)
{
        link_.sharers = 2;
        link_.load = 2;
        cr_assert_str_eq(notes(),
                         "shared: 2 ranks share this NIC; loaded: 2.0 times the mean NIC's bytes");
}

Test(links, what_went_wrong)
{
        domain.n.overruns = 1000;
        domain.mr_failed = 3;
        domain.n.n_errors = 3;
        for (unsigned i = 0; i < 3; i++) {
                snprintf(domain.n.error[i].text, sizeof domain.n.error[i].text, "error %u", i);
                domain.n.error[i].count = 10 + i;
        }
        cr_assert_str_eq(
                notes(),
                "overrun: queue overrun 1,000 times; errors: error 0 x 10; errors: error 1 x 11; "
                "registrations: 3 registrations failed");
}
