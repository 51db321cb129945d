/* SPDX-License-Identifier: Apache-2.0 */
/* A snapshot goes out in pieces of whole lines, each piece beginning with the snapshot's number. A
 * line has at most about PIECE / 2 bytes and a new piece begins where the last is half full, so
 * lines fit; one that does not is cut. */

#include "capo/frame_types.h"
#include "core/log/fabric_keys.h"

static void put_bytes(struct capo_fabric_text *t, const char *s, size_t n)
{
        size_t left = sizeof t->room - 1 - t->n; /* a place for the newline */

        n = n < left ? n : left;
        memcpy(t->room + t->n, s, n);
        t->n += n;
}

static void put_string(struct capo_fabric_text *t, const char *s) { put_bytes(t, s, strlen(s)); }

/* Tens of thousands of these make a snapshot, so without printf(). @after: one character behind it.
 */
static void put_number(struct capo_fabric_text *t, uint64_t v, char after)
{
        char digits[24];
        size_t n = sizeof digits;

        if (after)
                digits[--n] = after;
        do
                digits[--n] = (char)('0' + v % 10);
        while (v /= 10);
        put_bytes(t, digits + n, sizeof digits - n);
}

static void begin_piece(struct capo_fabric_text *t)
{
        t->n = 0;
        put_string(t, FABRIC_SNAPSHOT "\t");
        put_number(t, t->snapshot, '\n');
        t->line = t->n;
}

static void flush_lines(struct capo_fabric_text *t)
{
        if (t->line)
                t->out(CAPO_FRAME_FABRIC, t->room, t->line);
}

void capo_fabric_begin(struct capo_fabric_text *t, uint64_t snapshot,
                       void (*out)(unsigned type, const char *text, size_t size))
{
        t->snapshot = snapshot;
        t->out = out;
        t->lines_size = 0;
        begin_piece(t);
}

static void end_line(struct capo_fabric_text *t)
{
        t->room[t->n++] = '\n';
        t->lines_size += t->n - t->line;
        t->line = t->n;
        if (t->n > CAPO_FABRIC_PIECE / 2) {
                flush_lines(t);
                begin_piece(t);
        }
}

void capo_fabric_end(struct capo_fabric_text *t)
{
        put_string(t, FABRIC_COMPLETE "\t");
        put_number(t, t->snapshot, 0);
        end_line(t);
        flush_lines(t);
}

/* ---- values ---- */

static void put_key(struct capo_fabric_text *t, const char *key)
{
        put_bytes(t, "\t", 1);
        put_string(t, key);
        put_bytes(t, "=", 1);
}

/* A value from outside: tabs and control characters would break the line. */
static void put_name(struct capo_fabric_text *t, const char *key, const char *name, size_t room)
{
        size_t at, n = strnlen(name, room - 1);

        if (!n)
                return;
        put_key(t, key);
        at = t->n;
        put_bytes(t, name, n);
        for (; at < t->n; at++) {
                if ((unsigned char)t->room[at] < ' ')
                        t->room[at] = ' ';
        }
}

static uint64_t number_at(const void *field, size_t size)
{
        return size == 1   ? *(const uint8_t *)field
               : size == 4 ? *(const uint32_t *)field
                           : *(const uint64_t *)field;
}

/* "place:n,place:n" of the counters that are not 0. */
static void put_places(struct capo_fabric_text *t, const void *counters, unsigned n, size_t size)
{
        bool some = false;

        for (unsigned i = 0; i < n; i++) {
                uint64_t v = number_at((const char *)counters + i * size, size);

                if (!v)
                        continue;
                if (some)
                        put_bytes(t, ",", 1);
                put_number(t, i, ':');
                put_number(t, v, 0);
                some = true;
        }
}

static_assert(offsetof(struct capo_fabric_counts, kind) == 0,
              "a row of KINDS is the counts it begins");

static void put_kinds(struct capo_fabric_text *t, const struct capo_fabric_counts *n)
{
        for (unsigned k = 0; k < CAPO_FI_KINDS; k++) {
                if (!n->kind[k].count)
                        continue;
                put_key(t, fabric_kinds[k]);
                put_number(t, n->kind[k].count, ',');
                put_number(t, n->kind[k].bytes, ';');
                put_places(t, n->kind[k].sizes, CAPO_FI_SIZES, sizeof n->kind[k].sizes[0]);
        }
}

static void put_times(struct capo_fabric_text *t, const char *key, const struct capo_fabric_hist *h)
{
        if (!h->count)
                return;
        put_key(t, key);
        put_number(t, h->count, ',');
        put_number(t, h->sum_ns, ',');
        put_number(t, h->max_ns, ';');
        put_places(t, h->bucket, CAPO_HIST_BUCKETS, sizeof h->bucket[0]);
}

static void put_errors(struct capo_fabric_text *t, const char *key,
                       const struct capo_fabric_error *e)
{
        for (unsigned i = 0; i < CAPO_FABRIC_ERRORS && e[i].count; i++) {
                char value[64];

                snprintf(value, sizeof value, "%d,%lu,%s", e[i].code, (unsigned long)e[i].count,
                         e[i].text);
                put_name(t, key, value, sizeof value);
        }
}

static void put_pair(struct capo_fabric_text *t, const char *key, const uint64_t *v)
{
        if (!v[0])
                return;
        put_key(t, key);
        put_number(t, v[0], ',');
        put_number(t, v[1], 0);
}

void capo_fabric_put(struct capo_fabric_text *t, unsigned line, const void *what)
{
        put_string(t, fabric_words[line]);
        for (const struct fabric_key *k = fabric_keys_of(line); k->line == line; k++) {
                const void *field = (const char *)what + k->at;

                switch ((enum capo_fabric_value)k->value) {
                case FABRIC_FLAG:
                case FABRIC_NUMBER:
                        if (!number_at(field, k->size))
                                break;
                        __attribute__((fallthrough));
                case FABRIC_COUNT:
                        put_key(t, k->key);
                        put_number(t, number_at(field, k->size), 0);
                        break;
                case FABRIC_NODE:
                        if (*(const int *)field >= 0) {
                                put_key(t, k->key);
                                put_number(t, (unsigned)*(const int *)field, 0);
                        }
                        break;
                case FABRIC_NAME: put_name(t, k->key, field, k->size); break;
                case FABRIC_VERSION:
                        put_key(t, k->key);
                        put_number(t, *(const uint32_t *)field >> 16, '.');
                        put_number(t, *(const uint32_t *)field & 0xffff, 0);
                        break;
                case FABRIC_PAIR: put_pair(t, k->key, field); break;
                case FABRIC_TIMES: put_times(t, k->key, field); break;
                case FABRIC_KINDS: put_kinds(t, field); break;
                case FABRIC_ERRORS: put_errors(t, k->key, field); break;
                }
        }
        end_line(t);
}
