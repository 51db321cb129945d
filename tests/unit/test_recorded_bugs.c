/* SPDX-License-Identifier: Apache-2.0 */
/* Known bugs that a recorded job meets. */
#include "analysis/diagnose/recorded_bugs.h"
#include "analysis/report/job_judge.h"
#include "analysis/report/page_kinds.h"
#include "tests/unit/made_job.h"
#include "core/log/info.h"

static struct capo_page page;
static struct capo_recorded_bug found[CAPO_RECORDED_BUGS];

static void begin(void) { page = (struct capo_page){.job = made_job(2), .what = "x"}; }

static void end(void) { capo_page_finish(&page); }

TestSuite(recorded_bugs, .init = begin, .fini = end);

enum { HANG = 1 << CAPO_BUG_HANG, SLOW = 1 << CAPO_BUG_SLOW };

Test(recorded_bugs, an_unknown_release_meets_none)
{
        made_info(page.job->processes, CAPO_INFO_NCCL_SETTINGS, "NCCL_CROSS_NIC=0");
        cr_assert_eq(capo_recorded_bugs(page.job, HANG | SLOW, NULL, found), 0);
}

Test(recorded_bugs, release_and_setting_make_a_maybe)
{
        made_info(page.job->processes, CAPO_INFO_NCCL_VERSION, "2.26.2");
        cr_assert_eq(capo_recorded_bugs(page.job, SLOW, NULL, found), 0);
        made_info(&page.job->processes[1], CAPO_INFO_NCCL_SETTINGS, "A=1 NCCL_CROSS_NIC=0");
        cr_assert_eq(capo_recorded_bugs(page.job, HANG, NULL, found), 0);
        cr_assert_eq(capo_recorded_bugs(page.job, SLOW, NULL, found), 1);
        cr_assert_eq(found[0].match, CAPO_BUG_MAYBE);
        cr_assert_eq(found[0].bug->fixed, 22807);
}

Test(recorded_bugs, a_frame_of_a_stack_proves_it)
{
        made_info(page.job->processes, CAPO_INFO_NCCL_VERSION, "2.21.5");
        cr_assert_eq(capo_recorded_bugs(page.job, HANG, " ncclLaunchKernel+0x1f", found), 0);
        made_info(&page.job->processes[1], CAPO_INFO_NCCL_SETTINGS, "NCCL_DEBUG=WARN");
        cr_assert_eq(
                capo_recorded_bugs(page.job, HANG, " ncclCommAbort+0x1f libnccl.so.2+0x2", found),
                1);
        cr_assert_eq(found[0].match, CAPO_BUG_MAYBE); /* others wait in it too */
        cr_assert_eq(capo_recorded_bugs(page.job, HANG,
                                        " ncclLaunchKernelBefore_NoUncapturedCuda+0x1f", found),
                     1);
        cr_assert_eq(found[0].match, CAPO_BUG_FITS);
        cr_assert_eq(found[0].bug->fixed, 22203);
}

Test(recorded_bugs, the_report_names_those_that_do_what_happened)
{
        made_info(page.job->processes, CAPO_INFO_NCCL_VERSION, "2.20.5");
        made_info(page.job->processes, CAPO_INFO_NCCL_SETTINGS,
                  "NCCL_NVLS_ENABLE=1 NCCL_CROSS_NIC=0");
        capo_page_bugs(&page);
        cr_assert_eq(page.n_problems, 1); /* the slow one: nothing hangs here */
        cr_assert_eq(page.problems[0].kind, CAPO_PROBLEM_KNOWN_BUG);
        cr_assert(strstr(page.problems[0].text, "fixed in 2.28.7, https://github.com/"));
        PROBLEM(&page, KILLED, "1");
        capo_page_bugs(&page);
        cr_assert_eq(page.n_problems, 4);
        cr_assert(strstr(page.problems[3].text, "NCCL hang: NCCL_NVLS_ENABLE=1"));
}
