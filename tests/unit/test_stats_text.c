/* SPDX-License-Identifier: Apache-2.0 */
/* INFO lines replace and continue each other, of FABRIC the last two snapshots stay, RULES replace
 * all before. */
#include <string.h>
#include <stdio.h>
#include <criterion/criterion.h>

#include "core/base/util.h"
#include "analysis/job/stats_private.h"
#include "tests/log_numbers.h"

static struct capo_job *job;
static struct capo_job_process *p;

static void begin(void)
{
        job = capo_job_new();
        job->processes = p = calloc(1, sizeof *p);
        job->n_processes = 1;
}

static void end(void) { capo_job_free(job); }

TestSuite(stats_text, .init = begin, .fini = end);

static void frame(uint16_t type, const char *text)
{
        job_add_text_frame(p, &(struct capo_log_frame){.type = type,
                                                       .payload = text,
                                                       .size = (uint32_t)strlen(text)});
}

Test(stats_text, info)
{
        frame(CAPO_FRAME_INFO, "host\ta\nrank\t3\nno value\n\tno key\nempty\t\n");
        cr_assert_eq(p->n_info, 3);
        cr_assert_str_eq(capo_job_info(p, "host"), "a");
        cr_assert_str_eq(capo_job_info(p, "rank"), "3");
        cr_assert_str_eq(capo_job_info(p, "empty"), "");
        cr_assert_null(capo_job_info(p, "hos"));
        frame(CAPO_FRAME_INFO, "host\tbcd\nenv+\tA=1\nenv+\tB=2\n");
        cr_assert_str_eq(capo_job_info(p, "host"), "bcd", "the last word counts");
        cr_assert_str_eq(capo_job_info(p, "env"), "A=1\nB=2", "a plus continues");
        frame(CAPO_FRAME_INFO, "env\tC=3");
        cr_assert_str_eq(capo_job_info(p, "env"), "C=3");
        cr_assert_eq(p->n_info, 4);
}

/* Untrusted text with these keys: as many as are looked through in no time, and lines of one key
 * one behind the other. */
Test(stats_text, a_great_many_keys_and_lines)
{
        _cleanup_free_ char *text = malloc(200000 * 10);
        size_t n = 0;

        for (unsigned i = 0; i < 100000; i++)
                n += (size_t)sprintf(text + n, "k%u\t%u\n", i, i);
        frame(CAPO_FRAME_INFO, text);
        cr_expect_eq(p->n_info, 1024);
        cr_expect_str_eq(capo_job_info(p, "k1023"), "1023");
        frame(CAPO_FRAME_INFO, "k7\tanother\n");
        cr_expect_str_eq(capo_job_info(p, "k7"), "another");
        for (unsigned i = n = 0; i < 100000; i++)
                n += (size_t)sprintf(text + n, "k7+\tx\n");
        frame(CAPO_FRAME_INFO, text);
        cr_expect_eq(strlen(capo_job_info(p, "k7")), strlen("another") + 2 * 100000);
        cr_expect(!strncmp(capo_job_info(p, "k7"), "another\nx\nx", 11));
}

Test(stats_text, nothing_in_it_steers_a_terminal)
{
        frame(CAPO_FRAME_INFO, "cmdline\ta\x1b[31m b\x7f\tc\xc3\xa9\n");
        cr_assert_str_eq(capo_job_info(p, "cmdline"), "a?[31m b?\tc\xc3\xa9");
}

Test(stats_text, the_last_two_fabric_snapshots_stay)
{
        frame(CAPO_FRAME_FABRIC, "snapshot\t1\none\n");
        frame(CAPO_FRAME_FABRIC, "snapshot\t1\nmore\n");
        cr_assert_str_eq(p->fabric, "snapshot\t1\none\nsnapshot\t1\nmore\n");
        frame(CAPO_FRAME_FABRIC, "snapshot\t12\ntwo\n");
        cr_assert_str_eq(p->fabric, "snapshot\t1\none\nsnapshot\t1\nmore\nsnapshot\t12\ntwo\n");
        frame(CAPO_FRAME_FABRIC, "snapshot\t13\nthree\n");
        cr_assert_str_eq(p->fabric, "snapshot\t12\ntwo\nsnapshot\t13\nthree\n");
}

/* What is kept ends within the number of the next piece, at its 0: the two are not alike (built
 * with a sanitizer, this looks beyond the end). */
Test(stats_text, a_snapshot_may_have_a_zero_in_it)
{
        static const char zero[300] = "snapshot";

        frame(CAPO_FRAME_FABRIC, "snapshot");
        job_add_text_frame(p, &(struct capo_log_frame){.type = CAPO_FRAME_FABRIC,
                                                       .payload = zero,
                                                       .size = sizeof zero});
        cr_assert_eq(p->fabric_last_, strlen("snapshot"));
}

Test(stats_text, the_last_rules_stay)
{
        cr_assert_null(p->rules);
        frame(CAPO_FRAME_RULES, "file\ta.json\n");
        frame(CAPO_FRAME_RULES, "file\tb.json\n");
        cr_assert_str_eq(p->rules, "file\tb.json\n");
}
