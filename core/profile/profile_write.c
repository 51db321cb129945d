/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON form of a profile, written: keys in the order of the tables, a row on a line, so that
 * two profiles can be compared by eye and by diff. Here are also the conditions of a rule as one
 * line for people. */
#include <math.h>

#include "capo/collectives.h"
#include "core/base/text.h"
#include "core/profile/words.h"
#include "core/base/calls.h"

static void put_size(FILE *out, uint64_t bytes)
{
        static const char units[] = "TGMK";

        if (bytes == UINT64_MAX) {
                fputs("\"max\"", out);
                return;
        }
        for (int i = 0; i < 4; i++) {
                int shift = 10 * (4 - i);

                if (bytes && !(bytes & ((1ull << shift) - 1))) {
                        fprintf(out, "\"%llu%c\"", (unsigned long long)(bytes >> shift), units[i]);
                        return;
                }
        }
        fprintf(out, "%llu", (unsigned long long)bytes);
}

/* Condition @k as text, NULL when it is not set. @quotes: as JSON wants them round it. */
static const char *when_value(const struct capo_when *when, const struct when_key *k, char *text,
                              size_t room, bool *quotes)
{
        const void *field = (const char *)when + k->offset;

        *quotes = true;
        switch (k->kind) {
        case RANGE:
        case GBS:
        case NCCL: {
                struct capo_range v = *(const struct capo_range *)field;

                if (capo_range_any(v))
                        return NULL;
                *quotes = capo_range_print((enum capo_range_kind)k->kind, v, text, room);
                return text;
        }
        case LAYOUT:
        case TEXT:
        case PATTERN: return *(const char *const *)field;
        case LINK: return *(const uint8_t *)field ? link_words[*(const uint8_t *)field].at : NULL;
        case FLAG:
                *quotes = false;
                return *(const int8_t *)field < 0 ? NULL
                       : *(const int8_t *)field   ? "true"
                                                  : "false";
        }
        return NULL;
}

char *capo_when_print(const struct capo_when *when, char *text, size_t room)
{
        char value[100];
        bool quotes;

        *text = 0;
        for (size_t i = 0; i < N_ELEMENTS(when_keys); i++) {
                const char *v = when_value(when, &when_keys[i], value, sizeof value, &quotes);

                if (v)
                        capo_append(text, room, "%s%s=%s", *text ? " " : "", when_keys[i].key.at,
                                    v);
        }
        return *text ? text : capo_append(text, room, "always");
}

static void put_when(FILE *out, const struct capo_when *when)
{
        const char *comma = "";
        char text[100];
        bool quotes;

        fputs("\"when\": {", out);
        for (size_t i = 0; i < N_ELEMENTS(when_keys); i++) {
                const char *v = when_value(when, &when_keys[i], text, sizeof text, &quotes);

                if (!v)
                        continue;
                fprintf(out, "%s\"%s\": ", comma, when_keys[i].key.at);
                if (quotes)
                        capo_text_put(out, v);
                else
                        fputs(v, out);
                comma = ", ";
        }
        fputs("}", out);
}

char *capo_row_turned_text(const struct capo_row *row, char *text, size_t room)
{
        size_t used = 0;

        *text = 0;
#define ADD(...) used += used < room ? (size_t)snprintf(text + used, room - used, __VA_ARGS__) : 0
        if (row->kernel)
                ADD("symk %s", row->kernel + 5);
        if (row->ctas)
                ADD("%s%u CTA%s", used ? ", " : "", row->ctas, row->ctas == 1 ? "" : "s");
        if (row->cluster)
                ADD("%sclusters of %d", used ? ", " : "", row->cluster - 1);
        if (row->cta_policy)
                ADD("%sCTA policy %s", used ? ", " : "", policy_words[row->cta_policy - 1].at);
#undef ADD
        return text;
}

static void put_row(FILE *out, const struct capo_row *row)
{
        char text[40];

        fputs("        {\"upto\": ", out);
        put_size(out, row->upto);
        if (row->algo)
                fprintf(out, ", \"algo\": \"%s\", \"proto\": \"%s\"", algo_words[row->algo - 1].at,
                        proto_words[row->proto - 1].at);
        else if (!capo_row_turned(row))
                fputs(", \"leave\": true", out);
        if (row->channels)
                fprintf(out, ", \"channels\": %u", row->channels);
        if (row->chunk) {
                fputs(", \"chunk\": ", out);
                put_size(out, row->chunk);
        }
        if (row->kernel)
                fprintf(out, ", \"kernel\": \"symk %s\"", row->kernel + 5);
        if (row->ctas)
                fprintf(out, ", \"ctas\": %u", row->ctas);
        if (row->cluster)
                fprintf(out, ", \"cluster\": %d", row->cluster - 1);
        if (row->cta_policy)
                fprintf(out, ", \"cta_policy\": \"%s\"", policy_words[row->cta_policy - 1].at);
        if (row->predicted)
                fputs(", \"predicted\": true", out);
        if (isfinite(row->us))
                fprintf(out, ", \"us\": %s", capo_float_print(row->us, text, sizeof text));
        if (isfinite(row->spread_us))
                fprintf(out, ", \"spread_us\": %s",
                        capo_float_print(row->spread_us, text, sizeof text));
        if (isfinite(row->gain) && (row->algo || capo_row_turned(row)))
                fprintf(out, ", \"gain\": %s", capo_float_print(row->gain, text, sizeof text));
        if (row->samples)
                fprintf(out, ", \"samples\": %u", row->samples);
        if (row->measured)
                fprintf(out, ", \"measured\": \"%s\"", row->measured);
        fputs("}", out);
}

static void put_constants(FILE *out, const struct capo_rule *rule)
{
        char text[40];

        fputs(",\n      \"constants\": [", out);
        for (uint32_t i = 0; i < rule->n_constants; i++) {
                const struct capo_constant *c = &rule->constants[i];

                const uint8_t *by = constant_indices(c->table);

                fprintf(out, "%s\n        {\"table\": \"%s\"", i ? "," : "",
                        constant_tables[c->table].at);
                for (int k = 0; by[k]; k++)
                        fprintf(out, by[k] == CONST_SCALE ? ", \"%s\": %s" : ", \"%s\": \"%s\"",
                                constant_keys[by[k]].at,
                                constant_words[by[k]].words[c->index[k]].at);
                fprintf(out, ", \"value\": %s}", capo_number_print(c->value, text, sizeof text));
        }
        fputs("\n      ]", out);
}

/* A CSV's rule may have sizes without an opinion and overlaps, JSON rows not. */
int capo_profile_write(const struct capo_profile *p, FILE *out)
{
        static const char *const sections[] = {"provenance", "platform"};

        if (p->csv)
                return -ENOTSUP;
        fprintf(out, "{\n  \"capo_profile\": %d,\n  \"name\": ", CAPO_PROFILE_VERSION);
        capo_text_put(out, p->name);
        for (int s = 0; s < CAPO_SECTIONS; s++) {
                if (!p->n_notes[s])
                        continue;
                fprintf(out, ",\n  \"%s\": {", sections[s]);
                for (uint32_t i = 0; i < p->n_notes[s]; i++) {
                        fputs(i ? ",\n    " : "\n    ", out);
                        capo_text_put(out, p->notes[s][i].key);
                        fprintf(out, ": %s", p->notes[s][i].json);
                }
                fputs("\n  }", out);
        }
        fputs(",\n  \"rules\": [", out);
        for (uint32_t i = 0; i < p->n_rules; i++) {
                const struct capo_rule *rule = &p->rules[i];

                fprintf(out, "%s\n    {\n      ", i ? "," : "");
                put_when(out, &rule->when);
                fprintf(out, ",\n      \"basis\": \"%s\"", basis_words[rule->basis].at);
                if (rule->n_constants)
                        put_constants(out, rule);
                for (unsigned k = 0; k < CAPO_COLLS; k++) {
                        enum capo_coll c = capo_coll_at(k);

                        if (!rule->count[c])
                                continue;
                        fprintf(out, ",\n      \"%s\": [\n", rule_keys[RULE_COLLS + k].at);
                        for (uint32_t n = 0; n < rule->count[c]; n++) {
                                put_row(out, &p->rows[rule->first[c] + n]);
                                fputs(n + 1 < rule->count[c] ? ",\n" : "\n", out);
                        }
                        fputs("      ]", out);
                }
                fputs("\n    }", out);
        }
        fputs("\n  ]\n}\n", out);
        return fflush(out) || ferror(out) ? -EIO : 0;
}
