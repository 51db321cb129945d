/* SPDX-License-Identifier: Apache-2.0 */
/* From a ring to a log and back: what the drain takes out is read again field by field, and counted
 * exactly. */
#include <errno.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "analysis/job/stats.h"
#include "tests/job_add.h"
#include "tests/unit/drained.h"
#include "tests/log_numbers.h"

static void setup(void) { drained_start(64, true); }

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
        cr_assert_eq(add_log(job, seg.header->log_path, why, sizeof why), 0, "%s", why);
        capo_job_finish(job);
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

Test(drain, how_full_the_fullest_ring_was)
{
        struct capo_ring *second;

        cr_assert_eq(capo_area_commit(&seg, CAPO_AREA_RINGS, 2), 0);
        seg.header->areas[CAPO_AREA_RINGS].used = 2;
        second = capo_area_at(&seg, CAPO_AREA_RINGS, 1);
        for (unsigned i = 0; i < 64; i++)
                put(call_at(100 * i, 10));
        second->records[0] = call_at(0, 10);
        second->head = 1;
        cr_assert_eq(capo_drain_round(drain), 65);
        cr_expect_eq(capo_drain_fullest(drain), 0.25);
        cr_expect_eq(second->state, CAPO_RING_FREE);
        second->state = CAPO_RING_LIVE;
        second->records[1] = call_at(10000, 10);
        second->head = 2;
        cr_assert_eq(capo_drain_round(drain), 1);
        cr_expect_eq(capo_drain_fullest(drain), 1.0 / 256, "of this round");
        cr_expect_eq(second->state, CAPO_RING_LIVE);
        cr_assert_eq(capo_drain_round(drain), 0);
        cr_expect_eq(capo_drain_fullest(drain), 0);
}

/* Of calls on their way through the GPU only those that are through, and each once. */
Test(drain, slots_that_are_done)
{
        static const uint32_t states[] = {CAPO_SLOT_ARMED, CAPO_SLOT_DONE, CAPO_SLOT_TAKEN,
                                          CAPO_SLOT_FREE, CAPO_SLOT_DONE};
        struct capo_slot *slot[5];
        struct capo_record out[8];

        cr_assert_eq(capo_area_commit(&seg, CAPO_AREA_SLOTS, 5), 0);
        seg.header->areas[CAPO_AREA_SLOTS].used = 5;
        for (uint32_t i = 0; i < 5; i++) {
                slot[i] = capo_area_at(&seg, CAPO_AREA_SLOTS, i);
                slot[i]->record = call_at(100 * i, 10);
                slot[i]->state = states[i];
        }
        cr_assert_eq(capo_drain_round(drain), 2);
        cr_assert_eq(capo_drain_round(drain), 0);
        for (uint32_t i = 0; i < 5; i++)
                cr_expect_eq(slot[i]->state,
                             states[i] == CAPO_SLOT_DONE ? CAPO_SLOT_FREE : states[i], "slot %u",
                             i);
        cr_assert_eq(read_back(out, 8), 2);
        cr_expect(out[0].seq == 2 && out[1].seq == 5);
}

/* The header says what the file has: two places, of which the one in force is never written to. */
Test(drain, a_commit_goes_beside_the_one_in_force)
{
        struct capo_segment_header *h = seg.header;
        uint32_t now = h->commit_now;
        struct capo_commit before = h->commit[now];

        put(call_at(0, 10));
        capo_drain_round(drain);
        cr_assert_eq(capo_drain_checkpoint(drain), 0);
        cr_expect_neq(h->commit_now, now);
        cr_expect_eq(memcmp(&h->commit[now], &before, sizeof before), 0);
        cr_expect_gt(h->commit[h->commit_now].log_bytes, before.log_bytes);
        cr_expect_eq(h->commit[h->commit_now].flight_tail, 1);
}

static uint64_t bytes_lost;

static void check_end(const struct capo_log_frame *f)
{
        struct capo_log_end end;

        cr_assert_eq(capo_log_end(f, &end), 0);
        bytes_lost = end.bytes_lost;
}

/* A log is made some 20 ms after the start: what was called before is kept for it while there is
 * room, and what is not is counted. */
Test(drain, blocks_wait_for_their_log)
{
        static struct capo_record out[40000];

        for (unsigned calls = 5000; calls <= 20000; calls += 15000) {
                unsigned n;

                capo_drain_free(drain);
                unlink(seg.header->log_path);
                seg.header->flight_head = 0;
                made = 0;
                seg.header->commit[seg.header->commit_now] = (struct capo_commit){0};
                cr_assert_eq(capo_drain_new(&seg, &drain), 0);
                for (unsigned i = 0; i < calls; i++) {
                        cr_expect_eq(capo_drain_waits(drain), i / 200 * 200 >= 4096 && i < 16400,
                                     "%u", i);
                        put(call_at(100 * i, 10));
                        if (i % 200 == 199)
                                capo_drain_round(drain);
                }
                cr_assert_eq(capo_drain_create_log(drain), 0);
                cr_expect_not(capo_drain_waits(drain));
                n = read_back(out, 40000);
                cr_expect_eq(n, calls == 5000 ? 5000 : 20000 - 16384);
                for (unsigned i = 0; i < n; i++)
                        cr_assert_eq(out[i].seq, calls - n + i + 1);
                cr_assert_geq(frames(CAPO_FRAME_END, check_end), 1);
                cr_expect_eq(bytes_lost > 0, calls == 20000, "%llu",
                             (unsigned long long)bytes_lost);
        }
}

/* No byte more goes into any file, or all that wants. */
static void let_files_grow(bool yes)
{
        struct rlimit limit;
        struct stat st;

        cr_assert(getrlimit(RLIMIT_FSIZE, &limit) == 0 && stat(seg.header->log_path, &st) == 0);
        limit.rlim_cur = yes ? limit.rlim_max : (rlim_t)st.st_size;
        cr_assert(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

/* Blocks whose shapes were lost with a file that could not be written: the next have shapes of
 * their own. */
Test(drain, shapes_are_said_again_after_a_failure)
{
        static struct capo_record out[10000];
        unsigned n;

        for (unsigned whole = 0; whole < 2;
             whole++) { /* by blocks that are full, by a checkpoint */
                capo_drain_free(drain);
                unlink(seg.header->log_path);
                cr_assert_eq(capo_drain_new(&seg, &drain), 0);
                cr_assert_eq(capo_drain_create_log(drain), 0);
                let_files_grow(false);
                for (unsigned i = 0; i < 4096 + 100; i++) {
                        put(call_at(100 * i, 10));
                        if (i % 200 == 199)
                                capo_drain_round(drain);
                }
                capo_drain_round(drain);
                if (whole)
                        cr_assert_neq(capo_drain_checkpoint(drain), 0);
                let_files_grow(true);
                made = 1000000;
                for (unsigned i = 0; i < 4096 + 100; i++) {
                        put(call_at(100 * i, 10));
                        if (i % 200 == 199)
                                capo_drain_round(drain);
                }
                n = read_back(out, 10000);
                cr_assert_geq(n, 4096 + 100);
                for (unsigned i = 0; i < n; i++)
                        cr_assert(out[i].bytes == 4096 && out[i].call == CAPO_CALL_ALLREDUCE, "%u",
                                  i);
                cr_expect_eq(out[n - 1].seq, 1000000 + 4096 + 100);
        }
}

/* How long kernels waited comes back call by call, and in the cell beside the two histograms that
 * there were. */
Test(drain, what_kernels_waited_comes_back)
{
        struct capo_record out[8], r = call_at(0, 500);
        struct capo_log_hist_view host, gpu, waited;
        struct capo_log_cell cell;
        struct capo_log_frame f;
        struct capo_log *log;
        uint64_t ns, n_cells = 0;
        char why[256];

        r.clock = CAPO_CLOCK_KERNEL;
        for (uint32_t i = 0; i < 4; i++) { /* the first one does not tell */
                r.seq = i + 1;
                r.gpu_ns = 1000 + i;
                r.group = i ? i * 100 + 1 : 0;
                put(r);
        }
        cr_assert_eq(read_back(out, 8), 4);
        for (uint32_t i = 0; i < 4; i++) {
                cr_expect_eq(out[i].gpu_ns, 1000 + i);
                cr_expect_eq(capo_record_waited(&out[i], &ns), i > 0);
                cr_expect(!i || ns == i * 100, "%u: %llu", i, (unsigned long long)ns);
        }
        cr_assert_eq(capo_log_open(seg.header->log_path, &log, why, sizeof why), 0, "%s", why);
        while (capo_log_next(log, &f) > 0) {
                if (f.type != CAPO_FRAME_CELL)
                        continue;
                cr_assert_eq(capo_log_cell(&f, &cell, &host, &gpu), 0);
                cr_assert_eq(capo_log_cell_waited(&f, &waited), 0);
                cr_expect_eq(cell.hists, 7);
                cr_expect(host.head.count == 4 && gpu.head.count == 4 && gpu.head.min_ns == 1000);
                cr_expect(waited.head.count == 3 && waited.head.sum_ns == 600 &&
                          waited.head.min_ns == 100 && waited.head.max_ns == 300);
                n_cells++;
        }
        cr_expect_eq(n_cells, 1);
        capo_log_close(log);
}
