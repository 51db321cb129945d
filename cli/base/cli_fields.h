/* SPDX-License-Identifier: Apache-2.0 */
/* An entity is a thing that pages show: a NIC, a call, a rank. One table describes its fields.
 * Text, Markdown, HTML, JSON, CSV and metrics are printed from that table. The kind of a field
 * decides its unit, its digits, and how a value that is not known looks.
 *
 *      #define NIC_FIELDS(F)                                                    \
 *              F("rank", RANK, in->processes[of->process].rank)                 \
 *              F("nic", TEXT, of->name, "NIC", "l")                             \
 *              F("p99_us", DURATION, quantile(of, 0.99), "p99", "r/d", "p99_us")
 *      CLI_ENTITY(nic, struct link, struct job, NIC_FIELDS)        defines nic
 *
 *      cli_entity_json(&nic, job, link)                one object
 *      s = cli_page_entity(page, "NETWORK", &nic)      the columns of fields that have a SPEC
 *      cli_section_entity(s, job, link)                one row
 *
 * F(KEY, KIND, VALUE [, HEAD, SPEC [, EXPORT]]):
 *
 *      KEY     name in JSON; "?name": left out when not known or empty; NULL: JSON does not have the field
 *      VALUE   expression of the kind's type, evaluated only when a format prints the field. It may
 *              use of, the item; in, what the item belongs to; room, CLI_ROOM bytes for a text
 *      HEAD    heads its column on pages; NULL in all columns: rows stand beside the title
 *      SPEC    alignment of the column, and when a narrow page drops it (cli_table.h); NULL: pages
 *              do not have the field
 *      EXPORT  name of its column in CSV, or of its metric; NULL: neither has it
 *
 * In all numbers a negative value or NAN means: not known. It is "-" on pages, null in JSON, empty
 * in CSV and no point of a metric. Sentences are not fields; they stay code. */
#pragma once

#include <jansson.h>

#include "cli/base/cli_page.h"
#include "cli/base/cli_table.h"

enum field_kind {
        FIELD_TEXT,     /* from outside, any bytes; NULL: not known */
        FIELD_WORD,     /* from capo's own lists; NULL or "-": not known */
        FIELD_FLAG,     /* 0, 1 */
        FIELD_RANK,     /* a number that names something */
        FIELD_INTEGER,  /* any, negative ones too */
        FIELD_COUNT,    /* pages group its digits */
        FIELD_BYTES,    /* pages: "1.5 MiB"; "1,572,864 B" after cli_fields_exact() */
        FIELD_TIME,     /* ns since 1970, 0: not known; pages: the time of day; JSON: seconds */
        FIELD_DURATION, /* ns; JSON and CSV in the unit that ends the key: _us, _s */
        FIELD_SHARE,    /* 0 to 1; pages: percent */
        FIELD_RATE,     /* GB/s; metrics, and keys that end in bytes_per_s: bytes per second */
        FIELD_REAL,     /* any number */
        FIELD_EXACT,    /* the same; JSON prints all digits, of other reals six */
        FIELD_JSON,     /* anything else, a new reference, for JSON only; NULL: no such key */
};

union field_value {
        const char *text;
        int64_t integer;
        double real;
        json_t *json;
};

struct field {
        const char *key;
        enum field_kind kind;
        const char *head, *spec, *export;
};

enum { CLI_ROOM = 1024 };

struct cli_entity {
        const struct field *fields;
        unsigned n;
        union field_value (*value)(const void *in, const void *of, unsigned i, char *room);
};

/* The member of union field_value for each kind. */
#define FIELD_IN_TEXT     text
#define FIELD_IN_WORD     text
#define FIELD_IN_FLAG     integer
#define FIELD_IN_RANK     integer
#define FIELD_IN_COUNT    integer
#define FIELD_IN_INTEGER  integer
#define FIELD_IN_BYTES    integer
#define FIELD_IN_DURATION real
#define FIELD_IN_TIME     integer
#define FIELD_IN_SHARE    real
#define FIELD_IN_RATE     real
#define FIELD_IN_REAL     real
#define FIELD_IN_EXACT    real
#define FIELD_IN_JSON     json

#define FIELD_ROW(key, kind, value, ...) {key, FIELD_##kind, __VA_ARGS__},
#define FIELD_VALUE(key, kind, value, ...) \
        if (!i--)                          \
                return (union field_value){.FIELD_IN_##kind = (value)};

/* CLI_ENTITY(name, of_type, in_type, FIELDS) defines the constant name from the table FIELDS.
 * of_type: of items; in_type: of what they belong to, void if nothing is needed.
 * CLI_ENTITY_SHARED() is for other files, too. */
#define CLI_ENTITY(...)        CLI_ENTITY_(static const, __VA_ARGS__)
#define CLI_ENTITY_SHARED(...) CLI_ENTITY_(const, __VA_ARGS__)
#define CLI_ENTITY_(storage, name, of_type, in_type, FIELDS)                                \
        static union field_value name##_value(const void *in_, const void *of_, unsigned i, \
                                              char *room)                                   \
        {                                                                                   \
                const in_type *in = in_;                                                    \
                const of_type *of = of_;                                                    \
                                                                                            \
                (void)in, (void)of, (void)room;                                             \
                FIELDS(FIELD_VALUE)                                                         \
                return (union field_value){0};                                              \
        }                                                                                   \
        static const struct field name##_fields[] = {FIELDS(FIELD_ROW)};                    \
        storage struct cli_entity name = {name##_fields, N_ELEMENTS(name##_fields), name##_value}

/** cli_fields_exact() - --bytes was given: pages print sizes in bytes. */
void cli_fields_exact(void);

/** cli_bytes_text() - a size as pages print it; negative: "-". Return: @room or other text. */
const char *cli_bytes_text(int64_t bytes, char *room);

/** cli_field_export() - the field that is exported as @name, in the unit that the name tells; NAN:
 * not known. */
double cli_field_export(const struct cli_entity *e, const void *in, const void *of,
                        const char *name);

/** cli_entity_json() - an item as an object; @of NULL: null. */
json_t *cli_entity_json(const struct cli_entity *e, const void *in, const void *of);

/** cli_entity_list() - an array of @n items of @size bytes as a list of objects. */
json_t *cli_entity_list(const struct cli_entity *e, const void *in, const void *items, size_t n,
                        size_t size);
#define CLI_ENTITIES(e, in, items, n) cli_entity_list(&(e), in, items, n, sizeof *(items))

/** CLI_EACH() - a list of @item, a new reference, for each pass of for (@loop). */
#define CLI_EACH(loop, item)                                \
        ({                                                  \
                json_t *list_ = json_array();               \
                for (loop)                                  \
                        json_array_append_new(list_, item); \
                list_;                                      \
        })

/** cli_entity_csv() - print an item's exported fields as a line of CSV; @of NULL: their names. */
void cli_entity_csv(const struct cli_entity *e, const void *in, const void *of, FILE *out);

/** cli_entity_table() - a table (cli_table.h) with a column for each field that pages have, and the
 * heads as its first row. */
struct capo_table *cli_entity_table(const struct cli_entity *e);

/** cli_table_entity() - add an item as a row to a table of cli_entity_table(). */
void cli_table_entity(struct capo_table *t, const struct cli_entity *e, const void *in,
                      const void *of);

/** cli_page_entity() - add a section with a column for each field that pages have. */
struct cli_section *cli_page_entity(struct cli_page *page, const char *title,
                                    const struct cli_entity *e);

/** cli_section_hide() - leave out the column @head; before the first row. */
void cli_section_hide(struct cli_section *s, const char *head);

/** cli_section_entity() - add an item as a row to a section of cli_page_entity(). */
void cli_section_entity(struct cli_section *s, const void *in, const void *of);
