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
        int error;      /* the first; after it, nothing more is written */
        const char *why;
};

static void fail_pickle(struct pickle *p, int error, const char *why)
{
        if (!p->error) {
                p->error = error;
                p->why = why;
        }
}

static void put_item(struct item *item)
{
        if (item && --item->refs == 0) {
                free(item->text);
                free(item);
        }
}

static void write_text(struct pickle *p, struct item *item, const char *text, size_t size)
{
        p->written += size;
        if (p->written > MOST_TEXT)
                fail_pickle(p, -EFBIG, "it is too large");
        if (p->error)
                return;
        if (!item->text || item->size + size >= item->room) {
                item->room = 2 * (item->size + size) + 16;
                item->text = xrealloc(item->text, item->room);
        }
        memcpy(item->text + item->size, text, size);
        item->size += size;
        item->text[item->size] = 0;
}

static struct item *push_item(struct pickle *p, enum item_kind kind, const char *text, size_t size)
{
        struct item *item = *xadd(p->stack, p->n) = xcalloc(1, sizeof *item);

        *item = (struct item){.kind = kind, .refs = 1};
        write_text(p, item, text, size);
        return item;
}

/* Append an item as a part of @to. */
static void write_item(struct pickle *p, struct item *to, const struct item *item)
{
        const char *around = item->kind == ITEM_DICT ? "{}" : "[]";
        size_t n = item->kind >= ITEM_LIST;

        write_text(p, to, around, n);
        write_text(p, to, item->text, item->size);
        write_text(p, to, around + 1, n);
}

static void write_key(struct pickle *p, struct item *to, const struct item *key)
{
        size_t quotes = key->kind == ITEM_NUMBER;

        if (!quotes && key->kind != ITEM_STRING)
                fail_pickle(p, -EINVAL, "a key of a dict is neither a string nor a number");
        write_text(p, to, "\"", quotes);
        write_text(p, to, key->text, key->size);
        write_text(p, to, "\"", quotes);
}

/* Move the items from @first on into @to, in pairs if it is a dict. */
static void take_items(struct pickle *p, size_t first, struct item *to)
{
        bool pairs = to->kind == ITEM_DICT;

        if (pairs && (p->n - first) % 2)
                fail_pickle(p, -EINVAL, "a key of a dict has no value");
        for (size_t i = first; i < p->n && !p->error; i++) {
                bool value = pairs && (i - first) % 2;

                if (p->stack[i]->kind == ITEM_MARK)
                        fail_pickle(p, -EINVAL, "a mark stands where a value belongs");
                write_text(p, to, value ? ":" : ",", value || to->size);
                (pairs && !value ? write_key : write_item)(p, to, p->stack[i]);
        }
        while (p->n > first)
                put_item(p->stack[--p->n]);
}

/* ---- operands ---- */

/* 0 if fewer are left. */
static uint64_t read_size(struct pickle *p, size_t bytes)
{
        uint64_t v = 0;

        if ((size_t)(p->end - p->at) < bytes) {
                fail_pickle(p, -EINVAL, NULL);
                return 0;
        }
        for (size_t i = 0; i < bytes; i++)
                v |= (uint64_t)*p->at++ << (8 * i);
        return v;
}

static void push_word(struct pickle *p, const char *word)
{
        push_item(p, ITEM_NUMBER, word, strlen(word));
}

static void push_number(struct pickle *p, int64_t n)
{
        char text[32];

        snprintf(text, sizeof text, "%lld", (long long)n);
        push_word(p, text);
}

/* Signed, at most 64 bits; dumps have no larger ones. */
static void push_long(struct pickle *p, uint64_t bytes)
{
        uint64_t v;

        if (bytes > 8 || (uint64_t)(p->end - p->at) < bytes) {
                fail_pickle(p, -EINVAL, "a number of more than 64 bits");
                return;
        }
        v = read_size(p, bytes);
        if (bytes && bytes < 8 && p->at[-1] & 0x80)
                v |= UINT64_MAX << (8 * bytes);
        push_number(p, (int64_t)v);
}

static void push_float(struct pickle *p)
{
        uint64_t bits = __builtin_bswap64(read_size(p, 8));
        char text[40];
        double d;

        memcpy(&d, &bits, sizeof d);
        snprintf(text, sizeof text, isfinite(d) ? "%.17g" : "null", d);
        push_word(p, text);
}

/* Bytes that JSON does not allow become '?'. */
static void push_string(struct pickle *p, uint64_t size)
{
        const char *at = (const char *)p->at, *end;
        struct item *item;

        if ((uint64_t)(p->end - p->at) < size) {
                fail_pickle(p, -EINVAL, NULL);
                return;
        }
        end = at + size;
        item = push_item(p, ITEM_STRING, "\"", 1);
        while (at < end && !p->error) {
                const char *plain = at;

                while (at < end && *at >= ' ' && *at < 0x7f && *at != '"' && *at != '\\')
                        at++;
                write_text(p, item, plain, (size_t)(at - plain));
                if (at == end)
                        break;
                write_text(p, item, "\\", *at == '"' || *at == '\\' || *at == '\n');
                write_text(p, item, *at == '\n' ? "n" : *at == '"' || *at == '\\' ? at : "?", 1);
                at++;
        }
        p->at += size;
        write_text(p, item, "\"", 1);
}

/* ---- the memo ---- */

static void keep_item(struct pickle *p, uint64_t number)
{
        if (!p->n || p->stack[p->n - 1]->kind == ITEM_MARK || number > p->n_memo) {
                fail_pickle(p, -EINVAL, NULL); /* writers number memo entries consecutively */
                return;
        }
        if (number == p->n_memo)
                *xadd(p->memo, p->n_memo) = NULL;
        put_item(p->memo[number]);
        p->memo[number] = p->stack[p->n - 1];
        p->memo[number]->refs++;
}

static void get_item(struct pickle *p, uint64_t number)
{
        const struct item *item = number < p->n_memo ? p->memo[number] : NULL;

        if (item)
                push_item(p, item->kind, item->text, item->size);
        else
                fail_pickle(p, -EINVAL, "a value is used that was never kept");
}

/* ---- opcodes ---- */

static void to_mark(struct pickle *p, enum item_kind kind)
{
        size_t mark = p->n;
        struct item *to;

        while (mark && p->stack[mark - 1]->kind != ITEM_MARK)
                mark--;
        if (!mark || (kind != ITEM_TUPLE && mark < 2)) {
                fail_pickle(p, -EINVAL, "a mark is missing");
                return;
        }
        if (kind == ITEM_TUPLE) {
                p->stack[mark - 1]->kind = ITEM_TUPLE; /* the mark becomes the tuple */
                take_items(p, mark, p->stack[mark - 1]);
                return;
        }
        to = p->stack[mark - 2];
        if (to->kind != kind) {
                fail_pickle(p, -EINVAL, "values are put into what is no list or dict");
                return;
        }
        put_item(p->stack[mark - 1]);
        memmove(&p->stack[mark - 1], &p->stack[mark], (p->n - mark) * sizeof(struct item *));
        p->n--;
        take_items(p, mark - 1, to);
}

static void to_last(struct pickle *p, enum item_kind kind, size_t n)
{
        if (p->n <= n || p->stack[p->n - 1 - n]->kind != kind)
                fail_pickle(p, -EINVAL, NULL);
        else
                take_items(p, p->n - n, p->stack[p->n - 1 - n]);
}

static void make_tuple(struct pickle *p, size_t n)
{
        struct item *tuple;

        if (p->n < n) {
                fail_pickle(p, -EINVAL, NULL);
                return;
        }
        tuple = push_item(p, ITEM_TUPLE, "", 0); /* below the items it gets */
        memmove(&p->stack[p->n - n], &p->stack[p->n - 1 - n], n * sizeof(struct item *));
        p->stack[p->n - 1 - n] = tuple;
        take_items(p, p->n - n, tuple);
}

static void run_opcode(struct pickle *p, uint8_t op)
{
        switch (op) {
        case 0x80: read_size(p, 1); break; /* PROTO */
        case 0x95: read_size(p, 8); break; /* FRAME */
        case '(': push_item(p, ITEM_MARK, "", 0); break;
        case '}': push_item(p, ITEM_DICT, "", 0); break;
        case ']': push_item(p, ITEM_LIST, "", 0); break;
        case ')': push_item(p, ITEM_TUPLE, "", 0); break;
        case 'N': push_word(p, "null"); break;
        case 0x88: push_word(p, "true"); break;
        case 0x89: push_word(p, "false"); break;
        case 'K': push_number(p, (int64_t)read_size(p, 1)); break;
        case 'M': push_number(p, (int64_t)read_size(p, 2)); break;
        case 'J': push_number(p, (int32_t)read_size(p, 4)); break;
        case 0x8a: push_long(p, read_size(p, 1)); break;
        case 0x8b: push_long(p, read_size(p, 4)); break;
        case 'G': push_float(p); break;
        case 0x8c: push_string(p, read_size(p, 1)); break;
        case 'X': push_string(p, read_size(p, 4)); break;
        case 0x8d: push_string(p, read_size(p, 8)); break;
        case 'q': keep_item(p, read_size(p, 1)); break;
        case 'r': keep_item(p, read_size(p, 4)); break;
        case 0x94: keep_item(p, p->n_memo); break; /* MEMOIZE */
        case 'h': get_item(p, read_size(p, 1)); break;
        case 'j': get_item(p, read_size(p, 4)); break;
        case 'a': to_last(p, ITEM_LIST, 1); break;
        case 's': to_last(p, ITEM_DICT, 2); break;
        case 'e': to_mark(p, ITEM_LIST); break;
        case 'u': to_mark(p, ITEM_DICT); break;
        case 't': to_mark(p, ITEM_TUPLE); break;
        case 0x85:
        case 0x86:
        case 0x87: make_tuple(p, op - 0x84u); break;
        default:
                fail_pickle(p, -EINVAL,
                            op && strchr("cR\x93\x81ibo\x92PQ\x82\x83\x84", op)
                                    ? "it names or calls something of Python: nothing of it is run"
                                    : "an opcode that plain data does not need");
        }
        if (p->n > MOST_ITEMS)
                fail_pickle(p, -EFBIG, "it is too large");
}

int capo_pickle_json(const void *data, size_t size, char **json, char *why, size_t room)
{
        struct pickle p = {.at = data, .end = (const uint8_t *)data + size};
        struct item *out;
        size_t at = 0;

        while (!p.error && p.at < p.end && *p.at != '.') {
                at = (size_t)(p.at - (const uint8_t *)data);
                run_opcode(&p, *p.at++);
        }
        if (p.at == p.end)
                fail_pickle(&p, -EINVAL, "it is cut off");
        else if (p.n != 1 || p.stack[0]->kind == ITEM_MARK)
                fail_pickle(&p, -EINVAL, "it is not one value");
        out = push_item(&p, ITEM_NUMBER, "", 0);
        write_item(&p, out, p.stack[0]);
        if (p.error)
                capo_why(p.error, why, room, "no pickle of plain data: %s (byte %zu)",
                         p.why ?: "it is cut off or damaged", at);
        else
                *json = steal(&out->text);
        while (p.n)
                put_item(p.stack[--p.n]);
        while (p.n_memo)
                put_item(p.memo[--p.n_memo]);
        xfree(p.stack, p.memo);
        return p.error;
}
