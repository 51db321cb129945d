/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <criterion/criterion.h>

#include "core/base/util.h"
#include "profiles/launch/legacy.h"

#define RULE(lists) "{\"capo_profile\": 1, \"rules\": [{\"when\": {}, " lists "}]}"

static void clean(void)
{
        static const char *const names[] = {"NCCL_TREE_THRESHOLD", "NCCL_LL_THRESHOLD", "NCCL_ALGO",
                                            "NCCL_PROTO",          "NCCL_MAX_NRINGS",   "NCCL_MAX_NCHANNELS"};

        for (size_t i = 0; i < N_ELEMENTS(names); i++)
                unsetenv(names[i]);
}

/* "A=1 B=2 | words lost" */
static void translate(const char *text, int nccl, char *out, size_t room)
{
        struct capo_profile *p = NULL;
        struct capo_fault fault;
        struct capo_shape shape = {.n_ranks = 8, .n_nodes = 2, .min_local = 4, .max_local = 4, .nccl = nccl};
        struct capo_legacy legacy;
        size_t n = 0;

        cr_assert_eq(capo_profile_parse(text, strlen(text), "t.json", &p, &fault), 0, "%s", fault.text);
        cr_assert_eq(capo_legacy_translate(p, &shape, &legacy), 0);
        *out = 0;
        for (unsigned i = 0; i < legacy.n; i++)
                n += (size_t)snprintf(out + n, room - n, "%s=%s ", legacy.set[i].name, legacy.set[i].value);
        snprintf(out + n, room - n, "| %s", legacy.lost ? legacy.lost : "");
        free(legacy.lost);
        capo_profile_free(p);
}

Test(legacy, table, .init = clean)
{
        static const struct {
                const char *profile;
                int nccl;
                const char *begins, *has;
        } rows[] = {
                /* 2.4: two thresholds */
                {RULE("\"allreduce\": [{\"upto\": \"64K\", \"algo\": \"tree\", \"proto\": \"ll\"}, "
                      "{\"upto\": \"max\", \"algo\": \"ring\", \"proto\": \"simple\"}]"),
                 20408, "NCCL_TREE_THRESHOLD=65536 NCCL_LL_THRESHOLD=65536 | ", ""},
                {RULE("\"allreduce\": [{\"upto\": \"max\", \"algo\": \"ring\", \"proto\": \"simple\", \"channels\": "
                      "4}]"),
                 20408, "NCCL_TREE_THRESHOLD=0 NCCL_LL_THRESHOLD=0 NCCL_MAX_NRINGS=4 | ", ""},
                {RULE("\"allreduce\": [{\"upto\": \"max\", \"algo\": \"tree\", \"proto\": \"simple\"}]"), 20408,
                 "NCCL_TREE_THRESHOLD=9223372036854775807 ", ""},
                {RULE("\"allreduce\": [{\"upto\": \"1K\", \"algo\": \"ring\", \"proto\": \"ll\"}, {\"upto\": \"max\", "
                      "\"algo\": \"tree\", "
                      "\"proto\": \"simple\"}]"),
                 20408, "NCCL_LL_THRESHOLD=1024 | ", "allreduce: tree and ring by size"},
                {RULE("\"allreduce\": [{\"upto\": \"64K\", \"algo\": \"tree\", \"proto\": \"ll\"}, {\"upto\": \"max\", "
                      "\"leave\": true}]"),
                 20408, "| ", "no size left to NCCL"},
                /* 2.5 to 2.18: no sizes */
                {RULE("\"allreduce\": [{\"upto\": \"max\", \"algo\": \"tree\", \"proto\": \"simple\"}]"), 20708,
                 "NCCL_ALGO=Tree NCCL_PROTO=Simple | ", ""},
                {RULE("\"allreduce\": [{\"upto\": \"max\", \"algo\": \"tree\", \"proto\": \"simple\"}]"), 21805,
                 "NCCL_PROTO=Simple | ", "would reach every collective"},
                {RULE("\"allreduce\": [{\"upto\": \"64K\", \"algo\": \"tree\", \"proto\": \"ll\", \"channels\": 2}, "
                      "{\"upto\": \"max\", \"algo\": \"ring\", \"proto\": \"simple\", \"channels\": 8}]"),
                 21212, "| ", "no choice of algorithm by size"},
                {RULE("\"allreduce\": [{\"upto\": \"max\", \"algo\": \"ring\", \"proto\": \"ll128\"}]"), 21212,
                 "NCCL_ALGO=Ring | ", "LL128 is never set"},
                /* a rule that does not hold */
                {"{\"capo_profile\": 1, \"rules\": [{\"when\": {\"nodes\": 3}, \"allreduce\": [{\"upto\": \"max\", "
                 "\"algo\": \"ring\", "
                 "\"proto\": \"simple\"}]}]}",
                 21212, "| ", "no rule of the profile holds"},
        };
        char got[2048];

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                translate(rows[i].profile, rows[i].nccl, got, sizeof got);
                cr_assert(!strncmp(got, rows[i].begins, strlen(rows[i].begins)), "row %zu: %s", i, got);
                cr_assert(strstr(got, rows[i].has), "row %zu: %s", i, got);
        }
}

Test(legacy, the_users_variables_stay, .init = clean)
{
        char got[2048];

        setenv("NCCL_ALGO", "Ring", 1);
        translate(RULE("\"allreduce\": [{\"upto\": \"max\", \"algo\": \"tree\", \"proto\": \"simple\"}]"), 21212, got,
                  sizeof got);
        cr_assert_str_eq(got, "NCCL_PROTO=Simple | NCCL_ALGO=Tree is not set: yours, Ring, stays\n");
}

Test(legacy, only_releases_without_a_tuner, .init = clean)
{
        const char *text = RULE("\"allreduce\": [{\"upto\": \"max\", \"leave\": true}]");
        struct capo_profile *p = NULL;
        struct capo_shape shape = {.n_ranks = 8, .n_nodes = 2, .nccl = 21901};
        struct capo_legacy legacy;

        cr_assert_eq(capo_profile_parse(text, strlen(text), "t.json", &p, NULL), 0);
        cr_assert_eq(capo_legacy_translate(p, &shape, &legacy), -ERANGE);
        shape.nccl = 20307;
        cr_assert_eq(capo_legacy_translate(p, &shape, &legacy), -ERANGE);
        capo_profile_free(p);
}
