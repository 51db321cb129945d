/* SPDX-License-Identifier: Apache-2.0 */
/* Readings of a process added up, and which hypothesis is the cause. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <criterion/criterion.h>

#include "analysis/causes/causes.h"
#include "analysis/causes/machine_series.h"
#include "analysis/job/stats.h"
#include "analysis/report/job_judge.h"
#include "analysis/report/page_kinds.h"
#include "analysis/report/waits_causes.h"
#include "tests/golden/gen_log.h"
#include "tests/job_add.h"

enum { RANKS = 4 };

static char node_a[] = "node-a", node_b[] = "node-b", world[] = "world";
static struct capo_job_process processes[RANKS];
static struct capo_job_node nodes[2] = {{.name = node_a}, {.name = node_b}};
static struct capo_job_member members[RANKS];
static struct capo_job_comm comm = {.name = world, .members = members, .n_members = RANKS};
static struct capo_job job = {.processes = processes,
                              .n_processes = RANKS,
                              .nodes = nodes,
                              .n_nodes = 2,
                              .comms = &comm,
                              .n_comms = 1};

static uint64_t second(uint64_t s) { return s ? (100 + s) * 1000000000 : 0; }

static struct capo_causes judge_window(uint64_t from_s, uint64_t to_s, const char *late,
                                       const char *others, double lost_s, bool on_gpu)
{
        struct capo_why_readings all;
        struct capo_causes c;

        for (uint32_t i = 0; i < RANKS; i++) {
                processes[i] =
                        (struct capo_job_process){.rank = (int)i,
                                                  .node = i / 2,
                                                  .header.t0_real_ns = 100000000000,
                                                  .machine = (char *)(i == 3 ? late : others)};
                members[i] = (struct capo_job_member){.rank = (int)i, .process = i};
        }
        all = capo_why_read(&job, 0, second(from_s), second(to_s));
        cr_assert(all.in);
        capo_why_late(&job, &all, 0, 3, lost_s * 1e9, on_gpu, &c);
        capo_why_free(&all, RANKS);
        return c;
}

static struct capo_causes judge_since(uint64_t from_s, const char *late, const char *others,
                                      double lost_s, bool on_gpu)
{
        return judge_window(from_s, 0, late, others, lost_s, on_gpu);
}

static struct capo_causes judge(const char *late, const char *others, double lost_s, bool on_gpu)
{
        return judge_since(0, late, others, lost_s, on_gpu);
}

#define FRAMES(a, b)      "at\t1000\n" a "at\t10000000000\n" b
#define SIX_SECONDS(a, b) "at\t1000\n" a "at\t6000000000\n" b
#define QUIET                                                                                          \
        FRAMES("thread\t7:calls:job\trun=0\twait=0\tcpus=8\n"                                          \
               "nic\tmlx5_0/1\tstate=4\trate=400\tpacket_seq_err=5\n"                                  \
               "process\t-\tcpu.limit=500\tcpu.periods=0\tcpu.throttled_periods=0\tcpu.throttled=0\n", \
               "thread\t7:calls:job\twait=20000\nsamples\t100\t90\t100000000\t0\n")

Test(causes, counters)
{
        static char text[] = FRAMES("nic\ta/1\tpacket_seq_err=4294967290\tsymbol_error=100\n",
                                    "nic\ta/1\tpacket_seq_err=4\tsymbol_error=7\tlink_downed=3\n"
                                    "left\tgpu\t0:1b\tit took 900 ms to answer\n");
        struct capo_job_process p = {.machine = text};
        struct capo_machine_series *s = capo_machine_series(&p, 0, UINT64_MAX, false);
        double sum;

        cr_assert(capo_machine_sum(s, CAPO_M_NIC_SEQ, NULL, &sum));
        cr_expect_eq(sum, 10, "it wrapped at 32 bits");
        cr_assert(capo_machine_sum(s, CAPO_M_NIC_SYMBOL, NULL, &sum));
        cr_expect_eq(sum, 0, "it began anew");
        cr_assert(capo_machine_sum(s, CAPO_M_NIC_DOWNED, NULL, &sum));
        cr_expect_eq(sum, 0, "its first reading is no growth");
        cr_expect_not(capo_machine_sum(s, CAPO_M_NIC_ACK, NULL, &sum), "not asked is not 0");
        cr_expect_str_eq(s->left, "0:1b: it took 900 ms to answer");
        capo_machine_series_free(s);
}

/* Each reading has a row, each object a number, by which later lines call them. */
Test(causes, short_lines)
{
        static char text[] =
                "at\t1000\nnic\ta/1\t#3\t10:packet_seq_err=7\t1:rate=400\n"
                "gpu\t0:1b\t#4\t0:sm=1980\n"
                "at\t2000000\n#3\t10+5\t1=200\t99=1\t11=5\n#9\t10+1000\n"
                "at\t3000000\n#3\t10=15\t10:symbol_error=4\t77:x=1\n#4\t0=1410\nstack\t0\tsleep\tin sleep\ndid\t0\t4\n"
                "samples\t10\t2\t100000000\t5\nat\t4000000\ndid\t0\t1\t77\nsamples\t10\t1\n#\n#3\nnic\n";
        struct capo_job_process p = {.machine = text};
        struct capo_machine_series *s = capo_machine_series(&p, 0, UINT64_MAX, false);
        double sum;

        cr_assert(capo_machine_sum(s, CAPO_M_NIC_SEQ, NULL, &sum));
        cr_expect_eq(sum, 8, "from 7 to 15");
        cr_expect_eq(capo_machine_of(&s->object[0], CAPO_M_NIC_RATE)->least, 200);
        cr_expect_eq(capo_machine_of(&s->object[1], CAPO_M_GPU_SM)->least, 1410);
        cr_expect_eq(capo_machine_of(&s->object[0], CAPO_M_NIC_SYMBOL)->last, 4,
                     "a row may be given anew");
        cr_expect_not(capo_machine_sum(s, CAPO_M_NIC_ACK, NULL, &sum), "a row without a name");
        cr_expect_eq(s->n_objects, 2);
        cr_expect(s->stack[0].samples == 5 && s->samples == 20 && s->inside == 3);
        cr_expect(s->period_ns == 1e8 && s->stopped_ns == 5000);
        capo_machine_series_free(s);
}

static double sum_of(const char *text, enum capo_machine_id id)
{
        struct capo_job_process p = {.machine = (char *)(uintptr_t)text};
        struct capo_machine_series *s = capo_machine_series(&p, 0, UINT64_MAX, false);
        double sum;

        cr_assert(capo_machine_sum(s, id, NULL, &sum));
        capo_machine_series_free(s);
        return sum;
}

#define SEQ(at, value) "at\t" at "\nnic\ta/1\tpacket_seq_err=" value "\n"

Test(causes, counters_that_jump)
{
        cr_expect_eq(
                sum_of(SEQ("1", "100") SEQ("2", "150") SEQ("3", "7") SEQ("4", "9"), CAPO_M_NIC_SEQ),
                52, "it began anew with 7");
        cr_expect_eq(
                sum_of(SEQ("1", "3000000000") SEQ("2", "3000000009") SEQ("3", "5"), CAPO_M_NIC_SEQ),
                9, "a wrap would be a thousand million errors at once");
        cr_expect_eq(sum_of(SEQ("1", "4200000000") SEQ("2", "4290000000") SEQ("3", "80000000"),
                            CAPO_M_NIC_SEQ),
                     90000000 + 4967296.0 + 80000000, "a wrap at its usual pace");
        cr_expect_eq(sum_of(SEQ("1", "4294967290") SEQ("2", "-") SEQ("3", "4") SEQ("4", "6"),
                            CAPO_M_NIC_SEQ),
                     2, "it vanished, and is another one since");
        cr_expect_eq(sum_of(SEQ("1", "18446744073709551610") SEQ("2", "3"), CAPO_M_NIC_SEQ), 0,
                     "64 bits do not wrap in practice");
        cr_expect_eq(sum_of(SEQ("9000", "1") SEQ("5000", "4") SEQ("9500", "6"), CAPO_M_NIC_SEQ), 5,
                     "a clock that goes back");
}

Test(causes, nic_renamed)
{
        static const char text[] = SEQ("1", "100")
                SEQ("2", "150") "at\t3\nnic\ta/1\tpacket_seq_err=-\nnic\tb/1\tpacket_seq_err=4000\n"
                                "at\t4\nnic\tb/1\tpacket_seq_err=4001\n";
        struct capo_job_process p = {.machine = (char *)(uintptr_t)text};
        struct capo_machine_series *s = capo_machine_series(&p, 2, UINT64_MAX, false);
        double sum;

        cr_expect_eq(sum_of(text, CAPO_M_NIC_SEQ), 51,
                     "what it had under its new name is no growth");
        cr_assert(capo_machine_sum(s, CAPO_M_NIC_SEQ, NULL, &sum));
        cr_expect_eq(sum, 1, "behind the second reading");
        cr_expect(s->first_ns == 2 && s->last_ns == 4);
        capo_machine_series_free(s);
        s = capo_machine_series(&p, 0, 2, false);
        cr_assert(capo_machine_sum(s, CAPO_M_NIC_SEQ, NULL, &sum));
        cr_expect_eq(sum, 50, "until the second reading");
        capo_machine_series_free(s);
        cr_expect_null(capo_machine_series(&p, 4, UINT64_MAX, false),
                       "no reading is behind the last");
}

/* Of 64 ports the one with errors is named, and no text is longer than its room. */
Test(causes, many_ports)
{
        static char late[64 * 100], quiet[] = FRAMES("node\t-\ttcp.sent=1\n", "");
        struct capo_causes c;
        size_t n = 0;

        for (int frame = 0; frame < 2; frame++) {
                n += (size_t)sprintf(late + n, "at\t%d\n", 1000 + frame * 1000);
                for (int i = 0; i < 64; i++)
                        n += (size_t)sprintf(late + n, "nic\tmlx5_%d/1\tpacket_seq_err=%d\n", i,
                                             i == 40 ? frame * 5000 : 7);
        }
        c = judge(late, quiet, 5, true);
        cr_assert(c.n == 1 && c.found[0].is_cause);
        cr_expect(strstr(c.found[0].text, "node-b: mlx5_40/1: packet_seq_err +5,000 since "), "%s",
                  c.found[0].text);
}

static void expect(struct capo_causes c, enum capo_why why, double explained_s)
{
        cr_assert(c.n && c.found[0].is_cause, "no cause");
        cr_expect_eq(c.found[0].why, why, "%s: %s", capo_whys[c.found[0].why].name,
                     c.found[0].text);
        cr_expect_float_eq(c.found[0].explained_ns / 1e9, explained_s, 0.001);
}

Test(causes, times)
{
        expect(judge(FRAMES("process\t-\tcpu.limit=150\tcpu.periods=0\tcpu.throttled_periods=0\tcpu.throttled=0\n",
                            "process\t-\tcpu.periods=100\tcpu.throttled_periods=60\tcpu.throttled=7000000\n"),
                     QUIET, 7, false),
               CAPO_WHY_cpu_limit, 6); /* a period has 100 ms at most */
        expect(judge(FRAMES("thread\t7:calls:job\trun=0\twait=0\tcpus=8\n",
                            "thread\t7:calls:job\trun=1\twait=5020000\n"),
                     QUIET, 6, false),
               CAPO_WHY_cpu_contention, 5);
        expect(judge(FRAMES("",
                            "stack\t0\tread\tin read of /data/x <- train.py:7 load\ndid\t0\t40\t0\n"
                            "samples\t100\t50\t100000000\t0\n"),
                     QUIET, 5, false),
               CAPO_WHY_reads, 4);
        expect(judge(FRAMES("", "samples\t70\t50\t100000000\t3000000\n"), QUIET, 3.5, false),
               CAPO_WHY_stopped, 3);
}

/* 40 samples in 10 s, one each 100 ms: those that came stand for twice the time, and for no more. A
 * thread that waits for a CPU all the time was not stopped. */
Test(causes, samples_that_come_late)
{
        static const char gc[] = FRAMES(
                "",
                "stack\t0\tgc\tin garbage collection\ndid\t0\t16\nsamples\t40\t24\t100000000\t0\n");
        static const char stop[] = FRAMES(
                "thread\t7:calls:job\trun=5\twait=7\n",
                "thread\t7:calls:job\trun=1000000\twait=8500000\nsamples\t50\t30\t100000000\t3000000\n");
        struct capo_job_process p = {.machine = (char *)(uintptr_t)stop};
        struct capo_machine_series *s = capo_machine_series(&p, 0, UINT64_MAX, false);

        expect(judge(gc, QUIET, 4, false), CAPO_WHY_garbage, 3.2);
        cr_expect_float_eq(s->stopped_ns, 0.5e9, 2e4);
        capo_machine_series_free(s);
}

/* What it read is of its program's time, too: that is said once. */
Test(causes, files_are_no_program_besides)
{
        struct capo_causes c = judge(
                FRAMES("",
                       "stack\t0\tread\tin read of /data/x <- train.py:7 load\ndid\t0\t40\t0\n"
                       "stack\t1\tother\ttrain.py:9 step\ndid\t1\t8\nsamples\t100\t50\t100000000\t0\n"),
                QUIET, 5, false);

        expect(c, CAPO_WHY_reads, 4);
        cr_expect_eq(c.n, 1, "%s", c.found[1].text);
}

/* The reading at second 5 ended a stop of 3 s, which the next one notes. So does none behind a stop in
 * the last interval, and what ran meanwhile was not stopped. The log has the lengths. */
Test(causes, stops_that_a_later_reading_notes)
{
#define READS(at, n, more) "at\t" at "000000000\nsamples\t" n "\t0\t100000000\t" more "\n"
        static char noted[] = READS("1", "10", "0") READS("5", "10", "0")
                READS("6", "10", "2950000") READS("7", "10", "0"),
                    last[] = READS("1", "10", "0") READS("5", "10", "0"),
                    denied[] = READS("1", "10", "0") READS("5", "40", "0") READS("6", "10", "0");
        struct capo_job_info stop = {.key = (char *)"stopped",
                                     .value = (char *)"1500000000 3000000000"};
        char *const text[] = {noted, noted, last, denied};

        for (unsigned i = 0; i < 4; i++) {
                struct capo_job_process p = {.machine = text[i], .info = &stop, .n_info = i > 0};
                struct capo_machine_series *s = capo_machine_series(&p, 0, UINT64_MAX, false);

                cr_expect_float_eq(s->stopped_ns, i == 0 ? 2.95e9 : i == 3 ? 0 : 3e9, 1, "%u", i);
                cr_expect(s->period_ns < 1.5e8, "its samples do not stand for the stop");
                capo_machine_series_free(s);
        }
}

Test(causes, too_small_or_everywhere)
{
        struct capo_causes c = judge(FRAMES("thread\t7:calls:job\trun=0\twait=0\tcpus=8\n",
                                            "thread\t7:calls:job\trun=1\twait=2020000\n"),
                                     QUIET, 6, false);

        cr_expect(c.n == 1 && !c.found[0].is_cause, "2 of 6 s are also seen");
        c = judge(QUIET, QUIET, 6, false);
        cr_expect_eq(c.n, 0);
        cr_expect(strstr(c.asked, "its threads") && strstr(c.not_asked, "its GPU"));
}

#define RUNS(cpus, wait_us, samples, inside)                               \
        SIX_SECONDS("thread\t7:calls:job\trun=0\twait=0\tcpus=" cpus "\n", \
                    "thread\t7:calls:job\trun=800000\twait=" wait_us "\n"  \
                    "stack\t0\trun\ton a CPU\ndid\t0\t" samples "\t0\n"    \
                    "samples\t60\t" inside "\t100000000\t0\n")

/* All ranks may use the same CPUs: a longer wait is chance, and looks like a program that runs. */
Test(causes, a_busy_node)
{
        struct capo_causes c =
                judge(RUNS("8", "2300000", "25", "35"), RUNS("8", "1400000", "15", "45"), 1, false);

        cr_expect_eq(c.n, 0, "%s: %s", capo_whys[c.found[0].why].name, c.found[0].text);
        expect(judge(RUNS("1", "2300000", "25", "35"), RUNS("8", "1400000", "15", "45"), 1, false),
               CAPO_WHY_cpu_contention, 0.9);
        expect(judge(RUNS("8", "4500000", "40", "20"), RUNS("8", "1400000", "15", "45"), 4, false),
               CAPO_WHY_cpu_contention, 3.1);
}

#define THREADS(cpus, wait_us, ticks, nccl_cpus, nccl_wait_us)                      \
        FRAMES("process\t-\tcpu.user=0\tcpu.system=0\n"                             \
               "thread\t7:calls:job\trun=0\twait=0\tcpus=" cpus "\n"                \
               "thread\t8:nccl:NCCL Progress\trun=0\twait=0\tcpus=" nccl_cpus "\n", \
               "process\t-\tcpu.user=" ticks "\n"                                   \
               "thread\t7:calls:job\trun=70000\twait=" wait_us "\n"                 \
               "thread\t8:nccl:NCCL Progress\twait=" nccl_wait_us "\n")

/* Other programs use most of that CPU, too, and all ranks wait. */
Test(causes, one_cpu_on_a_busy_node)
{
        static const char others[] = THREADS("2", "3500000", "14", "2", "0");

        expect(judge(THREADS("1", "5600000", "57", "2", "0"), others, 2.1, false), CAPO_WHY_one_cpu,
               2.1);
        expect(judge(THREADS("1", "5600000", "15", "2", "0"), others, 2.1, false),
               CAPO_WHY_cpu_contention, 2.1); /* its own threads did nothing */
        expect(judge(THREADS("2", "11000000", "57", "2", "0"), others, 7.5, false),
               CAPO_WHY_cpu_contention, 7.5);
        expect(judge(THREADS("1", "4200000", "14", "2", "0"), others, 0.7, false),
               CAPO_WHY_cpu_contention, 0.7); /* the others wait alike, it waits longer than all */
        cr_expect_eq(judge(THREADS("2", "4200000", "14", "2", "0"), others, 0.7, false).n, 0,
                     "it may use the same CPUs");
}

Test(causes, network_thread_on_a_busy_node)
{
        static const char others[] = THREADS("2", "6200000", "14", "2", "4300000");

        expect(judge(THREADS("2", "6000000", "14", "1", "6500000"), others, 3, true),
               CAPO_WHY_starved_thread, 2.2);
        cr_expect_eq(judge(THREADS("2", "6000000", "14", "2", "6500000"), others, 3, true).n, 0,
                     "it may use the same CPUs");
        expect(judge(THREADS("1", "8400000", "14", "1", "6500000"), others, 3, false),
               CAPO_WHY_cpu_contention, 2.2); /* the thread that calls waits as much */
        expect(judge(THREADS("2", "6000000", "14", "1", "5200000"), others, 1.5, true),
               CAPO_WHY_starved_thread, 0.9); /* not a quarter longer, but longer than all */
}

/* Its program or a CPU made it late, so its network did not. */
Test(causes, between_calls_is_no_network)
{
        static const char nic[] = "nic\tmlx5_0/1\tstate=4\trate=400\tpacket_seq_err=5\n";
        char late[1000];
        struct capo_causes c;

        snprintf(late, sizeof late, "%s%snic\tmlx5_0/1\tpacket_seq_err=4835\n", nic,
                 RUNS("8", "2300000", "25", "35"));
        c = judge(late, RUNS("8", "1400000", "15", "45"), 3, false);
        cr_assert_eq(c.n, 1);
        cr_expect_eq(c.found[0].why, CAPO_WHY_nic_errors);
        cr_expect(c.found[0].is_cause, "1 s more between its calls does not explain 3 s");
        c = judge(late, RUNS("8", "1400000", "15", "45"), 1, false);
        cr_expect(c.n == 1 && !c.found[0].is_cause, "it was between its calls for 1 s more");
}

/* Errors of its node made no rank of another node late. */
Test(causes, another_node_is_as_late)
{
        static const char lost[] = FRAMES("nic\tmlx5_0/1\tstate=4\trate=400\tpacket_seq_err=5\n",
                                          "nic\tmlx5_0/1\tpacket_seq_err=4835\n");
        struct capo_skew_rank ranks[RANKS] = {[0] = {.late_ns = 4.5e9, .late_p50_ns = 9e6},
                                              [3] = {.late_ns = 5e9, .late_p50_ns = 10e6}};
        struct capo_skew skew = {.ranks = ranks};
        struct capo_causes c;

        comm.skew = &skew;
        comm.n_calls = 500;
        c = judge(lost, QUIET, 5, true);
        cr_expect(c.n == 1 && !c.found[0].is_cause, "rank 0 is as late");
        ranks[2] = ranks[0]; /* of the same node as rank 3 */
        ranks[0].late_ns = 1e9;
        c = judge(lost, QUIET, 5, true);
        cr_expect(c.n == 1 && c.found[0].is_cause && c.found[0].why == CAPO_WHY_nic_errors);
}

Test(causes, samples_by_chance)
{
        static const char few[] =
                SIX_SECONDS("thread\t7:calls:job\trun=0\twait=0\tcpus=8\n",
                            "thread\t7:calls:job\twait=0\nsamples\t60\t48\t100000000\t0\n");
        static const char more[] = SIX_SECONDS(
                "thread\t7:calls:job\trun=0\twait=0\tcpus=8\n",
                "thread\t7:calls:job\twait=0\nstack\t0\tsleep\tin sleep\ndid\t0\t17\t0\n"
                "samples\t60\t43\t100000000\t0\n");
        static const char many[] = SIX_SECONDS(
                "thread\t7:calls:job\trun=0\twait=0\tcpus=8\n",
                "thread\t7:calls:job\twait=0\nstack\t0\tsleep\tin sleep\ndid\t0\t30\t0\n"
                "samples\t60\t30\t100000000\t0\n");

        cr_expect_eq(judge(more, few, 0.5, false).n, 0, "17 and 12 samples differ by chance");
        expect(judge(many, few, 2, false), CAPO_WHY_program, 1.8);
}

Test(causes, without_a_time)
{
        static const char lost[] =
                FRAMES("nic\tmlx5_0/1\tstate=4\trate=400\tpacket_seq_err=5\n",
                       "nic\tmlx5_0/1\tpacket_seq_err=4835\n"
                       "stack\t0\tsleep\tin sleep <- train.py:7 wait\ndid\t0\t40\t0\n"
                       "samples\t100\t50\t100000000\t0\n");
        struct capo_causes c = judge(lost, QUIET, 5, true);

        cr_assert(c.n && c.found[0].is_cause);
        cr_expect_eq(c.found[0].why, CAPO_WHY_nic_errors);
        cr_expect(strstr(c.found[0].text, "mlx5_0/1: packet_seq_err +4,830"), "%s",
                  c.found[0].text);
        /* its program explains it, so the packets are only also seen */
        expect(judge(lost, QUIET, 5, false), CAPO_WHY_program, 4);
}

#define THREE(a, b, c) "at\t1000\n" a "at\t10000000000\n" b "at\t20000000000\n" c
#define WAITS(first, then)                                    \
        THREE("thread\t7:calls:job\trun=0\twait=0\tcpus=8\n", \
              "thread\t7:calls:job\trun=1\twait=" first "\n", \
              "thread\t7:calls:job\trun=2\twait=" then "\nsamples\t100\t90\t100000000\t0\n")

/* It is late from the tenth second on. */
Test(causes, from_the_middle_on)
{
        static const char lost[] =
                THREE("nic\tmlx5_0/1\tstate=4\trate=400\tpacket_seq_err=5\n",
                      "nic\tmlx5_0/1\tpacket_seq_err=4835\n", "samples\t100\t90\t100000000\t0\n"),
                          lanes[] = THREE("gpu\t0:1b\tpcie.width=4\tpcie.width_max=16\n", "",
                                          "samples\t100\t90\t100000000\t0\n"),
                          fewer[] = THREE("gpu\t0:1b\tpcie.width=16\tpcie.width_max=16\n", "",
                                          "gpu\t0:1b\tpcie.width=4\n"
                                          "samples\t100\t90\t100000000\t0\n"),
                          all[] = THREE("gpu\t0:1b\tpcie.width=16\tpcie.width_max=16\n", "",
                                        "samples\t100\t90\t100000000\t0\n");
        struct capo_causes c;

        expect(judge_since(10, WAITS("100000", "5100000"), WAITS("100000", "200000"), 6, false),
               CAPO_WHY_cpu_contention, 4.9);
        c = judge_since(10, WAITS("5000000", "10000000"), WAITS("100000", "200000"), 6, false);
        cr_expect(c.n == 1 && !c.found[0].is_cause, "it waited as much when it was not late");
        cr_expect_eq(judge_since(10, WAITS("5000000", "5600000"), WAITS("0", "0"), 6, false).n, 1);
        cr_expect_eq(judge_since(10, WAITS("0", "504000"), WAITS("0", "166000"), 0.5, false).n, 0,
                     "a wait of 0.5 s and one of 0.2 s differ by chance");
        cr_expect_eq(judge_since(10, lost, QUIET, 6, true).n, 0, "they were lost before");
        cr_expect(judge(lost, QUIET, 6, true).found[0].is_cause, "in the whole job they count");
        c = judge_since(10, lanes, all, 6, true);
        cr_expect(c.n == 1 && !c.found[0].is_cause, "it had as few lanes when it was not late");
        c = judge_since(10, fewer, all, 6, true);
        cr_expect(c.n == 1 && c.found[0].is_cause, "%u found", c.n);
}

/* It is late from the tenth second to the 18th; the reading behind that is the 20th's. */
Test(causes, in_the_middle)
{
        static const char late[] =
                THREE("thread\t7:calls:job\trun=0\twait=0\tcpus=8\n",
                      "thread\t7:calls:job\trun=1\twait=100000\n",
                      "thread\t7:calls:job\trun=2\twait=4100000\n"
                      "at\t30000000000\nthread\t7:calls:job\trun=3\twait=9100000\n");

        expect(judge_window(10, 18, late, WAITS("0", "0"), 5, false), CAPO_WHY_cpu_contention, 4);
        expect(judge_window(0, 18, late, WAITS("0", "0"), 5, false), CAPO_WHY_cpu_contention, 4.1);
        expect(judge_window(10, 0, late, WAITS("0", "0"), 9, false), CAPO_WHY_cpu_contention, 9);
}

/* Nobody is late: what a node has is of none of its ranks. */
Test(causes, slow_calls_of_a_node)
{
        static const char lost[] = THREE("nic\tmlx5_0/1\tpacket_seq_err=5\n",
                                         "nic\tmlx5_0/1\tpacket_seq_err=505\n", "");
        struct capo_why_readings all;
        struct capo_causes c;

        c = judge(lost, QUIET, 5, true);
        cr_assert_eq(c.n, 1);
        cr_expect_eq(capo_why_rank(&job, c.found), 3, "it is late");
        cr_expect(strstr(c.found[0].text, "packet_seq_err +500 from ") &&
                          strstr(c.found[0].text, " to "),
                  "%s", c.found[0].text);
        all = capo_why_read(&job, 0, 0, 0);
        capo_why_slow(&job, &all, 5e9, &c);
        capo_why_free(&all, RANKS);
        cr_assert(c.n == 1 && c.found[0].is_cause);
        cr_expect_eq(capo_why_rank(&job, c.found), -1);
}

static struct capo_causes judge_change(const char *frames, double lost_s)
{
        struct capo_why_readings all;
        struct capo_causes c;

        judge(frames, frames, 0, false);
        all = capo_why_read(&job, 0, 110000000000, 0);
        cr_assert(all.in && all.before);
        capo_why_slow(&job, &all, lost_s * 1e9, &c);
        capo_why_free(&all, RANKS);
        return c;
}

/* Steps take longer for good, and all ranks have the same: each is compared with itself. */
Test(causes, steps_change)
{
        static const char clock[] =
                THREE("gpu\t0:1b\tsm=345\treasons=1\tcelsius=40\n",
                      "gpu\t0:1b\tsm=1980\treasons=0\n", "gpu\t0:1b\tsm=1410\n");
        static const char idle[] = THREE("gpu\t0:1b\tsm=1980\treasons=0\tcelsius=40\n", "",
                                         "gpu\t0:1b\tsm=345\treasons=1\n");
        struct capo_causes c = judge_change(clock, 2);

        cr_assert(c.n == 1 && c.found[0].is_cause);
        cr_expect_eq(c.found[0].why, CAPO_WHY_gpu_throttled);
        cr_expect_str_eq(c.found[0].text,
                         "its GPU is slower: GPU 0:1b of node-a at 1410 instead of "
                         "1980 MHz as before, 40 C");
        cr_expect_eq(judge_change(idle, 2).n, 0, "an idle GPU is not slow");
        expect(judge_change(WAITS("100000", "3200000"), 4), CAPO_WHY_cpu_contention, 3);
        cr_expect_eq(judge_change(WAITS("3000000", "6000000"), 4).n, 0, "as before");
        cr_expect_eq(judge_change(WAITS("100000", "3200000"), 0.5).n, 0, "six times what was lost");
}

/* Steps take longer since the tenth second; a rank that is late since then is why. */
Test(causes, steps_change_by_a_late_rank)
{
        struct capo_step step[] = {{.t_ns = 1}, {.t_ns = 10000000000}, {.t_ns = 15000000000}};
        struct capo_causes causes[2] = {{.process = 3, .since_ns = 1, .lost_ns = 3e9}};
        struct capo_page page = {.job = &job, .causes = causes};

        judge(WAITS("100000", "3200000"), WAITS("100000", "3000000"), 0, false);
        page.steps.steps = (struct capo_steps){
                .step = step, .n = 3, .changed = 1, .before_ns = 1e9, .after_ns = 3e9};
        capo_judge_change(&page);
        cr_assert_eq(page.n_causes, 1);
        cr_expect_eq(causes[0].found[0].why, CAPO_WHY_cpu_contention);
        cr_expect_float_eq(causes[0].longer, 2, 0.001);
        causes[0] = (struct capo_causes){.process = 2, .since_ns = 1, .lost_ns = 3e9};
        page.n_causes = 1;
        capo_judge_change(&page);
        cr_expect_eq(page.n_causes, 1, "another rank is late for 3 of 4 s");
        causes[0].lost_ns = 1e9;
        capo_judge_change(&page);
        cr_expect_eq(page.n_causes, 2, "for 1 of 4 s");
        page.n_causes = 0;
        page.steps.steps.after_ns = 1.09e9;
        capo_judge_change(&page);
        cr_expect_eq(page.n_causes, 0, "0.18 s are chance");
        page.steps.steps.after_ns = 1.7e9;
        capo_judge_change(&page);
        cr_expect_eq(page.n_causes, 1, "1.4 s");
        page.n_causes = 0;
        judge(WAITS("100000", "3200000"), WAITS("1100000", "3000000"), 0, false);
        capo_judge_change(&page);
        cr_expect_eq(page.n_causes, 0, "the others wait twice as long, on the same CPUs");
}

/* Calls of two ranks that take as long all the time; errors of a port grow from @from_ms to @to_ms. */
static bool blames_errors(unsigned from_ms, unsigned to_ms)
{
        static const uint64_t sizes[] = {25 << 20, 1 << 20};
        char dir[] = "/tmp/capo-test-causes-XXXXXX", command[128], line[256], why[128], *text;
        struct gen_job calls = {.dir = mkdtemp(dir),
                                .layout = (unsigned[]){1, 1},
                                .n_nodes = 2,
                                .n_steps = 300,
                                .sizes = sizes,
                                .n_sizes = 2,
                                .trace = true,
                                .gpu = true};
        struct capo_job *made = capo_job_new();
        struct capo_why_readings all;
        struct capo_causes c;
        FILE *list;

        gen_job_write(&calls);
        snprintf(command, sizeof command, "ls %s/*.capo", dir);
        list = popen(command, "r");
        while (list && fgets(line, sizeof line, list)) {
                line[strcspn(line, "\n")] = 0;
                cr_assert_eq(add_log(made, line, why, sizeof why), 0);
        }
        pclose(list);
        capo_job_finish(made);
        cr_assert(asprintf(&text,
                           "at\t1\nnic\ta/1\tpacket_seq_err=5\nat\t%u000000\nnic\ta/1\t"
                           "packet_seq_err=5\nat\t%u000000\nnic\ta/1\tpacket_seq_err=905\n"
                           "at\t9000000000\nnic\ta/1\tpacket_seq_err=905\n",
                           from_ms, to_ms) > 0);
        free(made->processes[1].machine);
        made->processes[1].machine = text;
        all = capo_why_read(made, 0, 0, 0);
        capo_why_slow(made, &all, 1e8, &c);
        capo_why_free(&all, made->n_processes);
        capo_job_free(made);
        snprintf(command, sizeof command, "rm -r %s", dir);
        cr_assert_eq(system(command), 0);
        cr_assert(c.n == 1 && c.found[0].why == CAPO_WHY_nic_errors);
        return c.found[0].is_cause;
}

/* The calls were slow at another time, or nobody knows. */
Test(causes, errors_while_calls_were_as_usual)
{
        cr_expect_not(blames_errors(1100, 1300));
        cr_expect(blames_errors(1, 9000), "they grew all the time");
}

Test(causes, behind_the_sentence)
{
        struct capo_skew_rank ranks[RANKS] = {[3] = {.caused_ns = 15e9}};
        struct capo_skew skew = {.ranks = ranks, .host_late = true};
        struct capo_page_wait wait = {.stands_out = true, .last = 3, .caused_share = 0.5};
        struct capo_page page = {.job = &job, .waits = &wait, .n_waits = 1};

        judge(FRAMES("thread\t7:calls:job\trun=0\twait=0\tcpus=8\n",
                     "thread\t7:calls:job\trun=1\twait=4520000\n"),
              QUIET, 5, false);
        comm.skew = &skew;
        wait.text = strdup("rank 3 is late");
        wait.cause.by = CAPO_CAUSE_NETWORK;
        capo_judge_causes(&page);
        cr_assert_eq(page.n_causes, 1);
        cr_expect_eq(wait.cause.by, CAPO_CAUSE_HOST, "who has no CPU has no slow network");
        capo_tell_causes(&page);
        cr_expect(strstr(wait.text,
                         "rank 3 is late; the cause of 90.0 % of it: its thread waited 4.5 s"),
                  "%s", wait.text);
        wait.caused = (struct capo_interval){.high = 15e9};
        capo_judge_next(&page);
        cr_assert(page.n_next && page.next[0].kind == CAPO_NEXT_late_rank);
        cr_expect(strstr(page.next[0].text, " of the job: find what else runs on its CPUs"), "%s",
                  page.next[0].text);
        for (uint32_t i = 0; i < page.n_next; i++)
                free(page.next[i].text);
        free(page.next);
        free(wait.text);
        free(page.causes);

        wait = (struct capo_page_wait){.wide = true, .last = 3, .caused_share = 0.02};
        page = (struct capo_page){.job = &job, .waits = &wait, .n_waits = 1};
        capo_judge_causes(&page);
        cr_expect_eq(page.n_causes, 1, "it caused most, 2 %% of the job");
        free(page.causes);
        wait.caused_share = 0.005;
        page.n_causes = 0;
        capo_judge_causes(&page);
        cr_expect_eq(page.n_causes, 0, "less than 1 %% of the job");
        free(page.causes);
        wait.caused_share = 0.5;
        ranks[3].caused_ns = 0.3e9;
        page.n_causes = 0;
        capo_judge_causes(&page);
        cr_expect_eq(page.n_causes, 0, "0.1 s in a short job");
        free(page.causes);
}
