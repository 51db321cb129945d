/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of others that are not a file of their own: what frames of a log say, names of functions,
 * arguments of programs, what a person or a browser is shown of them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capo/call_ids.h"
#include "capo/frame_types.h"
#include "core/base/demangle.h"
#include "core/base/markup.h"
#include "core/base/plain_text.h"
#include "core/base/safe_args.h"
#include "core/base/secret.h"
#include "core/base/util.h"
#include "analysis/log/fabric_read.h"
#include "analysis/log/info_read.h"
#include "analysis/log/log_read.h"
#include "analysis/log/rules_read.h"
#include "core/log/unfinished.h"
#include "core/log/info.h"
#include "tests/fuzz/fuzz.h"

static void fabric(char *text, size_t size)
{
        struct capo_fabric *f = capo_fabric_parse(text);

        for (size_t i = 0; i < f->n_objects; i++)
                must(*f->objects[i].kind && f->objects[i].n.n_errors <= CAPO_FABRIC_ERRORS);
        capo_fabric_free(f);
}

static void info(char *text, size_t size)
{
        const struct capo_log_frame f = {
                .payload = text, .size = (uint32_t)size, .type = CAPO_FRAME_INFO};
        struct capo_info_line line;
        size_t at = 0;

        while (capo_info_next(&f, &at, &line)) {
                must(line.key >= text && line.key + line.n_key <= text + size);
                must(line.value >= text && line.value + line.n_value <= text + size);
                must(!capo_info_is(&line, CAPO_INFO_HOST) || line.n_key == strlen(CAPO_INFO_HOST));
        }
        capo_info_index(text, "gpu.numa");
}

static void rules(char *text, size_t size)
{
        struct capo_rules_row row;
        char value[64];

        capo_rules_value(text, CAPO_RULES_DIGEST, value, sizeof value);
        capo_rules_value(text, CAPO_RULES_FILE, value, sizeof value);
        for (unsigned i = 0; i < 4; i++) {
                capo_rules_find(text, i, &row);
                must(*capo_rules_place(text, i, value, sizeof value));
        }
        capo_rules_row(text, &row);
}

static void unfinished(char *text, size_t size)
{
        struct capo_unfinished_call call;

        if (capo_unfinished_read(text, &call))
                must(call.where < CAPO_UNFINISHED_WHERES && call.record.call < CAPO_CALLS);
}

static void name(char *text, size_t size)
{
        char out[64];
        size_t n = capo_demangle(text, out, size % sizeof out + 1);

        must(n < sizeof out && strlen(out) == n && !strpbrk(out, " +"));
}

static void arguments(char *text, size_t size)
{
        char out[128];
        size_t room = size % sizeof out + 1, n = capo_secret_args(text, size, out, room);

        must(n < room && strlen(out) <= n);
        n = capo_safe_args(text, size, out, room);
        must(n < room && strlen(out) <= n);
}

static void plain(char *text, size_t size)
{
        size_t n = capo_plain(text, size, false, true);
        char *out;
        FILE *f = open_memstream(&out, &n);

        must(n == size && f);
        for (size_t i = 0; i < size; i++)
                must((unsigned char)text[i] >= ' ' || text[i] == '\n' || text[i] == '\t');
        capo_markup_text(f, text);
        must(fflush(f) == 0 && !strpbrk(out, "<>\""));
        capo_markup_csv(f, text);
        fclose(f);
        free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static void (*const kinds[])(char *text, size_t size) = {
                fabric, info, rules, unfinished, name, arguments, plain};
        struct fuzz_bytes b = {data, size};
        unsigned kind = (unsigned)fuzz_number(&b, 1);
        char *text = fuzz_text(b.at, b.left);

        kinds[kind % N_ELEMENTS(kinds)](text, b.left);
        free(text);
        return 0;
}
