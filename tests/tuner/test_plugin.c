/* SPDX-License-Identifier: Apache-2.0 */
/* What the plugin promises NCCL, tried through every version of the interface. Each test is a
 * process of its own. */
#include <pthread.h>

#include "test_plugin.h"
#include "tuner/plugin_versions.h"

#define MAIN_RULE                                                                        \
        "{\"when\": {\"nodes\": 2, \"ranks\": 8}, " ROWS(                                \
                "allreduce",                                                             \
                ROWC("64K", "tree", "ll", 2) ROW("1M", "ring", "simple")                 \
                        ROWC("8G", "nvls_tree", "simple", 9) ROW("16G", "pat", "simple") \
                                LEAVE_REST) ", " ROWS("reduce",                          \
                                                      ROWC("1K", "ring", "ll", 3) LEAVE_REST) "}"

TestSuite(plugin, .timeout = 60);

static const struct question {
        int func;
        size_t bytes;
        int algo, proto, channels; /* -1: as NCCL would have chosen */
} questions[] = {
        {ALLREDUCE, 0, TREE, LL, 2},
        {ALLREDUCE, 8, TREE, LL, 2},
        {ALLREDUCE, 65536, TREE, LL, 2},
        {ALLREDUCE, 65537, RING, SIMPLE, 0},
        {ALLREDUCE, 1 << 20, RING, SIMPLE, 0},
        {ALLREDUCE, (1 << 20) + 1, NVLS_TREE, SIMPLE,
         0}, /* NVLS over nodes: channels would be taken unchecked */
        {ALLREDUCE, 5ull << 30, NVLS_TREE, SIMPLE, 0},
        {ALLREDUCE, (8ull << 30) + 1, -1, -1, 0}, /* PAT is not available */
        {ALLREDUCE, 1ull << 40, -1, -1, 0},       /* leave */
        {REDUCE, 1024, RING, LL, 3},
        {REDUCE, 1025, -1, -1, 0},
        {BROADCAST, 1024, -1, -1, 0}, /* no rows */
        {ALLGATHER, 1, -1, -1, 0},
        {5, 1, -1, -1, 0}, /* no collective of ours */
        {-1, 1, -1, -1, 0},
};

Test(plugin, every_version_gives_the_same_answers)
{
        use_profile(RULES(MAIN_RULE));
        for (int abi = 2; abi <= CAPO_TUNER_ABI_NEWEST; abi++) {
                struct plugin p = plugin_open(abi);
                void *context;

                cr_assert_eq(plugin_init(&p, 8, 2, 4, 4, NULL, &context), CAPO_NCCL_SUCCESS);
                for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) {
                        const struct question *q = &questions[i];
                        struct answer a, untouched;

                        table_fill(a.table);
                        untouched = a;
                        table_pick(&untouched.table[0][0], 7, 3, &untouched.algo, &untouched.proto);
                        plugin_ask(&p, context, q->func, q->bytes, 1, 0, &a);
                        if (q->algo < 0) {
                                cr_expect_not(a.touched, "v%d question %zu", abi, i);
                                continue;
                        }
                        cr_expect(a.algo == q->algo && a.proto == q->proto &&
                                          a.channels == q->channels,
                                  "v%d question %zu: %d/%d %d channels", abi, i, a.algo, a.proto,
                                  a.channels);
                        for (int k = 0; abi >= 3 && k < 21;
                             k++) { /* nothing but the chosen entry changes */
                                if (k != q->algo * 3 + q->proto)
                                        cr_expect_eq((&a.table[0][0])[k],
                                                     (&untouched.table[0][0])[k]);
                        }
                }
                plugin_finish(&p, context);
        }
}

/* 2.19 and 2.20 do not say which communicator asks: only rules that hold for all of them may
 * answer. */
Test(plugin, version_1_answers_only_what_holds_everywhere)
{
        struct plugin p;
        struct answer a;
        void *context;

        use_profile(RULES(MAIN_RULE ", {\"when\": {\"ranks\": 8}, " ROWS(
                "reduce", ROW("1K", "ring", "ll")
                                  LEAVE_REST) "}, {\"when\": {}, " ROWS("broadcast",
                                                                        ROWC("1K", "ring", "ll", 3)
                                                                                LEAVE_REST) "}"));
        p = plugin_open(1);
        cr_assert_eq(plugin_init(&p, 8, 2, 4, 4, NULL, &context), CAPO_NCCL_SUCCESS);
        cr_assert_eq(plugin_init(&p, 4, 1, 4, 4, NULL, &context), CAPO_NCCL_SUCCESS);
        plugin_ask(&p, NULL, BROADCAST, 8, 1, 0, &a);
        cr_expect(a.algo == RING && a.proto == LL && a.channels == 3);
        plugin_ask(&p, NULL, ALLREDUCE, 8, 1, 0, &a);
        cr_expect_not(a.touched);
        plugin_ask(&p, NULL, REDUCE, 8, 1, 0, &a);
        cr_expect_not(a.touched, "not even what every communicator here would be told");
        plugin_finish(&p, NULL);
        plugin_ask(&p, NULL, BROADCAST, 8, 1, 0, &a);
        cr_expect(a.touched);
        plugin_finish(&p, NULL);
        plugin_ask(&p, NULL, BROADCAST, 8, 1, 0, &a);
        cr_expect_not(a.touched, "no communicator is open");
        plugin_finish(&p, NULL);
}

/*
 * NCCL opens the tuner for communicators of one rank too, which some ranks of a job have and others
 * have not, and closes it without saying which. What the others get must not depend on that.
 */
static void expect_version_1_beside_one_rank(const char *profile)
{
        struct plugin p;
        struct answer a;

        use_profile(profile);
        p = plugin_open(1);
        for (int first = 0; first < 2; first++) {
                void *context;

                for (int i = 0; i < 2; i++)
                        cr_assert_eq(plugin_init(&p, i == first ? 1 : 8, 1, 4, 4, NULL, &context),
                                     CAPO_NCCL_SUCCESS);
                plugin_ask(&p, NULL, BROADCAST, 8, 1, 0, &a);
                cr_expect(a.algo == RING && a.proto == LL && a.channels == 3, "both are open");
                plugin_finish(&p, NULL);
                plugin_ask(&p, NULL, BROADCAST, 8, 1, 0, &a);
                cr_expect(a.algo == RING && a.proto == LL && a.channels == 3, "either is open");
                plugin_finish(&p, NULL);
        }
}

Test(plugin, version_1_beside_a_communicator_of_one_rank)
{
        expect_version_1_beside_one_rank("broadcast,0,max,ring,ll,3,-1,-1\n");
}

Test(plugin, version_1_beside_a_communicator_of_one_rank_with_conditions)
{
        expect_version_1_beside_one_rank("broadcast,0,max,ring,ll,3,-1,-1,1\n");
}

/* Nothing vouches for LL128 or CollNet where NCCL takes the answer unchecked; the user's variables
 * win there too. */
Test(plugin, version_2_answers_only_what_is_safe)
{
        struct plugin p = plugin_open(2);
        struct answer a;
        void *context;

        use_profile(
                "allreduce,0,max,ring,ll128,-1,-1,-1\nreduce,0,max,collnetchain,simple,-1,-1,-1\n"
                "allgather,0,max,pat,simple,-1,-1,-1\nreducescatter,0,max,nvls,simple,-1,-1,-1\n"
                "broadcast,0,max,tree,simple,-1,-1,-1\n");
        cr_assert_eq(plugin_init(&p, 8, 2, 4, 4, NULL, &context), CAPO_NCCL_SUCCESS);
        for (int func = 0; func < 5; func++) {
                plugin_ask(&p, context, func, 8, 1, 0, &a);
                cr_expect_not(a.touched, "%d", func);
        }
        plugin_finish(&p, context);
}

Test(plugin, version_2_leaves_it_to_the_users_variables)
{
        struct plugin p;
        struct answer a;
        void *context;

        setenv("NCCL_ALGO", "Tree", 1);
        use_profile(RULES(MAIN_RULE));
        p = plugin_open(2);
        cr_assert_eq(plugin_init(&p, 8, 2, 4, 4, NULL, &context), CAPO_NCCL_SUCCESS);
        plugin_ask(&p, context, ALLREDUCE, 1 << 20, 1, 0, &a);
        cr_expect_not(a.touched);
        plugin_finish(&p, context);
}

/* NCCL_ALGO and NCCL_PROTO reach the table as -1; so does all else that is not available. */
Test(plugin, never_revives_an_entry)
{
        use_profile(RULES(MAIN_RULE));
        for (int abi = 3; abi <= CAPO_TUNER_ABI_NEWEST; abi++) {
                struct plugin p = plugin_open(abi);
                void *context;

                cr_assert_eq(plugin_init(&p, 8, 2, 4, 4, NULL, &context), CAPO_NCCL_SUCCESS);
                for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) {
                        static const float absent[] = {-1.0f, NAN, -0.5f, -INFINITY};

                        for (size_t v = 0; v < 4; v++) {
                                struct answer a;

                                table_fill(a.table);
                                if (questions[i].algo >= 0)
                                        a.table[questions[i].algo][questions[i].proto] = absent[v];
                                plugin_ask(&p, context, questions[i].func, questions[i].bytes, 1, 0,
                                           &a);
                                cr_expect_not(a.touched, "v%d question %zu", abi, i);
                        }
                }
                plugin_finish(&p, context);
        }
}

Test(plugin, wins_over_an_earlier_zero)
{
        struct plugin p;
        struct answer a;
        void *context;

        use_profile(RULES(MAIN_RULE));
        p = plugin_open(6);
        cr_assert_eq(plugin_init(&p, 8, 2, 4, 4, NULL, &context), CAPO_NCCL_SUCCESS);
        table_fill(a.table);
        a.table[TREE][LL] = a.table[RING][LL] = 0;
        plugin_ask(&p, context, ALLREDUCE, 1 << 20, 1, 0, &a);
        cr_expect(a.algo == RING && a.proto == SIMPLE);
        plugin_finish(&p, context);
}

/* 2.22 offers six algorithms; a table may also be smaller than anything we know. Nothing behind it
 * is touched. */
Test(plugin, small_tables)
{
        struct plugin p;
        const struct capo_tuner_v4 *v4;
        float table[24];
        void *context;
        int channels = 0;

        use_profile(RULES(MAIN_RULE));
        p = plugin_open(4);
        v4 = p.object;
        cr_assert_eq(plugin_init(&p, 8, 2, 4, 4, NULL, &context), CAPO_NCCL_SUCCESS);
        for (int n = 0; n <= 6; n++) {
                for (int m = 0; m <= 3; m++) {
                        for (int i = 0; i < 24; i++)
                                table[i] = 5;
                        v4->get_coll_info(context, ALLREDUCE, 2 << 20, 1, (float **)table, n, m, 0,
                                          &channels);
                        for (int i = 0; i < 24; i++)
                                cr_expect_eq(table[i],
                                             n == 6 && m == 3 && i == NVLS_TREE * 3 + SIMPLE ? 0
                                                                                             : 5);
                }
        }
        plugin_finish(&p, context);
}

Test(plugin, asking_twice_changes_nothing)
{
        struct plugin p;
        struct answer a, b;
        void *context;

        use_profile(RULES(MAIN_RULE));
        p = plugin_open(6);
        cr_assert_eq(plugin_init(&p, 8, 2, 4, 4, NULL, &context), CAPO_NCCL_SUCCESS);
        for (int i = 0; i < 1000; i++) {
                table_fill(a.table);
                plugin_ask(&p, context, ALLREDUCE, 1 << 20, 1, 0, &a);
                b = a;
                plugin_ask(&p, context, ALLREDUCE, 1 << 20, 1, 0, &b);
                cr_assert(!memcmp(a.table, b.table, sizeof a.table) && a.algo == b.algo);
        }
        plugin_finish(&p, context);
}

Test(plugin, no_profile_no_touch)
{
        for (int abi = 1; abi <= CAPO_TUNER_ABI_NEWEST; abi++) {
                struct plugin p = plugin_open(abi);
                struct capo_nccl_constants constants, before;
                void *context;

                memset(&constants, 0x11, sizeof constants);
                before = constants;
                cr_assert_eq(plugin_init(&p, 8, 2, 4, 4, &constants, &context), CAPO_NCCL_SUCCESS);
                cr_expect(!memcmp(&constants, &before, sizeof before));
                for (int func = -1; func < 16; func++) {
                        for (size_t bytes = 1; bytes; bytes <<= 1) {
                                struct answer a;

                                table_fill(a.table);
                                plugin_ask(&p, context, func, bytes, 1, 1, &a);
                                cr_assert_not(a.touched);
                        }
                }
                plugin_finish(&p, context);
        }
}

Test(plugin, one_rank_is_left_alone_even_without_its_profile)
{
        setenv("CAPO_PROFILE", "/nonexistent/profile.json", 1);
        for (int abi = 1; abi <= CAPO_TUNER_ABI_NEWEST; abi++) {
                struct plugin p = plugin_open(abi);
                void *context;

                cr_expect_eq(plugin_init(&p, 1, 1, 1, 1, NULL, &context), CAPO_NCCL_SUCCESS);
                plugin_finish(&p, context);
        }
}

Test(plugin, uneven_nodes)
{
        struct plugin p;
        void *even, *uneven;
        struct answer a;

        use_profile(RULES("{\"when\": {\"layout\": \"5+3\"}, " ROWS(
                "allreduce", ROW("1M", "tree", "simple") LEAVE_REST) "}"));
        p = plugin_open(5);
        cr_assert_eq(plugin_init(&p, 8, 2, 4, 4, NULL, &even), CAPO_NCCL_SUCCESS);
        cr_assert_eq(plugin_init(&p, 8, 2, 3, 5, NULL, &uneven), CAPO_NCCL_SUCCESS);
        table_fill(a.table);
        plugin_ask(&p, even, ALLREDUCE, 1, 1, 0, &a);
        cr_expect_not(a.touched);
        plugin_ask(&p, uneven, ALLREDUCE, 1, 1, 0, &a);
        cr_expect(a.algo == TREE && a.proto == SIMPLE);
        plugin_finish(&p, even);
        plugin_finish(&p, uneven);
}

/* Before 2.28 the layout comes from the launcher, for the communicator of the whole job. */
Test(plugin, layout_from_the_launcher)
{
        struct plugin p;
        void *world, *part;
        struct answer a;

        setenv("CAPO_LAYOUT", "5+3", 1);
        use_profile(RULES("{\"when\": {\"layout\": \"uneven\"}, " ROWS(
                "allreduce", ROW("1M", "tree", "simple") LEAVE_REST) "}"));
        p = plugin_open(3);
        cr_assert_eq(plugin_init(&p, 8, 2, 0, 0, NULL, &world), CAPO_NCCL_SUCCESS);
        cr_assert_eq(plugin_init(&p, 6, 2, 0, 0, NULL, &part), CAPO_NCCL_SUCCESS);
        table_fill(a.table);
        plugin_ask(&p, part, ALLREDUCE, 1, 1, 0, &a);
        cr_expect_not(a.touched);
        plugin_ask(&p, world, ALLREDUCE, 1, 1, 0, &a);
        cr_expect(a.touched);
        plugin_finish(&p, world);
        plugin_finish(&p, part);
}

/* What the cost table shows about links, from the question alone. */
Test(plugin, links_and_bandwidth)
{
        struct plugin p;
        void *context;
        struct answer a;

        use_profile(RULES("{\"when\": {\"link\": \"other\", \"ring_gbs\": \"-12\"}, " ROWS(
                "allreduce",
                ROW("1G", "tree", "ll")
                        LEAVE_REST) "},"
                                    "{\"when\": {\"link\": \"nvlink\"}, " ROWS(
                                            "reduce", ROW("1G", "ring", "ll") LEAVE_REST) "}"));
        p = plugin_open(3);
        cr_assert_eq(plugin_init(&p, 8, 2, 0, 0, NULL, &context), CAPO_NCCL_SUCCESS);
        table_fill(a.table);
        plugin_ask(&p, context, REDUCE, 8, 1, 0, &a);
        cr_expect(a.algo == RING && a.proto == LL);
        table_fill(a.table);
        a.table[RING][LL128] = -1;
        plugin_ask(&p, context, REDUCE, 8, 1, 0, &a);
        cr_expect_not(a.touched);
        /* 64 MiB x 2 x 7/8 in 11744 us is 10 GB/s; in 5872 us 20 GB/s; at 8 MiB nobody knows */
        a.table[RING][SIMPLE] = 11744;
        plugin_ask(&p, context, ALLREDUCE, 64 << 20, 1, 0, &a);
        cr_expect(a.algo == TREE && a.proto == LL);
        table_fill(a.table);
        a.table[RING][LL128] = -1;
        a.table[RING][SIMPLE] = 5872;
        plugin_ask(&p, context, ALLREDUCE, 64 << 20, 1, 0, &a);
        cr_expect_not(a.touched);
        a.table[RING][SIMPLE] = 11744;
        plugin_ask(&p, context, ALLREDUCE, 8 << 20, 1, 0, &a);
        cr_expect_not(a.touched);
        plugin_finish(&p, context);
}

Test(plugin, registered_buffers_and_groups)
{
        struct plugin p;
        void *context;
        struct answer a;

        use_profile(
                "allreduce,0,max,ring,ll,2,-1,-1,4,-1\nallreduce,0,max,tree,simple,3,-1,-1,-1,1\n");
        p = plugin_open(4);
        cr_assert_eq(plugin_init(&p, 8, 2, 0, 0, NULL, &context), CAPO_NCCL_SUCCESS);
        table_fill(a.table);
        plugin_ask(&p, context, ALLREDUCE, 8, 1, 0, &a);
        cr_expect_not(a.touched);
        plugin_ask(&p, context, ALLREDUCE, 8, 1, 1, &a);
        cr_expect(a.algo == TREE && a.channels == 3);
        table_fill(a.table);
        plugin_ask(&p, context, ALLREDUCE, 8, 4, 1, &a);
        cr_expect(a.algo == RING && a.channels == 2);
        plugin_finish(&p, context);
}

Test(plugin, constants_are_corrected_only_where_the_profile_says_so)
{
        for (int abi = 5; abi <= CAPO_TUNER_ABI_NEWEST; abi++) {
                struct plugin p = plugin_open(abi);
                struct capo_nccl_constants constants = {.ll_bw = {{39, 39, 20.4}}},
                                           before = constants;
                void *context;

                use_profile(RULES(
                        "{\"when\": {\"nodes\": 2}, \"constants\": [{\"table\": \"hw_latency\", \"link\": "
                        "\"net\", \"algo\": "
                        "\"ring\", \"proto\": \"simple\", \"value\": 14.5}, {\"table\": \"tree_bw\", "
                        "\"gpu\": \"hopper\", "
                        "\"scale\": 2, \"value\": 24}]}"));
                cr_assert_eq(plugin_init(&p, 8, 2, 3, 5, &constants, &context), CAPO_NCCL_SUCCESS);
                before.hw_latency[2][RING][SIMPLE] = 14.5;
                before.tree_bw[2][1] = 24;
                cr_expect(!memcmp(&constants, &before, sizeof before), "v%d", abi);
                plugin_finish(&p, context);
        }
}

/* ---- agreement ---- */

static void refused(const char *must_say, const char *and_this)
{
        for (int abi = 1; abi <= CAPO_TUNER_ABI_NEWEST; abi++) {
                struct plugin p = plugin_open(abi);
                void *context;

                *last_log = 0;
                cr_expect_neq(plugin_init(&p, 8, 2, 4, 4, NULL, &context), CAPO_NCCL_SUCCESS, "v%d",
                              abi);
                cr_expect(strstr(last_log, must_say) && strstr(last_log, and_this), "v%d said: %s",
                          abi, last_log);
        }
}

Test(plugin, a_profile_that_is_not_there_stops_the_communicator)
{
        setenv("CAPO_PROFILE", "/nonexistent/profile.json", 1);
        refused("/nonexistent/profile.json", "No such file");
}

Test(plugin, a_name_that_nobody_knows_stops_the_communicator)
{
        setenv("CAPO_PROFILE", "no-such-profile", 1);
        refused("no profile \"no-such-profile\"", "/etc/capo/profiles");
}

/* The job's own input: it may be a terminal, or what its program reads. */
Test(plugin, standard_input_is_no_profile)
{
        int ends[2];

        cr_assert_eq(pipe(ends), 0);
        cr_assert_eq(dup2(ends[0], STDIN_FILENO), STDIN_FILENO);
        setenv("CAPO_PROFILE", "-", 1);
        refused("CAPO_PROFILE=- is no file", "every rank");
}

Test(plugin, a_bad_profile_stops_the_communicator)
{
        use_profile("{\"capo_profile\": 1,\n \"rules\": [{}]}");
        refused(":2:12: expected the key when", getenv("CAPO_PROFILE"));
}

Test(plugin, a_newer_profile_stops_the_communicator)
{
        use_profile("{\"capo_profile\": 9, \"rules\": []}");
        refused("newer than this capo", getenv("CAPO_PROFILE"));
}

Test(plugin, another_digest_stops_the_communicator)
{
        use_profile(RULES(MAIN_RULE));
        setenv("CAPO_PROFILE_DIGEST", "00112233445566778899aabbccddeeff", 1);
        refused("00112233445566778899aabbccddeeff", getenv("CAPO_PROFILE"));
}

Test(plugin, a_digest_without_a_profile_stops_the_communicator)
{
        setenv("CAPO_PROFILE_DIGEST", "00112233445566778899aabbccddeeff", 1);
        refused("00112233445566778899aabbccddeeff", "CAPO_PROFILE is not set");
}

#define MODELLED_RULE                                                                                        \
        "{\"when\": {\"nodes\": 2}, \"basis\": \"modelled\", "                                               \
        "\"constants\": [{\"table\": \"tree_bw\", \"gpu\": \"hopper\", \"scale\": 2, \"value\": 9}], " ROWS( \
                "allreduce", ROW("64K", "tree", "ll") LEAVE_REST) "}"

static void modelled_rules(bool used)
{
        for (int abi = 2; abi <= CAPO_TUNER_ABI_NEWEST; abi++) {
                struct plugin p = plugin_open(abi);
                struct capo_nccl_constants constants;
                void *context;
                struct answer a;

                memset(&constants, 0, sizeof constants);
                cr_assert_eq(plugin_init(&p, 8, 2, 4, 4, &constants, &context), CAPO_NCCL_SUCCESS);
                table_fill(a.table);
                plugin_ask(&p, context, ALLREDUCE, 8, 1, 0, &a);
                cr_expect_eq(a.touched, used, "v%d", abi);
                if (used)
                        cr_expect(a.algo == TREE && a.proto == LL);
                cr_expect(constants.tree_bw[2][1] == (used && abi >= 5 ? 9 : 0), "v%d", abi);
                plugin_finish(&p, context);
        }
}

Test(plugin, modelled_rules_are_passed_over)
{
        use_profile(RULES(MODELLED_RULE));
        modelled_rules(false);
}

Test(plugin, modelled_rules_decide_where_allowed)
{
        use_profile(RULES(MODELLED_RULE));
        setenv("CAPO_ALLOW_MODELLED", "1", 1);
        modelled_rules(true);
}

/* As capo run does: the profile's digest, which another process tells NCCL's log, and @suffix. */
static void export_digest(const char *suffix)
{
        char said[sizeof last_log] = "", text[64], *digest;
        int ends[2];

        cr_assert_eq(pipe(ends), 0);
        if (fork() == 0) {
                struct plugin p = plugin_open(6);
                void *context;

                plugin_init(&p, 8, 2, 4, 4, NULL, &context);
                _exit(write(ends[1], last_log, sizeof last_log) != sizeof last_log);
        }
        cr_assert_eq(read(ends[0], said, sizeof said), sizeof said);
        digest = strstr(said, "(digest ");
        cr_assert(digest, "%s", said);
        snprintf(text, sizeof text, "%.32s%s", digest + 8, suffix);
        setenv("CAPO_PROFILE_DIGEST", text, 1);
}

/* The rank's own setting against the one the job was started with. */
Test(plugin, modelled_rules_on_some_ranks_only_stop_the_communicator)
{
        use_profile(RULES(MODELLED_RULE));
        export_digest("+modelled");
        refused("CAPO_ALLOW_MODELLED or CAPO_TRIAL is not the same", getenv("CAPO_PROFILE_DIGEST"));
}

Test(plugin, modelled_rules_on_this_rank_only_stop_the_communicator)
{
        use_profile(RULES(MODELLED_RULE));
        export_digest("");
        setenv("CAPO_ALLOW_MODELLED", "1", 1);
        refused("CAPO_ALLOW_MODELLED or CAPO_TRIAL is not the same", getenv("CAPO_PROFILE_DIGEST"));
}

Test(plugin, modelled_rules_agreed_on)
{
        use_profile(RULES(MODELLED_RULE));
        export_digest("+modelled");
        setenv("CAPO_ALLOW_MODELLED", "1", 1);
        modelled_rules(true);
}

static void goes_on_untouched(void)
{
        for (int abi = 1; abi <= CAPO_TUNER_ABI_NEWEST; abi++) {
                struct plugin p = plugin_open(abi);
                void *context;
                struct answer a;

                cr_assert_eq(plugin_init(&p, 8, 2, 4, 4, NULL, &context), CAPO_NCCL_SUCCESS);
                table_fill(a.table);
                plugin_ask(&p, context, ALLREDUCE, 8, 1, 0, &a);
                cr_expect_not(a.touched);
                plugin_finish(&p, context);
        }
}

Test(plugin, not_strict_goes_on)
{
        setenv("CAPO_STRICT", "0", 1);
        setenv("CAPO_PROFILE", "/nonexistent/profile.json", 1);
        goes_on_untouched();
}

Test(plugin, auto_alone_does_not_tune)
{
        setenv("CAPO_PROFILE", "auto", 1);
        goes_on_untouched();
}

Test(plugin, off_is_off)
{
        setenv("CAPO_TUNER", "off", 1);
        use_profile(RULES(MAIN_RULE));
        goes_on_untouched();
}

Test(plugin, the_kill_switch)
{
        setenv("CAPO_OFF", "1", 1);
        use_profile(RULES(MAIN_RULE));
        goes_on_untouched();
}

/* ---- life ---- */

Test(plugin, unloaded_and_loaded_again)
{
        use_profile(RULES(MAIN_RULE));
        for (int i = 0; i < 50; i++) {
                struct plugin p = plugin_open(1 + i % 6);
                void *context;

                cr_assert_eq(plugin_init(&p, 8, 2, 4, 4, NULL, &context), CAPO_NCCL_SUCCESS);
                plugin_finish(&p, context);
                dlclose(p.library);
        }
        close(atoi(strrchr(getenv("CAPO_PROFILE"), '/') + 1));
        {
                struct plugin p = plugin_open(6);
                struct answer a;
                void *context;

                cr_assert_eq(plugin_init(&p, 8, 2, 4, 4, NULL, &context), CAPO_NCCL_SUCCESS,
                             "the profile was read once");
                table_fill(a.table);
                plugin_ask(&p, context, ALLREDUCE, 8, 1, 0, &a);
                cr_expect(a.algo == TREE && a.proto == LL);
                plugin_finish(&p, context);
        }
}

/* A row's chunk, for the questions that follow the cost table it decided; NCCL's own where it
 * decided nothing. */
Test(plugin, chunks_of_rows)
{
        struct plugin p;
        const struct capo_tuner_v6 *v6;
        struct answer a;
        void *context;
        static const struct {
                size_t bytes, part;
                int algo, proto;
                float closed; /* the cost of Ring/Simple: below 0, NCCL has none */
                size_t chunk;
        } rows[] = {
                {1 << 20, 1 << 20, RING, SIMPLE, 9, 65536},
                {1 << 20, 1 << 20, TREE, SIMPLE, 9, 1 << 20},
                {1 << 20, 1 << 20, RING, SIMPLE, -1, 1 << 20},
                {1 << 20, 4096, RING, SIMPLE, 9, 1 << 20},
                {4096, 4096, TREE, LL, 9, 1 << 20},
                {8 << 20, 8 << 20, RING, SIMPLE, 9, 1 << 20},
        };

        use_profile(RULES(
                "{\"when\": {}, \"allreduce\": [{\"upto\": 4096, \"algo\": \"tree\", \"proto\": \"ll\"}, "
                "{\"upto\": \"1M\", \"algo\": \"ring\", \"proto\": \"simple\", \"chunk\": \"64K\"}, "
                "{\"upto\": \"max\", \"leave\": true}]}"));
        p = plugin_open(6);
        v6 = p.object;
        cr_assert_eq(plugin_init(&p, 8, 2, 4, 4, NULL, &context), CAPO_NCCL_SUCCESS);
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                size_t chunk = 1 << 20;

                table_fill(a.table);
                a.table[RING][SIMPLE] = rows[i].closed;
                plugin_ask(&p, context, ALLREDUCE, rows[i].bytes, 1, 0, &a);
                cr_expect_eq(v6->get_chunk_size(context, ALLREDUCE, rows[i].part, rows[i].algo,
                                                rows[i].proto, 1, &chunk),
                             0);
                cr_expect_eq(chunk, rows[i].chunk, "row %zu: %zu", i, chunk);
        }
        plugin_finish(&p, context);
}

/* Criterion's assertions are not for threads: count what is wrong. */
static void *many_communicators(void *wrong)
{
        struct plugin p = {.library = dlopen(getenv("CAPO_TEST_PLUGIN"), RTLD_NOW | RTLD_LOCAL),
                           .abi = 6};
        const struct capo_tuner_v6 *v6 = dlsym(p.library, "ncclTunerPlugin_v6");

        for (int i = 0; i < 200; i++) {
                struct capo_nvl_info nvl = {2, 4, 4};
                struct capo_nccl_constants constants;
                size_t ranks = 2 * (size_t)(1 + i % 20);
                void *context;

                nvl.min_ranks = nvl.max_ranks = (int)ranks / 2;
                if (v6->init(&context, (uint64_t)i, ranks, 2, log_line, &nvl, &constants)) {
                        __atomic_add_fetch((int *)wrong, 1, __ATOMIC_RELAXED);
                        continue;
                }
                for (int k = 0; k < 200; k++) {
                        float table[21];
                        int channels = 0, algo, proto;

                        for (int n = 0; n < 21; n++)
                                table[n] = 9;
                        v6->get_coll_info(context, ALLREDUCE, 8, 1, (float **)table, 7, 3, 0,
                                          &channels);
                        table_pick(table, 7, 3, &algo, &proto);
                        if (channels != (ranks == 8 ? 2 : 0) || algo != TREE || proto != LL)
                                __atomic_add_fetch((int *)wrong, 1, __ATOMIC_RELAXED);
                }
                v6->finalize(context);
        }
        return NULL;
}

Test(plugin, many_communicators_on_many_threads)
{
        pthread_t threads[8];
        int wrong = 0;

        use_profile(RULES(MAIN_RULE));
        for (int i = 0; i < 8; i++)
                pthread_create(&threads[i], NULL, many_communicators, &wrong);
        for (int i = 0; i < 8; i++)
                pthread_join(threads[i], NULL);
        cr_expect_eq(wrong, 0);
}

/* Of a build tree or of a prefix that was moved, no other path than its own is known. */
Test(plugin, shipped_profiles_are_found_by_name)
{
        struct plugin p;
        void *context;

        setenv("CAPO_PROFILE", "h100-4of8-nvls", 1);
        p = plugin_open(6);
        cr_assert_eq(plugin_init(&p, 4, 1, 4, 4, NULL, &context), CAPO_NCCL_SUCCESS, "%s",
                     last_log);
        plugin_finish(&p, context);
}

Test(plugin, chunks_are_left_alone)
{
        struct plugin p;
        const struct capo_tuner_v6 *v6;
        void *context;
        size_t chunk = 4242;

        use_profile(RULES(MAIN_RULE));
        p = plugin_open(6);
        v6 = p.object;
        cr_assert_eq(plugin_init(&p, 8, 2, 4, 4, NULL, &context), CAPO_NCCL_SUCCESS);
        cr_expect_eq(v6->get_chunk_size(context, ALLREDUCE, 1 << 20, RING, SIMPLE, 1, &chunk), 0);
        cr_expect_eq(v6->get_chunk_size(context, ALLREDUCE, 1 << 20, RING, SIMPLE, 1, NULL), 0);
        cr_expect_eq(v6->get_chunk_size(NULL, ALLREDUCE, 1 << 20, RING, SIMPLE, 1, &chunk), 0);
        cr_expect_eq(chunk, 4242);
        plugin_finish(&p, context);
}
