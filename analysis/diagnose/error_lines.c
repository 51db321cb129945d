/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the error lines listed in node_lines.def, error_lines.def and nccl_lines.def. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "core/base/util.h"
#include "analysis/diagnose/evidence.h"

#define CAUSE  CAPO_RANK_CAUSE
#define ERROR  CAPO_RANK_ERROR
#define OTHERS CAPO_RANK_UNDECIDED
static const struct error_row {
        const char *words;
        enum capo_evidence_kind of;
        enum capo_finding_rank rank;
        const char *kind, *sure, *headline, *next;
        bool slurm_node;
} rows[] = {
#define ERROR_LINE(words, of, rank, kind, sure, headline, next) \
        {words, CAPO_EVIDENCE_##of, rank, kind, sure, headline, next},
#include "analysis/diagnose/node_lines.def"
#define ERROR_LINE(words, of, rank, kind, sure, headline, next) \
        {words, CAPO_EVIDENCE_##of, rank, kind, sure, headline, next},
#define SLURM_NODE(words, of, rank, kind, sure, headline, next) \
        {words, CAPO_EVIDENCE_##of, rank, kind, sure, headline, next, true},
#include "analysis/diagnose/error_lines.def"
#define ERROR_LINE(words, of, rank, kind, sure, headline, next) \
        {words, CAPO_EVIDENCE_##of, rank, kind, sure, headline, next},
#include "analysis/diagnose/nccl_lines.def"
};
#undef CAUSE
#undef ERROR
#undef OTHERS

enum { WORD_ROOM = 128 };

struct search {
        struct capo_evidence *e;
        const struct error_row *row;
        char word[WORD_ROOM], behind[WORD_ROOM]; /* of "A*B"; behind: "": none */
        bool whole;                              /* no digit may follow */
        struct capo_diagnose_finding *f;         /* of this row; NULL: none so far */
        uint32_t text, timeout; /* timeout: line of the text's first timeout; 0: none */
};

static bool line_has(const char *line, const char *word)
{
        return memmem(line, strcspn(line, "\n"), word, strlen(word));
}

/* Programs quote NCCL's message in their own error, often on the line after "Last error:". */
static bool is_quoted(const char *text, const char *line)
{
        static const char *const quotes[] = {
                "Last error:",       "NCCL error",   "Test NCCL failure", "ncclSystemError",
                "Test CUDA failure", "Cuda failure", "ncclRemoteError",   "ncclUnhandledCudaError"};
        const char *before = line;

        while (before > text && (before == line || before[-1] != '\n'))
                before--;
        for (size_t i = 0; i < N_ELEMENTS(quotes); i++) {
                if (line_has(line, quotes[i]))
                        return true;
        }
        return line_has(before, "Last error:");
}

/* Is it a real match, and not a similar word? */
static bool is_instance(const struct search *s, const char *at, const char *line)
{
        const struct capo_evidence_text *t = &s->e->texts[s->text];

        if (*s->behind && !line_has(at, s->behind))
                return false;
        if (s->whole && isdigit((unsigned char)at[strlen(s->word)]))
                return false;
        if (!strncmp(at, "Traceback",
                     9)) /* the launcher's traceback only says that a process failed */
                return !line_has(capo_exception_line(at, line), "ChildFailedError");
        if (s->row->of == CAPO_EVIDENCE_NODE) /* "State: Down" means nothing elsewhere */
                return t->n[CAPO_EVIDENCE_NODE];
        if (s->row->of == CAPO_EVIDENCE_DEBUG) /* what it prints about NICs has no prefix */
                return line_has(line, "NCCL WARN") || line_has(line, "NCCL ERROR") ||
                       is_quoted(t->text, line) ||
                       (!strncmp(at, "Got completion", 14) && line_has(line, "NET/IB"));
        return true;
}

/* Copy the next item of "A|B*C|D#" to @s. Return: the rest. */
static const char *take_words(const char *words, struct search *s)
{
        size_t n = strcspn(words, "|"), first = strcspn(words, "*|");

        snprintf(s->word, sizeof s->word, "%.*s", (int)first, words);
        snprintf(s->behind, sizeof s->behind, "%.*s", first < n ? (int)(n - first - 1) : 0,
                 words + first + (first < n));
        s->whole = first && s->word[strlen(s->word) - 1] == '#';
        if (s->whole)
                s->word[strlen(s->word) - 1] = 0;
        return words + n + (words[n] == '|');
}

static bool is_last_resort(const struct error_row *row)
{
        return !strcmp(row->kind, "error") || !strcmp(row->kind, "cancelled");
}

/* Several lines can report the same in other words: use one finding. NULL: none so far. */
static struct capo_diagnose_finding *find_same(const struct capo_evidence *e,
                                               const struct error_row *row)
{
        for (uint32_t i = 0; i < e->n_findings; i++) {
                if (!strcmp(e->findings[i].headline, row->headline))
                        return &e->findings[i];
        }
        return NULL;
}

static int32_t rank_of(const struct capo_evidence_text *t, const char *line)
{
        int32_t rank = capo_text_rank(t, line);

        return rank >= 0 ? rank : capo_torchrun_rank(t->text, line);
}

static int take_error(const char *at, const char *line, uint32_t number, void *arg)
{
        struct search *s = arg;
        bool after = s->timeout && number > s->timeout &&
                     (s->row->of == CAPO_EVIDENCE_EXIT || s->row->of == CAPO_EVIDENCE_PROGRAM);

        if (!is_instance(s, at, line))
                return 0;
        s->e->texts[s->text].n[s->row->of]++;
        if (!s->f)
                s->f = capo_evidence_finding(s->e);
        if (!s->f)
                return -1;
        if (!s->f->n_marks) {
                const char *detail =
                        strncmp(at, "Traceback", 9) ? line : capo_exception_line(at, line);

                s->f->rank = after ? CAPO_RANK_NOTE : s->row->rank;
                s->f->kind = s->row->kind;
                s->f->sure = s->row->sure;
                s->f->slurm_node = s->row->slurm_node;
                snprintf(s->f->headline, sizeof s->f->headline, "%s", s->row->headline);
                capo_quote(detail, s->f->detail, sizeof s->f->detail);
                snprintf(s->f->next, sizeof s->f->next, "%s", s->row->next);
        }
        if (!after && s->row->rank > s->f->rank)
                s->f->rank = s->row->rank;
        if (!line_has(line, "local_rank")) /* numbers within a node, not within the job */
                capo_finding_rank_add(s->f, rank_of(&s->e->texts[s->text], line));
        capo_finding_mark(s->f, (struct capo_evidence_mark){s->text, number});
        return 0;
}

static int take_first(const char *at, const char *line, uint32_t number, void *arg)
{
        uint32_t *first = arg;

        *first = *first ? *first : number;
        return 0;
}

static int find_word(struct search *s)
{
        for (s->text = 0; s->text < s->e->n_texts; s->text++) {
                s->timeout = 0;
                if (!capo_text_has(&s->e->texts[s->text], s->word))
                        continue;
                capo_evidence_each(s->e, s->text, "Watchdog caught collective operation timeout",
                                   take_first, &s->timeout);
                if (capo_evidence_each(s->e, s->text, s->word, take_error, s) < 0)
                        return -1;
        }
        return 0;
}

int capo_errors_read(struct capo_evidence *e)
{
        struct search s = {.e = e};

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                const struct capo_diagnose_finding *verdict = capo_evidence_verdict(e);

                s.row = &rows[i];
                if (is_last_resort(s.row) && verdict && verdict->rank > CAPO_RANK_HEALTHY)
                        continue;
                s.f = find_same(e, s.row);
                for (const char *words = s.row->words; *words;) {
                        words = take_words(words, &s);
                        if (find_word(&s) < 0)
                                return -1;
                }
        }
        return 0;
}
