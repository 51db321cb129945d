/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/nccl_release.h"
#include "core/base/text.h"
#include "core/base/util.h"
#include "analysis/diagnose/evidence.h"
#include "analysis/diagnose/grams.h"

enum { MOST_RANKS = 1 << 20 };

static const struct {
        const char *name, *words;
} kinds[] = {
#define EVIDENCE(id, name, words) {name, words},
#include "analysis/diagnose/evidence_kinds.def"
};

const char *capo_evidence_name(enum capo_evidence_kind kind)
{
        return kinds[kind].name;
}

const char *capo_evidence_words(enum capo_evidence_kind kind)
{
        return kinds[kind].words;
}

int capo_evidence_add(struct capo_evidence *e, const char *name, char *text)
{
        char *copy = strdup(name);

        if (!copy || capo_array_room(&e->texts, e->n_texts, sizeof *e->texts) < 0) {
                free(copy);
                free(text);
                return -ENOMEM;
        }
        e->texts[e->n_texts] = (struct capo_evidence_text){.name = copy, .text = text};
        if (text)
                e->texts[e->n_texts].grams = capo_grams_read(text, strlen(text));
        return (int)e->n_texts++;
}

void capo_evidence_finish(struct capo_evidence *e)
{
        for (uint32_t i = 0; i < e->n_texts; i++) {
                free(e->texts[i].name);
                free(e->texts[i].text);
                free(e->texts[i].grams);
        }
        free(e->texts);
        free(e->findings);
        free(e->seen);
        *e = (struct capo_evidence){0};
}

/* ---- places ---- */

int capo_evidence_each(const struct capo_evidence *e, uint32_t text, const char *word,
                       int (*found)(const char *at, const char *line, uint32_t number, void *arg),
                       void *arg)
{
        const struct capo_evidence_text *t = &e->texts[text];
        const char *at = capo_grams_may_have(t->grams, word) ? t->text : NULL, *line = at;
        uint32_t number = 1;
        int n = 0;

        while (at && (at = strstr(at, word))) {
                for (const char *end; (end = memchr(line, '\n', (size_t)(at - line)));
                     line = end + 1)
                        number++;
                if (found(at, line, number, arg) < 0)
                        return -ENOMEM;
                n++;
                at += strlen(word);
        }
        return n;
}

static int count_only(const char *at, const char *line, uint32_t number, void *arg)
{
        return 0;
}

bool capo_text_has(const struct capo_evidence_text *t, const char *word)
{
        return t->text && capo_grams_may_have(t->grams, word) && strstr(t->text, word);
}

bool capo_evidence_has(const char *text, void *evidence)
{
        const struct capo_evidence *e = evidence;

        for (uint32_t i = 0; i < e->n_texts; i++) {
                if (capo_text_has(&e->texts[i], text))
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

void capo_quote(const char *line, char *out, size_t room)
{
        size_t n = strcspn(line, "\r\n"), most = room - 5 < QUOTED ? room - 5 : QUOTED, end = most;

        if (n <= most) {
                snprintf(out, room, "%.*s", (int)n, line);
                return;
        }
        while (end && line[end] != ' ')
                end--;
        if (!end) { /* one long word */
                for (end = most; end && !ispunct((unsigned char)line[end]);)
                        end--;
        }
        snprintf(out, room, "%.*s ...", (int)end, line);
}

/* ---- ranks ---- */

int32_t capo_line_rank(const char *line)
{
        static const char *const marks[] = {"[rank", "[Rank ", "rank: ", "process rank "};
        size_t size = strcspn(line, "\n");
        long rank;
        char *end;

        for (size_t i = 0; i < N_ELEMENTS(marks); i++) {
                size_t n = strlen(marks[i]);

                for (const char *at = line;
                     (at = memmem(at, size - (size_t)(at - line), marks[i], n));) {
                        at += n;
                        if (at - line >= 12 && !strncmp(at - 12, "local_", 6))
                                continue; /* a number within a node, not within the job */
                        rank = strtol(at, &end, 10);
                        if (end != at && rank >= 0 && rank < MOST_RANKS)
                                return (int32_t)rank;
                }
        }
        return -1;
}

int capo_rank_seen(struct capo_evidence *e, int32_t rank)
{
        if (rank < 0 || rank >= MOST_RANKS)
                return 0;
        while (e->n_seen <= (uint32_t)rank) {
                if (capo_array_room(&e->seen, e->n_seen, sizeof *e->seen) < 0)
                        return -ENOMEM;
                e->seen[e->n_seen++] = false;
        }
        e->seen[rank] = true;
        return 0;
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
        if (capo_array_room(&e->findings, e->n_findings, sizeof *e->findings) < 0)
                return NULL;
        e->findings[e->n_findings] = (struct capo_diagnose_finding){.kind = "", .sure = "likely"};
        return &e->findings[e->n_findings++];
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

const struct capo_diagnose_finding *capo_evidence_verdict(const struct capo_evidence *e)
{
        const struct capo_diagnose_finding *best = NULL;

        for (uint32_t i = 0; i < e->n_findings; i++) {
                if (e->findings[i].rank > (best ? best->rank : CAPO_RANK_NOTE))
                        best = &e->findings[i];
        }
        return best;
}

/* ---- kinds of texts ---- */

/* Find the first release after the word: digits, a point, digits. The "13" of "cu13" does not
 * count. */
static int find_release(const char *at, const char *line, uint32_t number, void *arg)
{
        const char *end = at + strcspn(at, "\n");
        int *release = arg;
        char word[32];

        for (const char *p = at; p < end && !*release; p++) {
                size_t n = strspn(p, "0123456789");

                if (n && p[n] == '.' && isdigit((unsigned char)p[n + 1]) &&
                    capo_take_word(p, "0123456789.", word, sizeof word)) {
                        *release = capo_nccl_named(word);
                        break;
                }
                p += n;
        }
        return 0;
}

static int take_rank(const char *at, const char *line, uint32_t number, void *arg)
{
        return capo_rank_seen(arg, capo_line_rank(at));
}

static const struct {
        enum capo_evidence_kind kind;
        const char *word;
} signs[] = {
#define EVIDENCE_SIGN(kind, word) {CAPO_EVIDENCE_##kind, word},
#include "analysis/diagnose/evidence_signs.def"
};

/* "[core_client.py:425]", "worker.cc:382]": the word is followed by a number of a source line. */
static int take_source(const char *at, const char *line, uint32_t number, void *arg)
{
        *(uint32_t *)arg += isdigit((unsigned char)strchr(at, ':')[1]) != 0;
        return 0;
}

static int recognise_text(struct capo_evidence *e, uint32_t text)
{
        static const char *const sources[] = {".py:", ".cc:", ".cpp:"};
        struct capo_evidence_text *t = &e->texts[text];

        for (size_t i = 0; i < N_ELEMENTS(signs); i++) {
                int n = capo_evidence_each(e, text, signs[i].word, count_only, NULL);

                t->n[signs[i].kind] += n > 0 ? (uint32_t)n : 0;
        }
        for (size_t i = 0; i < N_ELEMENTS(sources); i++)
                capo_evidence_each(e, text, sources[i], take_source, &t->n[CAPO_EVIDENCE_LINES]);
        capo_evidence_each(e, text, "NCCL version ", find_release, &e->nccl);
        capo_evidence_each(e, text, "nvidia-nccl-cu", find_release, &e->nccl);
        capo_evidence_each(e, text, "using nccl==", find_release, &e->nccl);
        capo_evidence_each(e, text, "Initializing aws-ofi-nccl ", find_release, &e->ofi);
        capo_evidence_each(e, text, "PyTorch version: ", find_release, &e->torch);
        capo_labels_read(t);
        return capo_evidence_each(e, text, "[rank", take_rank, e) < 0 ? -ENOMEM : 0;
}

/* ---- nccl-tests ---- */

static int bad_values(const char *at, const char *line, uint32_t number, void *arg)
{
        const char *n = at + strlen("# Out of bounds values");

        if (strtoul(n + strspn(n, " :"), NULL, 10))
                *(uint32_t *)arg = number;
        return 0;
}

/* The first row of results whose #wrong, out of place or in place, is above 0. A row is: size,
 * count, type, redop, root, then twice time, algbw, busbw, #wrong. */
static uint32_t find_wrong_row(const char *text)
{
        uint32_t number = 1;
        char type[16];

        for (const char *line = text; *line; number++) {
                const char *end = line + strcspn(line, "\n");
                char row[256];
                double wrong[2] = {0, 0};

                snprintf(row, sizeof row, "%.*s", (int)(end - line < 255 ? end - line : 255), line);
                if (sscanf(row, "%*u %*u %15[a-z0-9_] %*s %*d %*f %*f %*f %lf %*f %*f %*f %lf",
                           type, &wrong[0], &wrong[1]) >= 2 &&
                    (wrong[0] > 0 || wrong[1] > 0))
                        return number;
                line = end + (*end == '\n');
        }
        return 0;
}

/* @name as a word for a shell; FILE if it is too long. */
static const char *quote_name(const char *name, char *out, size_t room)
{
        size_t n = 0;

        if (*name && *name != '-' &&
            !name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                               "/._-+:@,=%")])
                return strlen(name) < room ? name : "FILE";
        out[n++] = '\'';
        for (; *name && n + 6 < room; name++) {
                if (*name == '\'')
                        n += (size_t)snprintf(out + n, room - n, "'\\''");
                else
                        out[n++] = *name;
        }
        if (*name)
                return "FILE";
        out[n++] = '\'';
        out[n] = 0;
        return out;
}

/* A complete run ends with the line of the average. */
static int judge_tests(struct capo_evidence *e, uint32_t text)
{
        uint32_t bad = 0;
        int n_ended = capo_evidence_each(e, text, "# Avg bus bandwidth", count_only, NULL),
            n_begun = capo_evidence_each(e, text, "# nThread ", count_only, NULL);
        struct capo_diagnose_finding *f;
        char quoted[300];

        if (!n_begun)
                return 0;
        f = capo_evidence_finding(e);
        if (!f)
                return -ENOMEM;
        capo_evidence_each(e, text, "# Out of bounds values", bad_values, &bad);
        if (!bad)
                bad = find_wrong_row(e->texts[text].text);
        capo_finding_mark(f, (struct capo_evidence_mark){text, bad});
        if (bad) {
                *f = (struct capo_diagnose_finding){.rank = CAPO_RANK_CAUSE,
                                                    .kind = "wrong-results",
                                                    .sure = "certain",
                                                    .n_marks = 1,
                                                    .marks = {{text, bad}}};
                snprintf(f->headline, sizeof f->headline,
                         "NCCL-TESTS FOUND WRONG RESULTS: data was corrupted on its way");
                snprintf(f->next, sizeof f->next,
                         "run it per pair of GPUs and nodes to find which; then NCCL_PROTO=^LL128");
        } else if (n_ended >= n_begun) {
                f->rank = CAPO_RANK_HEALTHY;
                f->kind = "healthy";
                f->sure = "certain";
                snprintf(f->headline, sizeof f->headline, "NCCL-TESTS ENDED WITHOUT AN ERROR");
                snprintf(f->next, sizeof f->next,
                         "is its bandwidth normal? capo expect %s --platform NAME",
                         quote_name(e->texts[text].name, quoted, sizeof quoted));
        } else {
                f->rank = CAPO_RANK_UNDECIDED;
                f->kind = "undecided";
                f->sure = "unsure";
                snprintf(f->headline, sizeof f->headline,
                         "NCCL-TESTS DID NOT COME TO ITS END, or its output was cut");
                snprintf(f->missing, sizeof f->missing, "the same run with NCCL_DEBUG=INFO");
                snprintf(
                        f->next, sizeof f->next,
                        "NCCL_DEBUG=INFO, then NCCL_P2P_DISABLE=1 and NCCL_NVLS_ENABLE=0 one by one");
        }
        return 0;
}

int capo_evidence_judge(struct capo_evidence *e)
{
        const struct capo_diagnose_finding *verdict;
        int r = 0;

        for (uint32_t i = 0; i < e->n_texts && r == 0; i++) {
                if (e->texts[i].text)
                        r = recognise_text(e, i);
        }
        r = r ?: capo_watchdog_read(e);
        r = r ?: capo_c10d_read(e);
        r = r ?: capo_exceptions_read(e);
        r = r ?: capo_stacks_read(e);
        r = r ?: capo_debug_read(e);
        r = r ?: capo_errors_read(e);
        r = r ?: capo_torchrun_read(e);
        r = r ?: capo_nodes_name(e);
        for (uint32_t i = 0; i < e->n_texts && r == 0; i++) {
                if (e->texts[i].text)
                        r = judge_tests(e, i);
        }
        verdict = capo_evidence_verdict(e);
        if (r == 0 && (!verdict || verdict->rank == CAPO_RANK_HEALTHY))
                r = capo_words_read(e);
        for (uint32_t i = 0; i < e->n_texts && r == 0; i++) {
                struct capo_evidence_text *t = &e->texts[i];
                bool any = false;

                for (unsigned k = 0; k < CAPO_EVIDENCE_UNKNOWN; k++)
                        any |= k != CAPO_EVIDENCE_LINES && t->n[k] > 0;
                if (any) /* other readers identified them better */
                        t->n[CAPO_EVIDENCE_LINES] = 0;
                t->n[CAPO_EVIDENCE_UNKNOWN] = !any && !t->n[CAPO_EVIDENCE_LINES];
        }
        return r;
}
