/* SPDX-License-Identifier: Apache-2.0 */
/* The body behind all profiler interfaces: whose events are whose, and the slots that fold kernel
 * time stamps. */
#include "capo/seam.h"
#include "core/base/util.h"
#include "test_plugin.h"
#include "tuner/comm_name.h"
#include "tuner/nccl_profiler.h"
#include "tuner/version.h"
#include "tuner/plugin_versions.h"
#include "tests/log_numbers.h"

TestSuite(profiler, .timeout = 60);

static struct capo_seam_comm last_comm;
static int n_comms, n_ran;
static struct {
        int n;
        uint32_t nth;
        uint64_t begin, end, moved;
} kernels;

static void comm(const struct capo_seam_comm *c)
{
        last_comm = *c;
        n_comms++;
}

static struct capo_seam_ran last_ran;

static void ran(const struct capo_seam_ran *r)
{
        last_ran = *r;
        n_ran++;
}

static void kernel(const struct capo_seam_kernel *k)
{
        kernels.n++;
        kernels.nth = k->nth;
        kernels.begin = k->begin;
        kernels.end = k->end;
        kernels.moved = k->moved;
}

/* What capo itself asks a version for. */
static int own_mask(int version)
{
        return CAPO_EVENT_COLL | (version >= 6 ? CAPO_EVENT_CE_COLL : 0);
}

static const struct capo_seam listener = {.comm = comm, .ran = ran, .kernel = kernel};
const struct capo_seam *capo_seam = &listener;

static const char *other(int version)
{
        static char path[4096];

        snprintf(path, sizeof path, "%s/libother-tuner-v%d.so", getenv("CAPO_TEST_OTHERS"),
                 version);
        return path;
}

static int counter_of(int version, const char *what)
{
        int (*count)(void) = (int (*)(void))dlsym(dlopen(other(version), RTLD_NOW), what);

        return count();
}

static const struct capo_profiler_v5 *profiler_of(
        int version) /* but for init, all versions are alike */
{
        return capo_profiler_abis[version - 1]->own;
}

/* The mask. */
static int open_for(int version, int n_nodes, const char *name, void **context)
{
        const struct capo_profiler_info info = {
                .comm_name = name, .comm_hash = 42, .n_nodes = n_nodes, .n_ranks = 8, .rank = 3};
        int mask = -1;

        cr_assert_eq(
                capo_profiler_abis[version - 1]->init(profiler_of(version), &info, context, &mask),
                0);
        return mask;
}

static struct capo_event_v5 event(uint64_t type, void *parent)
{
        return (struct capo_event_v5){.type = type,
                                      .parent = parent,
                                      .coll = {.func = "AllReduce",
                                               .algo = "RING",
                                               .proto = "LL",
                                               .n_channels = 2,
                                               .count = 9}};
}

static void *start(void *context, uint64_t type, void *parent)
{
        struct capo_event_v5 e = event(type, parent);
        void *handle = &e;

        profiler_of(5)->start_event(context, &handle, &e);
        cr_expect_eq(e.parent, parent, "NCCL's event is as it was");
        return handle;
}

static void *start_channel(void *context, void *parent, uint64_t timer)
{
        struct capo_event_v5 e = {
                .type = CAPO_EVENT_KERNEL, .parent = parent, .kernel = {.timer = timer}};
        void *handle = &e;

        profiler_of(5)->start_event(context, &handle, &e);
        return handle;
}

static void stop_channel(void *channel, uint64_t timer)
{
        profiler_of(5)->record_state(channel, CAPO_STATE_KERNEL_STOP, &timer);
        profiler_of(5)->stop_event(channel);
}

/* What NCCL makes of a mask (src/plugin/profiler.cc): events whose parents are wanted too. */
Test(profiler, the_others_mask_brings_its_parents)
{
        enum {
                API = CAPO_EVENT_GROUP_API,
                BOTH = CAPO_EVENT_GROUP | CAPO_EVENT_COLL_API | CAPO_EVENT_P2P_API | API,
                OP = CAPO_EVENT_COLL | CAPO_EVENT_P2P | BOTH,
        };
        static const struct {
                int asked, passed;
        } rows[] = {
                {CAPO_EVENT_GROUP, CAPO_EVENT_GROUP},
                {CAPO_EVENT_COLL, CAPO_EVENT_COLL | BOTH},
                {CAPO_EVENT_P2P, CAPO_EVENT_P2P | BOTH},
                {CAPO_EVENT_PROXY_OP, CAPO_EVENT_PROXY_OP | OP},
                {CAPO_EVENT_PROXY_STEP, CAPO_EVENT_PROXY_STEP | CAPO_EVENT_PROXY_OP | OP},
                {CAPO_EVENT_PROXY_CTRL, CAPO_EVENT_PROXY_CTRL},
                {CAPO_EVENT_KERNEL, CAPO_EVENT_KERNEL | OP},
                {CAPO_EVENT_NET, CAPO_EVENT_NET | CAPO_EVENT_PROXY_STEP | CAPO_EVENT_PROXY_OP | OP},
                {CAPO_EVENT_GROUP_API, API},
                {CAPO_EVENT_COLL_API, CAPO_EVENT_COLL_API | API},
                {CAPO_EVENT_P2P_API, CAPO_EVENT_P2P_API | API},
                {CAPO_EVENT_KERNEL_LAUNCH, CAPO_EVENT_KERNEL_LAUNCH | API},
                {CAPO_EVENT_CE_COLL, CAPO_EVENT_CE_COLL | CAPO_EVENT_COLL_API | API},
                {CAPO_EVENT_CE_BATCH,
                 CAPO_EVENT_CE_BATCH | CAPO_EVENT_CE_COLL | CAPO_EVENT_COLL_API | API},
                {CAPO_EVENT_KERNEL_PHASE, CAPO_EVENT_KERNEL_PHASE | CAPO_EVENT_KERNEL | OP},
                {0, 0},
        };

        setenv("CAPO_CHAIN_PROFILER", other(5), 1);
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                char text[16];
                void *context;

                snprintf(text, sizeof text, "%d", rows[i].asked);
                setenv("OTHER_PROFILER_MASK", text, 1);
                cr_expect_eq(open_for(5, 2, "dp", &context), rows[i].asked | CAPO_EVENT_COLL,
                             "row %zu", i);
                for (int bit = 1; bit <= CAPO_EVENT_KERNEL_PHASE; bit <<= 1) {
                        void *handle = start(context, (uint64_t)bit, NULL);

                        cr_expect_eq(handle != NULL, !!(rows[i].passed & bit), "row %zu, event %d",
                                     i, bit);
                        profiler_of(5)->record_state(handle, 3, NULL);
                        profiler_of(5)->stop_event(handle);
                }
                cr_expect_eq(counter_of(5, "others_types"), rows[i].passed, "row %zu", i);
                profiler_of(5)->finalize(context);
        }
        cr_expect_eq(counter_of(5, "others_nothing"), 0);
}

Test(profiler, one_that_refuses_is_left_out)
{
        void *context;

        setenv("CAPO_CHAIN_PROFILER", other(5), 1);
        setenv("OTHER_PROFILER_REFUSES", "1", 1);
        cr_expect_eq(open_for(5, 2, "dp", &context), CAPO_EVENT_COLL);
        cr_expect_null(start(context, CAPO_EVENT_PROXY_OP, NULL));
        cr_expect_null(start(context, CAPO_EVENT_COLL, NULL));
        cr_expect_eq(n_ran, 1);
        profiler_of(5)->finalize(context);
        cr_expect_eq(counter_of(5, "others_events"), 1, "its init and nothing more");
}

Test(profiler, one_that_does_not_say_what_it_wants)
{
        void *context;

        setenv("CAPO_CHAIN_PROFILER", other(5), 1);
        setenv("OTHER_PROFILER_MASK", "", 1);
        cr_expect_eq(open_for(5, 2, "dp", &context), CAPO_EVENT_COLL);
        cr_expect_null(start(context, CAPO_EVENT_GROUP, NULL));
        cr_expect_eq(counter_of(5, "others_types"), 0);
        profiler_of(5)->finalize(context);
}

/* Whoever names capo itself has what he wants: nothing is chained, and nothing is said of it. */
Test(profiler, itself_is_not_chained)
{
        char said[2000] = "";
        void *context;
        int ends[2];

        setenv("CAPO_CHAIN_PROFILER", getenv("CAPO_TEST_PLUGIN"), 1);
        cr_assert(pipe(ends) == 0 && dup2(ends[1], STDERR_FILENO) >= 0);
        for (int version = 1; version <= CAPO_PROFILER_ABI_NEWEST; version++) {
                cr_expect_eq(open_for(version, 2, "dp", &context), own_mask(version));
                profiler_of(version)->finalize(context);
        }
        cr_assert(write(STDERR_FILENO, "|", 1) == 1 && read(ends[0], said, sizeof said - 1) > 0);
        cr_expect_str_eq(said, "|");
}

/* A communicator that is made takes nothing from what the calls of another are asked for. */
Test(profiler, the_mask_is_whole_at_any_moment)
{
        int mask = own_mask(6), **watched, *saw;
        const struct capo_profiler_info info = {
                .comm_hash = 42, .n_nodes = 2, .n_ranks = 8, .rank = 3};
        void *context;

        setenv("CAPO_CHAIN_PROFILER", other(6), 1);
        watched = dlsym(dlopen(other(6), RTLD_NOW), "others_watched");
        saw = dlsym(dlopen(other(6), RTLD_NOW), "others_saw");
        cr_assert(watched && saw);
        *watched = &mask;
        cr_assert_eq(capo_profiler_abis[6 - 1]->init(profiler_of(6), &info, &context, &mask), 0);
        profiler_of(6)->finalize(context);
        cr_expect_eq(*saw, own_mask(6));
        cr_expect_eq(mask, own_mask(6) | CAPO_EVENT_PROXY_OP);
}

static void passes(int speaks, int theirs, bool passed)
{
        void *context;

        setenv("CAPO_CHAIN_PROFILER", other(theirs), 1);
        cr_expect_eq(open_for(speaks, 2, "dp", &context),
                     own_mask(speaks) | (passed ? CAPO_EVENT_PROXY_OP : 0));
        profiler_of(speaks)->finalize(context);
        cr_expect_eq(counter_of(theirs, "others_events"), passed ? 2 : 0);
}

Test(profiler, version_1_to_1) { passes(1, 1, true); }

Test(profiler, version_6_to_5) { passes(6, 5, true); }

Test(profiler, version_7_to_6) { passes(7, 6, true); }

/* A name that we do not know is none, and nothing behind its end is read. */
Test(profiler, unknown_names)
{
        static const char *const names[] = {"", "A", "AllR", "AllGatherV", "R", "Red", "ReduceX"};
        void *context;

        open_for(5, 2, "dp", &context);
        for (size_t i = 0; i < N_ELEMENTS(names); i++) {
                struct capo_event_v5 e = event(CAPO_EVENT_COLL, NULL);
                char *name = strdup(names[i]);
                void *handle;

                e.coll.func = name;
                profiler_of(5)->start_event(context, &handle, &e);
                cr_expect_eq(last_ran.call, CAPO_CALL_NONE, "%s", names[i]);
                free(name);
        }
        profiler_of(5)->finalize(context);
}

/* Its kernel is none of the cost table; what NCCL writes where algorithms stand, or that nothing
 * stands there, is no matter. */
Test(profiler, version_7_symmetric)
{
        struct capo_event_v7 e = {.type = CAPO_EVENT_COLL,
                                  .coll = {.func = "AllReduce",
                                           .algo = "RING",
                                           .proto = "LL",
                                           .count = 5,
                                           .n_channels = 3,
                                           .kernel_variant = "AllReduce_RSxLD_AGxST",
                                           .is_symmetric = true,
                                           .tag = 9}};
        void *context, *handle;

        open_for(7, 2, "dp", &context);
        profiler_of(7)->start_event(context, &handle, &e);
        cr_expect(n_ran == 1 && last_ran.algo_proto == CAPO_KERNEL_SYMK_RSXLD_AGXST &&
                  last_ran.channels == 3 && last_ran.call == CAPO_CALL_ALLREDUCE);
        e.coll.algo = e.coll.proto = NULL;
        e.coll.kernel_variant = "AllReduce_NotYetKnown";
        profiler_of(7)->start_event(context, &handle, &e);
        cr_expect_eq(last_ran.algo_proto, CAPO_KERNEL_SYMK);
        e.coll.is_symmetric = false;
        profiler_of(7)->start_event(context, &handle, &e);
        cr_expect(n_ran == 3 && last_ran.algo_proto == 0);
        e.coll.algo = "TREE";
        profiler_of(7)->start_event(context, &handle, &e);
        cr_expect(n_ran == 4 && last_ran.algo_proto == 0, "half of it is none");
        e.coll.proto = "SIMPLE";
        profiler_of(7)->start_event(context, &handle, &e);
        cr_expect(n_ran == 5 && last_ran.algo_proto == (CAPO_ALGO_TREE << 4 | CAPO_PROTO_SIMPLE));
        cr_expect(last_ran.tagged && last_ran.tag == 9);
        profiler_of(7)->finalize(context);
}

/* Before v7 a symmetric kernel is known by its having no channels. */
Test(profiler, symmetric_without_a_name)
{
        struct capo_event_v4 e4 = {.type = CAPO_EVENT_COLL,
                                   .coll = {.func = "AllGather", .algo = "TREE", .proto = "LL"}};
        void *context, *handle;

        open_for(4, 2, "dp", &context);
        profiler_of(4)->start_event(context, &handle, &e4);
        cr_expect(last_ran.algo_proto == CAPO_KERNEL_SYMK && last_ran.channels == 0 &&
                  !last_ran.tagged);
        profiler_of(4)->finalize(context);
        for (int version = 5; version <= 6; version++) {
                struct capo_event_v5 e = event(CAPO_EVENT_COLL, NULL);

                e.coll.n_channels = 0;
                open_for(version, 2, "dp", &context);
                profiler_of(version)->start_event(context, &handle, &e);
                cr_expect(last_ran.algo_proto == CAPO_KERNEL_SYMK &&
                          last_ran.call == CAPO_CALL_ALLREDUCE);
                profiler_of(version)->finalize(context);
        }
        cr_expect_eq(n_ran, 3);
}

/* Copy engines have no kernel: no slot waits for stamps of theirs, and the next kernel's number is
 * the next. */
Test(profiler, copy_engines)
{
        static const struct {
                const char *func;
                uint8_t call;
        } rows[] = {{"AllGather", CAPO_CALL_ALLGATHER},
                    {"AlltoAll", CAPO_CALL_ALLTOALL},
                    {"Gather", CAPO_CALL_GATHER},
                    {"Scatter", CAPO_CALL_SCATTER},
                    {"Surprise", CAPO_CALL_NONE}};
        void *context, *handle;

        setenv("CAPO_KERNEL_TIME", "1", 1);
        for (int version = 6; version <= 7; version++) {
                cr_expect_eq(open_for(version, 2, "dp", &context),
                             own_mask(version) | CAPO_EVENT_KERNEL |
                                     (version == 7 ? CAPO_EVENT_KERNEL_PHASE : 0));
                for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                        struct capo_event_v7 e = {
                                .type = CAPO_EVENT_CE_COLL,
                                .ce = {.func = rows[i].func, .count = 7, .tag = 3}};

                        handle = &e;
                        profiler_of(version)->start_event(context, &handle, &e);
                        cr_expect_null(handle);
                        cr_expect(last_ran.algo_proto == CAPO_KERNEL_COPY_ENGINE &&
                                  last_ran.call == rows[i].call && last_ran.count == 7 &&
                                  last_ran.tagged == (version == 7) &&
                                  last_ran.tag == (version == 7 ? 3 : 0));
                }
                profiler_of(version)->finalize(context);
        }
}

/* The kernel moved something from the first phase on that is not waiting, whichever channel's. */
Test(profiler, phases_say_how_long_a_kernel_waited)
{
        static const struct {
                uint8_t phase;
                uint64_t timer[2]; /* of its two channels; 0 none */
                uint64_t moved;
        } rows[] = {
                {1, {150, 140}, 140}, {1, {0, 160}, 160}, {2, {180, 0}, 180},
                {0, {150, 150}, 0},   {1, {90, 150}, 0}, /* before its begin: it says nothing */
                {1, {300, 0}, 0},
        };
        void *context;

        setenv("CAPO_KERNEL_TIME", "1", 1);
        open_for(7, 2, "dp", &context);
        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                struct capo_event_v7 coll = {.type = CAPO_EVENT_COLL,
                                             .coll = {.func = "AllReduce",
                                                      .n_channels = 2,
                                                      .kernel_variant = "LL",
                                                      .is_symmetric = true}};
                void *slot, *channel[2], *phase;

                profiler_of(7)->start_event(context, &slot, &coll);
                for (unsigned c = 0; c < 2; c++) {
                        struct capo_event_v7 e = {.type = CAPO_EVENT_KERNEL,
                                                  .parent = slot,
                                                  .kernel = {.timer = 100 + c}};
                        struct capo_event_v7 p = {
                                .type = CAPO_EVENT_KERNEL_PHASE,
                                .phase = {(uint8_t)c, rows[i].phase, "", rows[i].timer[c]}};

                        profiler_of(7)->start_event(context, &channel[c], &e);
                        p.parent = phase = channel[c];
                        if (rows[i].timer[c])
                                profiler_of(7)->start_event(context, &phase, &p);
                        cr_expect(!rows[i].timer[c] || !phase, "nothing more is asked of it");
                        stop_channel(channel[c], 200);
                }
                cr_expect(kernels.n == (int)i + 1 && kernels.begin == 100 && kernels.end == 200 &&
                                  kernels.moved == rows[i].moved,
                          "row %zu: %llu", i, (unsigned long long)kernels.moved);
        }
        profiler_of(7)->finalize(context);
}

Test(profiler, version_5_does_not_know_6) { passes(5, 6, false); }

Test(profiler, version_5_to_1_has_other_events) { passes(5, 1, false); }

/* A slot stands in front of the other's handle; where the other did not want the event, it hears
 * nothing of its end. */
Test(profiler, a_slot_in_front_of_the_others_handle)
{
        void *context, *coll, *op, *channel[2];

        setenv("CAPO_KERNEL_TIME", "1", 1);
        setenv("CAPO_CHAIN_PROFILER", other(5), 1);
        cr_assert_eq(open_for(5, 2, "dp", &context),
                     CAPO_EVENT_COLL | CAPO_EVENT_KERNEL | CAPO_EVENT_PROXY_OP);
        coll = start(context, CAPO_EVENT_COLL, NULL);
        op = start(context, CAPO_EVENT_PROXY_OP, coll);
        cr_expect_eq(counter_of(5, "others_parent_right"), 1);
        cr_expect_eq(counter_of(5, "others_types"), CAPO_EVENT_COLL | CAPO_EVENT_PROXY_OP);
        cr_expect_eq(counter_of(5, "others_events"), 3);
        for (int c = 0; c < 2; c++)
                channel[c] = start_channel(context, coll, 100 + (uint64_t)c);
        profiler_of(5)->record_state(coll, 3, NULL);
        cr_expect_eq(counter_of(5, "others_events"), 4, "the state of its own handle");
        profiler_of(5)->stop_event(op);
        profiler_of(5)->stop_event(coll);
        cr_expect_eq(counter_of(5, "others_events"), 6);
        for (int c = 0; c < 2; c++)
                stop_channel(channel[c], 200 + (uint64_t)c);
        cr_expect_eq(counter_of(5, "others_events"), 6, "channels are ours");
        cr_expect(kernels.n == 1 && kernels.nth == 1 && kernels.begin == 100 && kernels.end == 201);
        profiler_of(5)->finalize(context);
        setenv("OTHER_PROFILER_MASK", "1", 1);
        open_for(5, 2, "dp", &context);
        coll = start(context, CAPO_EVENT_COLL, NULL);
        cr_expect_not_null(coll);
        profiler_of(5)->record_state(coll, 3, NULL);
        profiler_of(5)->stop_event(coll);
        profiler_of(5)->finalize(context);
        cr_expect_eq(counter_of(5, "others_nothing"), 0);
}

Test(profiler, kernel_stamps_that_the_other_wants_are_its_own)
{
        void *context, *coll, *channel;

        setenv("CAPO_KERNEL_TIME", "1", 1);
        setenv("CAPO_CHAIN_PROFILER", other(5), 1);
        setenv("OTHER_PROFILER_MASK", "64", 1);
        cr_assert_eq(open_for(5, 2, "dp", &context), CAPO_EVENT_COLL | CAPO_EVENT_KERNEL);
        coll = start(context, CAPO_EVENT_COLL, NULL);
        channel = start_channel(context, coll, 100);
        cr_expect_eq(counter_of(5, "others_types"), CAPO_EVENT_COLL | CAPO_EVENT_KERNEL);
        stop_channel(channel, 200);
        profiler_of(5)->stop_event(coll);
        cr_expect_eq(counter_of(5, "others_events"), 5);
        cr_expect(kernels.n == 0 && counter_of(5, "others_nothing") == 0);
        profiler_of(5)->finalize(context);
}

/* A slot is free again when all its stops came, or after a million collectives. */
Test(profiler, slots_are_taken_again)
{
        const int slots = 4096, stale = 1 << 20;
        void *context, *first[3], *channel;

        setenv("CAPO_KERNEL_TIME", "1", 1);
        open_for(5, 2, "dp", &context);
        for (int i = 0; i <= stale + 2; i++) {
                void *handle = start(context, CAPO_EVENT_COLL, NULL);

                if (i < 3)
                        first[i] = handle;
                if (i == slots - 1) { /* number 2 gets its stamps */
                        for (int c = 0; c < 2; c++) {
                                channel = start_channel(context, first[1], 300 - (uint64_t)c);
                                cr_expect_eq(kernels.n, 0);
                                stop_channel(channel, 400 - (uint64_t)c);
                        }
                        cr_expect(kernels.n == 1 && kernels.nth == 2 && kernels.begin == 299 &&
                                  kernels.end == 400);
                        stop_channel(channel, 500); /* once more is nothing */
                        cr_expect_eq(kernels.n, 1);
                }
                cr_assert_eq(handle != NULL,
                             i < slots || i == slots + 1 || i == stale || i == stale + 2, "%d", i);
        }
        profiler_of(5)->finalize(context);
}

/* No begin, an end before the begin, a Coll without channels: nothing to tell. */
Test(profiler, stamps_that_say_nothing)
{
        static const struct {
                uint64_t begin, end;
                int n;
        } rows[] = {{0, 5, 0}, {10, 9, 0}, {10, 10, 1}, {10, 11, 1}};
        void *context;
        struct capo_event_v5 none = event(CAPO_EVENT_COLL, NULL);
        void *handle = &none;

        setenv("CAPO_KERNEL_TIME", "1", 1);
        open_for(5, 2, "dp", &context);
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                void *coll = start(context, CAPO_EVENT_COLL, NULL), *channel[2];

                kernels.n = 0;
                for (int c = 0; c < 2; c++)
                        channel[c] = start_channel(context, coll, rows[i].begin);
                for (int c = 0; c < 2; c++) {
                        uint64_t later = 1000;

                        profiler_of(5)->record_state(channel[c], CAPO_STATE_KERNEL_STOP + 1,
                                                     &later);
                        profiler_of(5)->record_state(channel[c], CAPO_STATE_KERNEL_STOP, NULL);
                        stop_channel(channel[c], rows[i].end);
                }
                cr_expect_eq(kernels.n, rows[i].n, "row %zu", i);
        }
        none.coll.n_channels = 0;
        profiler_of(5)->start_event(context, &handle, &none);
        cr_expect_null(handle);
        profiler_of(5)->finalize(context);
}

Test(profiler, the_recorder_learns_of_the_communicator)
{
        char name[128];
        void *context;

        for (int version = 1; version <= CAPO_PROFILER_ABI_NEWEST; version++) {
                for (int nodes = -1; nodes <= 2; nodes++) {
                        n_comms = 0;
                        open_for(version, nodes, "dp", &context);
                        cr_expect_eq(n_comms, version >= 4, "v%d", version);
                        if (n_comms)
                                cr_expect(last_comm.comm_hash == 42 && last_comm.n_ranks == 8 &&
                                                  last_comm.rank == 3 &&
                                                  last_comm.n_nodes == (nodes > 0 ? nodes : -1) &&
                                                  last_comm.min_local == -1 &&
                                                  last_comm.max_local == -1 && !last_comm.tuned &&
                                                  !strcmp(last_comm.name, "dp"),
                                          "v%d, %d nodes", version, nodes);
                        profiler_of(version)->finalize(context);
                }
        }
        cr_expect(capo_comm_name_find(42, name, sizeof name) && !strcmp(name, "dp"));
        open_for(5, 2, "", &context);
        cr_expect(capo_comm_name_find(42, name, sizeof name) && !strcmp(name, "dp"),
                  "an empty name is none");
        profiler_of(5)->finalize(context);
}

/* Kernel time stamps come with version 4. */
Test(profiler, kernel_times_from_version_4_on)
{
        setenv("CAPO_KERNEL_TIME", "1", 1);
        for (int version = 1; version <= CAPO_PROFILER_ABI_NEWEST; version++) {
                void *context;

                cr_expect_eq(open_for(version, 2, "dp", &context),
                             own_mask(version) | (version >= 4 ? CAPO_EVENT_KERNEL : 0) |
                                     (version >= 7 ? CAPO_EVENT_KERNEL_PHASE : 0),
                             "v%d", version);
                profiler_of(version)->finalize(context);
        }
}

/* A library with ncclGetVersion stands behind the logger; the last one is remembered, and no other.
 */
Test(profiler, the_release_behind_a_logger)
{
        capo_nccl_log log =
                (capo_nccl_log)(uintptr_t)dlsym(dlopen(other(6), RTLD_NOW), "others_log");

        cr_assert_not_null(log);
        for (int again = 0; again < 2; again++) {
                cr_expect_eq(capo_nccl_version(log), 23102);
                cr_expect_eq(capo_nccl_version(log), 23102);
                cr_expect_eq(capo_nccl_version(NULL), 0);
                cr_expect_eq(capo_nccl_version(NULL), 0);
        }
}

/* What init gives without memory: no context, of which nothing is wanted. */
Test(profiler, no_context)
{
        for (int version = 1; version <= CAPO_PROFILER_ABI_NEWEST; version++) {
                uint64_t room[64] = {CAPO_EVENT_GROUP}; /* an event of any version */
                void *handle = NULL;

                cr_expect_eq(profiler_of(version)->start_event(NULL, &handle, room), 0, "v%d",
                             version);
                cr_expect_null(handle, "v%d", version);
                cr_expect_eq(profiler_of(version)->finalize(NULL), 0, "v%d", version);
        }
        cr_expect_eq(n_ran, 0);
}
