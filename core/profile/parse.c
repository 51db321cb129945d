/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON form of a profile, read. Keys are tables; a key that is not in its table, or comes
 * twice, is an error where it stands. profile_write.c writes the same form. */
#include <math.h>

#include "core/base/calls.h"
#include "core/base/size.h"
#include "core/base/text.h"
#include "core/profile/parse.h"
#include "core/profile/profile_file.h"
#include "core/profile/words.h"

static const struct capo_slice document_keys[] = {WORD("capo_profile"), WORD("name"),
                                                  WORD("provenance"),   WORD("platform"),
                                                  WORD("layouts"),      WORD("rules")};
enum { DOC_VERSION, DOC_NAME, DOC_PROVENANCE, DOC_PLATFORM, DOC_LAYOUTS, DOC_RULES };

/* One of @words, without regard to case, '_' and '-'; *@out is its index. */
static bool read_word(struct capo_json *r, const struct capo_slice *words, size_t n, uint8_t *out)
{
        struct capo_slice s = {0};
        char text[64] = "";
        const char *where;
        bool is_text = capo_json_peek(r) == '"';

        where = r->at;
        if (is_text && !capo_json_string(r, &s, "a word"))
                return false;
        if (s.size && s.size < sizeof text)
                memcpy(text, s.at, s.size);
        for (size_t i = 0; i < n && s.size && strlen(text) == s.size; i++) {
                if (capo_word_same(text, words[i].at)) {
                        *out = (uint8_t)i;
                        return true;
                }
        }
        return capo_json_fail_one_of(r, where, words, n);
}

/* A whole number from @min to @max. */
static bool read_whole(struct capo_json *r, double min, double max, double *out, const char *what)
{
        const char *where = capo_json_here(r);

        if (!capo_json_number(r, out, what))
                return false;
        return (*out >= min && *out <= max && *out == (double)(int64_t)*out) ||
               capo_json_fail(r, where, "%s", what);
}

static bool read_text(struct capo_json *r, struct capo_profile *p, enum kind kind, const char **out)
{
        const char *what = kind == LAYOUT ? "a layout like \"3+5\", \"even\" or \"uneven\""
                                          : "a text that is not empty";
        char text[4096], canonical[4096];
        const char *where = capo_json_here(r);

        if (!capo_json_text(r, text, sizeof text, what))
                return false;
        if (!*text ||
            (kind == LAYOUT && capo_layout_canonical(text, canonical, sizeof canonical) < 0))
                return capo_json_fail(r, where, "%s", what);
        *out = capo_profile_keep(p, kind == LAYOUT ? canonical : text);
        return *out || capo_json_fail(r, where, "enough memory");
}

static bool read_when(struct capo_json *r, struct capo_profile *p, struct capo_when *when)
{
        struct capo_slice words[N_ELEMENTS(when_keys)];
        uint32_t seen = 0;
        int k;

        for (size_t i = 0; i < N_ELEMENTS(when_keys); i++)
                words[i] = when_keys[i].key;
        if (!capo_json_open(r, '{', "conditions, {\"nodes\": 2, ...}"))
                return false;
        while ((k = capo_json_next(r, words, N_ELEMENTS(words), &seen)) >= 0) {
                void *field = (char *)when + when_keys[k].offset;
                bool flag;

                switch (when_keys[k].kind) {
                case RANGE:
                case GBS:
                case NCCL:
                        capo_range_read(r, (enum capo_range_kind)when_keys[k].kind, field);
                        break;
                case LAYOUT:
                case TEXT:
                case PATTERN: read_text(r, p, when_keys[k].kind, field); break;
                case LINK:
                        if (read_word(r, link_words + 1, N_ELEMENTS(link_words) - 1, field))
                                ++*(uint8_t *)field;
                        break;
                case FLAG:
                        if (capo_json_bool(r, &flag, "true or false"))
                                *(int8_t *)field = flag;
                        break;
                }
        }
        return !r->failed;
}

static bool read_constant(struct capo_json *r, struct capo_profile *p)
{
        static const char nodes[] = "1, 2 or 4 (nodes)";
        struct capo_constant c = {.value = -1};
        uint8_t value[CONST_KEYS] = {0};
        const uint8_t *by;
        int k;
        uint32_t seen = 0, needed = 1u << CONST_TABLE | 1u << CONST_VALUE;
        const char *start = capo_json_here(r);
        char names[40] = "";
        double n = 0;

        c.line = r->line;
        if (!capo_json_open(r, '{', "a constant, {\"table\": ...}"))
                return false;
        while ((k = capo_json_next(r, constant_keys, CONST_KEYS, &seen)) >= 0) {
                const char *where = r->at;

                if (k == CONST_VALUE) {
                        if (capo_json_number(r, &c.value, "a number") &&
                            !(c.value >= 0 && c.value < 1e9))
                                capo_json_fail(r, where, "microseconds or GB/s, at least 0");
                } else if (k != CONST_SCALE) {
                        read_word(r, constant_words[k].words, constant_words[k].n, &value[k]);
                } else if (read_whole(r, 1, 4, &n, nodes)) {
                        value[k] = (uint8_t)(n / 2); /* 1, 2, 4 */
                        if (n == 3)
                                capo_json_fail(r, where, nodes);
                }
        }
        if (r->failed)
                return false;
        c.table = value[CONST_TABLE];
        by = constant_indices(c.table);
        for (int i = 0; by[i]; i++) {
                needed |= 1u << by[i];
                c.index[i] = value[by[i]];
                capo_append(names, sizeof names, "%s%s", i ? ", " : "", constant_keys[by[i]].at);
        }
        if (seen != needed)
                return capo_json_fail(r, start, "table, value and %s for this table", names);
        return capo_profile_constant(p, &c) == 0 || capo_json_fail(r, start, "enough memory");
}

static bool read_rule(struct capo_json *r, struct capo_profile *p)
{
        struct capo_rule *rule;
        uint32_t seen = 0, line;
        uint8_t basis = CAPO_BASIS_MEASURED;
        const char *start;
        int k;

        start = capo_json_here(r);
        line = r->line;
        if (!capo_json_open(r, '{', "a rule, {\"when\": ...}"))
                return false;
        rule = capo_profile_rule(p, basis);
        if (!rule)
                return capo_json_fail(r, start, "enough memory");
        rule->line = line;
        while ((k = capo_json_next(r, rule_keys, N_ELEMENTS(rule_keys), &seen)) >= 0) {
                switch (k) {
                case RULE_WHEN: read_when(r, p, &rule->when); break;
                case RULE_BASIS: read_word(r, basis_words, N_ELEMENTS(basis_words), &basis); break;
                case RULE_CONSTANTS:
                        if (capo_json_open(r, '[', "a list of constants")) {
                                while (capo_json_item(r) && read_constant(r, p))
                                        ;
                        }
                        break;
                default: capo_parse_rows(r, p, capo_coll_at((unsigned)k - RULE_COLLS));
                }
        }
        rule->basis = basis;
        if (r->failed)
                return false;
        if (!(seen & 1u << RULE_WHEN))
                return capo_json_fail(r, start, "the key when in this rule ({} holds always)");
        return true;
}

static bool read_notes(struct capo_json *r, struct capo_profile *p, enum capo_section section)
{
        struct capo_slice key, value;
        char text[128];

        if (!capo_json_open(r, '{', "keys and values, {\"date\": ...}"))
                return false;
        while (capo_json_key(r, &key)) {
                _cleanup_free_ char *json = NULL;

                if (key.size >= sizeof text || memchr(key.at, 0, key.size))
                        return capo_json_fail(r, r->key, "a key of at most %zu bytes",
                                              sizeof text - 1);
                memcpy(text, key.at, key.size);
                text[key.size] = 0;
                for (uint32_t i = 0; i < p->n_notes[section]; i++) {
                        if (!strcmp(p->notes[section][i].key, text))
                                return capo_json_fail(r, r->key, "the key %s only once", text);
                }
                if (p->n_notes[section] >= 256)
                        return capo_json_fail(r, r->key, "at most 256 keys here");
                if (!capo_json_any(r, &value))
                        return false;
                json = strndup(value.at, value.size);
                if (!json || capo_profile_note_json(p, section, text, json) < 0)
                        return capo_json_fail(r, value.at, "enough memory");
        }
        return !r->failed;
}

static bool read_document(struct capo_json *r, struct capo_profile *p)
{
        int k;
        uint32_t seen = 0;
        double version;
        const char *start = capo_json_here(r);

        if (!capo_json_open(r, '{', "a profile, {\"capo_profile\": 1, ...}, or CSV"))
                return false;
        while ((k = capo_json_next(r, document_keys, N_ELEMENTS(document_keys), &seen)) >= 0) {
                const char *where = r->at;

                switch (k) {
                case DOC_VERSION:
                        if (!read_whole(r, 1, 1e9, &version,
                                        "the version of the profile format, 1"))
                                return false;
                        if (version > CAPO_PROFILE_VERSION)
                                return capo_json_fail(
                                        r, where,
                                        "version %d of the profile format (the file is newer than this capo)",
                                        CAPO_PROFILE_VERSION);
                        break;
                case DOC_NAME: {
                        struct capo_slice s;

                        if (!capo_json_string(r, &s, "text"))
                                return false;
                        p->name = capo_profile_keep_bytes(p, s.at, s.size);
                        if (!p->name)
                                return capo_json_fail(r, where, "enough memory");
                        break;
                }
                case DOC_PROVENANCE: read_notes(r, p, CAPO_PROVENANCE); break;
                case DOC_PLATFORM: read_notes(r, p, CAPO_PLATFORM); break;
                case DOC_LAYOUTS: {
                        struct capo_slice unused;

                        p->old_layouts_line = r->line;
                        capo_json_any(r, &unused);
                        break;
                }
                case DOC_RULES:
                        if (capo_json_open(r, '[', "a list of rules")) {
                                while (capo_json_item(r) && read_rule(r, p))
                                        ;
                        }
                        break;
                default: return false;
                }
        }
        if (r->failed)
                return false;
        if (!(seen & 1u << DOC_VERSION))
                return capo_json_fail(r, start, "the key capo_profile (the version of the format)");
        if (!(seen & 1u << DOC_RULES))
                return capo_json_fail(r, start, "the key rules");
        return capo_json_end(r);
}

int capo_profile_parse_json(struct capo_profile *p, const char *text, size_t size,
                            struct capo_fault *fault)
{
        struct capo_json r;
        bool good;

        capo_json_init(&r, text, size, p->file, fault);
        good = read_document(&r, p);
        capo_json_finish(&r);
        return good ? 0 : -EINVAL;
}

/* The rows of a rule: sizes, what to choose, and what was measured. */

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
enum row_kind { SIZE, CHUNK, WORD_OF, WHOLE, SAMPLES, NUMBER, KERNEL, TEXT_OF, ONLY_TRUE, LEAVE };
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
        ROW(measured, TEXT_OF, "what it was measured on, such as \"2, 4, 8 nodes\""),
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
        char text[128];
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
                if (read_word(r, f->words, f->n, to))
                        *(uint8_t *)to += f->plus_one;
                break;
        case WHOLE:
                if (read_whole(r, f->min, f->max, &n, f->what))
                        *(uint8_t *)to = (uint8_t)(n + f->plus_one);
                break;
        case SAMPLES:
                if (read_whole(r, f->min, f->max, &n, f->what))
                        *(uint32_t *)to = (uint32_t)n;
                break;
        case NUMBER: read_evidence(r, to, f->negative); break;
        case LEAVE: break; /* it is no field */
        case KERNEL: read_kernel(r, p, to); break;
        case TEXT_OF:
                if (capo_json_text(r, text, sizeof text, f->what))
                        *(const char **)to = capo_profile_keep(p, text);
                break;
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
