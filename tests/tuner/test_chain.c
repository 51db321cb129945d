/* SPDX-License-Identifier: Apache-2.0 */
/* The tuner and the profiler that the user had already: asked where capo has no opinion, through
 * every version. */
#include <pthread.h>

#include "test_plugin.h"
#include "tuner/nccl_profiler.h"
#include "tuner/plugin_versions.h"

TestSuite(chain, .timeout = 60);

/* tests/tuner/other_tuner.c built for interface v<n>: it takes Tree/LL with <n> channels for
 * Reduce, and counts itself.
 */
static const char *other(int version)
{
        static char path[4096];

        snprintf(path, sizeof path, "%s/libother-tuner-v%d.so", getenv("CAPO_TEST_OTHERS"),
                 version);
        return path;
}

static int other_count(int version, const char *what)
{
        int (*count)(void) = (int (*)(void))dlsym(dlopen(other(version), RTLD_NOW), what);

        return count();
}

#define OURS RULES("{\"when\": {}, " ROWS("allreduce", ROW("1M", "ring", "simple") LEAVE_REST) "}")

static void try(int abi, int version, bool expect_chained)
{
        struct plugin p = plugin_open(abi);
        struct answer a;
        void *context;

        cr_assert_eq(plugin_init(&p, 8, 2, 4, 4, NULL, &context), CAPO_NCCL_SUCCESS);
        table_fill(a.table);
        plugin_ask(&p, context, ALLREDUCE, 8, 1, 0, &a);
        cr_expect(a.algo == RING && a.proto == SIMPLE && a.channels == 0, "v%d: ours is ours", abi);
        table_fill(a.table);
        plugin_ask(&p, context, ALLREDUCE, 4 << 20, 1, 0, &a);
        cr_expect_not(a.touched, "v%d: leave to NCCL is an opinion", abi);
        table_fill(a.table);
        plugin_ask(&p, context, REDUCE, 8, 1, 0, &a);
        if (expect_chained)
                cr_expect(a.algo == TREE && a.proto == LL && a.channels == version,
                          "v%d asks v%d: %d/%d %d", abi, version, a.algo, a.proto, a.channels);
        else
                cr_expect_not(a.touched, "v%d asks v%d", abi, version);
        if (expect_chained)
                cr_expect_eq(other_count(version, "others_open"), 1);
        if (expect_chained &&
            version > 1) { /* an entry that is not there is not revived for the other either */
                table_fill(a.table);
                a.table[TREE][LL] = -1;
                plugin_ask(&p, context, REDUCE, 8, 1, 0, &a);
                cr_expect_eq(a.table[TREE][LL], -1);
        }
        plugin_finish(&p, context);
        if (expect_chained)
                cr_expect_eq(other_count(version, "others_open"), 0);
}

/* The newest interface both know; and none that this NCCL would not have used. One process has one
 * NCCL. */
#define CHAIN(abi, version, chained)                           \
        Test(chain, abi_##abi##_to_##version)                  \
        {                                                      \
                setenv("CAPO_CHAIN_TUNER", other(version), 1); \
                use_profile(OURS);                             \
                try(abi, version, chained);                    \
        }
CHAIN(1, 1, true)
CHAIN(1, 2, false)
CHAIN(2, 2, true)
CHAIN(2, 3, false)
CHAIN(3, 2, true)
CHAIN(3, 3, true)
CHAIN(4, 2, true)
CHAIN(4, 3, true)
CHAIN(4, 4, true)
CHAIN(4, 5, false)
CHAIN(5, 2, true)
CHAIN(5, 4, true)
CHAIN(5, 5, true)
CHAIN(6, 2, true)
CHAIN(6, 3, true)
CHAIN(6, 4, true)
CHAIN(6, 5, true)
CHAIN(6, 6, true)

Test(chain, the_newest_asks_the_newest)
{
        setenv("CAPO_CHAIN_TUNER", other(CAPO_TUNER_ABI_NEWEST), 1);
        use_profile(OURS);
        try(CAPO_TUNER_ABI_NEWEST, CAPO_TUNER_ABI_NEWEST, true);
}

/* Looked for again for another version, and nothing of the first is left. */
Test(chain, another_version_later)
{
        setenv("CAPO_CHAIN_TUNER", other(6), 1);
        use_profile(OURS);
        try(6, 6, true);
        try(1, 6, false);
        try(6, 6, true);
}

/* NCCL takes a plugin without a name, and prints none. */
Test(chain, one_without_a_name)
{
        char *object = dlsym(dlopen(other(3), RTLD_NOW), "ncclTunerPlugin_v3");
        char *page = object - (uintptr_t)object % (uintptr_t)getpagesize();

        cr_assert_not_null(object);
        cr_assert_eq(mprotect(page, (size_t)getpagesize(), PROT_READ | PROT_WRITE), 0);
        *(const char **)object = NULL;
        setenv("CAPO_CHAIN_TUNER", other(3), 1);
        use_profile(OURS);
        try(6, 3, true);
}

/* aws-ofi-nccl brings its tuner (v2, v3, v6) inside the net plugin, which NCCL has loaded by then.
 */
Test(chain, the_net_plugin_brings_one)
{
        cr_assert_not_null(dlopen(other(3), RTLD_NOW | RTLD_LOCAL));
        setenv("NCCL_NET_PLUGIN", other(3), 1);
        use_profile(OURS);
        try(6, 3, true);
}

Test(chain, a_net_plugin_that_is_not_loaded_is_not_loaded_by_us)
{
        setenv("NCCL_NET_PLUGIN", other(3), 1);
        use_profile(OURS);
        try(6, 3, false);
}

Test(chain, none_is_none)
{
        cr_assert_not_null(dlopen(other(3), RTLD_NOW | RTLD_LOCAL));
        setenv("NCCL_NET_PLUGIN", other(3), 1);
        setenv("CAPO_CHAIN_TUNER", "none", 1);
        use_profile(OURS);
        try(6, 3, false);
}

Test(chain, only_is_alone)
{
        setenv("CAPO_CHAIN_TUNER", other(6), 1);
        setenv("CAPO_TUNER", "only", 1);
        use_profile(OURS);
        try(6, 6, false);
}

Test(chain, chain_is_the_other_alone)
{
        struct plugin p = plugin_open(6);
        struct answer a;
        void *context;

        setenv("CAPO_CHAIN_TUNER", other(6), 1);
        setenv("CAPO_TUNER", "chain", 1);
        use_profile(OURS);
        cr_assert_eq(plugin_init(&p, 8, 2, 4, 4, NULL, &context), CAPO_NCCL_SUCCESS);
        table_fill(a.table);
        plugin_ask(&p, context, ALLREDUCE, 8, 1, 0, &a);
        cr_expect_not(a.touched);
        plugin_ask(&p, context, REDUCE, 8, 1, 0, &a);
        cr_expect_eq(a.channels, 6);
        plugin_finish(&p, context);
}

Test(chain, itself_is_not_chained)
{
        struct plugin p = plugin_open(6);
        struct answer a;
        void *context;

        setenv("CAPO_CHAIN_TUNER", getenv("CAPO_TEST_PLUGIN"), 1);
        cr_assert_eq(plugin_init(&p, 8, 2, 4, 4, NULL, &context), CAPO_NCCL_SUCCESS);
        table_fill(a.table);
        plugin_ask(&p, context, ALLREDUCE, 8, 1, 0, &a);
        cr_expect_not(a.touched);
        plugin_finish(&p, context);
}

Test(chain, one_that_is_not_there_is_said_and_left_out)
{
        struct plugin p = plugin_open(6);
        void *context;

        setenv("CAPO_CHAIN_TUNER", "no-such-tuner", 1);
        cr_expect_eq(plugin_init(&p, 8, 2, 4, 4, NULL, &context), CAPO_NCCL_SUCCESS);
        plugin_finish(&p, context);
}

/* NCCL would end the job for it. Its own table and constants stay as they were. */
Test(chain, where_it_refuses_nccl_decides)
{
        struct plugin p = plugin_open(6);
        struct capo_nccl_constants k, same;
        struct answer a;
        void *context;

        memset(&k, 1, sizeof k);
        same = k;
        setenv("CAPO_CHAIN_TUNER", other(6), 1);
        setenv("OTHER_TUNER_REFUSES", "1", 1);
        cr_assert_eq(plugin_init(&p, 8, 2, 4, 4, &k, &context), CAPO_NCCL_SUCCESS);
        cr_expect(!memcmp(&k, &same, sizeof k), "it changed the constants before it refused");
        table_fill(a.table);
        plugin_ask(&p, context, REDUCE, 8, 1, 0, &a);
        cr_expect(!a.touched && a.channels == 0);
        plugin_finish(&p, context);
}

/* NCCL would fail the collective for its error: nothing of such an answer is taken, and it is said,
 * once. */
static void fails(int abi)
{
        struct plugin p = plugin_open(abi);
        int said = memfd_create("said", 0), err = dup(2);
        char text[4096] = "";
        const char *first;
        struct answer a;
        void *context;

        setenv("CAPO_CHAIN_TUNER", other(abi), 1);
        setenv("OTHER_TUNER_FAILS", "1", 1);
        cr_assert_eq(plugin_init(&p, 8, 2, 4, 4, NULL, &context), CAPO_NCCL_SUCCESS);
        cr_assert_eq(dup2(said, 2), 2);
        for (int i = 0; i < 3; i++) {
                table_fill(a.table);
                plugin_ask(&p, context, REDUCE, 8, 1, 0, &a);
                cr_expect(!a.touched && a.channels == 0, "v%d", abi);
        }
        cr_assert_eq(dup2(err, 2), 2);
        plugin_finish(&p, context);
        cr_assert_gt(pread(said, text, sizeof text - 1, 0), 0);
        first = strstr(text, "the chained tuner other fails (ncclResult_t 2)");
        cr_assert_not_null(first, "v%d: %s", abi, text);
        cr_expect_null(strstr(first + 1, "the chained"), "v%d: %s", abi, text);
}

Test(chain, abi_1_an_answer_with_an_error_is_none) { fails(1); }

Test(chain, abi_2_an_answer_with_an_error_is_none) { fails(2); }

Test(chain, abi_6_an_answer_with_an_error_is_none) { fails(6); }

static void *is_cancelled(void *plugin)
{
        int algo = -1, proto = -1, channels = 0;

        pthread_cancel(pthread_self());
        capo_tuner_abi_v1.name(((struct plugin *)plugin)->object, NULL, REDUCE, 8, 0, 1, 1, &algo,
                               &proto, &channels);
        pthread_testcancel();
        return NULL;
}

/* Version 1 has one lock for all communicators, and a tuner that logs comes to where a thread may
 * be cancelled. */
Test(chain, a_thread_that_is_cancelled_in_it_leaves_no_lock)
{
        struct plugin p = plugin_open(1);
        pthread_t t;
        void *context, *end;

#ifdef __SANITIZE_ADDRESS__
        cr_skip_test("ASan does not learn that a cancelled thread's frames have ended");
#endif
        setenv("CAPO_CHAIN_TUNER", other(1), 1);
        setenv("OTHER_TUNER_CAN_BE_CANCELLED", "1", 1);
        cr_assert_eq(plugin_init(&p, 8, 2, 4, 4, NULL, &context), CAPO_NCCL_SUCCESS);
        cr_assert_eq(pthread_create(&t, NULL, is_cancelled, &p), 0);
        cr_assert_eq(pthread_join(t, &end), 0);
        cr_assert_eq(end, PTHREAD_CANCELED);
        plugin_finish(&p, context);
}

Test(chain, chunks_pass_but_never_below_a_grain)
{
        static const size_t answers[][2] = {{1 << 20, 1 << 20}, {512, 512}, {511, 4242}, {0, 4242}};
        struct plugin p = plugin_open(6);
        const struct capo_tuner_v6 *v6 = p.object;
        void *context;

        setenv("CAPO_CHAIN_TUNER", other(6), 1);
        cr_assert_eq(plugin_init(&p, 8, 2, 4, 4, NULL, &context), CAPO_NCCL_SUCCESS);
        for (size_t i = 0; i < 4; i++) {
                size_t chunk = 4242;
                char text[32];

                snprintf(text, sizeof text, "%zu", answers[i][0]);
                setenv("OTHER_TUNER_CHUNK", text, 1);
                cr_expect_eq(v6->get_chunk_size(context, REDUCE, 1 << 20, RING, SIMPLE, 1, &chunk),
                             0);
                cr_expect_eq(chunk, answers[i][1], "%zu: %zu", answers[i][0], chunk);
        }
        plugin_finish(&p, context);
}

/* ---- the profiler, without a recorder: it asks for nothing, and hands on what another asks for
 * ---- */

Test(chain, profiler_wants_nothing_without_a_recorder)
{
        void *library = dlopen(getenv("CAPO_TEST_PLUGIN"), RTLD_NOW);

        for (int v = 1; v <= CAPO_PROFILER_ABI_NEWEST; v++) {
                char symbol[32];
                const struct capo_profiler_v1 *v1;
                void *context = NULL, *handle = &v;
                int mask = 99;
                struct capo_event_v4 e = {.type = CAPO_EVENT_COLL};
                const struct capo_profiler_info info = {.comm_name = "dp",
                                                        .comm_hash = 7,
                                                        .n_nodes = 2,
                                                        .n_ranks = 8,
                                                        .log = log_line};

                snprintf(symbol, sizeof symbol, "ncclProfiler_v%d", v);
                v1 = dlsym(library, symbol);
                cr_assert_not_null(v1, "%s", symbol);
                cr_expect_str_eq(v1->name, "capo");
                cr_expect_eq(capo_profiler_abis[v - 1]->init(v1, &info, &context, &mask), 0);
                cr_expect_eq(mask, 0, "%s", symbol);
                if (v == 4) {
                        e.coll.func = "AllReduce";
                        e.coll.algo = "RING";
                        e.coll.proto = "LL";
                        cr_expect_eq(v1->start_event(context, &handle, &e), 0);
                        cr_expect_null(handle);
                }
                cr_expect_eq(v1->stop_event(NULL), 0);
                cr_expect_eq(v1->finalize(context), 0);
        }
}

Test(chain, names_reach_the_tuner_through_the_profiler)
{
        struct plugin p = plugin_open(5);
        const struct capo_profiler_v5 *v5 = dlsym(p.library, "ncclProfiler_v5");
        void *profiler, *context;
        struct answer a;
        int mask;

        use_profile(RULES("{\"when\": {\"comm\": \"dp*\"}, " ROWS(
                "allreduce", ROW("1M", "ring", "simple") LEAVE_REST) "}"));
        v5->init(&profiler, 77, &mask, "dp_0", 2, 8, 0, log_line);
        cr_assert_eq(plugin_init(&p, 8, 2, 4, 4, NULL, &context), CAPO_NCCL_SUCCESS);
        table_fill(a.table);
        plugin_ask(&p, context, ALLREDUCE, 8, 1, 0, &a);
        cr_expect(a.algo == RING && a.proto == SIMPLE);
        plugin_finish(&p, context);
}

static void profiler_passes(int version)
{
        void *library = dlopen(getenv("CAPO_TEST_PLUGIN"), RTLD_NOW);
        char symbol[32];
        const struct capo_profiler_v5 *p;
        struct capo_event_v5 coll = {.type = CAPO_EVENT_COLL,
                                     .coll = {.func = "AllReduce", .algo = "RING", .proto = "LL"}};
        struct capo_event_v5 op = {.type = CAPO_EVENT_PROXY_OP};
        void *context, *coll_handle, *op_handle;
        int mask;

        setenv("CAPO_CHAIN_PROFILER", other(version), 1);
        snprintf(symbol, sizeof symbol, "ncclProfiler_v%d", version);
        p = dlsym(library, symbol);
        p->init(&context, 7, &mask, "dp", 2, 8, 0, log_line);
        cr_assert_eq(mask, CAPO_EVENT_PROXY_OP, "what the other asked for");
        p->start_event(context, &coll_handle, &coll);
        cr_assert_not_null(coll_handle);
        op.parent = coll_handle;
        p->start_event(context, &op_handle, &op);
        cr_expect_eq(other_count(version, "others_parent_right"), 1);
        p->record_state(op_handle, 3, NULL);
        p->stop_event(op_handle);
        p->stop_event(coll_handle);
        cr_expect_eq(other_count(version, "others_events"), 5);
        p->finalize(context);
        cr_expect_eq(other_count(version, "others_events"), 6);
}

Test(chain, profiler_5_gets_its_events) { profiler_passes(5); }

Test(chain, profiler_6_gets_its_events) { profiler_passes(6); }
