/* SPDX-License-Identifier: Apache-2.0 */
/* A line is a word and tab-separated key=value pairs. A later snapshot replaces an earlier one. The
 * first pass finds the last complete snapshot (a killed process may have been writing one), the
 * second parses its lines. */
#include "analysis/log/fabric_read.h"
#include "core/base/xalloc.h"
#include "core/log/fabric_keys.h"

const char *const capo_fabric_kind_names[CAPO_FI_KIND_ROOM] = {
#define FABRIC_KIND(id, key, transmits) key,
#include "core/log/fabric_frame.def"
};

const bool capo_fabric_kind_sends[CAPO_FI_KIND_ROOM] = {
#define FABRIC_KIND(id, key, transmits) transmits,
#include "core/log/fabric_frame.def"
};

enum { OVERRUN = 268 }; /* FI_EOVERRUN (rdma/fi_errno.h) */

/* ---- values ---- */

/* Read a number that is followed by @after (0: end of the value); *@at moves past both. */
static bool number_read(const char **at, char after, uint64_t *out)
{
        char *end;

        if (**at < '0' || **at > '9')
                return false;
        errno = 0;
        *out = strtoull(*at, &end, 10);
        if (errno || *end != after)
                return false;
        *at = end + !!after;
        return true;
}

/* Parse "place:n,place:n" and add to the @n counters of @size bytes. */
static bool places_read(const char *at, void *counters, size_t n, size_t size)
{
        while (*at) {
                uint64_t place, count;

                if (!number_read(&at, ':', &place) || place >= n)
                        return false;
                if (!number_read(&at, strchr(at, ',') ? ',' : 0, &count))
                        return false;
                if (size == 4)
                        ((uint32_t *)counters)[place] += (uint32_t)count;
                else
                        ((uint64_t *)counters)[place] += count;
        }
        return true;
}

static bool times_read(const char *at, struct capo_fabric_hist *h)
{
        return number_read(&at, ',', &h->count) && number_read(&at, ',', &h->sum_ns) &&
               number_read(&at, ';', &h->max_ns) &&
               places_read(at, h->bucket, CAPO_HIST_BUCKETS, sizeof h->bucket[0]);
}

static bool kind_read(const char *at, struct capo_fabric_counts *n, unsigned k)
{
        return number_read(&at, ',', &n->kind[k].count) &&
               number_read(&at, ';', &n->kind[k].bytes) &&
               places_read(at, n->kind[k].sizes, CAPO_FI_SIZES, sizeof n->kind[k].sizes[0]);
}

static void error_add(struct capo_fabric_counts *n, int code, uint64_t count, const char *text)
{
        n->errors += count;
        if (code == OVERRUN)
                n->overruns += count;
        for (unsigned i = 0; i < CAPO_FABRIC_ERRORS; i++) {
                if (i == n->n_errors) {
                        n->error[n->n_errors++].code = code;
                        snprintf(n->error[i].text, sizeof n->error[i].text, "%s", text);
                }
                if (n->error[i].code == code) {
                        n->error[i].count += count;
                        return;
                }
        }
}

static bool error_read(const char *at, struct capo_fabric_counts *n)
{
        uint64_t code, count;

        if (!number_read(&at, ',', &code) || !number_read(&at, ',', &count))
                return false;
        error_add(n, (int)code, count, at);
        return true;
}

static bool value_read(const struct fabric_key *k, const char *at, void *what)
{
        void *field = (char *)what + k->at;
        uint64_t v[2];

        switch ((enum capo_fabric_value)k->value) {
        case FABRIC_COUNT:
        case FABRIC_NUMBER:
        case FABRIC_NODE:
        case FABRIC_FLAG:
                if (!number_read(&at, 0, &v[0]))
                        return false;
                v[0] = k->value == FABRIC_FLAG ? !!v[0] : v[0];
                memcpy(field, v, k->size); /* little endian */
                return true;
        case FABRIC_NAME: snprintf(field, k->size, "%s", at); return true;
        case FABRIC_VERSION:
                if (!number_read(&at, '.', &v[0]) || !number_read(&at, 0, &v[1]) || v[0] > 0xffff ||
                    v[1] > 0xffff)
                        return false;
                *(uint32_t *)field = (uint32_t)(v[0] << 16 | v[1]);
                return true;
        case FABRIC_PAIR:
                if (!number_read(&at, ',', &v[0]) || !number_read(&at, 0, &v[1]))
                        return false;
                memcpy(field, v, sizeof v);
                return true;
        case FABRIC_TIMES: return times_read(at, field);
        case FABRIC_KINDS: return true; /* pair_read() handles these by their names */
        case FABRIC_ERRORS:
                return error_read(
                        at,
                        (struct capo_fabric_counts *)((char *)field -
                                                      offsetof(struct capo_fabric_counts, error)));
        }
        return false;
}

/* False: a known key with an invalid value. */
static bool pair_read(enum capo_fabric_line line, const char *key, const char *value, void *what)
{
        for (const struct fabric_key *k = fabric_keys_of(line); k->line == line; k++) {
                for (unsigned i = 0; k->value == FABRIC_KINDS && i < CAPO_FI_KINDS; i++) {
                        if (!strcmp(key, fabric_kinds[i]))
                                return kind_read(
                                        value, (struct capo_fabric_counts *)((char *)what + k->at),
                                        i);
                }
                if (!strcmp(key, k->key))
                        return value_read(k, value, what);
        }
        return true;
}

/* ---- lines ---- */

/* Cuts the line into strings. */
static bool pairs_read(enum capo_fabric_line line, char *at, void *what)
{
        bool good = true;

        for (char *value; (value = strsep(&at, "\t"));) {
                const char *key = strsep(&value, "=");

                good &= pair_read(line, key, value ? value : "", what);
        }
        return good;
}

/* More lines of one kind than a recorder ever writes (a few hundred, docs/internals/log-format.md).
 * The limit is needed because a line of three bytes becomes kilobytes here, and readers compare
 * some items pairwise. */
enum { MOST_ITEMS = 16384 };

/* The list for items of @line, its length and the size of an item. NULL: this line has no list. */
static void *list_of(struct capo_fabric *f, enum capo_fabric_line line, size_t **n, size_t *size)
{
        switch (line) {
#define LIST(id, list) \
        case CAPO_FABRIC_##id: *n = &f->n_##list, *size = sizeof *f->list; return &f->list
                LIST(FABRIC, fabrics);
                LIST(DOMAIN, domains);
                LIST(EP, objects);
                LIST(CQ, objects);
                LIST(CNTR, objects);
                LIST(EQ, objects);
                LIST(PEP, objects);
                LIST(WINDOW, windows);
                LIST(INSIDE, inside);
#undef LIST
        default: return NULL;
        }
}

/* Return: 0; 1: a part of the line was not understood, or there are too many of its kind. */
static unsigned line_read(struct capo_fabric *f, enum capo_fabric_line line, char *at)
{
        void *list, *item;
        size_t *n, size;
        bool good;

        if (line == CAPO_FABRIC_MACHINE)
                return !pairs_read(line, at, &f->machine);
        if (line == CAPO_FABRIC_LOOKED)
                return !pairs_read(line, at, &f->last_count);
        list = list_of(f, line, &n, &size);
        if (!list)
                return 0;
        if (*n == MOST_ITEMS)
                return 1;
        xarray_room(list, *n, size);
        item = *(char **)list + *n * size;
        memset(item, 0, size);
        if (line == CAPO_FABRIC_DOMAIN)
                ((struct capo_fabric_domain *)item)->numa = -1;
        else if (list == &f->objects)
                strncpy(f->objects[*n].kind, fabric_words[line], sizeof f->objects[*n].kind - 1);
        good = pairs_read(line, at, item);
        if (list == &f->windows && f->windows[*n].end_ns < f->windows[*n].begin_ns)
                return 1; /* skipped, and not counted */
        ++*n;
        return !good;
}

/* ---- the whole ---- */

/* N if the line is @word, a tab and N; else 0. */
static uint64_t snapshot_of(const char *line, const char *word)
{
        size_t n = strlen(word);

        return !strncmp(line, word, n) && line[n] == '\t' ? strtoull(line + n + 1, NULL, 10) : 0;
}

static uint64_t choose_snapshot(const char *text)
{
        uint64_t complete = 0, last = 0, v;

        for (const char *line = text; line;
             line = strchr(line, '\n'), line = line ? line + 1 : NULL) {
                if ((v = snapshot_of(line, FABRIC_SNAPSHOT)))
                        last = v;
                else if ((v = snapshot_of(line, FABRIC_COMPLETE)) >
                         complete) /* a recovered snapshot may come after newer ones */
                        complete = v;
        }
        return complete ? complete : last;
}

static enum capo_fabric_line line_of(const char *word)
{
        enum capo_fabric_line line = 0;

        while (line < CAPO_FABRIC_LINES && strcmp(word, fabric_words[line]) != 0)
                line++;
        return line;
}

static void lines_read(struct capo_fabric *f, char *text, uint64_t wanted)
{
        uint64_t now = 0;

        /* an unfinished last line is skipped */
        for (char *rest; (rest = strsep(&text, "\n")) && text;) {
                const char *word = strsep(&rest, "\t");
                enum capo_fabric_line which = line_of(word);

                if (rest && !strcmp(word, FABRIC_SNAPSHOT))
                        now = strtoull(rest, NULL, 10);
                /* the machine line is valid whichever snapshot contains it */
                if (which < CAPO_FABRIC_LINES && (now == wanted || which == CAPO_FABRIC_MACHINE))
                        f->bad_lines += line_read(f, which, rest);
        }
}

static void counts_add(struct capo_fabric_counts *to, const struct capo_fabric_counts *from)
{
        enum { SUMS = offsetof(struct capo_fabric_counts, error) / sizeof(uint64_t) };
        uint64_t known = 0;

        static_assert(SUMS == CAPO_FI_KIND_ROOM * (2 + CAPO_FI_SIZES) + 8, "is the new one a sum?");
        for (size_t i = 0; i < SUMS; i++) /* all before the errors is 64-bit counts */
                ((uint64_t *)to)[i] += ((const uint64_t *)from)[i];
        for (unsigned i = 0; i < from->n_errors; i++) {
                error_add(to, from->error[i].code, from->error[i].count, from->error[i].text);
                known += from->error[i].count;
        }
        to->errors += from->errors - known;
}

/* Add the counts of objects to their domains. */
static void sum_up(struct capo_fabric *f)
{
        for (size_t d = 0; d < f->n_domains; d++) {
                f->domains[d].endpoints = (unsigned)f->domains[d].folded;
                f->domains[d].n.errors += f->domains[d].n.errors_other;
        }
        for (size_t i = 0; i < f->n_objects; i++) {
                struct capo_fabric_object *o = &f->objects[i];
                struct capo_fabric_domain *d;
                size_t k = 0; /* there may be no domain, and no list of them */

                o->n.errors += o->n.errors_other;
                while (k < f->n_domains && f->domains[k].id != o->domain)
                        k++;
                if (k == f->n_domains)
                        continue;
                d = &f->domains[k];
                d->endpoints += !strcmp(o->kind, fabric_words[CAPO_FABRIC_EP]);
                d->queues += !strcmp(o->kind, fabric_words[CAPO_FABRIC_CQ]);
                if (strcmp(o->kind, fabric_words[CAPO_FABRIC_CNTR]) !=
                    0) /* reads of a counter are not queue reads */
                        counts_add(&d->n, &o->n);
        }
}

struct capo_fabric *capo_fabric_parse(const char *text)
{
        struct capo_fabric *f = text ? xcalloc(1, sizeof *f) : NULL;
        _cleanup_free_ char *copy = text ? xstrdup(text) : NULL;

        if (!f)
                return NULL;
        lines_read(f, copy, choose_snapshot(text));
        sum_up(f);
        return f;
}

void capo_fabric_free(struct capo_fabric *f)
{
        if (!f)
                return;
        xfree(f->fabrics, f->domains, f->objects, f->windows, f->inside, f);
}
