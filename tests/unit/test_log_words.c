/* SPDX-License-Identifier: Apache-2.0 */
/* docs/log-format.md shows the lists of frames and keys as they are; and a list says each thing once. */
#include <stdlib.h>
#include <string.h>
#include <criterion/criterion.h>

#include "capo/log.h"
#include "core/base/util.h"
#include "core/log/read.h"

static char doc[65536];

static void read_doc(void)
{
        _cleanup_fclose_ FILE *f = fopen(SOURCE_ROOT "/docs/log-format.md", "re");

        cr_assert(f && fread(doc, 1, sizeof doc - 1, f) > 1000);
}

TestSuite(log_words, .init = read_doc);

/* What the document must have, word for word; on failure it can be pasted from here. */
static void shows(const char *table)
{
        if (!strstr(doc, table))
                fputs(table, stderr);
        cr_assert(strstr(doc, table), "docs/log-format.md does not show the list");
}

Test(log_words, frames)
{
        char table[8192];
        int n = sprintf(table, "| frame | type | since | what it holds |\n|---|---|---|---|\n");

#define FRAME(id, number, since, meaning) \
        n += sprintf(table + n, "| %s | %d | %d | %s |\n", #id, number, since, meaning);
#include "capo/log_frames.def"
#undef FRAME
        shows(table);
        for (unsigned type = 1; type < CAPO_FRAMES; type++)
                cr_assert(strcmp(capo_frame_name(type), "?"), "type %u has no row", type);
        cr_assert_str_eq(capo_frame_name(CAPO_FRAME_FABRIC), "FABRIC");
        cr_assert_str_eq(capo_frame_name(0), "?");
        cr_assert_str_eq(capo_frame_name(CAPO_FRAMES), "?");
        cr_assert_str_eq(capo_frame_name(65535), "?");
}

Test(log_words, info_keys)
{
        char table[16384];
        int n = sprintf(table, "| key | value |\n|---|---|\n");

#define INFO_KEY(id, key, meaning) n += sprintf(table + n, "| `%s` | %s |\n", key, meaning);
#include "capo/log_keys.def"
        shows(table);
}

Test(log_words, rules_words)
{
        char table[8192];
        int n = sprintf(table, "| word | fields |\n|---|---|\n");

#define RULES_KEY(id, word, fields) n += sprintf(table + n, "| `%s` | %s |\n", word, fields);
#include "capo/log_keys.def"
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
