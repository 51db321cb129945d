/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles in memory. profile_load.c reads them from files; the two formats are in parse.c,
 * profile_write.c and profile_csv.c.
 *
 * A profile owns three growing arrays (rules, rows, notes) and an arena of texts; rules point into
 * the rows by index, so that arrays may move while a profile is built. Nothing is shared between
 * profiles and nothing is changed after loading, so any number of threads may read one. */
#include <math.h>

#include "core/base/among.h"
#include "core/base/array.h"
#include "core/base/layout.h"
#include "core/profile/profile_file.h"

struct block {
        struct block *next;
        size_t used, room;
        char bytes[];
};

char *capo_profile_keep_bytes(struct capo_profile *p, const char *text, size_t size)
{
        struct block *b = p->arena;
        char *copy;

        if (!b || b->room - b->used < size + 1) {
                size_t room = size + 1 > 4000 ? size + 1 : 4000;

                b = malloc(sizeof *b + room);
                if (!b)
                        return NULL;
                *b = (struct block){.next = p->arena, .room = room};
                p->arena = b;
        }
        copy = b->bytes + b->used;
        memcpy(copy, text, size);
        copy[size] = 0;
        b->used += size + 1;
        return copy;
}

const char *capo_profile_keep(struct capo_profile *p, const char *text)
{
        return text ? capo_profile_keep_bytes(p, text, strlen(text)) : NULL;
}

struct capo_profile *capo_profile_new(const char *name)
{
        struct capo_profile *p = calloc(1, sizeof *p);

        if (!p)
                return NULL;
        p->file = strdup(name);
        p->name = capo_profile_keep(p, name);
        if (!p->file || !p->name) {
                capo_profile_free(p);
                return NULL;
        }
        return p;
}

void capo_profile_free(struct capo_profile *p)
{
        if (!p)
                return;
        for (struct block *b = p->arena, *next; b; b = next) {
                next = b->next;
                free(b);
        }
        for (uint32_t i = 0; i < p->n_rules; i++)
                free(p->rules[i].constants);
        free(p->notes[CAPO_PROVENANCE]);
        free(p->notes[CAPO_PLATFORM]);
        free(p->rules);
        free(p->rows);
        free(p->file);
        free(p);
}

void capo_profile_freep(struct capo_profile **p) { capo_profile_free(*p); }

int capo_profile_note_json(struct capo_profile *p, enum capo_section section, const char *key,
                           const char *json)
{
        struct capo_note note = {capo_profile_keep(p, key), capo_profile_keep(p, json)};

        if (!note.key || !note.json ||
            capo_array_room(&p->notes[section], p->n_notes[section], sizeof note) < 0)
                return -ENOMEM;
        p->notes[section][p->n_notes[section]++] = note;
        return 0;
}

int capo_profile_note(struct capo_profile *p, enum capo_section section, const char *key,
                      const char *text)
{
        _cleanup_free_ char *json = NULL;
        size_t size;
        FILE *f = open_memstream(&json, &size);

        if (!f)
                return -ENOMEM;
        capo_text_put(f, text);
        if (fclose(f))
                return -ENOMEM;
        return capo_profile_note_json(p, section, key, json);
}

int capo_profile_note_number(struct capo_profile *p, enum capo_section section, const char *key,
                             double value)
{
        char json[32];

        if (!isfinite(value))
                return -EINVAL;
        capo_number_print(value, json, sizeof json);
        return capo_profile_note_json(p, section, key, json);
}

const struct capo_when capo_when_any = {
        .nodes = {-1, -1},
        .ranks = {-1, -1},
        .min_local = {-1, -1},
        .max_local = {-1, -1},
        .nccl = {-1, -1},
        .pipe_ops = {-1, -1},
        .ring_gbs = {-1, -1},
        .tree_gbs = {-1, -1},
        .reg_buff = -1,
};

struct capo_rule *capo_profile_rule(struct capo_profile *p, enum capo_basis basis)
{
        if (capo_array_room(&p->rules, p->n_rules, sizeof *p->rules) < 0)
                return NULL;
        p->rules[p->n_rules] = (struct capo_rule){.when = capo_when_any, .basis = (uint8_t)basis};
        return &p->rules[p->n_rules++];
}

int capo_profile_row_raw(struct capo_profile *p, const struct capo_row *row)
{
        struct capo_rule *rule = &p->rules[p->n_rules - 1];

        if (capo_array_room(&p->rows, p->n_rows, sizeof *p->rows) < 0)
                return -ENOMEM;
        if (!rule->count[row->coll]++)
                rule->first[row->coll] = p->n_rows;
        p->rows[p->n_rows] = *row;
        p->rows[p->n_rows++].rule = p->n_rules - 1;
        return 0;
}

int capo_profile_row(struct capo_profile *p, const struct capo_row *row)
{
        struct capo_row copy = *row;
        struct capo_rule *rule = p->n_rules ? &p->rules[p->n_rules - 1] : NULL;
        uint32_t n;

        if (!rule || row->coll >= CAPO_NCCL_COLLS || !row->algo != !row->proto ||
            row->algo > CAPO_NCCL_ALGOS || row->proto > CAPO_NCCL_PROTOS ||
            row->channels > CAPO_CHANNELS_MAX || row->ctas > CAPO_CHANNELS_MAX ||
            row->cluster > CAPO_CLUSTER_MAX + 1 || row->cta_policy > 2 ||
            (row->chunk &&
             (!row->algo || row->chunk < CAPO_CHUNK_MIN || row->chunk > CAPO_CHUNK_MAX)))
                return -EINVAL;
        n = rule->count[row->coll];
        copy.from = 0;
        copy.line = 0;
        copy.kernel = capo_profile_keep(p, row->kernel);
        copy.measured = capo_profile_keep(p, row->measured);
        if ((row->kernel && !copy.kernel) || (row->measured && !copy.measured))
                return -ENOMEM;
        if (n) {
                const struct capo_row *last = &p->rows[rule->first[row->coll] + n - 1];

                if (last != &p->rows[p->n_rows - 1] || last->upto >= row->upto)
                        return -EINVAL;
                copy.from = last->upto + 1;
        }
        return capo_profile_row_raw(p, &copy);
}

static const uint8_t constant_room[CAPO_CONST_TABLES][3] = {
        [CAPO_CONST_BASE_LATENCY] = {7, 3, 1},  [CAPO_CONST_HW_LATENCY] = {3, 7, 3},
        [CAPO_CONST_LL_BW] = {4, 3, 1},         [CAPO_CONST_RING_LL128_BW] = {4, 3, 1},
        [CAPO_CONST_TREE_LL128_BW] = {4, 3, 1}, [CAPO_CONST_TREE_BW] = {4, 3, 1},
        [CAPO_CONST_NVLS_TREE_BW] = {4, 3, 1},
};

int capo_profile_constant(struct capo_profile *p, const struct capo_constant *constant)
{
        struct capo_rule *rule = p->n_rules ? &p->rules[p->n_rules - 1] : NULL;

        if (!rule || constant->table >= CAPO_CONST_TABLES || !isfinite(constant->value) ||
            constant->value < 0)
                return -EINVAL;
        for (int i = 0; i < 3; i++) {
                if (constant->index[i] >= constant_room[constant->table][i])
                        return -EINVAL;
        }
        if (capo_array_room(&rule->constants, rule->n_constants, sizeof *constant) < 0)
                return -ENOMEM;
        rule->constants[rule->n_constants++] = *constant;
        return 0;
}

int capo_layout_canonical(const char *text, char *out, size_t room)
{
        struct capo_layout layout;
        char plain[CAPO_LAYOUT_TEXT];

        if (!strcasecmp(text, "even") || !strcasecmp(text, "uneven") ||
            !strcasecmp(text, "min<max"))
                strcpy(plain, strcasecmp(text, "even") ? "uneven" : "even");
        else if (capo_layout_parse(text, &layout, NULL) < 0)
                return -EINVAL;
        else
                capo_layout_print(&layout, plain, sizeof plain);
        if (strlen(plain) >= room)
                return -ENOSPC;
        strcpy(out, plain);
        return 0;
}

int capo_profile_fault(int rc, struct capo_fault *fault, const char *format, ...)
{
        va_list args;

        va_start(args, format);
        if (fault)
                vsnprintf(fault->text, sizeof fault->text, format, args);
        va_end(args);
        return rc;
}

uint32_t capo_profile_modelled(const struct capo_profile *p)
{
        return COUNT_OF(rule, p->rules, p->n_rules, rule->basis == CAPO_BASIS_MODELLED);
}

uint32_t capo_profile_turned(const struct capo_profile *p)
{
        return COUNT_OF(row, p->rows, p->n_rows, capo_row_turned(row));
}

uint32_t capo_profile_chunks(const struct capo_profile *p)
{
        return COUNT_OF(row, p->rows, p->n_rows, row->chunk);
}

const char *capo_profile_agreement(const struct capo_profile *p, bool allow_modelled,
                                   const char *trial, char text[CAPO_AGREEMENT])
{
        snprintf(text, CAPO_AGREEMENT, "%s%s%s%.100s", p->digest, allow_modelled ? "+modelled" : "",
                 *trial ? "+" : "", trial);
        return text;
}
