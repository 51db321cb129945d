/* SPDX-License-Identifier: Apache-2.0 */
/* The CSV of NVIDIA's example tuner (plugins/tuner/example/README.md in the NCCL repository), read
 * and written:
 *
 *   collective,min_bytes,max_bytes,algorithm,protocol,channels,nodes,ranks[,pipe_ops[,reg_buff]]
 *
 * -1 is "any", or NCCL's own number of channels. The first line that fits a question wins, so the
 * lines keep their order: a rule is a run of neighbouring lines with equal conditions, and
 * core/profile/match.c lays the lines over each other. The example plugin turns a word it does not
 * know into all-reduce, ring or simple; here it is an error. */
#include <math.h>

#include "core/base/among.h"
#include "core/base/calls.h"
#include "core/base/plain_text.h"
#include "core/profile/match.h"
#include "core/profile/profile_file.h"
#include "core/base/size.h"

enum field { COLL, MIN, MAX, ALGO, PROTO, CHANNELS, NODES, RANKS, PIPE, REG, FIELDS };
static const char *const expected[FIELDS] = {
        "a collective: ", /* and its words */
        "the smallest size in bytes",
        "the largest size in bytes, not below the smallest",
        "an algorithm: ",
        "a protocol: ",
        "a number of channels, 1 to 64, or -1",
        "a number of nodes or -1",
        "a number of ranks or -1",
        "a number of pipelined operations or -1",
        "0, 1 or -1 (registered buffers)",
};

struct line {
        const char *begin, *end; /* without the comment */
        const char *at[FIELDS];  /* where each field stands */
        char text[FIELDS][48];   /* and what it is, trimmed */
        unsigned n;
};

/* Cut into fields; the caller looks at the count. false: one is too long for a word of ours. */
static bool split_line(struct line *l, enum field *bad)
{
        const char *p = l->begin;

        for (l->n = 0;; p++) {
                const char *from, *to;

                while (p < l->end && isspace((unsigned char)*p))
                        p++;
                from = p;
                while (p < l->end && *p != ',')
                        p++;
                for (to = p; to > from && isspace((unsigned char)to[-1]); to--)
                        ;
                if (l->n < FIELDS) {
                        size_t size = (size_t)(to - from);

                        l->at[l->n] = from;
                        if (size >= sizeof l->text[0] || memchr(from, 0, size)) {
                                *bad = l->n;
                                return false;
                        }
                        memcpy(l->text[l->n], from, size);
                        l->text[l->n][size] = 0;
                }
                l->n++;
                if (p >= l->end)
                        return true;
        }
}

/* 0, or the field that is wrong + 1. */
static int read_fields(const struct line *l, struct capo_row *row, struct capo_when *when)
{
        int v[FIELDS] = {[PIPE] = -1, [REG] = -1};
        int coll = capo_coll_find(l->text[COLL]);
        static const struct {
                enum field field;
                int min, max;
        } numbers[] = {{CHANNELS, 1, CAPO_CHANNELS_MAX},
                       {NODES, 1, 1 << 24},
                       {RANKS, 1, 1 << 24},
                       {PIPE, 1, 1 << 24},
                       {REG, 0, 1}};

        if (coll < 0)
                return COLL + 1;
        row->coll = (uint8_t)coll;
        if (capo_size_parse(l->text[MIN], &row->from) < 0)
                return MIN + 1;
        if (capo_size_parse(l->text[MAX], &row->upto) < 0 || row->upto < row->from)
                return MAX + 1;
        row->algo = (uint8_t)capo_algo_find(l->text[ALGO]);
        if (!row->algo)
                return ALGO + 1;
        row->proto = (uint8_t)capo_proto_find(l->text[PROTO]);
        if (!row->proto)
                return PROTO + 1;
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
                enum field f = numbers[i].field;
                double value = -1;

                if (f < l->n && (!capo_number_parse(l->text[f], strlen(l->text[f]), &value) ||
                                 value != floor(value) || value > numbers[i].max ||
                                 (value < numbers[i].min && value != -1)))
                        return (int)f + 1;
                v[f] = (int)value;
        }
        row->channels = v[CHANNELS] > 0 ? (uint8_t)v[CHANNELS] : 0;
        when->nodes = (struct capo_range){v[NODES], v[NODES]};
        when->ranks = (struct capo_range){v[RANKS], v[RANKS]};
        when->pipe_ops = (struct capo_range){v[PIPE], v[PIPE]};
        when->reg_buff = (int8_t)v[REG];
        return 0;
}

static bool same_when(const struct capo_when *a, const struct capo_when *b)
{
        return a->nodes.min == b->nodes.min && a->ranks.min == b->ranks.min &&
               a->pipe_ops.min == b->pipe_ops.min && a->reg_buff == b->reg_buff;
}

static int fail_parse(struct capo_profile *p, uint32_t number_, const struct line *l,
                      const char *at, const char *what, struct capo_fault *fault)
{
        const char *stop = at;

        while (stop < l->end && *stop != ',' && stop - at < 40)
                stop++;
        capo_profile_fault(0, fault, "%s:%u:%u: expected %s, found %.*s", p->file, number_,
                           (unsigned)(at - l->begin) + 1, what, stop > at ? (int)(stop - at) : 7,
                           stop > at ? at : "nothing");
        if (fault) { /* a log line is no place for somebody's control characters */
                for (char *c = fault->text; *c; c++) {
                        if ((unsigned char)*c < 0x20 || (unsigned char)*c > 0x7e)
                                *c = '?';
                }
        }
        return -EINVAL;
}

static int fail_field(struct capo_profile *p, uint32_t n, const struct line *l, enum field field,
                      struct capo_fault *fault)
{
        char words[100] = "", what[160];

        if (field == COLL)
                capo_coll_words(", ", words, sizeof words);
        else if (field == ALGO)
                capo_algo_words(", ", words, sizeof words);
        else if (field == PROTO)
                capo_proto_words(", ", words, sizeof words);
        snprintf(what, sizeof what, "%s%s", expected[field], words);
        return fail_parse(p, n, l, l->at[field], what, fault);
}

int capo_profile_parse_csv(struct capo_profile *p, const char *text, size_t size,
                           struct capo_fault *fault)
{
        const char *end = text + size;
        struct capo_rule *rule = NULL;
        uint32_t n = 0;

        for (const char *next; text < end; text = next) {
                struct capo_row row = {.us = NAN, .spread_us = NAN, .gain = NAN};
                struct capo_when when = capo_when_any;
                struct line l = {.begin = text};
                enum field bad = COLL;
                const char *eol = memchr(text, '\n', (size_t)(end - text)), *comment;
                int r;

                n++;
                next = eol ? eol + 1 : end;
                l.end = eol ? eol : end;
                comment = memchr(text, '#', (size_t)(l.end - text));
                if (comment)
                        l.end = comment;
                while (l.end > text && isspace((unsigned char)l.end[-1]))
                        l.end--;
                while (text < l.end && isspace((unsigned char)*text))
                        text++;
                if (text == l.end)
                        continue;
                if (!split_line(&l, &bad))
                        return fail_field(p, n, &l, bad, fault);
                if (l.n < 8 || l.n > FIELDS)
                        return fail_parse(
                                p, n, &l, l.begin,
                                "8 to 10 fields "
                                "(collective,min,max,algorithm,protocol,channels,nodes,ranks,pipe_ops,reg_buff)",
                                fault);
                r = read_fields(&l, &row, &when);
                if (r > 0)
                        return fail_field(p, n, &l, (enum field)r - 1, fault);
                row.line = n;
                /* a new rule when the conditions change, or when the collective's rows would not be
                 * neighbours */
                if (!rule || !same_when(&rule->when, &when) ||
                    (rule->count[row.coll] && p->rows[p->n_rows - 1].coll != row.coll)) {
                        rule = capo_profile_rule(p, CAPO_BASIS_MEASURED);
                        if (!rule)
                                goto no_memory;
                        rule->when = when;
                        rule->line = n;
                }
                if (capo_profile_row_raw(p, &row) < 0)
                        goto no_memory;
        }
        if (p->n_rows)
                return 0;
        return capo_profile_fault(-EINVAL, fault, "%s:%u:1: expected at least one line, found none",
                                  p->file, n);
no_memory:
        return capo_profile_fault(-ENOMEM, fault, "%s: not enough memory", p->file);
}

/* ---- writing ---- */

static bool is_single_value(struct capo_range v)
{
        return v.min == v.max; /* also "any": -1 on both sides, which is what CSV writes */
}

/* Can CSV say this condition? */
static bool when_fits_csv(const struct capo_when *w)
{
        const struct capo_range *other[] = {&w->min_local, &w->max_local, &w->nccl, &w->ring_gbs,
                                            &w->tree_gbs};

        return ALL_OF(range, other, N_ELEMENTS(other), (*range)->max == -1) &&
               is_single_value(w->nodes) && is_single_value(w->ranks) &&
               is_single_value(w->pipe_ops) && !w->layout && !w->trays && !w->class_name &&
               !w->comm && !w->link;
}

/* One thing left out, said once. Its name is somebody's text, and @to a terminal, perhaps. */
static void __attribute__((format(printf, 4, 5)))
report_omission(FILE *to, const struct capo_profile *p, uint32_t line, const char *format, ...)
{
        char text[1024], what[600];
        va_list args;

        va_start(args, format);
        vsnprintf(what, sizeof what, format, args);
        va_end(args);
        snprintf(text, sizeof text, "%s:%u: CSV cannot say %s", p->file, line, what);
        capo_plain(text, strlen(text), false, true);
        if (to)
                fprintf(to, "%s\n", text);
}

/* What of @row has no field. */
static void lose_of_row(FILE *to, const struct capo_profile *p, const struct capo_row *row)
{
        char turned[CAPO_TURNED_TEXT];

        if (capo_row_turned(row))
                report_omission(to, p, row->line, "\"%s\"",
                                capo_row_turned_text(row, turned, sizeof turned));
        else if (!row->algo)
                report_omission(to, p, row->line,
                                "\"leave to NCCL\"; lines with wider conditions may apply there");
        if (row->chunk)
                report_omission(to, p, row->line, "chunk");
        if (row->predicted)
                report_omission(to, p, row->line, "\"predicted\"");
}

int capo_profile_write_csv(const struct capo_profile *p, FILE *out, FILE *left_out)
{
        _cleanup_free_ uint32_t *order = NULL;
        int lines = 0, n_rules;
        char text[400];

        fputs("# collective,min_bytes,max_bytes,algorithm,protocol,channels,nodes,ranks,pipe_ops,reg_buff\n",
              out);
        n_rules = capo_match(p, NULL, &order);
        if (n_rules < 0)
                return n_rules;
        for (int i = 0; i < n_rules; i++) {
                const struct capo_rule *rule = &p->rules[order[i]];
                bool fits = when_fits_csv(&rule->when),
                     modelled = rule->basis == CAPO_BASIS_MODELLED;

                if (rule->n_constants)
                        report_omission(left_out, p, rule->line, "constants");
                else if (!fits)
                        report_omission(left_out, p, rule->line, "%s",
                                        capo_when_print(&rule->when, text, sizeof text));
                else if (modelled)
                        report_omission(left_out, p, rule->line,
                                        "\"modelled\": its lines would hold without being allowed");
                for (int c = 0; c < CAPO_NCCL_COLLS && fits && !modelled; c++) {
                        for (uint32_t n = 0; n < rule->count[c]; n++) {
                                const struct capo_row *row = &p->rows[rule->first[c] + n];

                                lose_of_row(left_out, p, row);
                                if (!row->algo || row->predicted)
                                        continue;
                                lines++;
                                fprintf(out, "%s,%llu,%llu,%s,%s,%d,%d,%d,%d,%d\n",
                                        capo_coll_word(c), (unsigned long long)row->from,
                                        (unsigned long long)row->upto, capo_algo_word(row->algo),
                                        capo_proto_word(row->proto),
                                        row->channels ? row->channels : -1,
                                        (int)rule->when.nodes.min, (int)rule->when.ranks.min,
                                        (int)rule->when.pipe_ops.min, rule->when.reg_buff);
                        }
                }
        }
        return fflush(out) || ferror(out) ? -EIO : lines;
}
