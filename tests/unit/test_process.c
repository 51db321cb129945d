/* SPDX-License-Identifier: Apache-2.0 */
/* What a process learns of its profile. Each test is a process of its own, so each may read the
 * settings once. */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <criterion/criterion.h>

#include "capo/msg.h"
#include "capo/seam.h"
#include "core/base/util.h"
#include "tuner/nccl_plugin.h"
#include "tuner/plugin.h"
#include "tuner/process.h"
#include "tuner/tuner_env.h"
#include "tuner/plugin_versions.h"

static const char text[] =
        "{\"capo_profile\": 1, \"name\": \"N\", \"rules\": [\n"
        "{\"when\": {\"nodes\": 2}, \"allreduce\": [{\"upto\": 9, \"leave\": true},\n"
        "{\"upto\": \"max\", \"algo\": \"ring\", \"proto\": \"ll\", \"channels\": 3}]}]}\n";
static char path[] = "/tmp/capo-test-process-XXXXXX";
static char digest[64];

static void make_profile(void)
{
        static const char *const unset[] = {"CAPO_PROFILE", "CAPO_PROFILE_DIGEST",
                                            "CAPO_TUNER",   "CAPO_STRICT",
                                            "RANK",         "PMI_RANK",
                                            "NCCL_ALGO",    "NCCL_PROTO",
                                            "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"};
        struct capo_profile *p = NULL;
        int fd = mkstemp(path);

        cr_assert(fd >= 0 && write(fd, text, sizeof text - 1) == sizeof text - 1);
        close(fd);
        cr_assert_eq(capo_profile_load(path, &p, NULL), 0);
        strcpy(digest, p->digest);
        capo_profile_free(p);
        for (size_t i = 0; i < N_ELEMENTS(unset); i++)
                unsetenv(unset[i]);
        setenv("CAPO_QUIET", "1", 1);
}

static void drop_profile(void) { unlink(path); }

TestSuite(process, .init = make_profile, .fini = drop_profile);

/* @why: words of the reason; NULL: it has not failed */
static void loads(bool profile, const char *why)
{
        capo_process_load();
        cr_expect(capo_process.ready);
        cr_expect_eq(capo_process.profile != NULL, profile);
        cr_expect_eq(capo_process.failed, why != NULL, "%s", capo_process.why);
        cr_expect(why ? strstr(capo_process.why, why) != NULL : !*capo_process.why, "%s",
                  capo_process.why);
}

Test(process, no_profile)
{
        loads(false, NULL);
        cr_expect(capo_process.speaks && !capo_process.direct_blocked);
}

Test(process, one_that_is_there)
{
        setenv("CAPO_PROFILE", path, 1);
        loads(true, NULL);
        cr_expect_str_empty(capo_process.layout);
}

Test(process, read_once)
{
        struct capo_profile *first;

        setenv("CAPO_PROFILE", path, 1);
        capo_process_load();
        first = capo_process.profile;
        setenv("NCCL_ALGO", "Ring", 1);
        capo_process_load();
        cr_expect_eq(capo_process.profile, first);
        cr_expect_not(capo_process.direct_blocked);
}

Test(process, the_digest_of_the_others)
{
        for (char *c = digest; *c; c++)
                *c = (char)(*c >= 'a' ? *c - 32 : *c);
        setenv("CAPO_PROFILE", path, 1);
        setenv("CAPO_PROFILE_DIGEST", digest, 1);
        loads(true, NULL);
}

Test(process, another_digest)
{
        digest[0] = digest[0] == '0' ? '1' : '0';
        setenv("CAPO_PROFILE", path, 1);
        setenv("CAPO_PROFILE_DIGEST", digest, 1);
        loads(false, "the file is another one here");
        cr_expect(strstr(capo_process.why, digest));
}

Test(process, modelled_rules_elsewhere_only)
{
        strcat(digest, "+modelled");
        setenv("CAPO_PROFILE", path, 1);
        setenv("CAPO_PROFILE_DIGEST", digest, 1);
        loads(false, "CAPO_ALLOW_MODELLED or CAPO_TRIAL is not the same here");
}

Test(process, a_digest_without_a_profile)
{
        setenv("CAPO_PROFILE_DIGEST", "abc", 1);
        loads(false, "CAPO_PROFILE_DIGEST is abc but CAPO_PROFILE is not set");
}

Test(process, a_file_that_is_not_there)
{
        setenv("CAPO_PROFILE", "./nowhere.json", 1);
        loads(false, "nowhere.json");
        cr_expect(!strstr(capo_process.why, "the other ranks"));
}

Test(process, a_file_that_is_not_there_but_elsewhere)
{
        setenv("CAPO_PROFILE", "./nowhere.json", 1);
        setenv("CAPO_PROFILE_DIGEST", "abc", 1);
        loads(false, " (the other ranks use a profile with digest abc)");
}

Test(process, not_strict)
{
        setenv("CAPO_PROFILE", "./nowhere.json", 1);
        setenv("CAPO_STRICT", "0", 1);
        loads(false, NULL);
}

Test(process, auto_alone)
{
        setenv("CAPO_PROFILE", "auto", 1);
        loads(false, NULL);
}

Test(process, off)
{
        setenv("CAPO_PROFILE", "./nowhere.json", 1);
        setenv("CAPO_TUNER", "off", 1);
        loads(false, NULL);
}

Test(process, chain)
{
        setenv("CAPO_PROFILE", "./nowhere.json", 1);
        setenv("CAPO_TUNER", "chain", 1);
        loads(false, NULL);
}

Test(process, only)
{
        setenv("CAPO_PROFILE", "./nowhere.json", 1);
        setenv("CAPO_TUNER", "only", 1);
        loads(false, "nowhere.json");
}

Test(process, the_first_rank_speaks)
{
        setenv("RANK", "", 1);
        setenv("OMPI_COMM_WORLD_RANK", "0", 1);
        setenv("PMI_RANK", "3", 1);
        setenv("NCCL_ALGO", "", 1);
        capo_process_load();
        cr_expect(capo_process.speaks);
        cr_expect_not(capo_process.direct_blocked, "an empty variable is none");
}

Test(process, others_do_not)
{
        setenv("SLURM_PROCID", "10", 1);
        setenv("NCCL_PROTO", "LL", 1);
        capo_process_load();
        cr_expect_not(capo_process.speaks);
        cr_expect(capo_process.direct_blocked);
}

Test(process, users_algorithm)
{
        setenv("NCCL_ALGO", "Ring", 1);
        capo_process_load();
        cr_expect(capo_process.direct_blocked);
}

Test(process, the_launchers_layout)
{
        setenv("CAPO_PROFILE", path, 1);
        setenv("CAPO_LAYOUT", "5+3", 1);
        loads(true, NULL);
        cr_expect_str_eq(capo_process.layout, "3+5");
}

static char received[1 << 20];

static void rules(const char *all) { snprintf(received, sizeof received, "%s", all); }

Test(process, the_recorder_gets_the_rules)
{
        static const struct capo_seam seam = {.rules = rules};
        char expected[1000];

        capo_seam = &seam;
        setenv("CAPO_PROFILE", path, 1);
        loads(true, NULL);
        snprintf(expected, sizeof expected,
                 "digest\t%s\nmodelled\tnot allowed\nfile\t%s\nname\tN\n"
                 "row\t1\t2\tnodes=2\tallreduce\t0\t9\t-\t-\t0\n"
                 "row\t2\t3\tnodes=2\tallreduce\t10\t18446744073709551615\tRing\tLL\t3\n",
                 digest, path);
        cr_expect_str_eq(received, expected);
}

/* A file with @n rows of a modelled rule, in place of the other. */
static void modelled_rows(int n)
{
        FILE *f = fopen(path, "w");

        fputs("{\"capo_profile\": 1, \"rules\": [{\"when\": {}, \"basis\": \"modelled\", \"reduce\": [",
              f);
        for (int i = 1; i < n; i++)
                fprintf(f, "{\"upto\": %d, \"algo\": \"ring\", \"proto\": \"ll\"},\n", i);
        fputs("{\"upto\": \"max\", \"leave\": true}]}]}\n", f);
        fclose(f);
        setenv("CAPO_PROFILE", path, 1);
}

static void tells_rows(int n)
{
        static const struct capo_seam seam = {.rules = rules};
        char last[64], more[64];

        capo_seam = &seam;
        modelled_rows(n);
        loads(true, NULL);
        snprintf(last, sizeof last, "\nrow\t%d\t", n < 4096 ? n : 4096);
        cr_expect(strstr(received, last), "%d", n);
        snprintf(last, sizeof last, "\nrow\t%d\t", n < 4096 ? n + 1 : 4097);
        cr_expect(!strstr(received, last), "%d", n);
        snprintf(more, sizeof more, "\nmore\t%d\n", n - 4096);
        cr_expect(n > 4096 ? strstr(received, more) != NULL : !strstr(received, "\nmore\t"), "%d",
                  n);
}

Test(process, the_recorder_gets_4096_rows) { tells_rows(4096); }

Test(process, and_of_more_how_many) { tells_rows(4099); }

/* What one process says of modelled rules: nothing where they are allowed. */
static void says(const char *what)
{
        static char said[4096];
        int ends[2];

        modelled_rows(2);
        unsetenv("CAPO_QUIET");
        cr_assert_eq(pipe(ends), 0);
        cr_assert(dup2(ends[1], STDERR_FILENO) >= 0);
        loads(true, NULL);
        cr_assert_eq(write(STDERR_FILENO, "|", 1), 1);
        cr_assert_gt(read(ends[0], said, sizeof said - 1), 0);
        if (what)
                cr_expect(strstr(said, what), "%s", said);
        else
                cr_expect_str_eq(said, "|");
}

Test(process, modelled_rules_are_counted_where_they_are_not_used)
{
        says("modelled rules of the profile that are not used: 1;");
}

Test(process, and_not_mentioned_where_they_are)
{
        setenv("CAPO_ALLOW_MODELLED", "1", 1);
        says(NULL);
}

Test(process, a_shape_has_its_tables_once)
{
        const struct capo_shape first = {.n_ranks = 8,
                                         .n_nodes = 2,
                                         .min_local = 3,
                                         .max_local = 5,
                                         .nccl = 22809,
                                         .layout = "3+5",
                                         .class_name = "c",
                                         .comm = "dp"};
        struct capo_shape other[9];
        const struct capo_tables *tables, *of[9];
        bool own = true;

        setenv("CAPO_PROFILE", path, 1);
        capo_process_load();
        cr_assert_eq(capo_process_tables(&first, &tables, &own), 0);
        cr_expect_not(own);
        for (int i = 0; i < 9; i++)
                other[i] = first;
        other[0].n_ranks++;
        other[1].n_nodes++;
        other[2].min_local++;
        other[3].max_local++;
        other[4].nccl++;
        other[5].allow_modelled = true;
        other[6].layout = "4+4";
        other[7].class_name = NULL;
        other[8].comm = "tp";
        for (int again = 0; again < 2; again++) {
                for (int i = 0; i < 9; i++) {
                        const struct capo_tables *t;

                        cr_assert_eq(capo_process_tables(&other[i], &t, &own), 0);
                        cr_expect(t != tables && !own, "%d", i);
                        cr_expect(!again || t == of[i], "%d", i);
                        of[i] = t;
                }
        }
        for (int i = 10; i < 258; i++) { /* 256 are kept */
                const struct capo_tables *t;

                other[0].n_ranks = 100 + i;
                cr_assert_eq(capo_process_tables(&other[0], &t, &own), 0);
                cr_expect_eq(own, i >= 256, "%d", i);
        }
        cr_assert_eq(capo_process_tables(&(struct capo_shape){.n_ranks = 8,
                                                              .n_nodes = 2,
                                                              .min_local = 3,
                                                              .max_local = 5,
                                                              .nccl = 22809,
                                                              .layout = strdup("3+5"),
                                                              .class_name = "c",
                                                              .comm = strdup("dp")},
                                         &of[0], &own),
                     0);
        cr_expect(of[0] == tables && !own, "texts are compared, not where they are");
}

/* Interface v1 answers from a copy of the first tuner that was opened, also after that one was
 * closed. */
Test(process, the_copy_of_v1_keeps_no_tables_that_are_given_back)
{
        static const char any[] =
                "{\"capo_profile\": 1, \"rules\": [{\"when\": {}, \"allreduce\": [{\"upto\": \"max\", "
                "\"algo\": \"ring\", \"proto\": \"ll\", \"channels\": 3}]}]}";
        const struct capo_tuner_v1 *plugin = capo_tuner_abis[0]->own;
        const struct capo_tables *tables;
        bool own = false;
        FILE *f = fopen(path, "we");

        cr_assert(f && fputs(any, f) >= 0 && fclose(f) == 0);
        setenv("CAPO_PROFILE", path, 1);
        capo_process_load();
        for (int i = 2; !own; i++) /* no more are kept */
                cr_assert_eq(capo_process_tables(&(struct capo_shape){.n_ranks = i, .n_nodes = 1},
                                                 &tables, &own),
                             0);
        mallopt(M_PERTURB, 0xa5); /* what is given back is no table any more */
        for (int round = 0; round < 2; round++) {
                cr_assert_eq(plugin->init(8, 1, NULL), CAPO_NCCL_SUCCESS);
                for (size_t bytes = 1; bytes < 1u << 20; bytes <<= 1) {
                        int algo = -1, proto = -1, channels = 0;

                        plugin->get_coll_info(4, bytes, 0, 0, 1, &algo, &proto, &channels);
                        cr_expect(algo == 1 && proto == 0 && channels == 3,
                                  "%d, %zu bytes: %d %d %d", round, bytes, algo, proto, channels);
                }
                cr_assert_eq(plugin->destroy(), CAPO_NCCL_SUCCESS);
        }
}
