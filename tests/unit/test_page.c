/* SPDX-License-Identifier: Apache-2.0 */
/* The words that all faces use; and a page judged as a whole. */
#include "analysis/report/page_kinds.h"
#include "core/base/util.h"
#include "analysis/report/job_judge.h"
#include "tests/unit/made_job.h"
#include "core/log/info.h"
#include "tests/log_numbers.h"

static struct capo_page page;
static char text[1200];

static void begin(void) { page = (struct capo_page){.job = made_job(2), .what = "x"}; }

static void end(void) { capo_page_finish(&page); }

TestSuite(page, .init = begin, .fini = end);

Test(page, title)
{
        struct capo_job_process *p = page.job->processes;

        cr_assert_str_eq(capo_page_title(&page, text, sizeof text), "");
        made_info(&p[1], CAPO_INFO_CMDLINE, "/usr/bin/python3 /x/train.py");
        cr_assert_str_eq(capo_page_title(&page, text, sizeof text), "python3 /x/train.py");
        made_info(&p[0], CAPO_INFO_JOB, "");
        made_info(&p[1], CAPO_INFO_JOB, "4711");
        cr_assert_str_eq(capo_page_title(&page, text, sizeof text),
                         "job 4711  python3 /x/train.py");
        made_info(&p[0], CAPO_INFO_JOB_NAME, "bert");
        cr_assert_str_eq(capo_page_title(&page, text, sizeof text), "job 4711  bert");
        cr_assert_null(capo_page_info(&page, CAPO_INFO_HOST));
}

Test(page, a_long_command_is_cut_a_name_is_not)
{
        char name[101];

        memset(name, 'n', 100);
        name[100] = 0;
        made_info(page.job->processes, CAPO_INFO_CMDLINE, name);
        cr_assert_eq(strlen(capo_page_title(&page, text, sizeof text)), 60);
        made_info(page.job->processes, CAPO_INFO_JOB_NAME, name);
        cr_assert_eq(strlen(capo_page_title(&page, text, sizeof text)), 100);
}

Test(page, labels_of_communicators)
{
        uint32_t size = 1;

        page.class_size = &size;
        cr_assert_str_eq(capo_page_comm(&page, 0), "dp");
        cr_assert_str_eq(capo_page_comm(&page, CAPO_NO_COMM), "-");
        cr_assert_str_eq(capo_page_comm_label(&page, CAPO_NO_COMM, text, sizeof text), "-");
        cr_assert_str_eq(capo_page_comm_label(&page, 0, text, sizeof text), "dp (2)");
        page.job->comms[0].n_ranks = -1;
        cr_assert_str_eq(capo_page_comm_label(&page, 0, text, sizeof text), "dp");
        size = 16;
        page.job->comms[0].n_ranks = 8;
        free(page.job->comms[0].name);
        page.job->comms[0].name = strdup("tp#3");
        cr_assert_str_eq(capo_page_comm_label(&page, 0, text, sizeof text), "tp (8) x16");
        page.job->comms[0].named = false;
        cr_assert_str_eq(capo_page_comm_label(&page, 0, text, sizeof text), "tp.. (8) x16");
        page.class_size = NULL;
}

Test(page, sizes_and_calls)
{
        struct capo_page_row row = {.row = {.call = CAPO_CALL_SEND, .bytes = 1 << 20},
                                    .bytes_max = 1 << 20};

        cr_assert_str_eq(capo_page_size(&row, text, sizeof text), "1 MiB");
        row.bytes_max = 2 << 20;
        cr_assert_str_eq(capo_page_size(&row, text, sizeof text), "1-2 MiB");
        row.row.bytes = 1000;
        cr_assert_str_eq(capo_page_size(&row, text, sizeof text), "1000 B-2 MiB");
        cr_assert_str_eq(capo_page_call(&row.row, text, sizeof text), "Send");
        row.row.flags = CAPO_RECORD_MEMBER | CAPO_RECORD_CAPTURED;
        cr_assert_str_eq(capo_page_call(&row.row, text, sizeof text), "Send in group captured");
        row.row = (struct capo_job_row){.call = CAPO_CALL_GROUP, .flags = CAPO_RECORD_GROUP};
        cr_assert_str_eq(capo_page_call(&row.row, text, sizeof text), "Group");
        cr_assert_null(capo_page_group_of(&row.row));
        row.row.channels = CAPO_CALL_BROADCAST;
        cr_assert_str_eq(capo_page_call(&row.row, text, sizeof text), "Group of Broadcast");
        row.row.channels = CAPO_CALL_GROUP;
        cr_assert_str_eq(capo_page_call(&row.row, text, sizeof text), "Group of Send, Recv");
        row.row.call = CAPO_CALL_SEND;
        cr_assert_null(capo_page_group_of(&row.row));
        cr_assert_str_eq(capo_base_name("/a/b.capo"), "b.capo");
        cr_assert_str_eq(capo_base_name("b.capo"), "b.capo");
}

Test(page, traffic_that_is_none)
{
        struct capo_fabric_share s = {.ops = 0.49};

        cr_assert(capo_page_share_empty(&s));
        s = (struct capo_fabric_share){.ops = 0.5};
        cr_assert_not(capo_page_share_empty(&s));
        s = (struct capo_fabric_share){.own_ops = 1};
        cr_assert_not(capo_page_share_empty(&s));
}

Test(page, judged_as_a_whole)
{
        page.job->n_records = 0;
        page.job->dropped = 5;
        made_row(page.job, CAPO_CALL_ALLREDUCE, 1 << 20, 10, CAPO_CLOCK_EVENT, 1000);
        page.job->sites[page.job->n_sites++] =
                (struct capo_job_site){.text = strdup("main"), .count = 1, .host_ns = 5};
        made_skew(page.job, 10, (uint32_t[]){10, 0}, (double[]){5e8, 0});
        capo_judge(&page);
        cr_assert(page.rows.n == 1 && page.n_places == 1 && page.n_waits == 1 &&
                  page.n_problems == 1);
        cr_assert_eq(page.n_next, 2, "a late rank, and no single calls");
        cr_assert(page.next[0].kind == CAPO_NEXT_late_rank &&
                  page.next[1].kind == CAPO_NEXT_no_calls_kept);
}
