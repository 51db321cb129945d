/* SPDX-License-Identifier: Apache-2.0 */
/* docs/internals/log-format.md shows the lists of frames and keys as they are; and a list says each
 * thing once. */
#include <stdlib.h>
#include <string.h>
#include <criterion/criterion.h>

#include "capo/frame_types.h"
#include "capo/log_layout.h"
#include "core/base/util.h"
#include "core/log/fabric_keys.h"
#include "analysis/log/log_read.h"

static char doc[65536];

static void read_doc(void)
{
        _cleanup_fclose_ FILE *f = fopen(SOURCE_ROOT "/docs/internals/log-format.md", "re");

        cr_assert(f && fread(doc, 1, sizeof doc - 1, f) > 1000);
}

TestSuite(log_words, .init = read_doc);

/* What the document must have, word for word; on failure it can be pasted from here. */
static void shows(const char *table)
{
        if (!strstr(doc, table))
                fputs(table, stderr);
        cr_assert(strstr(doc, table), "docs/internals/log-format.md does not show the list");
}

Test(log_words, frames)
{
        char table[8192];
        int n = sprintf(table, "| frame | type | since | what it holds |\n|---|---|---|---|\n");

#define FRAME(id, number, since, meaning) \
        n += sprintf(table + n, "| %s | %d | %d | %s |\n", #id, number, since, meaning);
#include "capo/log_frames.def"
        shows(table);
        for (unsigned type = 1; type < CAPO_FRAMES; type++)
                cr_assert(strcmp(capo_frame_name(type), "?"), "type %u has no row", type);
        cr_assert_str_eq(capo_frame_name(CAPO_FRAME_FABRIC), "FABRIC");
        cr_assert_str_eq(capo_frame_name(0), "?");
        cr_assert_str_eq(capo_frame_name(CAPO_FRAMES), "?");
        cr_assert_str_eq(capo_frame_name(65535), "?");
}

Test(log_words, record_fields)
{
        char table[4096];
        int n = sprintf(table, "| field | type | kept in |\n|---|---|---|\n");

#define CAPO_FIELD(type, name, kept) \
        n += sprintf(table + n, "| `%s` | %s | %s |\n", #name, #type, #kept);
#include "capo/record_fields.def"
        shows(table);
}

/* Its keys are listed in one place, which authors of readers have installed. */
Test(log_words, info_keys)
{
        static const char *const meanings[] = {
#define INFO_KEY(id, key, meaning) meaning,
#include "capo/log_keys.def"
        };

        shows("[`capo/log_keys.def`](../../include/capo/log_keys.def)");
        for (size_t i = 0; i < N_ELEMENTS(meanings); i++)
                cr_assert(*meanings[i], "key %zu has no meaning", i);
}

Test(log_words, rules_words)
{
        char table[8192];
        int n = sprintf(table, "| word | fields |\n|---|---|\n");

#define RULES_KEY(id, word, fields) n += sprintf(table + n, "| `%s` | %s |\n", word, fields);
#include "capo/log_rules.def"
        shows(table);
}

Test(log_words, hang_words)
{
        char table[4096];
        int n = sprintf(table, "| word | value |\n|---|---|\n");

#define HANG_KEY(id, word, meaning) n += sprintf(table + n, "| `%s` | %s |\n", word, meaning);
#include "capo/log_hang.def"
        shows(table);
}

Test(log_words, no_key_twice)
{
        static const char *const keys[] = {
#define INFO_KEY(id, key, meaning) key,
#include "capo/log_keys.def"
        };

        for (size_t i = 0; i < N_ELEMENTS(keys); i++) {
                for (size_t k = 0; k < i; k++)
                        cr_assert(strcmp(keys[i], keys[k]), "%s", keys[i]);
        }
}

/* Without what every object has, which is printed above the table. */
static bool of_every_object(const char *key)
{
        static const char *const keys[] = {"id", "domain", "closed", "error", "errors_other"};

        for (size_t i = 0; i < N_ELEMENTS(keys); i++) {
                if (!strcmp(key, keys[i]))
                        return true;
        }
        return false;
}

Test(log_words, fabric_lines)
{
        static const char *const meanings[] = {
#define FABRIC_KEY(line, key, value, field, meaning) meaning,
#include "core/log/fabric_frame.def"
        };
        char table[16384];
        int n = sprintf(table, "| line | keys |\n|---|---|\n");

        for (unsigned line = 0; line < CAPO_FABRIC_LINES; line++) {
                const char *sep = "";

                n += sprintf(table + n, "| `%s` | ", fabric_words[line]);
                for (const struct fabric_key *k = fabric_keys_of(line); k->line == line; k++) {
                        const char *meaning = meanings[k - fabric_keys];

                        if (of_every_object(k->key))
                                continue;
                        n += sprintf(table + n, "%s", sep);
                        if (!*k->key)
                                n += sprintf(table + n, "%s", meaning);
                        else if (!*meaning)
                                n += sprintf(table + n, "`%s`", k->key);
                        else
                                n += sprintf(table + n, "`%s` (%s)", k->key, meaning);
                        sep = ", ";
                }
                n += sprintf(table + n, " |\n");
        }
        shows(table);
}

/* Tables are walked by line: a row in the wrong place would be found by nobody. */
Test(log_words, fabric_rows_stand_together)
{
        for (size_t i = 1; i < N_ELEMENTS(fabric_keys); i++)
                cr_assert_geq(fabric_keys[i].line, fabric_keys[i - 1].line, "row %zu, %s", i,
                              fabric_keys[i].key);
}
