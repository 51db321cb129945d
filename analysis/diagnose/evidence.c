/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/plain_text.h"
#include "core/base/xalloc.h"
#include "analysis/diagnose/evidence.h"

enum { MOST_RANKS = 1 << 20 };

static const struct {
        const char *name, *words;
} kinds[] = {
#define EVIDENCE(id, name, words) {name, words},
#include "analysis/diagnose/evidence_kinds.def"
};

const char *capo_evidence_name(enum capo_evidence_kind kind) { return kinds[kind].name; }

const char *capo_evidence_words(enum capo_evidence_kind kind) { return kinds[kind].words; }

/* ---- words that a large text cannot contain ---- */

/* Most texts have few of the words that are searched. One pass notes all sequences of four letters; a
 * word can occur only if all of its sequences do. NULL: any word may be in the text. */
enum {
        GRAM = 4,
        GRAM_BITS = 22,       /* 512 KiB for each text */
        SHORT_TEXT = 1 << 16, /* a shorter text is searched faster than it is indexed */
};

/* Hash of the four letters at @at, GRAM_BITS bits. */
static uint32_t hash_gram(const char *at)
{
        uint32_t letters;

        memcpy(&letters, at, sizeof letters);
        return (letters * 2654435761u) >> (32 - GRAM_BITS);
}

static uint64_t *read_grams(const char *text, size_t size)
{
        uint64_t *grams = size < SHORT_TEXT ? NULL : xcalloc(1 << (GRAM_BITS - 6), sizeof *grams);

        for (size_t i = 0; grams && i + GRAM <= size; i++) {
                uint32_t hash = hash_gram(text + i);

                grams[hash >> 6] |= UINT64_C(1) << (hash & 63);
        }
        return grams;
}

static bool may_have(const uint64_t *grams, const char *word)
{
        size_t n = strlen(word);

        for (size_t i = 0; grams && i + GRAM <= n; i++) {
                uint32_t hash = hash_gram(word + i);

                if (!(grams[hash >> 6] >> (hash & 63) & 1))
                        return false;
        }
        return true;
}

uint32_t capo_evidence_add(struct capo_evidence *e, const char *name, char *text)
{
        _cleanup_free_ char *given = text, *copy = xstrdup(name);
        struct capo_evidence_text *t;

        xarray_room(&e->texts, e->n_texts, sizeof *e->texts);
        t = &e->texts[e->n_texts];
        *t = (struct capo_evidence_text){0};
        if (given)
                capo_records_read(given, strlen(given), &t->records);
        t->name = steal(&copy);
        t->text = t->records.text;
        if (t->text)
                t->grams = read_grams(t->text, t->records.size);
        return e->n_texts++;
}

void capo_evidence_finish(struct capo_evidence *e)
{
        for (uint32_t i = 0; i < e->n_texts; i++) {
                free(e->texts[i].name);
                free(e->texts[i].grams);
                capo_records_finish(&e->texts[i].records);
        }
        xfree(e->texts, e->findings, e->seen, e->stories, e->runs);
        *e = (struct capo_evidence){0};
}

/* ---- places ---- */

int capo_evidence_each(const struct capo_evidence *e, uint32_t text, const char *word,
                       void (*found)(const char *at, const char *line, uint32_t number, void *arg),
                       void *arg)
{
        const struct capo_evidence_text *t = &e->texts[text];
        int n = 0;

        if (!t->text || !*word || !may_have(t->grams, word))
                return 0;
        for (const char *at = t->text; (at = strstr(at, word)); at += strlen(word), n++) {
                const struct capo_record *r = found ? capo_record_at(&t->records, at) : NULL;

                if (r)
                        found(at, t->text + r->begin, r->line, arg);
        }
        return n;
}

void capo_evidence_all(const struct capo_evidence *e, const char *word,
                       void (*found)(const char *at, const char *line, uint32_t number, void *arg),
                       void *arg, uint32_t *text)
{
        for (*text = 0; *text < e->n_texts; ++*text)
                capo_evidence_each(e, *text, word, found, arg);
}

struct first {
        struct capo_diagnose_finding *f;
        bool all;
        uint32_t text;
};

static void take_first(const char *at, const char *line, uint32_t number, void *arg)
{
        struct first *first = arg;

        if (!first->f->n_marks)
                capo_quote(line, first->f->detail, sizeof first->f->detail);
        if (!first->f->n_marks || first->all)
                capo_finding_mark(first->f, (struct capo_evidence_mark){first->text, number});
}

void capo_evidence_find(const struct capo_evidence *e, const char *word, bool all,
                        struct capo_diagnose_finding *f)
{
        struct first first = {.f = f, .all = all};

        capo_evidence_all(e, word, take_first, &first, &first.text);
}

bool capo_text_has(const struct capo_evidence_text *t, const char *word)
{
        return t->text && may_have(t->grams, word) && strstr(t->text, word);
}

bool capo_evidence_has(const char *text, void *evidence)
{
        const struct capo_evidence *e = evidence;
        const char *fact = *text == '@' ? strstr(e->facts, text) : NULL;

        if (fact && fact[strlen(text)] == ' ')
                return true;
        for (uint32_t i = 0; i < e->n_findings && *text == '@'; i++) {
                if (!strcmp(e->findings[i].kind, text + 1))
                        return true;
        }
        for (uint32_t i = 0; i < e->n_texts && *text != '@'; i++) {
                if (capo_text_has(&e->texts[i], text))
                        return true;
        }
        return false;
}

bool capo_evidence_hangs(struct capo_evidence *e)
{
        static const char words[] =
                " hang|Hang| hung|stuck|Stuck|\xe5\x8d\xa1\xe4\xbd\x8f|\xe5\x8d\xa1\xe6\xad\xbb|\xe5\x8d\xa1\xe7\x9d\x80|timed out|deadlock|freez|frozen|stops after|stops at|for ever|forever|nothing happens|never returns|"
                "never ends|never finish|does not return|doesn't return|no progress|nothing more|no more output|10 min|30 min|stands here|stalls|stalled";

        return e->timed_out || capo_bug_any(words, capo_evidence_has, e, NULL);
}

bool capo_line_has(const char *at, const char *words)
{
        size_t size = strcspn(at, "\n");

        for (size_t n; *words; words += n + (words[n] == '|')) {
                n = strcspn(words, "|");
                if (memmem(at, size, words, n))
                        return true;
        }
        return false;
}

size_t capo_take_word(const char *at, const char *chars, char *word, size_t room)
{
        size_t n = strspn(at, chars);

        if (n >= room)
                return 0;
        memcpy(word, at, n);
        word[n] = 0;
        return n;
}

enum { QUOTED = 320 };

void capo_drop_part(char *text)
{
        size_t size = strlen(text), n = 1;

        while (n < 4 && n < size && (text[size - n] & 0xc0) == 0x80)
                n++;
        if (size && capo_utf8_size((unsigned char *)text + size - n, n) == CAPO_UTF8_CUT)
                text[size - n] = 0;
}

void capo_quote(const char *line, char *out, size_t room)
{
        size_t n = strcspn(line, "\r\n"), most = room - 5 < QUOTED ? room - 5 : QUOTED, end = most;

        if (n <= most) {
                snprintf(out, room, "%.*s", (int)n, line);
                for (char *tab = out; (tab = strchr(tab, '\t'));)
                        *tab = ' ';
                return;
        }
        while (end && line[end] != ' ')
                end--;
        if (!end) { /* one long word */
                for (end = most; end && !ispunct((unsigned char)line[end]);)
                        end--;
                for (end = end ? end : most; end && (line[end] & 0xc0) == 0x80;)
                        end--; /* Chinese: between two letters */
        }
        snprintf(out, room, "%.*s ...", (int)end, line);
}

bool capo_debug_host(const char *line, char *host, size_t room)
{
        const char *info = memmem(line, strcspn(line, "\n"), " NCCL INFO ", 11),
                   *colon = info ? memchr(line, ':', (size_t)(info - line)) : NULL, *name = colon;

        while (name && name > line && !strchr(" \t>]", name[-1]))
                name--;
        if (!name || name == colon || (size_t)(colon - name) >= room)
                return false;
        snprintf(host, room, "%.*s", (int)(colon - name), name);
        return true;
}

/* ---- ranks ---- */

int32_t capo_text_rank(const struct capo_evidence_text *t, const char *line)
{
        return capo_record_rank(&t->records, line);
}

uint16_t capo_text_story(const struct capo_evidence_text *t, const char *at)
{
        const struct capo_record *r = capo_record_at(&t->records, at);

        return r ? r->story : 0;
}

void capo_rank_seen(struct capo_evidence *e, int32_t rank)
{
        if (rank < 0 || rank >= MOST_RANKS)
                return;
        while (e->n_seen <= (uint32_t)rank)
                *xadd(e->seen, e->n_seen) = false;
        e->seen[rank] = true;
}

char *capo_rank_list(const int32_t *ranks, uint32_t n, char *text)
{
        snprintf(text, 128, n == 1 ? "rank" : "ranks");
        for (uint32_t i = 0, last; i < n; i = last + 1) {
                for (last = i; last + 1 < n && ranks[last + 1] == ranks[last] + 1;)
                        last++;
                last = last == i + 1 ? i : last; /* "0, 1" instead of "0-1" */
                if (strlen(text) > 100) {
                        capo_append(text, 128, " and %u more", n - i);
                        break;
                }
                capo_append(text, 128, "%s%d", i ? ", " : " ", ranks[i]);
                if (last > i)
                        capo_append(text, 128, "-%d", ranks[last]);
        }
        return text;
}

char *capo_rank_shout(char *text)
{
        for (char *c = text; *c && *c != ' '; c++)
                *c = (char)toupper((unsigned char)*c);
        return text;
}

/* ---- findings ---- */

struct capo_diagnose_finding *capo_evidence_finding(struct capo_evidence *e)
{
        return xput(e->findings, e->n_findings, .kind = "", .sure = "likely");
}

void capo_finding_is(struct capo_diagnose_finding *f, enum capo_finding_rank rank, const char *kind,
                     const char *sure)
{
        f->rank = rank;
        f->kind = kind;
        f->sure = sure;
}

static bool is_before(struct capo_evidence_mark a, struct capo_evidence_mark b)
{
        return a.text != b.text ? a.text < b.text : a.line < b.line;
}

void capo_finding_mark(struct capo_diagnose_finding *f, struct capo_evidence_mark at)
{
        for (uint32_t i = 0; i < f->n_marks; i++) {
                if (f->marks[i].text == at.text && f->marks[i].line == at.line)
                        return;
        }
        if (f->n_marks == CAPO_DIAGNOSE_MARKS)
                return;
        f->marks[f->n_marks++] = at;
        for (uint32_t i = f->n_marks - 1; i && is_before(at, f->marks[i - 1]); i--) {
                f->marks[i] = f->marks[i - 1];
                f->marks[i - 1] = at;
        }
}

void capo_finding_rank_add(struct capo_diagnose_finding *f, int32_t rank)
{
        for (uint32_t i = 0; i < f->n_ranks; i++) {
                if (f->ranks[i] == rank)
                        return;
        }
        if (rank >= 0 && f->n_ranks < CAPO_DIAGNOSE_RANKS)
                f->ranks[f->n_ranks++] = rank;
}
