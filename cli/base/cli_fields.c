/* SPDX-License-Identifier: Apache-2.0 */
/* Prints fields by their kinds. */

#include "cli/base/cli_fields.h"
#include "cli/base/cli_json.h"
#include "core/base/xalloc.h"

static bool exact_bytes;

void cli_fields_exact(void) { exact_bytes = true; }

/* ---- text ---- */

/* "61 %", "7.5 %" */
static const char *share_text(double share, char *room)
{
        if (!(share >= 0.0995)) /* two significant digits */
                return capo_text_percent(share, room);
        snprintf(room, 32, share < 1 && share >= 0.995 ? "%.1f %%" : "%.0f %%", 100 * share);
        return room;
}

static bool is_known(enum field_kind kind, int64_t n)
{
        return n > 0 || (n == 0 && kind != FIELD_TIME) || kind == FIELD_INTEGER;
}

static const char *integer_text(enum field_kind kind, int64_t n, char *text)
{
        if (!is_known(kind, n))
                return "-";
        if (kind == FIELD_FLAG)
                return n ? "yes" : "no";
        if (kind == FIELD_TIME)
                return capo_text_when((uint64_t)n, "%H:%M:%S", text);
        if (kind == FIELD_BYTES && !exact_bytes)
                return capo_size_print((uint64_t)n, text, CLI_ROOM);
        if (kind == FIELD_RANK || kind == FIELD_INTEGER)
                snprintf(text, CLI_ROOM, "%" PRId64, n);
        else
                strcat(capo_text_count((uint64_t)n, text), kind == FIELD_BYTES ? " B" : "");
        return text;
}

const char *cli_bytes_text(int64_t bytes, char *room)
{
        return integer_text(FIELD_BYTES, bytes, room);
}

/* Field @i as pages print it. @room: CLI_ROOM bytes. Return: @room or other text. */
static const char *field_text(const struct cli_entity *e, const void *in, const void *of,
                              unsigned i, char *room)
{
        union field_value v = e->value(in, of, i, room);

        switch (e->fields[i].kind) {
        case FIELD_TEXT:
        case FIELD_WORD: return v.text ? v.text : "-";
        case FIELD_DURATION: return capo_text_duration(v.real, room);
        case FIELD_SHARE: return share_text(v.real, room);
        case FIELD_RATE:
        case FIELD_REAL:
        case FIELD_EXACT: return capo_text_gbs(v.real, room);
        case FIELD_JSON: json_decref(v.json); return "-";
        default: return integer_text(e->fields[i].kind, v.integer, room);
        }
}

/* ---- numbers ---- */

/* In the unit that the name tells. NAN: not known. */
static double real_value(enum field_kind kind, const char *name, double v)
{
        if (kind < FIELD_REAL && !(v >= 0))
                return NAN;
        if (kind == FIELD_DURATION)
                return v / (strstr(name, "_us") ? 1e3 : 1e9);
        return kind == FIELD_RATE && strstr(name, "bytes_per_s") ? v * 1e9 : v;
}

static bool is_integer(enum field_kind kind) { return kind >= FIELD_FLAG && kind <= FIELD_TIME; }

/* NULL: no such key. */
static json_t *field_json(const struct field *f, const char *name, union field_value v)
{
        if (is_integer(f->kind) && !is_known(f->kind, v.integer))
                return json_null();
        switch (f->kind) {
        case FIELD_FLAG: return json_boolean(v.integer);
        case FIELD_TIME: return json_real((double)v.integer / 1e9);
        case FIELD_TEXT: return cli_json_text(v.text);
        case FIELD_WORD: return v.text && strcmp(v.text, "-") ? json_string(v.text) : json_null();
        case FIELD_DURATION:
        case FIELD_SHARE:
        case FIELD_RATE:
        case FIELD_REAL: return cli_json_number(real_value(f->kind, name, v.real));
        case FIELD_EXACT: return cli_json_real(v.real);
        case FIELD_JSON: return v.json;
        default: return json_integer(v.integer);
        }
}

double cli_field_export(const struct cli_entity *e, const void *in, const void *of,
                        const char *name)
{
        char room[CLI_ROOM];

        for (unsigned i = 0; i < e->n; i++) {
                enum field_kind kind = e->fields[i].kind;
                union field_value v;

                if (!e->fields[i].export || strcmp(e->fields[i].export, name) != 0)
                        continue;
                v = e->value(in, of, i, room);
                if (!is_integer(kind))
                        return real_value(kind, name, v.real);
                return !is_known(kind, v.integer) ? NAN
                       : kind == FIELD_TIME       ? (double)v.integer / 1e9
                                                  : (double)v.integer;
        }
        return NAN;
}

/* ---- JSON, CSV ---- */

json_t *cli_entity_json(const struct cli_entity *e, const void *in, const void *of)
{
        json_t *to = of ? json_object() : json_null();
        char room[CLI_ROOM];

        for (unsigned i = 0; of && i < e->n; i++) {
                const struct field *f = &e->fields[i];
                json_t *j = f->key ? field_json(f, f->key, e->value(in, of, i, room)) : NULL;
                bool optional = j && *f->key == '?';

                if (optional && (json_is_null(j) || (json_is_string(j) && !json_string_length(j))))
                        json_decref(j);
                else if (j)
                        json_object_set_new(to, f->key + optional, j);
        }
        return to;
}

json_t *cli_entity_list(const struct cli_entity *e, const void *in, const void *items, size_t n,
                        size_t size)
{
        return CLI_EACH(size_t i = 0; i < n;
                        i++, cli_entity_json(e, in, (const char *)items + i * size));
}

void cli_entity_csv(const struct cli_entity *e, const void *in, const void *of, FILE *out)
{
        const char *before = "";
        char room[CLI_ROOM];

        for (unsigned i = 0; i < e->n; i++) {
                const struct field *f = &e->fields[i];
                json_t *j = NULL;

                if (!f->export)
                        continue;
                fputs(before, out);
                before = ",";
                if (!of)
                        fputs(f->export, out);
                else if (f->kind == FIELD_WORD)
                        fputs(field_text(e, in, of, i, room), out);
                else
                        j = field_json(f, f->export, e->value(in, of, i, room));
                cli_json_csv_value(out, j);
                json_decref(j);
        }
        fputc('\n', out);
}

/* ---- tables, sections ---- */

struct capo_table *cli_entity_table(const struct cli_entity *e)
{
        char spec[512] = "";
        struct capo_table *t;

        for (unsigned i = 0; i < e->n; i++)
                capo_append(spec, sizeof spec, "%s", e->fields[i].spec ? e->fields[i].spec : "");
        t = capo_table_new(spec);
        for (unsigned i = 0; i < e->n; i++) {
                if (e->fields[i].spec)
                        capo_table_cell(t, "%s", e->fields[i].head);
        }
        return t;
}

void cli_table_entity(struct capo_table *t, const struct cli_entity *e, const void *in,
                      const void *of)
{
        char room[CLI_ROOM];

        for (unsigned i = 0; i < e->n; i++) {
                if (e->fields[i].spec)
                        capo_table_cell(t, "%s", field_text(e, in, of, i, room));
        }
}

struct cli_section *cli_page_entity(struct cli_page *page, const char *title,
                                    const struct cli_entity *e)
{
        struct cli_column *columns = xcalloc(e->n, sizeof *columns);
        struct cli_section *s = cli_page_section(page, title, columns, 0);

        free(s->own);
        s->own = columns;
        s->entity = e;
        for (unsigned i = 0; i < e->n; i++) {
                if (e->fields[i].spec)
                        columns[s->n_columns++] =
                                (struct cli_column){e->fields[i].head, e->fields[i].spec, false, i};
        }
        return s;
}

void cli_section_hide(struct cli_section *s, const char *head)
{
        for (unsigned c = 0; c < s->n_columns; c++) {
                if (strcmp(s->own[c].head, head) != 0)
                        continue;
                memmove(&s->own[c], &s->own[c + 1], (--s->n_columns - c) * sizeof *s->own);
        }
}

void cli_section_entity(struct cli_section *s, const void *in, const void *of)
{
        char room[CLI_ROOM];

        for (unsigned c = 0; c < s->n_columns; c++)
                cli_section_cell(s, "%s", field_text(s->entity, in, of, s->own[c].field, room));
}
