/* SPDX-License-Identifier: Apache-2.0 */
/* Every single call of a log comes by once, whichever frame it lies in; and who has seen enough can
 * say so. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include <criterion/criterion.h>

#include "capo/record.h"
#include "core/base/util.h"
#include "analysis/job/log_calls.h"
#include "tests/golden/gen_log.h"
#include "tests/log_numbers.h"

static char path[] = "/tmp/capo-test-calls-XXXXXX";

struct seen {
        unsigned n, stop_at;
        uint64_t begin[8], bytes[8];
        unsigned thread[8];
};

static int see(const struct capo_record *r, unsigned thread, void *arg)
{
        struct seen *s = arg;

        s->begin[s->n] = r->t_begin;
        s->bytes[s->n] = r->bytes;
        s->thread[s->n++] = thread;
        return s->n == s->stop_at ? -E2BIG : 0;
}

static void write_log(void)
{
        struct gen_log g;

        close(mkstemp(path));
        gen_log_open(&g, path, 1);
        for (unsigned i = 0; i < 3; i++) {
                struct capo_record r = {.t_begin = 1000 * (i + 1),
                                        .t_end = 1000 * (i + 1) + 10,
                                        .bytes = 64 * (i + 1),
                                        .call = CAPO_CALL_ALLREDUCE,
                                        .comm = 1,
                                        .thread = (uint16_t)(i + 1)};

                gen_log_frame(&g, CAPO_FRAME_WIDE, &r, sizeof r);
        }
        gen_log_close(&g);
}

static int read_log(struct seen *s)
{
        _cleanup_(capo_log_closep) struct capo_log *log = NULL;
        char why[256];

        cr_assert_eq(capo_log_open(path, &log, why, sizeof why), 0, "%s", why);
        return capo_log_calls_each(log, see, s);
}

Test(log_calls, each_once, .init = write_log)
{
        struct seen all = {0}, some = {.stop_at = 2};

        cr_assert_eq(read_log(&all), 0);
        cr_assert_eq(all.n, 3);
        for (unsigned i = 0; i < 3; i++) {
                cr_assert_eq(all.begin[i], 1000 * (i + 1));
                cr_assert_eq(all.bytes[i], 64 * (i + 1));
                cr_assert_eq(all.thread[i], i + 1);
        }
        cr_assert_eq(read_log(&some), -E2BIG);
        cr_assert_eq(some.n, 2);
        unlink(path);
}

Test(log_calls, blocks_too)
{
        _cleanup_(capo_log_closep) struct capo_log *log = NULL;
        struct seen s = {0};
        char why[256];

        cr_assert_eq(capo_log_open(SOURCE_ROOT "/tests/golden/sample-v1/vm.16391.capo", &log, why,
                                   sizeof why),
                     0, "%s", why);
        s.stop_at = 8;
        cr_assert_eq(capo_log_calls_each(log, see, &s), -E2BIG);
        cr_assert_eq(s.bytes[1], 1320);
        cr_assert_eq(s.begin[1], 2163998824);
}

Test(log_calls, each_of_its_own_shape)
{
        /* the first, both sides of a border of what is kept together, the last; and two that the
         * log does not say */
        static const uint16_t ids[] = {0, 255, 256, 65534}, of[] = {256, 65534, 0, 255, 254, 4096};
        static const uint32_t begin[6] = {1, 2, 3, 4, 5, 6}, host[6], seq[6];
        struct capo_log_shape shapes[4] = {{0}};
        struct seen s = {0};
        struct gen_log g;

        close(mkstemp(path));
        gen_log_open(&g, path, 1);
        for (unsigned i = 0; i < 4; i++)
                shapes[i] = (struct capo_log_shape){.id = ids[i], .bytes = ids[i] + 10};
        gen_log_shapes(&g, shapes, 4);
        gen_log_block(&g, 0, 1, 6, begin, host, seq, of, NULL, NULL);
        gen_log_close(&g);
        cr_assert_eq(read_log(&s), 0);
        cr_assert_eq(s.n, 6);
        for (unsigned i = 0; i < 6; i++)
                cr_expect_eq(s.bytes[i], i < 4 ? of[i] + 10 : 0, "%u: %llu", i,
                             (unsigned long long)s.bytes[i]);
        unlink(path);
}
