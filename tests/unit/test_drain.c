/* SPDX-License-Identifier: Apache-2.0 */
/* From a ring to a log and back: what the drain takes out is read again field by field, and counted exactly. */
#include "profiles/job/stats.h"
#include "tests/unit/drained.h"

static void setup(void)
{
        drained_start(64, true);
}

TestSuite(drain, .init = setup, .fini = drained_end);

Test(drain, every_field_comes_back)
{
        struct capo_record in[5], out[8];

        for (unsigned i = 0; i < 5; i++)
                in[i] = call_at(100 * i, 10 + i);
        in[1].clock = CAPO_CLOCK_EVENT;
        in[1].gpu_ns = 123456;
        in[2].flags = CAPO_RECORD_MEMBER;
        in[2].clock = CAPO_CLOCK_NONE;
        in[2].group = 41;
        in[3].flags = CAPO_RECORD_GROUP;
        in[3].call = CAPO_CALL_GROUP;
        in[3].group = in[3].seq = 41;
        in[4].peer = 5;
        in[4].result = -3;
        for (unsigned i = 0; i < 5; i++)
                put(in[i]);
        cr_assert_eq(read_back(out, 8), 5);
        for (unsigned i = 0; i < 5; i++) {
                in[i].t_begin -= 1000; /* ns since the epoch */
                in[i].t_end -= 1000;
#define CAPO_FIELD(type, name, kept) cr_assert(in[i].name == out[i].name, "call %u: " #name, i);
#include "capo/record_fields.def"
        }
}

Test(drain, durations_over_32_bits_are_whole)
{
        struct capo_record gpu = call_at(0, 10), host = call_at(100, 5000000000), out[4];
        struct capo_job *job = capo_job_new();
        char why[256];

        gpu.clock = host.clock = CAPO_CLOCK_EVENT;
        gpu.gpu_ns = 6000000000;
        host.gpu_ns = 7000000000;
        put(gpu);
        put(host);
        cr_assert_eq(read_back(out, 4), 2);
        cr_assert(out[0].gpu_ns == 6000000000 && out[0].t_end - out[0].t_begin == 10);
        cr_assert(out[1].gpu_ns == 7000000000 && out[1].t_end - out[1].t_begin == 5000000000);
        /* and so to the page: totals, the largest, and a quantile between the two */
        cr_assert_eq(capo_job_add_log(job, seg.header->log_path, why, sizeof why, NULL, NULL), 0, "%s", why);
        cr_assert_eq(capo_job_finish(job), 0);
        cr_assert_eq(job->n_rows, 1);
        cr_assert_eq(job->rows[0].time[CAPO_CLOCK_EVENT].max_ns, 7000000000);
        cr_assert_eq(job->rows[0].time[CAPO_CLOCK_EVENT].sum_ns, 13000000000);
        cr_assert_geq(capo_hist_quantile(&job->rows[0].time[CAPO_CLOCK_EVENT], 0.5), 6e9);
        cr_assert_leq(capo_hist_quantile(&job->rows[0].time[CAPO_CLOCK_EVENT], 0.95), 7e9);
        capo_job_free(job);
}

Test(drain, calls_are_counted_once_whatever_the_rings_do)
{
        static struct capo_record out[1024];

        for (unsigned i = 0; i < 600; i++) { /* more than a ring holds, in three rounds */
                put(call_at(100 * i, 10));
                if (i % 200 == 199)
                        cr_assert_eq(capo_drain_round(drain), 200);
        }
        cr_assert_eq(seg.header->calls, 600);
        cr_assert_eq(ring->tail, 600);
        ring->state = CAPO_RING_LEFT;
        cr_assert_eq(capo_drain_round(drain), 0);
        cr_assert_eq(ring->state, CAPO_RING_FREE, "its thread is gone and it is empty");
        cr_assert_eq(read_back(out, 1024), 600);
        for (unsigned i = 0; i < 600; i++)
                cr_assert_eq(out[i].seq, i + 1);
}
