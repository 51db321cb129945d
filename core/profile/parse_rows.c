/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of a rule: sizes, what to choose, and what was measured. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "core/base/calls.h"
#include "core/base/size.h"
#include "core/base/util.h"
#include "core/profile/parse_parts.h"
#include "core/profile/profile_file.h"
#include "core/profile/words.h"

static bool size_value(struct capo_json *r, uint64_t *out)
{
        static const char what[] =
                "a size: bytes as a number, or text like \"64K\", \"1.5G\" or \"max\"";
        const char *where, *end;
        char text[40];
        int e = -EINVAL;

        if (capo_json_peek(r) == '"') {
                where = r->at;
                if (!capo_json_text(r, text, sizeof text, what))
                        return false;
                e = capo_size_parse(text, out);
        } else {
                where = end = r->at;
                *out = 0;
                for (; end < r->end && *end >= '0' && *end <= '9'; end++) {
                        if (__builtin_mul_overflow(*out, 10, out) ||
                            __builtin_add_overflow(*out, (uint64_t)(*end - '0'), out))
                                return capo_json_fail(r, where, "a size below 2^64");
                }
                if (end > where && (*where != '0' || end == where + 1) &&
                    !(end < r->end && (*end == '.' || *end == 'e' || *end == 'E'))) {
                        r->at = end;
                        e = 0;
                }
        }
        return e == 0 || capo_json_fail(r, where, "%s", what);
}

static bool read_evidence(struct capo_json *r, float *out, bool negative)
{
        const char *where = capo_json_here(r);
        double value = NAN;

        if (!capo_json_number(r, &value, "a number"))
                return false;
        *out = (float)value;
        return ((value >= 0 || negative) && isfinite(*out)) ||
               capo_json_fail(r, where, "a number of at least 0");
}

/* "symk RSxLD_AGxST", as pages name a symmetric kernel, is kept as NCCL's SYMK_RSxLD_AGxST. */
static bool read_kernel(struct capo_json *r, struct capo_profile *p, const char **out)
{
        static const char what[] = "a symmetric kernel, such as \"symk RSxLD_AGxST\"";
        const char *where = capo_json_here(r);
        char text[48];
        size_t n;

        if (!capo_json_text(r, text, sizeof text, what))
                return false;
        n = strlen(text);
        if (n < 6 || strncasecmp(text, "symk ", 5) ||
            strspn(text + 5, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") !=
                    n - 5)
                return capo_json_fail(r, where, "%s", what);
        for (int i = 0; i < 4; i++)
                text[i] = (char)toupper((unsigned char)text[i]);
        text[4] = '_';
        *out = capo_profile_keep(p, text);
        return *out || capo_json_fail(r, where, "enough memory");
}

/* The keys of a row: how the value is read, and where it goes. */
enum row_kind { SIZE, CHUNK, WORD_OF, WHOLE, SAMPLES, NUMBER, KERNEL, ONLY_TRUE, LEAVE };
enum { ROW_UPTO, ROW_LEAVE, ROW_GAIN, ROW_OTHERS }; /* of the keys below */
static const struct row_key {
        struct capo_slice key;
        enum row_kind kind;
        size_t at;        /* in struct capo_row */
        const char *what; /* expected */
        const struct capo_slice *words;
        uint32_t n;        /* words */
        uint32_t min, max; /* of whole numbers */
        bool plus_one;     /* 0 in the row stands for a key that is not there */
        bool negative;     /* a number may be below 0 */
} row_keys[] = {
#define ROW(field, kind, ...)                                                     \
        {                                                                         \
                WORD(#field), kind, offsetof(struct capo_row, field), __VA_ARGS__ \
        }
#define WORDS(list) .words = list, .n = N_ELEMENTS(list), .plus_one = true
        [ROW_UPTO] = ROW(upto, SIZE, ""),
        [ROW_LEAVE] = {WORD("leave"), LEAVE},
        [ROW_GAIN] = ROW(gain, NUMBER, .negative = true),
        [ROW_OTHERS] = ROW(algo, WORD_OF, WORDS(algo_words)),
        ROW(proto, WORD_OF, WORDS(proto_words)),
        ROW(channels, WHOLE, "a number of channels, 1 to 64", .min = 1, .max = CAPO_CHANNELS_MAX),
        ROW(us, NUMBER, ""),
        ROW(spread_us, NUMBER, ""),
        ROW(samples, SAMPLES, "a number of samples", .max = UINT32_MAX),
        ROW(kernel, KERNEL, ""),
        ROW(ctas, WHOLE, "a number of CTAs, 1 to 64", .min = 1, .max = CAPO_CHANNELS_MAX),
        ROW(cluster, WHOLE, "a cluster size, 0 to 8", .max = CAPO_CLUSTER_MAX, .plus_one = true),
        ROW(cta_policy, WORD_OF, WORDS(policy_words)),
        ROW(chunk, CHUNK, ""),
        ROW(predicted, ONLY_TRUE, "true (a measured row has no such key)"),
#undef ROW
#undef WORDS
};

static void read_field(struct capo_json *r, struct capo_profile *p, const struct row_key *f,
                       struct capo_row *row)
{
        void *to = (char *)row + f->at;
        const char *where = capo_json_here(r);
        uint64_t bytes;
        double n;

        switch (f->kind) {
        case SIZE: size_value(r, to); break;
        case CHUNK:
                if (!size_value(r, &bytes))
                        break;
                if (bytes < CAPO_CHUNK_MIN || bytes > CAPO_CHUNK_MAX)
                        capo_json_fail(r, where, "a chunk of 16 to 64M bytes");
                *(uint32_t *)to = (uint32_t)bytes;
                break;
        case WORD_OF:
                if (capo_parse_word(r, f->words, f->n, to))
                        *(uint8_t *)to += f->plus_one;
                break;
        case WHOLE:
                if (capo_parse_whole(r, f->min, f->max, &n, f->what))
                        *(uint8_t *)to = (uint8_t)(n + f->plus_one);
                break;
        case SAMPLES:
                if (capo_parse_whole(r, f->min, f->max, &n, f->what))
                        *(uint32_t *)to = (uint32_t)n;
                break;
        case NUMBER: read_evidence(r, to, f->negative); break;
        case LEAVE: break; /* it is no field */
        case KERNEL: read_kernel(r, p, to); break;
        case ONLY_TRUE:
                if (capo_json_bool(r, to, "true") && !*(bool *)to)
                        capo_json_fail(r, where, "%s", f->what);
                break;
        }
}

/* *@upto_at is where the key upto stands. */
static bool read_row(struct capo_json *r, struct capo_profile *p, struct capo_row *row,
                     const char **upto_at)
{
        struct capo_slice words[N_ELEMENTS(row_keys)];
        int k;
        uint32_t seen = 0;
        bool leave = false;
        const char *start = capo_json_here(r);

        for (size_t i = 0; i < N_ELEMENTS(row_keys); i++)
                words[i] = row_keys[i].key;
        row->line = r->line;
        if (!capo_json_open(r, '{', "a row, {\"upto\": ...}"))
                return false;
        while ((k = capo_json_next(r, words, N_ELEMENTS(words), &seen)) >= 0) {
                const char *where = r->at;

                if (k == ROW_UPTO)
                        *upto_at = where;
                if (k != ROW_LEAVE)
                        read_field(r, p, &row_keys[k], row);
                else if (capo_json_bool(r, &leave, "true") && !leave)
                        capo_json_fail(r, where,
                                       "true (a row without \"leave\" has algo and proto)");
        }
        if (r->failed)
                return false;
        if (row->predicted && (!row->algo || capo_row_turned(row)))
                return capo_json_fail(r, start,
                                      "a row with \"predicted\" to have algo and proto, and no "
                                      "kernel, ctas, cluster or cta_policy");
        if (!(seen & 1u << ROW_UPTO))
                return capo_json_fail(r, start, "the key upto in this row");
        if (leave &&
            (row->algo || row->proto || row->channels || row->chunk || seen & 1u << ROW_GAIN))
                return capo_json_fail(
                        r, start,
                        "a row with \"leave\" to have no algo, proto, channels, chunk or gain");
        if (leave && capo_row_turned(row))
                return capo_json_fail(
                        r, start,
                        "a row with \"leave\" to have no kernel, ctas, cluster or cta_policy");
        if (!leave && (!row->algo || !row->proto) &&
            (row->algo || row->proto || row->channels || row->chunk || !capo_row_turned(row)))
                return capo_json_fail(r, start, "algo and proto in this row, or \"leave\": true");
        return true;
}

bool capo_parse_rows(struct capo_json *r, struct capo_profile *p, unsigned coll)
{
        const struct capo_row blank = {
                .coll = (uint8_t)coll, .us = NAN, .spread_us = NAN, .gain = NAN};
        const char *where = NULL, *open = capo_json_here(r);
        uint64_t last = 0;
        bool any = false;

        if (!capo_json_open(r, '[', "a list of rows"))
                return false;
        while (capo_json_item(r)) {
                struct capo_row row = blank;

                if (!read_row(r, p, &row, &where))
                        return false;
                if (any && row.upto <= last)
                        return capo_json_fail(
                                r, where,
                                "a size above the row before it (%llu), so that rows do not overlap",
                                (unsigned long long)last);
                row.from = any ? last + 1 : 0;
                last = row.upto;
                any = true;
                if (capo_profile_row_raw(p, &row) < 0)
                        return capo_json_fail(r, where, "enough memory");
        }
        if (!r->failed && !any)
                return capo_json_fail(r, open, "at least one row");
        if (!r->failed && last != UINT64_MAX)
                return capo_json_fail(r, where,
                                      "\"max\" in the last row, so that no size is left out");
        return !r->failed;
}
