/* SPDX-License-Identifier: Apache-2.0 */
/* The pull reader and the values by themselves: borders of the grammar, and where a fault is said
 * to be. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "capo/profile.h"
#include "core/base/util.h"
#include "core/profile/profile_json.h"

static struct capo_fault fault;
static struct capo_json r;

static void begin(const char *text)
{
        fault.text[0] = 0;
        capo_json_init(&r, text, strlen(text), "f", &fault);
}

Test(json, numbers)
{
        static const struct {
                const char *text;
                double value; /* NAN: refused */
        } rows[] = {{"0", 0},
                    {"-0", -0.0},
                    {"7", 7},
                    {"-7.25", -7.25},
                    {"1e3", 1000},
                    {"1E+3", 1000},
                    {"125e-3", .125},
                    {"0.1", 0.1},
                    {"123456789012345", 123456789012345.},
                    {"1234567890123456", 1234567890123456.},
                    {"12345678.12345678", 12345678.12345678},
                    {"1e308", 1e308},
                    {"1e309", NAN},
                    {"01", NAN},
                    {"-", NAN},
                    {"", NAN},
                    {".5", NAN},
                    {"5.", NAN},
                    {"1e", NAN},
                    {"1e+", NAN},
                    {"+1", NAN},
                    {"0x10", NAN},
                    {"1 ", NAN},
                    {"nan", NAN},
                    {"00", NAN},
                    {"-01", NAN},
                    /* of 63 digits, and of one more than there is room for */
                    {"1.0000000000000000000000000000000000000000000000000000000000001", 1},
                    {"1.00000000000000000000000000000000000000000000000000000000000001", NAN},
                    {"1.5.5", NAN}};

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                double v = 42;
                bool good = capo_number_parse(rows[i].text, strlen(rows[i].text), &v);

                cr_expect_eq(good, !isnan(rows[i].value), "\"%s\"", rows[i].text);
                cr_expect(v == (good ? rows[i].value : 42), "\"%s\": %g", rows[i].text, v);
        }
}

Test(json, numbers_end_where_the_text_ends)
{
        double v;

        cr_expect(capo_number_parse("123", 2, &v) && v == 12);
        cr_expect_not(capo_number_parse("1.5", 2, &v));
        cr_expect_not(capo_number_parse("1", 0, &v));
}

Test(json, numbers_print_as_short_as_they_read_back)
{
        static const struct {
                double value;
                const char *text;
        } rows[] = {{0, "0"},         {0.1, "0.1"},
                    {1e6, "1000000"}, {1e14, "100000000000000"},
                    {1e15, "1e+15"},  {1. / 3, "0.3333333333333333"},
                    {-2.5, "-2.5"},   {12345678, "12345678"},
                    {1e-7, "1e-07"}};
        char text[40];

        for (size_t i = 0; i < N_ELEMENTS(rows); i++)
                cr_expect_str_eq(capo_number_print(rows[i].value, text, sizeof text), rows[i].text);
        cr_expect_str_eq(capo_float_print(0.1f, text, sizeof text), "0.1");
        cr_expect_str_eq(capo_float_print(16777217.f, text, sizeof text), "16777216");
        cr_expect_str_eq(capo_float_print(12.34f, text, sizeof text), "12.34");
}

Test(json, texts_are_escaped)
{
        char *text = NULL;
        size_t size;
        FILE *f = open_memstream(&text, &size);

        capo_text_put(f, "a\"b\\c\n\x1f\x20\x7f");
        fclose(f);
        cr_expect_str_eq(text, "\"a\\\"b\\\\c\\u000a\\u001f \x7f\"");
        free(text);
}

static const char *string_of(const char *text, char *out)
{
        begin(text);
        return capo_json_text(&r, out, 64, "text") && capo_json_end(&r) ? out : NULL;
}

Test(json, strings)
{
        static const struct {
                const char *text, *value; /* NULL: refused */
        } rows[] = {
                {"\"\"", ""},
                {" \"abc\" ", "abc"},
                {"\"long enough for eight at a time\"", "long enough for eight at a time"},
                {"\"1234567\\n\"", "1234567\n"},
                {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t"},
                {"\"\\u0041\\u00e9\\u20ac\"", "A\xc3\xa9\xe2\x82\xac"},
                {"\"\\u007f\\u0080\\u07ff\\u0800\"", "\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80"},
                {"\"\\ud83d\\ude00\"", "\xf0\x9f\x98\x80"},
                {"\"\\ud800\\udc00\"", "\xf0\x90\x80\x80"},
                {"\"\\uDBFF\\uDFFF\"", "\xf4\x8f\xbf\xbf"},
                {"\"\xc3\xa9\"", "\xc3\xa9"},
                {"\"\xf4\x8f\xbf\xbf\"", "\xf4\x8f\xbf\xbf"},
                {"\"\xf4\x90\x80\x80\"", NULL},
                {"\"\xf5\x80\x80\x80\"", NULL},
                {"\"\xc0\x80\"", NULL},
                {"\"\xed\xa0\x80\"", NULL},
                {"\"\x80\"", NULL},
                {"\"\xc3\"", NULL},
                {"\"\\u0000\"", NULL},
                {"\"\\u0001\"", "\1"},
                {"\"\\ud800\"", NULL},
                {"\"\\udc00\\ud800\"", NULL},
                {"\"\\ud800\\ue000\"", NULL},
                {"\"\\ud800\\udbff\"", NULL},
                {"\"\\u00g0\"", NULL},
                {"\"\\u004\"", NULL},
                {"\"\\x41\"", NULL},
                {"\"a\nb\"", NULL},
                {"\"a\x1f\"", NULL},
                {"\"a", NULL},
                {"\"a\\\"", NULL},
                {"a", NULL},
                {"\"a\"b", NULL},
        };
        char out[64];

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                const char *got = string_of(rows[i].text, out);

                cr_expect_eq(!got, !rows[i].value, "row %zu: %s", i, fault.text);
                if (got && rows[i].value)
                        cr_expect_str_eq(got, rows[i].value, "row %zu", i);
                capo_json_finish(&r);
        }
}

Test(json, text_must_fit_its_room)
{
        char out[4];

        begin("\"abc\"");
        cr_expect(capo_json_text(&r, out, sizeof out, "three letters"));
        cr_expect_str_eq(out, "abc");
        begin("  \"abcd\"");
        cr_expect_not(capo_json_text(&r, out, sizeof out, "three letters"));
        cr_expect_str_eq(fault.text, "f:1:3: expected three letters, found \"abcd\"");
}

Test(json, objects_and_lists)
{
        struct capo_slice key, value;
        double sum = 0, v;
        bool flag = true;

        begin("{\"a\": [1, 2,3 ], \"b\" :false,\n \"c\": {\"x\": [null, \"}\", {}]}}");
        cr_expect(capo_json_open(&r, '{', "an object"));
        cr_expect(capo_json_key(&r, &key) && key.size == 1 && *key.at == 'a');
        cr_expect(capo_json_open(&r, '[', "a list"));
        while (capo_json_item(&r) && capo_json_number(&r, &v, "a number"))
                sum += v;
        cr_expect(sum == 6);
        cr_expect(capo_json_key(&r, &key) && *key.at == 'b' &&
                  capo_json_bool(&r, &flag, "true or false") && !flag);
        cr_expect(capo_json_key(&r, &key) && *key.at == 'c' && r.line == 2 &&
                  capo_json_any(&r, &value));
        cr_expect(value.size == 22 && !memcmp(value.at, "{\"x\": [null, \"}\", {}]}", 22), "%.*s",
                  (int)value.size, value.at);
        cr_expect_not(capo_json_key(&r, &key));
        cr_expect(capo_json_end(&r) && !r.failed);
}

Test(json, faults_say_where)
{
        static const struct {
                const char *text, *said;
        } rows[] = {
                {"[1 2]", "f:1:4: expected \",\" or \"]\", found 2"},
                {"[1,\n  ]", "f:2:3: expected a number, found ]"},
                {"[1", "f:1:3: expected \",\" or \"]\", found the end of the file"},
                {"{}", "f:1:1: expected a list, found {"},
                {"\xef\xbb\xbf", "f:1:1: expected JSON without a byte order mark, found \\xef"},
                {"\xef\xbb\xbf[]", "f:1:1: expected JSON without a byte order mark, found \\xef"},
                {"[\x7f]", "f:1:2: expected a number, found \\x7f"},
                {"[\x1f]", "f:1:2: expected a number, found \\x1f"},
                /* as much as its 95 bytes hold */
                {"[\"abc\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\"]",
                 "f:1:2: expected a number, found \"abc"
                 "\\x01\\x01\\x01\\x01\\x01\\x01\\x01\\x01\\x01\\x01\\x01\\x01\\x01\\x01\\x01\\x01\\x01\\x01\\x01\\x01\\x01\\x01..."},
                {"[1] x", "f:1:5: expected nothing after the closing brace, found x"},
                {"[\"a-long-word-that-goes-on-and-on-and-on-and-on\"]",
                 "f:1:2: expected a number, found \"a-long-word-that-goes-on-and-on-and-on-..."},
                /* 39 bytes in quotes are 40 and a closing one: whole; one byte more is not */
                {"[\"a-long-word-that-goes-on-and-on-and-on-\"]",
                 "f:1:2: expected a number, found \"a-long-word-that-goes-on-and-on-and-on-\""},
                {"[\"a-long-word-that-goes-on-and-on-and-on-a\"]",
                 "f:1:2: expected a number, found \"a-long-word-that-goes-on-and-on-and-on-..."},
                {"[\"a-long-word-that-goes-on-and-on-and-on-",
                 "f:1:2: expected a number, found "
                 "\"a-long-word-that-goes-on-and-on-and-on-"},
                {"[\"a-long-word-that-goes-on-and-on-and-on-\n",
                 "f:1:2: expected a number, found "
                 "\"a-long-word-that-goes-on-and-on-and-on-"},
                {"[a-long-word-that-goes-on-and-on-and-on-a]",
                 "f:1:2: expected a number, found a-long-word-that-goes-on-and-on-and-on-a"},
                {"[a-long-word-that-goes-on-and-on-and-on-an]",
                 "f:1:2: expected a number, found a-long-word-that-goes-on-and-on-and-on-a..."},
                {"[a.b_c+d-e~]", "f:1:2: expected a number, found a.b_c+d-e"},
                {"[~~]", "f:1:2: expected a number, found ~"},
                {"[-x]", "f:1:2: expected a number, found -x"},
                /* 22 bytes as \x.. are 88: then only what says that there was more has room */
                {"[\"\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\"]",
                 "f:1:2: expected a number, found "
                 "\"\\x01\\x01\\x01\\x01\\x01\\x01\\x01\\x01\\x01\\x01\\x01\\x01\\x01\\x01\\x01\\x01\\x01\\x01\\x01"
                 "\\x01\\x01\\x01..."},
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                double v;

                begin(rows[i].text);
                if (capo_json_open(&r, '[', "a list")) {
                        while (capo_json_item(&r) && capo_json_number(&r, &v, "a number"))
                                ;
                        capo_json_end(&r);
                }
                cr_expect_str_eq(fault.text, rows[i].said);
                cr_expect_not(capo_json_fail(&r, r.at, "anything else"));
                cr_expect_str_eq(fault.text, rows[i].said, "the first failure stays");
        }
}

Test(json, keys_of_a_table)
{
        static const struct capo_slice words[] = {CAPO_SLICE("one"), CAPO_SLICE("two"),
                                                  CAPO_SLICE("three")};
        static const struct {
                const char *text;
                int order[4]; /* ends with -1 */
                const char *said;
        } rows[] = {
                {"{\"one\": 1, \"two\": 1, \"three\": 1}", {0, 1, 2, -1}, ""},
                {"{\"three\":1,\"one\" : 1}", {2, 0, -1}, ""},
                {"{\"o\\u006ee\": 1}", {0, -1}, ""},
                {"{}", {-1}, ""},
                {"{\"one\": 1, \"one\": 1}",
                 {0, -1},
                 "f:1:12: expected the key one only once, found \"one\""},
                {"{\"four\": 1}", {-1}, "f:1:2: expected one of one, two, three, found \"four\""},
                {"{\"one\" 1}", {-1}, "f:1:8: expected \":\" after the key, found 1"},
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                uint32_t seen = 0;
                int n = 0, k;
                double v;

                begin(rows[i].text);
                capo_json_open(&r, '{', "an object");
                while ((k = capo_json_next(&r, words, 3, &seen)) >= 0) {
                        cr_expect_eq(k, rows[i].order[n], "row %zu", i);
                        n++;
                        capo_json_number(&r, &v, "a number");
                }
                cr_expect_eq(rows[i].order[n], -1, "row %zu ends after %d", i, n);
                cr_expect_str_eq(fault.text, rows[i].said);
                cr_expect_eq(r.failed, *rows[i].said != 0);
                capo_json_finish(&r);
        }
}

Test(json, what_nobody_looks_into_ends_at_64_levels)
{
        struct capo_slice value;
        char text[200] = "";

        memset(text, '[', 64);
        memset(text + 64, ']', 64);
        begin(text);
        cr_expect(capo_json_any(&r, &value));
        memset(text, '[', 65);
        memset(text + 65, ']', 65);
        begin(text);
        cr_expect_not(capo_json_any(&r, &value));
        cr_expect(strstr(fault.text, "f:1:65: expected at most 64 levels"), "%s", fault.text);
}

/* What lies behind the end is not the text's. */
Test(json, a_word_ends_where_the_text_ends)
{
        double v;

        capo_json_init(&r, "[abcdef", 4, "f", &fault);
        cr_assert(capo_json_open(&r, '[', "a list") && capo_json_item(&r));
        cr_expect_not(capo_json_number(&r, &v, "a number"));
        cr_expect_str_eq(fault.text, "f:1:2: expected a number, found abc");
}

Test(json, a_number_that_needs_17_digits)
{
        char text[40];

        cr_expect_str_eq(capo_number_print(0.1 + 0.2, text, sizeof text), "0.30000000000000004");
}

Test(json, escapes_that_are_none)
{
        static const char *const texts[] = {"\"\\u12g4\"",
                                            "\"\\u12\"",
                                            "\"\\u\"",
                                            "\"\\ud83d\"",
                                            "\"\\ud83d\\\"\"",
                                            "\"\\ud83dxude00\"",
                                            "\"\\ud83d\\ude0\"",
                                            "\"\\ud83d\\n\"",
                                            "\"\\",
                                            "\"\\\"",
                                            "\"\\ud83d\\u0041\"",
                                            "\"\\udc00\\udc00\"",
                                            "\"\\ud83d\\ue000\""};

        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
                struct capo_fault said = {0};
                struct capo_slice s;
                struct capo_json reader;

                capo_json_init(&reader, texts[i], strlen(texts[i]), "f", &said);
                cr_expect_not(capo_json_string(&reader, &s, "text"), "%s", texts[i]);
                cr_expect(strstr(said.text, "expected "), "%s: %s", texts[i], said.text);
                capo_json_finish(&reader);
        }
}
