/* SPDX-License-Identifier: Apache-2.0 */
/* A pickle is a program for a stack machine. Each stack item here is the JSON text of the value. A
 * value used twice is copied, so nothing can refer to itself, and the total size of all copies is
 * limited. */
#include <math.h>

#include "capo/msg.h"
#include "core/base/xalloc.h"
#include "analysis/diagnose/pickle.h"

#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
enum { MOST_TEXT = 1 << 20, MOST_ITEMS = 1 << 12 };
#else
enum { MOST_TEXT = 1 << 29, MOST_ITEMS = 1 << 24 };
#endif

enum item_kind { ITEM_MARK, ITEM_NUMBER, ITEM_STRING, ITEM_LIST, ITEM_TUPLE, ITEM_DICT };

/* @text: lists and dicts without the brackets. Shared by the stack and the memo. */
struct item {
        enum item_kind kind;
        unsigned refs;
        char *text;
        size_t size, room;
};

struct pickle {
        const uint8_t *at, *end;
        struct item **stack, **memo;
        size_t n, n_memo;
        size_t written; /* by all items */
        const char *why;
};

static void put_item(struct item *item)
{
        if (item && --item->refs == 0) {
                free(item->text);
                free(item);
        }
}

static int write_text(struct pickle *p, struct item *item, const char *text, size_t size)
{
        p->written += size;
        if (p->written > MOST_TEXT)
                return -EFBIG;
        if (!item->text || item->size + size >= item->room) {
                size_t room = 2 * (item->size + size) + 16;
                char *larger = xrealloc(item->text, room);

                item->text = larger;
                item->room = room;
        }
        memcpy(item->text + item->size, text, size);
        item->size += size;
        item->text[item->size] = 0;
        return 0;
}

static struct item *push_item(struct pickle *p, enum item_kind kind, const char *text, size_t size)
{
        struct item *item;

        if (p->n >= MOST_ITEMS)
                return NULL;
        xarray_room(&p->stack, p->n, sizeof(struct item *));
        item = xcalloc(1, sizeof *item);
        *item = (struct item){.kind = kind, .refs = 1};
        if (write_text(p, item, text, size) < 0) {
                put_item(item);
                return NULL;
        }
        p->stack[p->n++] = item;
        return item;
}

/* Append an item as a part of @to. */
static int write_item(struct pickle *p, struct item *to, const struct item *item)
{
        const char *open = item->kind == ITEM_DICT   ? "{"
                           : item->kind >= ITEM_LIST ? "["
                                                     : "",
                   *close = item->kind == ITEM_DICT   ? "}"
                            : item->kind >= ITEM_LIST ? "]"
                                                      : "";
        int r = write_text(p, to, open, strlen(open));

        r = r ?: write_text(p, to, item->text, item->size);
        return r ?: write_text(p, to, close, strlen(close));
}

static int write_key(struct pickle *p, struct item *to, const struct item *key)
{
        int r;

        if (key->kind == ITEM_STRING)
                return write_text(p, to, key->text, key->size);
        if (key->kind != ITEM_NUMBER) {
                p->why = "a key of a dict is neither a string nor a number";
                return -EINVAL;
        }
        r = write_text(p, to, "\"", 1);
        r = r ?: write_text(p, to, key->text, key->size);
        return r ?: write_text(p, to, "\"", 1);
}

/* Move the items from @first on into @to, in pairs if it is a dict. */
static int take_items(struct pickle *p, size_t first, struct item *to)
{
        bool pairs = to->kind == ITEM_DICT;
        int r = 0;

        if (pairs && (p->n - first) % 2) {
                p->why = "a key of a dict has no value";
                return -EINVAL;
        }
        for (size_t i = first; i < p->n && r == 0; i++) {
                if (p->stack[i]->kind == ITEM_MARK) {
                        p->why = "a mark stands where a value belongs";
                        return -EINVAL;
                }
                if (pairs && (i - first) % 2) {
                        r = write_text(p, to, ":", 1);
                        r = r ?: write_item(p, to, p->stack[i]);
                        continue;
                }
                r = to->size ? write_text(p, to, ",", 1) : 0;
                r = r ?: pairs ? write_key(p, to, p->stack[i]) : write_item(p, to, p->stack[i]);
        }
        while (p->n > first)
                put_item(p->stack[--p->n]);
        return r;
}

/* ---- operands ---- */

static bool read_size(struct pickle *p, unsigned bytes, uint64_t *out)
{
        uint64_t v = 0;

        if ((size_t)(p->end - p->at) < bytes)
                return false;
        for (unsigned i = 0; i < bytes; i++)
                v |= (uint64_t)p->at[i] << (8 * i);
        p->at += bytes;
        *out = v;
        return true;
}

static int push_number(struct pickle *p, int64_t n)
{
        char text[32];

        snprintf(text, sizeof text, "%lld", (long long)n);
        return push_item(p, ITEM_NUMBER, text, strlen(text)) ? 0 : -ENOMEM;
}

/* Signed, at most 64 bits; dumps have no larger ones. */
static int push_long(struct pickle *p, uint64_t bytes)
{
        uint64_t v = 0;

        if (bytes > 8 || (uint64_t)(p->end - p->at) < bytes) {
                p->why = "a number of more than 64 bits";
                return -EINVAL;
        }
        for (unsigned i = 0; i < bytes; i++)
                v |= (uint64_t)p->at[i] << (8 * i);
        if (bytes && bytes < 8 && p->at[bytes - 1] & 0x80)
                v |= UINT64_MAX << (8 * bytes);
        p->at += bytes;
        return push_number(p, (int64_t)v);
}

static int push_float(struct pickle *p)
{
        uint64_t bits = 0;
        char text[40];
        double d;

        if (p->end - p->at < 8)
                return -EINVAL;
        for (unsigned i = 0; i < 8; i++)
                bits = bits << 8 | p->at[i];
        p->at += 8;
        memcpy(&d, &bits, sizeof d);
        snprintf(text, sizeof text, isfinite(d) ? "%.17g" : "null", d);
        return push_item(p, ITEM_NUMBER, text, strlen(text)) ? 0 : -ENOMEM;
}

/* Bytes that JSON does not allow become '?'. */
static int push_string(struct pickle *p, uint64_t size)
{
        struct item *item;
        int r = 0;

        if ((uint64_t)(p->end - p->at) < size)
                return -EINVAL;
        item = push_item(p, ITEM_STRING, "\"", 1);
        if (!item)
                return -ENOMEM;
        for (uint64_t i = 0; i < size && r == 0;) {
                uint64_t plain = i;

                while (plain < size && p->at[plain] >= ' ' && p->at[plain] < 0x7f &&
                       p->at[plain] != '"' && p->at[plain] != '\\')
                        plain++;
                r = write_text(p, item, (const char *)p->at + i, plain - i);
                i = plain;
                if (r < 0 || i == size)
                        break;
                r = p->at[i] == '"'    ? write_text(p, item, "\\\"", 2)
                    : p->at[i] == '\\' ? write_text(p, item, "\\\\", 2)
                    : p->at[i] == '\n' ? write_text(p, item, "\\n", 2)
                                       : write_text(p, item, "?", 1);
                i++;
        }
        p->at += size;
        return r ?: write_text(p, item, "\"", 1);
}

/* ---- the memo ---- */

static int keep_item(struct pickle *p, uint64_t number)
{
        if (!p->n || p->stack[p->n - 1]->kind == ITEM_MARK || number > p->n_memo)
                return -EINVAL; /* writers number memo entries consecutively */
        if (number == p->n_memo)
                *xadd(p->memo, p->n_memo) = NULL;
        put_item(p->memo[number]);
        p->memo[number] = p->stack[p->n - 1];
        p->memo[number]->refs++;
        return 0;
}

static int get_item(struct pickle *p, uint64_t number)
{
        const struct item *item = number < p->n_memo ? p->memo[number] : NULL;

        if (!item) {
                p->why = "a value is used that was never kept";
                return -EINVAL;
        }
        return push_item(p, item->kind, item->text, item->size) ? 0 : -ENOMEM;
}

/* ---- opcodes ---- */

static int to_mark(struct pickle *p, enum item_kind kind)
{
        size_t mark = p->n;
        struct item *to;

        while (mark && p->stack[mark - 1]->kind != ITEM_MARK)
                mark--;
        if (!mark || (kind != ITEM_TUPLE && mark < 2)) {
                p->why = "a mark is missing";
                return -EINVAL;
        }
        if (kind == ITEM_TUPLE) {
                p->stack[mark - 1]->kind = ITEM_TUPLE; /* the mark becomes the tuple */
                return take_items(p, mark, p->stack[mark - 1]);
        }
        to = p->stack[mark - 2];
        if (to->kind != kind) {
                p->why = "values are put into what is no list or dict";
                return -EINVAL;
        }
        put_item(p->stack[mark - 1]);
        memmove(&p->stack[mark - 1], &p->stack[mark], (p->n - mark) * sizeof(struct item *));
        p->n--;
        return take_items(p, mark - 1, to);
}

static int to_last(struct pickle *p, enum item_kind kind, size_t n)
{
        if (p->n <= n || p->stack[p->n - 1 - n]->kind != kind)
                return -EINVAL;
        return take_items(p, p->n - n, p->stack[p->n - 1 - n]);
}

static int make_tuple(struct pickle *p, size_t n)
{
        struct item *tuple;

        if (p->n < n || !push_item(p, ITEM_TUPLE, "", 0))
                return -EINVAL;
        tuple = p->stack[p->n - 1]; /* below the items it gets */
        memmove(&p->stack[p->n - n], &p->stack[p->n - 1 - n], n * sizeof(struct item *));
        p->stack[p->n - 1 - n] = tuple;
        return take_items(p, p->n - n, tuple);
}

static int push_word(struct pickle *p, const char *word)
{
        return push_item(p, ITEM_NUMBER, word, strlen(word)) ? 0 : -ENOMEM;
}

static int push_empty(struct pickle *p, enum item_kind kind)
{
        return push_item(p, kind, "", 0) ? 0 : -ENOMEM;
}

static int run_opcode(struct pickle *p, uint8_t op)
{
        uint64_t v;

        switch (op) {
        case 0x80: return read_size(p, 1, &v) ? 0 : -EINVAL; /* PROTO */
        case 0x95: return read_size(p, 8, &v) ? 0 : -EINVAL; /* FRAME */
        case '(': return push_empty(p, ITEM_MARK);
        case '}': return push_empty(p, ITEM_DICT);
        case ']': return push_empty(p, ITEM_LIST);
        case ')': return push_empty(p, ITEM_TUPLE);
        case 'N': return push_word(p, "null");
        case 0x88: return push_word(p, "true");
        case 0x89: return push_word(p, "false");
        case 'K': return read_size(p, 1, &v) ? push_number(p, (int64_t)v) : -EINVAL;
        case 'M': return read_size(p, 2, &v) ? push_number(p, (int64_t)v) : -EINVAL;
        case 'J': return read_size(p, 4, &v) ? push_number(p, (int32_t)v) : -EINVAL;
        case 0x8a: return read_size(p, 1, &v) ? push_long(p, v) : -EINVAL;
        case 0x8b: return read_size(p, 4, &v) ? push_long(p, v) : -EINVAL;
        case 'G': return push_float(p);
        case 0x8c: return read_size(p, 1, &v) ? push_string(p, v) : -EINVAL;
        case 'X': return read_size(p, 4, &v) ? push_string(p, v) : -EINVAL;
        case 0x8d: return read_size(p, 8, &v) ? push_string(p, v) : -EINVAL;
        case 'q': return read_size(p, 1, &v) ? keep_item(p, v) : -EINVAL;
        case 'r': return read_size(p, 4, &v) ? keep_item(p, v) : -EINVAL;
        case 0x94: return keep_item(p, p->n_memo); /* MEMOIZE */
        case 'h': return read_size(p, 1, &v) ? get_item(p, v) : -EINVAL;
        case 'j': return read_size(p, 4, &v) ? get_item(p, v) : -EINVAL;
        case 'a': return to_last(p, ITEM_LIST, 1);
        case 's': return to_last(p, ITEM_DICT, 2);
        case 'e': return to_mark(p, ITEM_LIST);
        case 'u': return to_mark(p, ITEM_DICT);
        case 't': return to_mark(p, ITEM_TUPLE);
        case 0x85: return make_tuple(p, 1);
        case 0x86: return make_tuple(p, 2);
        case 0x87: return make_tuple(p, 3);
        default:
                p->why = op && strchr("cR\x93\x81ibo\x92PQ\x82\x83\x84", op)
                                 ? "it names or calls something of Python: nothing of it is run"
                                 : "an opcode that plain data does not need";
                return -EINVAL;
        }
}

int capo_pickle_json(const void *data, size_t size, char **json, char *why, size_t room)
{
        struct pickle p = {.at = data, .end = (const uint8_t *)data + size};
        struct item *out = NULL;
        size_t at = 0;
        int r = 0;

        while (r == 0 && p.at < p.end && *p.at != '.') {
                at = (size_t)(p.at - (const uint8_t *)data);
                r = run_opcode(&p, *p.at++);
        }
        if (r == -ENOMEM && p.written > MOST_TEXT)
                r = -EFBIG;
        if (r == 0 && (p.at == p.end || p.n != 1 || p.stack[0]->kind == ITEM_MARK)) {
                p.why = p.at == p.end ? "it is cut off" : "it is not one value";
                r = -EINVAL;
        }
        if (r == 0) {
                out = push_item(&p, ITEM_NUMBER, "", 0);
                r = out ? write_item(&p, out, p.stack[0]) : -ENOMEM;
        }
        if (r == 0)
                *json = steal(&out->text);
        else
                capo_why(r, why, room, "no pickle of plain data: %s (byte %zu)",
                         r == -EFBIG    ? "it is too large"
                         : r == -ENOMEM ? "no memory"
                         : p.why        ? p.why
                                        : "it is cut off or damaged",
                         at);
        while (p.n)
                put_item(p.stack[--p.n]);
        while (p.n_memo)
                put_item(p.memo[--p.n_memo]);
        free(p.stack);
        free(p.memo);
        return r;
}
