/* SPDX-License-Identifier: Apache-2.0 */
/* Pickles of plain data as JSON, and refusals of everything else. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util.h"
#include "analysis/diagnose/pickle.h"

static void expect_json(const char *data, size_t size, const char *expected)
{
        char why[200] = "", *json = NULL;

        cr_expect_eq(capo_pickle_json(data, size, &json, why, sizeof why), 0, "%s", why);
        cr_expect_str_eq(json ? json : "", expected);
        free(json);
}

static void expect_refused(const char *data, size_t size, const char *word)
{
        char why[200] = "", *json = NULL;

        cr_expect_lt(capo_pickle_json(data, size, &json, why, sizeof why), 0);
        cr_expect_null(json);
        cr_expect(strstr(why, word), "%s, expected %s", why, word);
}

#define JSON(data, expected) expect_json(data, sizeof(data) - 1, expected)
#define REFUSED(data, word)  expect_refused(data, sizeof(data) - 1, word)

Test(pickle, plain_data)
{
        JSON("\x80\x02N.", "null");
        JSON("\x80\x02\x88.", "true");
        JSON("\x80\x02K\x07.", "7");
        JSON("\x80\x02J\xff\xff\xff\xff.", "-1");
        JSON("\x80\x02\x8a\x05\x00\x00\x00\x00\x01.", "4294967296");
        JSON("\x80\x02\x8a\x01\xfe.", "-2");
        JSON("\x80\x02G\x3f\xf8\x00\x00\x00\x00\x00\x00.", "1.5");
        JSON("\x80\x02X\x03\x00\x00\x00"
             "a\"b.",
             "\"a\\\"b\"");
        JSON("\x80\x02].", "[]");
        JSON("\x80\x02(K\x01K\x02t.", "[1,2]");
        JSON("\x80\x02K\x01\x85.", "[1]");
}

Test(pickle, lists_in_dicts_as_the_recorder_writes_them)
{
        /* {"entries": [{"id": 1}], "version": "2.4"} with its strings kept and used again */
        JSON("\x80\x02}q\x00(X\x07\x00\x00\x00"
             "entriesq\x01]q\x02}q\x03(X\x02\x00\x00\x00idq\x04"
             "K\x01uaX\x07\x00\x00\x00versionq\x05X\x03\x00\x00\x00"
             "2.4q\x06u.",
             "{\"entries\":[{\"id\":1}],\"version\":\"2.4\"}");
        JSON("\x80\x02](X\x01\x00\x00\x00xq\x00h\x00"
             "e.",
             "[\"x\",\"x\"]");
        JSON("\x80\x02}(K\x05K\x06u.", "{\"5\":6}");
}

Test(pickle, nothing_of_it_is_run)
{
        REFUSED("\x80\x02"
                "cos\nsystem\n(X\x02\x00\x00\x00idtR.",
                "nothing of it is run");
        REFUSED("\x80\x04\x8c\x02os\x8c\x06system\x93.", "nothing of it is run");
        REFUSED("\x80\x02K\x01"
                "b.",
                "nothing of it is run");
}

Test(pickle, damaged_ones)
{
        REFUSED("\x80\x02", "cut off");
        REFUSED("\x80\x02X\xff\xff\xff\x7f"
                "abc.",
                "cut off");
        REFUSED("\x80\x02K\x01K\x02.", "not one value");
        REFUSED("\x80\x02h\x07.", "never kept");
        REFUSED("\x80\x02}(K\x01u.", "no value");
        REFUSED("\x80\x02K\x01(K\x02u.", "no list or dict");
        REFUSED("\x80\x02"
                "e.",
                "mark is missing");
}

/* Each list holds the one before it twice: 2^60 values from 300 bytes. */
Test(pickle, a_value_used_often_has_a_limit)
{
        char data[600] = "\x80\x02]q", why[200], *json = NULL;
        size_t n = 4;

        data[n++] = 0;
        for (char i = 0; i < 60; i++) {
                memcpy(data + n, (char[]){']', '(', 'h', i, 'h', i, 'e', 'q', (char)(i + 1)}, 9);
                n += 9;
        }
        data[n++] = '.';
        cr_expect_lt(capo_pickle_json(data, n, &json, why, sizeof why), 0);
        cr_expect_null(json);
}
