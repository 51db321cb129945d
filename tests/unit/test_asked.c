/* SPDX-License-Identifier: Apache-2.0 */
/* What calls asked for is said with their place, and counted by call, size and communicator. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <criterion/criterion.h>

#include "analysis/job/asked.h"
#include "analysis/job/stats.h"
#include "capo/record.h"
#include "core/base/util.h"
#include "tests/golden/gen_log.h"
#include "tests/job_add.h"
#include "tests/log_numbers.h"

static char path[] = "/tmp/capo-test-asked-XXXXXX";

static void put_call(struct gen_log *g, unsigned site, uint64_t bytes, unsigned comm)
{
        struct capo_record r = {.t_begin = 1000,
                                .t_end = 1010,
                                .bytes = bytes,
                                .call = CAPO_CALL_ALLREDUCE,
                                .comm = (uint16_t)comm,
                                .site = (uint16_t)site,
                                .thread = 1};

        gen_log_frame(g, CAPO_FRAME_WIDE, &r, sizeof r);
}

static void write_log(void)
{
        struct gen_log g;

        close(mkstemp(path));
        gen_log_open(&g, path, 1);
        gen_log_comm(&g, (struct capo_log_comm){.id = 1, .n_ranks = 2, .uid = 7}, "dp");
        for (unsigned i = 0; i < 3; i++)
                put_call(&g, 1, 64, 1);
        put_call(&g, 2, 64, 1);
        put_call(&g, 3, 64, 1);
        put_call(&g, 3, 64, 2); /* another communicator */
        put_call(&g, 3, 65, 1); /* another size */
        put_call(&g, 4, 64, 1);
        gen_log_site(&g, (struct capo_log_site){.id = 1}, "main+1 a+1\n");
        gen_log_site(&g, (struct capo_log_site){.id = 2}, "config: maxCTAs=4\nmain+1 a+1\n");
        gen_log_site(&g, (struct capo_log_site){.id = 3}, "config: maxCTAs=4\nmain+2 a+2\n");
        gen_log_site(&g, (struct capo_log_site){.id = 4}, "config: minCTAs=2"); /* cut */
        gen_log_close(&g);
}

static void free_list(struct capo_asked *list, long n)
{
        while (n-- > 0)
                free(list[n].text);
        free(list);
}

Test(asked, text)
{
        static const char site[] = "config: a=1 b=2\nmain\n";
        size_t n;

        cr_expect(capo_asked_text(site, strlen(site), &n) == site + 8 && n == 7);
        cr_expect(capo_asked_text(site, 12, &n) == site + 8 && n == 4);
        cr_expect_null(capo_asked_text("main\nconfig: a\n", 15, &n));
        cr_expect_null(capo_asked_text("config:a=1 b=2\n", 15, &n));
        cr_expect_null(capo_asked_text("config: a", 8, &n));
        cr_expect_null(capo_asked_text("", 0, &n));
}

Test(asked, counted, .init = write_log)
{
        _cleanup_(capo_job_freep) struct capo_job *job = capo_job_new();
        struct capo_asked *list = NULL;
        char why[256];
        long n;

        cr_assert_eq(add_log(job, path, why, sizeof why), 0, "%s", why);
        unlink(path); /* the job keeps it open */
        capo_job_finish(job);
        n = capo_job_asked(job, CAPO_CALL_ALLREDUCE, 64, 64, "d*", &list);
        cr_assert_eq(n, 3);
        cr_expect(list[0].calls == 3 && !*list[0].text);
        cr_expect(list[1].calls == 2 && !strcmp(list[1].text, "maxCTAs=4"));
        cr_expect(list[2].calls == 1 && !strcmp(list[2].text, "minCTAs=2"));
        free_list(list, n);
        list = NULL;
        n = capo_job_asked(job, CAPO_CALL_ALLREDUCE, 65, 90, NULL, &list);
        cr_assert(n == 1 && list[0].calls == 1);
        free_list(list, n);
        list = NULL;
        cr_expect_eq(capo_job_asked(job, CAPO_CALL_ALLREDUCE, 64, 64, "x*", &list), 0);
        free_list(list, 0);
        cr_expect_eq(capo_job_asked(job, CAPO_CALL_REDUCE, 64, 64, NULL, &list), 0);
}
