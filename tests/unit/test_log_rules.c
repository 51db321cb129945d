/* SPDX-License-Identifier: Apache-2.0 */
/* RULES: what the tuner writes is what the report reads; damaged lines are no rules. */
#include <stdio.h>
#include <string.h>
#include <criterion/criterion.h>

#include "core/base/util.h"
#include "analysis/log/rules_read.h"

static char text[4096];

static const struct capo_rules_row row = {.rule = 12,
                                          .line = 41,
                                          .when = "nodes=2 layout=3+5",
                                          .coll = "allreduce",
                                          .from = 4096,
                                          .upto = UINT64_MAX,
                                          .algo = "ring",
                                          .proto = "LL128",
                                          .channels = 8};

static void write_text(void)
{
        struct capo_rules_row candidate = {
                .candidate = true, .rule = 3, .algo = "nvls", .proto = "simple"};
        FILE *f = fmemopen(text, sizeof text, "w");

        capo_rules_put(f, CAPO_RULES_DIGEST, "%s", "00112233aabbccdd");
        capo_rules_put(f, CAPO_RULES_FILE, "%s", "/a/b/my profile.json");
        capo_rules_put(f, CAPO_RULES_NAME, "%s", "");
        capo_rules_put_row(f, &row);
        capo_rules_put_row(f, &candidate);
        capo_rules_put(f, CAPO_RULES_MORE, "%u", 7u);
        fclose(f);
}

TestSuite(log_rules, .init = write_text);

Test(log_rules, bytes)
{
        cr_assert_str_eq(
                text,
                "digest\t00112233aabbccdd\nfile\t/a/b/my profile.json\nname\t\n"
                "row\t12\t41\tnodes=2 layout=3+5\tallreduce\t4096\t18446744073709551615\tring\tLL128\t8\n"
                "candidate\t3\tnvls\tsimple\t0\nmore\t7\n");
}

Test(log_rules, values)
{
        char value[64];

        cr_assert(capo_rules_value(text, CAPO_RULES_DIGEST, value, sizeof value));
        cr_assert_str_eq(value, "00112233aabbccdd");
        cr_assert(capo_rules_value(text, CAPO_RULES_NAME, value, sizeof value));
        cr_assert_str_eq(value, "");
        cr_assert(capo_rules_value(text, CAPO_RULES_FILE, value, 5));
        cr_assert_str_eq(value, "/a/b", "cut to the room");
        cr_assert_not(capo_rules_value(text, CAPO_RULES_SWEEP, value, sizeof value));
        cr_assert_str_eq(value, "");
        cr_assert_not(capo_rules_value(NULL, CAPO_RULES_DIGEST, value, sizeof value));
        cr_assert_not(capo_rules_value("digest", CAPO_RULES_DIGEST, value, sizeof value),
                      "no tab, no value");
        cr_assert_not(capo_rules_value("digests\tx\n", CAPO_RULES_DIGEST, value, sizeof value));
}

Test(log_rules, rows)
{
        struct capo_rules_row out;
        char place[64];

        cr_assert(capo_rules_find(text, 12, &out));
        cr_assert(!out.candidate && out.line == 41 && out.from == 4096 && out.upto == UINT64_MAX &&
                  out.channels == 8);
        cr_assert_str_eq(out.when, row.when);
        cr_assert_str_eq(out.coll, row.coll);
        cr_assert_str_eq(out.algo, row.algo);
        cr_assert_str_eq(out.proto, row.proto);
        cr_assert_str_eq(out.file, "my profile.json");
        cr_assert_str_eq(capo_rules_place(text, 12, place, sizeof place), "my profile.json:41");
        cr_assert(capo_rules_find(text, 3, &out));
        cr_assert(out.candidate && !out.channels && !out.line && !out.from && !out.upto);
        cr_assert_str_eq(out.algo, "nvls");
        cr_assert_str_eq(capo_rules_place(text, 3, place, sizeof place), "sweep candidate");
        cr_assert_not(capo_rules_find(text, 41, &out), "a line is not a rule");
        cr_assert_str_eq(capo_rules_place(text, 41, place, sizeof place), "rule 41");
        cr_assert_str_eq(capo_rules_place(NULL, 1, place, sizeof place), "rule 1");
}

/* What calls are turned for is the last field, and older logs do not have it. */
Test(log_rules, turned)
{
        struct capo_rules_row turned = row, out;
        char line[1024];
        FILE *f = fmemopen(line, sizeof line, "w");

        snprintf(turned.turned, sizeof turned.turned, "symk ST, 3 CTAs");
        capo_rules_put_row(f, &turned);
        capo_rules_put_row(f, &row);
        fclose(f);
        cr_assert(capo_rules_row(line, &out));
        cr_assert_str_eq(out.turned, "symk ST, 3 CTAs");
        cr_assert(capo_rules_row(strchr(line, '\n') + 1, &out));
        cr_assert_str_empty(out.turned, "nor the next line's");
}

/* A chunk stands behind that, of candidates behind the channels. */
Test(log_rules, chunk)
{
        struct capo_rules_row said = row,
                              candidate = {.candidate = true,
                                           .rule = 3,
                                           .algo = "Ring",
                                           .proto = "LL",
                                           .chunk = 16},
                              out;
        char lines[2048];
        FILE *f = fmemopen(lines, sizeof lines, "w");
        const char *line = lines;

        said.chunk = 65536;
        capo_rules_put_row(f, &said);
        snprintf(said.turned, sizeof said.turned, "3 CTAs");
        capo_rules_put_row(f, &said);
        capo_rules_put_row(f, &candidate);
        capo_rules_put_row(f, &row);
        fclose(f);
        cr_assert(capo_rules_row(line, &out));
        cr_expect(out.chunk == 65536 && !*out.turned && out.channels == row.channels);
        line = strchr(line, '\n') + 1;
        cr_assert(capo_rules_row(line, &out));
        cr_expect(out.chunk == 65536 && !strcmp(out.turned, "3 CTAs"));
        line = strchr(line, '\n') + 1;
        cr_assert(capo_rules_row(line, &out));
        cr_expect(out.candidate && out.chunk == 16 && out.channels == 0);
        line = strchr(line, '\n') + 1;
        cr_assert(capo_rules_row(line, &out));
        cr_expect(!out.chunk && !*out.turned);
}

Test(log_rules, damage)
{
        static const char *const lines[] = {
                "",
                "row",
                "row\t",
                "row\t1\t2\twhen\tallreduce\t1\t2\tring\tLL",
                "rows\t1\t2\tw\tc\t1\t2\ta\tp\t3",
                "candidate",
                "row\t\t\t",
                "candidate\t1\tring\tLL",
                "candidate\tx\tring\tLL\t2",
                "candidate\t1\t\tLL\t2",
        };
        struct capo_rules_row out;

        for (size_t i = 0; i < N_ELEMENTS(lines); i++)
                cr_assert_not(capo_rules_row(lines[i], &out), "%s", lines[i]);
        for (size_t n = 0; n < strlen(text); n++) { /* cut anywhere: never another row */
                char cut[sizeof text];

                snprintf(cut, sizeof cut, "%.*s", (int)n, text);
                if (capo_rules_find(cut, 12, &out))
                        cr_assert_str_eq(out.proto, "LL128");
        }
}
