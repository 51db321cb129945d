/* SPDX-License-Identifier: Apache-2.0 */
/* Every kind of field in every format: known, not known, and texts of others. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/base/cli_fields.h"
#include "cli/base/cli_json.h"

struct thing {
        const char *text, *word;
        int64_t flag, rank, count, bytes, time_ns;
        double ns, share, gbs, real;
};

#define THING_FIELDS(F)                                                     \
        F("text", TEXT, of->text, "text", "l~", "text")                     \
        F("?word", WORD, of->word, "word", "l", "word")                     \
        F("flag", FLAG, of->flag, "flag", "l", "flag")                      \
        F("rank", RANK, of->rank, "rank", "r", "rank")                      \
        F("delta", INTEGER, of->rank)                                       \
        F("count", COUNT, of->count, "count", "r", "count")                 \
        F("bytes", BYTES, of->bytes, "size", "r", "size_B")                 \
        F("at", TIME, of->time_ns, NULL, NULL, "look_seconds")              \
        F("p50_us", DURATION, of->ns, "p50", "r/a", "p50_us")               \
        F("p50_s", DURATION, of->ns, NULL, NULL, "call_seconds")            \
        F("share", SHARE, of->share, "time", "r", "ratio")                  \
        F("gbs", RATE, of->gbs, "busbw", "r", "bandwidth_bytes_per_second") \
        F("sent_bytes_per_s", RATE, of->gbs)                                \
        F("real", REAL, of->real)                                           \
        F("exact", EXACT, of->real)                                         \
        F("list", JSON, in ? CLI_EACH(int k = 0; k < *in; k++, json_integer(k)) : NULL)
CLI_ENTITY(thing, struct thing, int, THING_FIELDS);

static const struct thing known = {"a,\xff|b", "ring",  1,      3,      1204816, 1572864,
                                   1500000000, 5520000, 0.0752, 12.345, -1.0 / 3};
static const struct thing unknown = {NULL, "-", -1, -1, -1, -1, 0, -1, NAN, -1, NAN};

static char *print_json(const int *in, const struct thing *of)
{
        json_t *j = cli_entity_json(&thing, in, of);
        char *text = json_dumps(j, JSON_COMPACT);

        json_decref(j);
        return text;
}

Test(fields, json)
{
        const int two = 2;

        cr_assert_str_eq(print_json(&two, &known),
                         "{\"text\":\"a,?|b\",\"word\":\"ring\",\"flag\":true,\"rank\":3,"
                         "\"delta\":3,\"count\":1204816,\"bytes\":1572864,\"at\":1.5,"
                         "\"p50_us\":5520.0,\"p50_s\":0.0055199999999999997,"
                         "\"share\":0.075200000000000003,\"gbs\":12.345000000000001,"
                         "\"sent_bytes_per_s\":12345000000.0,\"real\":-0.33333299999999999,"
                         "\"exact\":-0.33333333333333331,\"list\":[0,1]}");
        cr_assert_str_eq(print_json(NULL, &unknown),
                         "{\"text\":null,\"flag\":null,\"rank\":null,\"delta\":-1,"
                         "\"count\":null,\"bytes\":null,\"at\":null,\"p50_us\":null,"
                         "\"p50_s\":null,\"share\":null,\"gbs\":null,\"sent_bytes_per_s\":null,"
                         "\"real\":null,\"exact\":null}");
        cr_assert(json_is_null(cli_entity_json(&thing, NULL, NULL)));
}

Test(fields, lists)
{
        const struct thing both[] = {known, unknown};
        json_t *list = CLI_ENTITIES(thing, NULL, both, 2);

        cr_assert_eq(json_array_size(list), 2);
        cr_assert_eq(json_integer_value(json_object_get(json_array_get(list, 0), "rank")), 3);
        cr_assert(json_is_null(json_object_get(json_array_get(list, 1), "rank")));
        json_decref(list);
}

Test(fields, csv)
{
        char *text = NULL;
        size_t n = 0;
        FILE *out = open_memstream(&text, &n);

        cli_entity_csv(&thing, NULL, NULL, out);
        cli_entity_csv(&thing, NULL, &known, out);
        cli_entity_csv(&thing, NULL, &unknown, out);
        fclose(out);
        cr_assert_str_eq(text, "text,word,flag,rank,count,size_B,look_seconds,p50_us,call_seconds,"
                               "ratio,bandwidth_bytes_per_second\n"
                               "\"a,?|b\",ring,1,3,1204816,1572864,1.5,5520,0.00552,0.0752,"
                               "1.2345e+10\n"
                               ",-,,,,,,,,,\n");
}

Test(fields, metrics)
{
        cr_assert_eq(cli_field_export(&thing, NULL, &known, "count"), 1204816);
        cr_assert_eq(cli_field_export(&thing, NULL, &known, "look_seconds"), 1.5);
        cr_assert_eq(cli_field_export(&thing, NULL, &known, "call_seconds"), 0.00552);
        cr_assert_eq(cli_field_export(&thing, NULL, &known, "bandwidth_bytes_per_second"),
                     12.345e9);
        cr_assert(isnan(cli_field_export(&thing, NULL, &unknown, "count")));
        cr_assert(isnan(cli_field_export(&thing, NULL, &unknown, "look_seconds")));
        cr_assert(isnan(cli_field_export(&thing, NULL, &unknown, "ratio")));
        cr_assert(isnan(cli_field_export(&thing, NULL, &known, "no such field")));
}

static char *print_page(const char *hidden, void (*print)(const struct cli_page *, FILE *))
{
        struct cli_page *page = cli_page_new();
        struct cli_section *s = cli_page_entity(page, "THINGS", &thing);
        char *text = NULL;
        size_t n = 0;
        FILE *out = open_memstream(&text, &n);

        cli_section_hide(s, hidden);
        cli_section_entity(s, NULL, &known);
        cli_section_entity(s, NULL, &unknown);
        print(page, out);
        fclose(out);
        return text;
}

Test(fields, pages)
{
        char *text = print_page("none", cli_page_markdown);

        cr_assert(strstr(text, "| 1,204,816 | 1.5 MiB | 5.52 ms | 7.5 % | 12.3 |"), "%s", text);
        cr_assert(strstr(text, "| - | - | - | - | - | - | - | - | - |"), "%s", text);
        cr_assert_not(strstr(print_page("rank", cli_page_markdown), "rank"));
        cli_fields_exact();
        text = print_page("none", cli_page_markdown);
        cr_assert(strstr(text, "| 1,572,864 B |"), "%s", text);
}

Test(fields, table)
{
        struct capo_table *t = cli_entity_table(&thing);
        char *text = NULL;
        size_t n = 0;
        FILE *out = open_memstream(&text, &n);

        cli_table_entity(t, &thing, NULL, &known);
        capo_table_lines(t, out, 60);
        fclose(out);
        cr_assert_not(strstr(text, "p50"), "the column that leaves first: %s", text);
        cr_assert(strstr(text, "busbw"), "%s", text);
        capo_table_free(t);
}
