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

static const struct capo_slice row_keys[] = {
        WORD("upto"), WORD("algo"),      WORD("proto"),      WORD("channels"), WORD("leave"),
        WORD("us"),   WORD("spread_us"), WORD("gain"),       WORD("samples"),  WORD("kernel"),
        WORD("ctas"), WORD("cluster"),   WORD("cta_policy"), WORD("chunk"),    WORD("predicted")};
enum {
        ROW_UPTO,
        ROW_ALGO,
        ROW_PROTO,
        ROW_CHANNELS,
        ROW_LEAVE,
        ROW_US,
        ROW_SPREAD,
        ROW_GAIN,
        ROW_SAMPLES,
        ROW_KERNEL,
        ROW_CTAS,
        ROW_CLUSTER,
        ROW_CTA_POLICY,
        ROW_CHUNK,
        ROW_PREDICTED,
};

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

static bool read_row(struct capo_json *r, struct capo_profile *p, struct capo_row *row,
                     const char **upto_at)
{
        int k;
        uint32_t seen = 0;
        bool leave = false;
        uint64_t bytes;
        double n;
        const char *start = capo_json_here(r);

        row->line = r->line;
        if (!capo_json_open(r, '{', "a row, {\"upto\": ...}"))
                return false;
        while ((k = capo_json_next(r, row_keys, N_ELEMENTS(row_keys), &seen)) >= 0) {
                const char *where = r->at;

                switch (k) {
                case ROW_UPTO:
                        *upto_at = where;
                        size_value(r, &row->upto);
                        break;
                case ROW_ALGO:
                        if (capo_parse_word(r, algo_words, N_ELEMENTS(algo_words), &row->algo))
                                row->algo++;
                        break;
                case ROW_PROTO:
                        if (capo_parse_word(r, proto_words, N_ELEMENTS(proto_words), &row->proto))
                                row->proto++;
                        break;
                case ROW_CHANNELS:
                        if (capo_parse_whole(r, 1, CAPO_CHANNELS_MAX, &n,
                                             "a number of channels, 1 to 64"))
                                row->channels = (uint8_t)n;
                        break;
                case ROW_LEAVE:
                        if (capo_json_bool(r, &leave, "true") && !leave)
                                capo_json_fail(r, where,
                                               "true (a row without \"leave\" has algo and proto)");
                        break;
                case ROW_US: read_evidence(r, &row->us, false); break;
                case ROW_SPREAD: read_evidence(r, &row->spread_us, false); break;
                case ROW_GAIN: read_evidence(r, &row->gain, true); break;
                case ROW_SAMPLES:
                        if (capo_parse_whole(r, 0, UINT32_MAX, &n, "a number of samples"))
                                row->samples = (uint32_t)n;
                        break;
                case ROW_KERNEL: read_kernel(r, p, &row->kernel); break;
                case ROW_CTAS:
                        if (capo_parse_whole(r, 1, CAPO_CHANNELS_MAX, &n,
                                             "a number of CTAs, 1 to 64"))
                                row->ctas = (uint8_t)n;
                        break;
                case ROW_CLUSTER:
                        if (capo_parse_whole(r, 0, CAPO_CLUSTER_MAX, &n, "a cluster size, 0 to 8"))
                                row->cluster = (uint8_t)(n + 1);
                        break;
                case ROW_CTA_POLICY:
                        if (capo_parse_word(r, policy_words, N_ELEMENTS(policy_words),
                                            &row->cta_policy))
                                row->cta_policy++;
                        break;
                case ROW_CHUNK:
                        if (!size_value(r, &bytes))
                                break;
                        if (bytes < CAPO_CHUNK_MIN || bytes > CAPO_CHUNK_MAX)
                                capo_json_fail(r, where, "a chunk of 16 to 64M bytes");
                        row->chunk = (uint32_t)bytes;
                        break;
                case ROW_PREDICTED:
                        if (capo_json_bool(r, &row->predicted, "true") && !row->predicted)
                                capo_json_fail(r, where, "true (a measured row has no such key)");
                        break;
                default: return false;
                }
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
