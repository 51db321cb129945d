/* SPDX-License-Identifier: Apache-2.0 */
/* The plugins inside libcapo.so: what they tell the recorder. The plugin's own sources are linked
 * in, with a recorder that only listens. */
#include "capo/profile.h"
#include "capo/seam.h"
#include "test_plugin.h"
#include "tuner/choose.h"
#include "tuner/nccl_profiler.h"
#include "tuner/sweep.h"
#include "tuner/plugin_versions.h"
#include "tests/log_numbers.h"

TestSuite(recorder, .timeout = 60);

static struct capo_seam_ran last_ran;
static struct capo_seam_comm last_comm;
static char last_rules[2000];
static uint16_t last_decided;
static uint64_t last_asked;
static struct {
        int n;
        uint64_t hash, begin, end;
        uint32_t nth;
} kernels;

static bool current(uint64_t comm_hash, struct capo_seam_call *out)
{
        last_asked = comm_hash;
        *out = (struct capo_seam_call){.comm_uid = 5, .seq = 3};
        return true;
}

static void comm(const struct capo_seam_comm *c) { last_comm = *c; }

static void decided(uint16_t rule) { last_decided = rule; }

static void ran(const struct capo_seam_ran *r) { last_ran = *r; }

static void kernel(const struct capo_seam_kernel *k)
{
        kernels.n++;
        kernels.hash = k->comm_hash;
        kernels.nth = k->nth;
        kernels.begin = k->begin;
        kernels.end = k->end;
}

static void rules(const char *text) { snprintf(last_rules, sizeof last_rules, "%s", text); }

static const struct capo_seam listener = {.current = current,
                                          .comm = comm,
                                          .decided = decided,
                                          .ran = ran,
                                          .kernel = kernel,
                                          .rules = rules};
const struct capo_seam *capo_seam = &listener;

static struct plugin linked(int abi)
{
        return (struct plugin){.abi = abi, .object = capo_tuner_abis[abi - 1]->own};
}

Test(recorder, hears_which_row_decided)
{
        struct plugin p = linked(6);
        struct answer a;
        void *context;

        use_profile(RULES("{\"when\": {\"nodes\": 2}, " ROWS(
                "allreduce",
                ROW("1K", "tree", "ll") ROW("1M", "ring", "simple")
                        LEAVE_REST) ", " ROWS("reducescatter",
                                              ROW("1M", "nvls", "simple") LEAVE_REST) "}"));
        cr_assert_eq(plugin_init(&p, 8, 2, 3, 5, NULL, &context), CAPO_NCCL_SUCCESS);
        cr_expect(last_comm.comm_hash == 77 && last_comm.n_ranks == 8 && last_comm.min_local == 3 &&
                  last_comm.max_local == 5);
        cr_expect(last_comm.tuned);
        cr_expect(((const struct capo_tuner *)context)->plain,
                  "without a sweep a look-up is the whole decision");
        for (int func = 0; func < CAPO_NCCL_COLLS;
             func++) /* Ring with LL and Simple; for all-reduce Tree with them too */
                cr_expect_eq(((const struct capo_tuner *)context)->direct[func],
                             func == ALLREDUCE ? 055 : 050);
        cr_expect(strstr(last_rules, "digest\t") &&
                          strstr(last_rules, "\nmodelled\tnot allowed\n") &&
                          strstr(last_rules,
                                 "row\t2\t1\tnodes=2\tallreduce\t1025\t1048576\tRing\tSimple"),
                  "%s", last_rules);
        table_fill(a.table);
        plugin_ask(&p, context, ALLREDUCE, 4096, 1, 0, &a);
        cr_expect_eq(last_decided, 2);
        table_fill(a.table);
        plugin_ask(&p, context, REDUCESCATTER, 8, 1, 0, &a);
        cr_expect_eq(last_decided, 4, "also outside the first six entries");
        last_decided = 0;
        plugin_ask(&p, context, ALLREDUCE, 4 << 20, 1, 0, &a);
        cr_expect_eq(last_decided, 0, "nothing was decided");
        table_fill(a.table);
        a.table[RING][SIMPLE] = -1;
        plugin_ask(&p, context, ALLREDUCE, 4096, 1, 0, &a);
        cr_expect_eq(last_decided, 0, "nothing came of it");
        plugin_finish(&p, context);
}

/* Of version 1 nobody knows which communicator is asked about, and of one rank there is nothing to
 * tell. */
Test(recorder, what_is_reported_of_a_communicator)
{
        struct plugin p = linked(1);
        void *context;

        use_profile(RULES(
                "{\"when\": {}, " ROWS("allreduce", ROW("1M", "ring", "simple") LEAVE_REST) "}"));
        cr_assert_eq(plugin_init(&p, 8, 2, 3, 5, NULL, &context), CAPO_NCCL_SUCCESS);
        cr_expect(last_comm.n_ranks == 8 && last_comm.n_nodes == -1);
        plugin_finish(&p, context);
        p = linked(6);
        last_comm = (struct capo_seam_comm){0};
        cr_assert_eq(plugin_init(&p, 1, 1, 1, 1, NULL, &context), CAPO_NCCL_SUCCESS);
        cr_expect_eq(last_comm.n_ranks, 0);
        plugin_finish(&p, context);
        cr_assert_eq(plugin_init(&p, 2, 1, 2, 2, NULL, &context), CAPO_NCCL_SUCCESS);
        cr_expect(last_comm.n_ranks == 2 && last_comm.n_nodes == 1);
        plugin_finish(&p, context);
}

static struct capo_choice candidate(const struct capo_sweep_ask *ask)
{
        if (ask->call.seq != 3 || ask->n_ranks != 8 || ask->question.bytes != 4096)
                return (struct capo_choice){0};
        return (struct capo_choice){
                .algo = CAPO_ALGO_NVLS, .proto = CAPO_PROTO_SIMPLE, .channels = 4, .rule = 9};
}

Test(recorder, a_sweep_comes_before_the_profile)
{
        struct plugin p = linked(4);
        struct answer a;
        void *context;

        capo_sweep_choose = candidate;
        use_profile(RULES(
                "{\"when\": {}, " ROWS("allreduce", ROW("1M", "ring", "simple") LEAVE_REST) "}"));
        cr_assert_eq(plugin_init(&p, 8, 1, 8, 8, NULL, &context), CAPO_NCCL_SUCCESS);
        table_fill(a.table);
        plugin_ask(&p, context, ALLREDUCE, 4096, 1, 0, &a);
        cr_expect(a.algo == NVLS && a.proto == SIMPLE && a.channels == 4 && last_decided == 9);
        cr_expect_eq(last_asked, 0, "this version does not know who asks");
        table_fill(a.table);
        plugin_ask(&p, context, ALLREDUCE, 8192, 1, 0, &a);
        cr_expect(a.algo == RING && a.proto == SIMPLE && last_decided == 1,
                  "no candidate: the profile");
        plugin_finish(&p, context);
}

/* But for init, all versions are alike. */
static const struct capo_profiler_v5 *profiler_of(int version)
{
        return capo_profiler_abis[version - 1]->own;
}

static capo_nccl_result profiler_init(int version, void **context, int *mask, capo_nccl_log log)
{
        const struct capo_profiler_info info = {.comm_name = "dp",
                                                .comm_hash = 42,
                                                .n_nodes = 2,
                                                .n_ranks = 8,
                                                .rank = 3,
                                                .log = log};

        return capo_profiler_abis[version - 1]->init(profiler_of(version), &info, context, mask);
}

static void expect_ran(int version, unsigned call, unsigned algo, unsigned proto, unsigned channels)
{
        cr_expect(last_ran.comm_hash == 42 && last_ran.count == 1000 && last_ran.call == call &&
                          last_ran.channels == channels &&
                          last_ran.algo_proto == (algo << 4 | proto),
                  "v%d: hash %llu count %llu call %u algo_proto %x channels %u", version,
                  (unsigned long long)last_ran.comm_hash, (unsigned long long)last_ran.count,
                  last_ran.call, last_ran.algo_proto, last_ran.channels);
}

Test(recorder, every_profiler_version_tells_what_ran)
{
        /* NCCL's spelling: src/misc/strings.cc and enqueue.cc of 2.24 to 2.30 */
        static const struct {
                const char *func, *algo, *proto;
                unsigned call, a, p;
        } rows[] = {
                {"AllReduce", "RING", "SIMPLE", CAPO_CALL_ALLREDUCE, CAPO_ALGO_RING,
                 CAPO_PROTO_SIMPLE},
                {"AllReduce", "Ring", "LL128", CAPO_CALL_ALLREDUCE, CAPO_ALGO_RING,
                 CAPO_PROTO_LL128},
                {"AllReduce", "TREE", "LL", CAPO_CALL_ALLREDUCE, CAPO_ALGO_TREE, CAPO_PROTO_LL},
                {"AllReduce", "NVLS_TREE", "SIMPLE", CAPO_CALL_ALLREDUCE, CAPO_ALGO_NVLS_TREE,
                 CAPO_PROTO_SIMPLE},
                {"AllReduce", "COLLNET_CHAIN", "SIMPLE", CAPO_CALL_ALLREDUCE,
                 CAPO_ALGO_COLLNET_CHAIN, CAPO_PROTO_SIMPLE},
                {"AllReduce", "COLLNET_DIRECT", "SIMPLE", CAPO_CALL_ALLREDUCE,
                 CAPO_ALGO_COLLNET_DIRECT, CAPO_PROTO_SIMPLE},
                {"AllGather", "PAT", "SIMPLE", CAPO_CALL_ALLGATHER, CAPO_ALGO_PAT,
                 CAPO_PROTO_SIMPLE},
                {"ReduceScatter", "NVLS", "SIMPLE", CAPO_CALL_REDUCESCATTER, CAPO_ALGO_NVLS,
                 CAPO_PROTO_SIMPLE},
                {"Broadcast", "RING", "LL", CAPO_CALL_BROADCAST, CAPO_ALGO_RING, CAPO_PROTO_LL},
                {"Reduce", "RING", "LL", CAPO_CALL_REDUCE, CAPO_ALGO_RING, CAPO_PROTO_LL},
        };
        void *context, *handle;
        int mask;

        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                struct capo_event_v2 e2 = {.type = CAPO_EVENT_COLL,
                                           .coll = {.comm_hash = 42,
                                                    .func = rows[i].func,
                                                    .count = 1000,
                                                    .algo = rows[i].algo,
                                                    .proto = rows[i].proto,
                                                    .max_channels = 9}};
                struct capo_event_v3 e3 = {.type = CAPO_EVENT_COLL,
                                           .coll = {.comm_hash = 42,
                                                    .func = rows[i].func,
                                                    .count = 1000,
                                                    .algo = rows[i].algo,
                                                    .proto = rows[i].proto,
                                                    .max_channels = 9}};
                struct capo_event_v4 e4 = {.type = CAPO_EVENT_COLL,
                                           .coll = {.func = rows[i].func,
                                                    .count = 1000,
                                                    .algo = rows[i].algo,
                                                    .proto = rows[i].proto,
                                                    .n_channels = 9}};
                union { /* what v7 has beside v5 is 0 */
                        struct capo_event_v7 v7;
                        struct capo_event_v5 v5;
                } e5 = {.v7 = {0}};

                e5.v5 = (struct capo_event_v5){.type = CAPO_EVENT_COLL,
                                               .coll = {.func = rows[i].func,
                                                        .count = 1000,
                                                        .algo = rows[i].algo,
                                                        .proto = rows[i].proto,
                                                        .n_channels = 9}};
                for (int v = 2; v <= CAPO_PROFILER_ABI_NEWEST; v++) {
                        void *events[] = {NULL, NULL, &e2, &e3, &e4, &e5};
                        int layout = capo_profiler_abis[v - 1]->events;

                        if (layout >= (int)N_ELEMENTS(events)) /* its own file has it */
                                continue;
                        memset(&last_ran, 0, sizeof last_ran);
                        cr_assert_eq(profiler_init(v, &context, &mask, NULL), 0);
                        cr_expect_eq(mask, CAPO_EVENT_COLL | (v >= 6 ? CAPO_EVENT_CE_COLL : 0),
                                     "collectives and nothing else");
                        handle = &handle;
                        cr_expect_eq(profiler_of(v)->start_event(context, &handle, events[layout]),
                                     0);
                        cr_expect_null(handle);
                        cr_expect_eq(profiler_of(v)->stop_event(handle), 0);
                        expect_ran(v, rows[i].call, rows[i].a, rows[i].p, 9);
                        cr_expect_eq(profiler_of(v)->finalize(context), 0);
                }
        }
        for (int func = 0; func < 5; func++) {
                static const unsigned calls[] = {CAPO_CALL_BROADCAST, CAPO_CALL_REDUCE,
                                                 CAPO_CALL_ALLGATHER, CAPO_CALL_REDUCESCATTER,
                                                 CAPO_CALL_ALLREDUCE};
                struct capo_event_v1 e1 = {.type = CAPO_EVENT_COLL,
                                           .coll = {.comm_hash = 42,
                                                    .func = (uint8_t)func,
                                                    .count = 1000,
                                                    .algo = NVLS,
                                                    .proto = SIMPLE,
                                                    .max_channels = 200}};

                cr_assert_eq(profiler_init(1, &context, &mask, NULL), 0);
                profiler_of(1)->start_event(context, &handle, &e1);
                expect_ran(1, calls[func], CAPO_ALGO_NVLS, CAPO_PROTO_SIMPLE, 200);
                profiler_of(1)->finalize(context);
        }
}

Test(recorder, kernel_times_fold_the_channels)
{
        struct capo_event_v4 coll = {
                .type = CAPO_EVENT_COLL,
                .coll = {.func = "AllReduce", .algo = "RING", .proto = "LL", .n_channels = 3}};
        static const uint64_t begins[] = {1500, 1000, 1200}, ends[] = {1900, 2500, 2100};
        void *context, *coll_handle[2], *channel[3];
        int mask;

        setenv("CAPO_KERNEL_TIME", "1", 1);
        cr_assert_eq(profiler_init(4, &context, &mask, NULL), 0);
        cr_expect_eq(mask, CAPO_EVENT_COLL | CAPO_EVENT_KERNEL);
        for (int i = 0; i < 2; i++) {
                profiler_of(4)->start_event(context, &coll_handle[i], &coll);
                cr_assert_not_null(coll_handle[i]);
                profiler_of(4)->stop_event(coll_handle[i]);
        }
        for (int c = 0; c < 3; c++) {
                struct capo_event_v4 e = {.type = CAPO_EVENT_KERNEL,
                                          .parent = coll_handle[1],
                                          .kernel = {(uint8_t)c, begins[c]}};

                profiler_of(4)->start_event(context, &channel[c], &e);
                cr_assert_not_null(channel[c]);
        }
        for (int c = 0; c < 3; c++) {
                cr_expect_eq(kernels.n, 0);
                profiler_of(4)->record_state(channel[c], CAPO_STATE_KERNEL_STOP, &ends[c]);
                profiler_of(4)->stop_event(channel[c]);
        }
        cr_expect(kernels.n == 1 && kernels.hash == 42 && kernels.nth == 2 &&
                  kernels.begin == 1000 && kernels.end == 2500);
        /* many more than there are slots, none of which ever gets its stamps: dropped, not overrun
         */
        for (int i = 0; i < 20000; i++) {
                profiler_of(4)->start_event(context, &coll_handle[0], &coll);
                profiler_of(4)->stop_event(coll_handle[0]);
        }
        cr_expect_eq(kernels.n, 1);
        profiler_of(4)->finalize(context);
}

/* A libnccl of 2.31, as far as a plugin can see one: the logger comes from it. */
static capo_nccl_log log_of_2_31(void)
{
        char path[4096];

        snprintf(path, sizeof path, "%s/libother-tuner-v6.so", getenv("CAPO_TEST_OTHERS"));
        return (capo_nccl_log)(uintptr_t)dlsym(dlopen(path, RTLD_NOW), "others_log");
}

Test(recorder, releases_with_a_slow_profiler_are_not_asked)
{
        void *context;
        int mask;

        cr_assert_eq(profiler_init(6, &context, &mask, log_of_2_31()), 0);
        cr_expect_eq(mask, 0);
        profiler_of(6)->finalize(context);
}

Test(recorder, unless_switched_on)
{
        void *context;
        int mask;

        setenv("CAPO_PROFILER", "on", 1);
        cr_assert_eq(profiler_init(6, &context, &mask, log_of_2_31()), 0);
        cr_expect_eq(mask, CAPO_EVENT_COLL | CAPO_EVENT_CE_COLL);
        profiler_of(6)->finalize(context);
}

Test(recorder, off)
{
        void *context;
        int mask;

        setenv("CAPO_PROFILER", "off", 1);
        cr_assert_eq(profiler_init(6, &context, &mask, NULL), 0);
        cr_expect_eq(mask, 0);
        profiler_of(6)->finalize(context);
}
