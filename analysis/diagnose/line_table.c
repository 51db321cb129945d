/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of failures, by tables: node_lines.def, error_lines.def and nccl_lines.def have whole
 * lines, nccl_warns.def NCCL's warnings, line_words.def the words of all other programs. */
#include "analysis/diagnose/prose.h"

/* ---- the tables ---- */

static const struct error_row {
        const char *words;
        enum capo_evidence_kind of;
        enum capo_finding_rank rank;
        const char *kind, *sure, *headline, *next;
} rows[] = {
#define ERROR_LINE(words, of, rank, kind, sure, headline, next) \
        {words, CAPO_EVIDENCE_##of, CAPO_RANK_##rank, kind, sure, headline, next},
#define XID(numbers, rank, kind, headline, next)
#include "analysis/diagnose/node_lines.def"
#include "analysis/diagnose/error_lines.def"
#include "analysis/diagnose/nccl_lines.def"
};

/* Xids that NVIDIA's driver reports, by number; the headline gets the number. */
static const struct {
        const char *numbers; /* "61 62" */
        enum capo_finding_rank rank;
        const char *kind, *headline, *next;
} xids[] = {
#define ERROR_LINE(words, of, rank, kind, sure, headline, next)
#define XID(numbers, rank, kind, headline, next) {numbers, CAPO_RANK_##rank, kind, headline, next},
#include "analysis/diagnose/node_lines.def"
};

/* What a line means: WARN_CLASS() and WORD_MEANING() are one list. */
enum meaning {
#define WARN_CLASS(id, rank, kind, sure, headline, next) MEANS_##id,
#define NCCL_WARN(class, words)
#include "analysis/diagnose/nccl_warns.def"
#define LINE_WORDS(id, from, words)
#define WORD_MEANING(id, from, words, rank, kind, sure, headline, next) MEANS_##id,
#include "analysis/diagnose/line_words.def"
        MEANS_UNKNOWN,
};

static const struct error_row meanings[] = {
#define WARN_CLASS(id, rank, kind, sure, headline, next) \
        {"", CAPO_EVIDENCE_DEBUG, CAPO_RANK_##rank, kind, sure, headline, next},
#define NCCL_WARN(class, words)
#include "analysis/diagnose/nccl_warns.def"
#define LINE_WORDS(id, from, words)
#define WORD_MEANING(id, from, words, rank, kind, sure, headline, next) \
        {"", CAPO_EVIDENCE_PROGRAM, CAPO_RANK_##rank, kind, sure, headline, next},
#include "analysis/diagnose/line_words.def"
};

/* FROM_CUDA: lines with a word of failure, and what NCCL quotes; QUOTED: the second alone. */
enum {
        FROM_NCCL = 1,
        FROM_FABRIC = 2,
        FROM_SLURM = 4,
        FROM_ANY = 8,
        QUOTED = 16,
        FROM_CUDA = FROM_ANY | QUOTED
};

static const struct {
        enum meaning means;
        unsigned from;
        const char *words;
} words_of[] = {
#define WARN_CLASS(id, rank, kind, sure, headline, next)
#define NCCL_WARN(class, words) {MEANS_##class, FROM_NCCL, words},
#include "analysis/diagnose/nccl_warns.def"
#define LINE_WORDS(id, from, words)                                     {MEANS_##id, FROM_##from, words},
#define WORD_MEANING(id, from, words, rank, kind, sure, headline, next) LINE_WORDS(id, from, words)
#include "analysis/diagnose/line_words.def"
};

enum { WORD_ROOM = 128, WARN_SHOWN = 200 };

struct search {
        struct capo_evidence *e;
        const struct error_row *row;
        char word[WORD_ROOM], behind[WORD_ROOM]; /* of "A*B"; behind: "": none */
        bool whole;                              /* no digit may follow */
        struct capo_diagnose_finding *f;         /* of this row; NULL: none so far */
        uint32_t text, timeout; /* timeout: line of the text's first timeout; 0: none */
        uint16_t timeout_story;
        uint32_t unknown; /* the finding of warnings that are not known, + 1; 0: none so far */
};

/* Programs quote NCCL's message in their own error, often on the line after "Last error:". */
static bool is_quoted(const char *text, const char *line)
{
        const char *before = line;

        while (before > text && (before == line || before[-1] != '\n'))
                before--;
        return capo_line_has(before, "Last error:") ||
               capo_line_has(
                       line,
                       "Last error:|NCCL error|Test NCCL failure|ncclSystemError|Test CUDA failure|Cuda failure|ncclRemoteError|ncclUnhandledCudaError");
}

/* Is it a real match, and not a similar word? */
static bool is_instance(const struct search *s, const char *at, const char *line)
{
        const struct capo_evidence_text *t = &s->e->texts[s->text];

        if (*s->behind && !capo_line_has(at, s->behind))
                return false;
        if (s->whole && isdigit((unsigned char)at[strlen(s->word)]))
                return false;
        if (capo_line_has(line, "more than 1EB memory")) /* a size that no rank filled in */
                return false;
        if (!strncmp(at, "Traceback",
                     9)) /* the launcher's traceback only says that a process failed */
                return !capo_line_has(
                        capo_exception_line(at, line),
                        "ChildFailedError|CalledProcessError|initialization failed due to an exception|Engine core initialization failed");
        if (s->row->of == CAPO_EVIDENCE_NODE) /* "State: Down" means nothing elsewhere */
                return t->n[CAPO_EVIDENCE_NODE];
        if (s->row->of == CAPO_EVIDENCE_DEBUG) /* what it prints about NICs has no prefix */
                return capo_line_has(line, "NCCL WARN") || capo_line_has(line, "NCCL ERROR") ||
                       is_quoted(t->text, line) ||
                       (!strncmp(at, "Got completion", 14) && capo_line_has(line, "NET/IB"));
        return true;
}

/* Copy the next item of "A|B*C|D#" to @s. Return: the rest. */
static const char *take_words(const char *words, struct search *s)
{
        size_t n = strcspn(words, "|"), first = strcspn(words, "*|");

        SAY(s->word, "%.*s", (int)first, words);
        SAY(s->behind, "%.*s", first < n ? (int)(n - first - 1) : 0, words + first + (first < n));
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
                                               const struct error_row *row, uint16_t story)
{
        for (uint32_t i = 0; i < e->n_findings; i++) {
                if (e->findings[i].story == story &&
                    !strcmp(e->findings[i].headline, row->headline))
                        return &e->findings[i];
        }
        return NULL;
}

static int32_t rank_of(const struct capo_evidence_text *t, const char *line)
{
        int32_t rank = capo_text_rank(t, line);

        return rank >= 0 ? rank : capo_torchrun_rank(t->text, line);
}

/* Note that the line at @line is one of @s's row. @after: it is a consequence, no verdict. */
static void add_line(struct search *s, const char *at, const char *line, uint32_t number,
                     bool after)
{
        struct capo_evidence_text *t = &s->e->texts[s->text];
        struct capo_record *record = capo_record_at(&t->records, at);

        t->n[s->row->of]++;
        record->known = true;
        if (!s->f || s->f->story != record->story)
                s->f = find_same(s->e, s->row, record->story);
        if (!s->f) {
                s->f = capo_evidence_finding(s->e);
                s->f->story = record->story;
        }
        if (!s->f->n_marks) {
                const char *detail =
                        strncmp(at, "Traceback", 9) ? line : capo_exception_line(at, line);

                capo_finding_is(s->f, after ? CAPO_RANK_NOTE : s->row->rank, s->row->kind,
                                s->row->sure);
                SAY(s->f->headline, "%s", s->row->headline);
                capo_quote(detail, s->f->detail, sizeof s->f->detail);
                SAY(s->f->next, "%s", s->row->next);
        }
        if (!after && s->row->rank > s->f->rank)
                s->f->rank = s->row->rank;
        /* local ranks are numbers within a node; where the first line names no rank, later ones may
         * only pass its error on */
        if (!capo_line_has(line, "local_rank") && (!s->f->n_marks || s->f->n_ranks))
                capo_finding_rank_add(s->f, rank_of(t, line));
        capo_finding_mark(s->f, (struct capo_evidence_mark){s->text, number});
}

static void take_error(const char *at, const char *line, uint32_t number, void *arg)
{
        struct search *s = arg;
        bool after = s->timeout && number > s->timeout &&
                     capo_text_story(&s->e->texts[s->text], at) == s->timeout_story &&
                     (s->row->of == CAPO_EVIDENCE_EXIT || s->row->of == CAPO_EVIDENCE_PROGRAM);

        if (is_last_resort(s->row) && capo_record_at(&s->e->texts[s->text].records, at)->known)
                return; /* a table knows more of it */
        if (is_instance(s, at, line))
                add_line(s, at, line, number, after);
}

static void take_timeout(const char *at, const char *line, uint32_t number, void *arg)
{
        struct search *s = arg;

        if (!s->timeout) {
                s->timeout = number;
                s->timeout_story = capo_text_story(&s->e->texts[s->text], at);
        }
}

static void find_word(struct search *s)
{
        for (s->text = 0; s->text < s->e->n_texts; s->text++) {
                s->timeout = 0;
                if (!capo_text_has(&s->e->texts[s->text], s->word))
                        continue;
                capo_evidence_each(s->e, s->text, CAPO_TIMEOUT_LINE, take_timeout, s);
                capo_evidence_each(s->e, s->text, s->word, take_error, s);
        }
}

static void find_row(struct capo_evidence *e, const struct error_row *row, bool *found)
{
        struct search s = {.e = e, .row = row};

        for (const char *words = row->words; *words;) {
                words = take_words(words, &s);
                find_word(&s);
        }
        *found = s.f != NULL;
}

/* How many letters of the line the words up to @end cover; 0: it is another line. */
static size_t cover_line(const char *said, size_t size, const char *words, const char *end)
{
        size_t covered = 0;

        while (words < end) {
                size_t n = strcspn(words, "*|");
                const char *at = memmem(said, size, words, n);

                if (!at)
                        return 0;
                size -= (size_t)(at + n - said);
                said = at + n;
                covered += n;
                words += n + (words[n] == '*');
        }
        return covered;
}

/* What the line means: the row that covers most of it. @from: whose lines it may be of. */
static enum meaning find_meaning(const char *said, unsigned from, size_t *covered)
{
        size_t size = strcspn(said, "\r\n");
        enum meaning means = MEANS_UNKNOWN;

        *covered = 0;
        for (size_t i = 0; i < N_ELEMENTS(words_of); i++) {
                for (const char *words = words_of[i].words, *end; *words;
                     words = end + (*end == '|')) {
                        size_t n;

                        end = words + strcspn(words, "|");
                        n = words_of[i].from & from ? cover_line(said, size, words, end) : 0;
                        if (words_of[i].from & FROM_ANY && from != FROM_ANY)
                                n = n * 2 / 3; /* the words of its own program come first */
                        if (n > *covered) {
                                *covered = n;
                                means = words_of[i].means;
                        }
                }
        }
        return means;
}

/* Whose line it is, by its prefix. */
static unsigned find_source(const char *line)
{
        return capo_line_has(line, "NET/OFI|libfabric:") ? FROM_FABRIC
               : capo_line_has(line, "slurmstepd: |srun: |slurmd|slurmctld|sbatch: |salloc: ")
                       ? FROM_SLURM
                       : 0;
}

/* A warning of NCCL that no other row has. One of the class UNKNOWN is shown itself: it is nearer to
 * the cause than the exception that follows. */
static void take_warning(const char *at, const char *line, uint32_t number, void *arg)
{
        struct search *s = arg;
        struct capo_evidence_text *t = &s->e->texts[s->text];
        struct capo_record *record = capo_record_at(&t->records, at);
        const char *said = at + strlen(" NCCL WARN ");
        struct search known = {.e = s->e, .text = s->text};
        enum meaning means;
        size_t covered;

        if (record->known || strcspn(said, "\n") < 4)
                return;
        means = find_meaning(said, FROM_NCCL | find_source(line), &covered);
        if (means == MEANS_CUDA) { /* "Cuda failure 'CUDA driver is a stub library'" */
                enum meaning quoted = find_meaning(said, QUOTED, &covered);

                means = quoted != MEANS_UNKNOWN ? quoted : means;
        }
        if (means != MEANS_UNKNOWN) {
                known.row = &meanings[means];
                add_line(&known, at, line, number, false);
                return;
        }
        if (s->unknown) { /* other warnings may have moved the list */
                s->f = &s->e->findings[s->unknown - 1];
        } else {
                s->f = capo_evidence_finding(s->e);
                s->unknown = s->e->n_findings;
                capo_finding_is(s->f, CAPO_RANK_UNDECIDED, "error", "unsure");
                s->f->story = record->story;
                SAY(s->f->headline, "NOT DECIDED: NCCL warns: \"%.*s\"",
                    (int)strnlen(said, strcspn(said, "\r\n") < WARN_SHOWN ? strcspn(said, "\r\n")
                                                                          : WARN_SHOWN),
                    said);
                capo_quote(line, s->f->detail, sizeof s->f->detail);
                SAY(s->f->next,
                    "the lines of this process from just before it, with NCCL_DEBUG=INFO");
        }
        capo_finding_rank_add(s->f, rank_of(t, line));
        capo_finding_mark(s->f, (struct capo_evidence_mark){s->text, number});
}

static bool has_number(const char *numbers, unsigned long number)
{
        char *end;

        for (; *numbers; numbers = end + (*end == ' ')) {
                if (strtoul(numbers, &end, 10) == number)
                        return true;
        }
        return false;
}

/* "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus." */
static void take_xid(const char *at, const char *line, uint32_t number, void *arg)
{
        struct search *s = arg;
        const char *behind = memmem(at, strcspn(at, "\n"), "): ", 3);
        unsigned long xid = behind ? strtoul(behind + 3, NULL, 10) : 0;
        char headline[160];

        for (size_t i = 0; i < N_ELEMENTS(xids) && xid; i++) {
                struct error_row row = {.of = CAPO_EVIDENCE_KERNEL,
                                        .rank = xids[i].rank,
                                        .kind = xids[i].kind,
                                        .sure = xid == 79 ? "certain" : "likely",
                                        .headline = headline,
                                        .next = xids[i].next};
                struct search known = {.e = s->e, .text = s->text, .row = &row};

                if (!has_number(xids[i].numbers, xid))
                        continue;
                SAY(headline, "%s (Xid %lu)", xids[i].headline, xid);
                add_line(&known, at, line, number, false);
        }
}

void capo_errors_read(struct capo_evidence *e)
{
        struct search s = {.e = e};
        bool found;

        capo_exceptions_read(e);
        capo_evidence_all(e, "NVRM: Xid", take_xid, &s, &s.text);
        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                if (!is_last_resort(&rows[i]))
                        find_row(e, &rows[i], &found);
        }
        capo_evidence_all(e, " NCCL WARN ", take_warning, &s, &s.text);
}

void capo_last_errors_read(struct capo_evidence *e)
{
        bool found = false;

        for (size_t i = 0; i < N_ELEMENTS(rows) && !found; i++) {
                if (is_last_resort(&rows[i]))
                        find_row(e, &rows[i], &found);
        }
}

/* ---- lines with a word of failure that no table has ---- */

/* Whole words only: neither "errors: 0" nor NCCL_ASYNC_ERROR_HANDLING=1 counts; "ValueError" does.
 */
static bool has_word(const char *line, size_t size, const char *word)
{
        size_t n = strlen(word);

        for (size_t i = 0; i + n <= size; i++) {
                if ((line[i] | ' ') != (*word | ' ') || strncasecmp(line + i, word, n) != 0 ||
                    (i && line[i - 1] == '_') || (i > 2 && !strncasecmp(line + i - 3, "no ", 3)))
                        continue;
                if (i + n == size || (!isalnum((unsigned char)line[i + n]) && line[i + n] != '_'))
                        return true;
        }
        return false;
}

enum { FAILURE_WORDS = 12 }; /* of is_failure(): they alone show a failure; the rest only hints */

/* NCCL's INFO lines report attempts that fail by design; "#" begins a header of nccl-tests. */
static bool is_failure(const char *line, size_t size, bool hint)
{
        static const char *const words[] = {
                "error",        "failed",    "failure", "fatal",       "exception", "aborted",
                "aborting",     "killed",    "panic",   "timed out",   "NCCL WARN", "core dumped",
                "unable",       "could not", "refused", "denied",      "invalid",   "libfabric",
                "cannot",       "couldn't",  "can't",   "unreachable", "expected",  "already",
                "insufficient", "out of"};

        if (*line == '#' || memmem(line, size, " NCCL INFO ", 11))
                return false;
        for (size_t i = 0; i < size; i++) { /* a binary */
                if (iscntrl((unsigned char)line[i]) && !strchr("\t\r\033", line[i]))
                        return false;
        }
        for (size_t i = 0; i < (hint ? N_ELEMENTS(words) : FAILURE_WORDS); i++) {
                if (has_word(line, size, words[i]))
                        return true;
        }
        return false;
}

enum { FAILURES_SHOWN = 3 };

static void take_failure(struct capo_evidence *e, struct capo_diagnose_finding **f,
                         struct capo_evidence_mark mark, const char *line)
{
        char row[WARN_SHOWN + 40];

        e->texts[mark.text].n[CAPO_EVIDENCE_PROGRAM]++;
        if (!*f) {
                *f = capo_evidence_finding(e);
                capo_finding_is(*f, CAPO_RANK_UNDECIDED, "error", "unsure");
                SAY((*f)->headline,
                    "NOT DECIDED; LINES WITH A WORD OF FAILURE, IN THE ORDER OF THE TEXT");
                capo_prose_ask(e, CAPO_TOPIC_ERROR, (*f)->next, sizeof(*f)->next);
        }
        if ((*f)->n_marks == FAILURES_SHOWN)
                return;
        capo_quote(line, row, sizeof row);
        if (strstr((*f)->detail, row))
                return;
        ADD((*f)->detail, "%s%s", *(*f)->detail ? "\n" : "", row);
        capo_finding_rank_add(*f, capo_text_rank(&e->texts[mark.text], line));
        capo_finding_mark(*f, mark);
}

/* Output of nccl-tests that ended without an error: its warnings did no harm. */
static bool has_ended_well(const struct capo_evidence *e, uint32_t text)
{
        for (uint32_t i = 0; i < e->n_findings; i++) {
                if (e->findings[i].rank == CAPO_RANK_HEALTHY &&
                    e->findings[i].marks[0].text == text)
                        return true;
        }
        return false;
}

/* ---- words ---- */

enum {
        LINES_MOST = 4000, /* failing lines that are judged in each text */
        COVERED_SURE = 14, /* letters of a line that must be known before it is a verdict */
        COVERED_HINT = 20, /* the same if no word of failure is in it */
        COVERED_LEAST = 7,
};

static bool is_warning(const char *line)
{
        return !capo_line_has(line,
                              "NCCL WARN|FailedScheduling|Warning  ") && /* kubectl's events */
               capo_line_has(line, "arning|WARN|[W");
}

/* How many letters of a line the rows of the last resort cover. */
static size_t cover_last(const char *line)
{
        size_t most = 0;

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                for (const char *words = rows[i].words; *words && is_last_resort(&rows[i]);) {
                        const char *end = words + strcspn(words, "|");
                        size_t n = cover_line(line, strcspn(line, "\n"), words, end);

                        most = n > most ? n : most;
                        words = end + (*end == '|');
                }
        }
        return most;
}

/* Words of one line as evidence. @weak: somebody waits already, and only a cause before that counts. */
static void take_words_of(struct search *s, const struct capo_record *record, bool weak)
{
        const char *line = s->e->texts[s->text].records.text + record->begin;
        size_t size = strcspn(line, "\n"), covered;
        unsigned source = find_source(line);
        bool failure = is_failure(line, size, false);
        char headline[448];
        struct error_row row;
        enum meaning means;

        if ((!failure && !source && !is_failure(line, size, true)) ||
            (!failure && capo_line_has(line, "NCCL INFO ") &&
             (capo_line_has(line, "NET/Plugin") ||
              !capo_line_has(
                      line, "rror|ail|annot|nable to|ould not|RC:|enied|not found|nvalid|gnor"))) ||
            capo_line_has(line, "(errno: 97 - "))
                return; /* 97: no IPv6 here; c10d then takes IPv4 */
        means = find_meaning(line, FROM_ANY | source, &covered);
        if (means == MEANS_UNKNOWN || covered < (source    ? 2
                                                 : failure ? COVERED_LEAST
                                                           : COVERED_HINT))
                return;
        if ((means == MEANS_ELASTIC &&
             (capo_evidence_has("ChildFailedError", s->e) || capo_evidence_has("Error: ", s->e))) ||
            (means == MEANS_SERVER_DEAD && capo_evidence_has("Traceback (most recent", s->e)))
                return; /* torchrun's own report, or the exception, knows more */
        row = meanings[means];
        if (row.rank <= CAPO_RANK_UNDECIDED && cover_last(line) > covered)
                return;
        if (weak && (row.rank != CAPO_RANK_CAUSE || covered < COVERED_SURE || is_warning(line)))
                return;
        if (row.rank > CAPO_RANK_UNDECIDED && (covered < COVERED_SURE || is_warning(line))) {
                SAY(headline, "NOT DECIDED, BUT A LINE SAYS: %s", row.headline);
                row.headline = headline;
                row.rank = CAPO_RANK_UNDECIDED;
                row.sure = "unsure";
        }
        s->row = &row;
        s->f = NULL;
        add_line(s, line, line, record->line, false);
        s->row = NULL;
}

void capo_lines_read(struct capo_evidence *e, bool weak)
{
        for (uint32_t i = 0; i < e->n_texts; i++) {
                const struct capo_records *records = &e->texts[i].records;
                struct search s = {.e = e, .text = i};
                uint32_t judged = 0;

                if (has_ended_well(e, i) || e->texts[i].n[CAPO_EVIDENCE_FLIGHT] ||
                    e->texts[i].n[CAPO_EVIDENCE_LOG])
                        continue;
                capo_evidence_each(e, i, CAPO_TIMEOUT_LINE, take_timeout, &s);
                for (uint32_t k = 0; k < records->n && judged < LINES_MOST; k++) {
                        if (records->v[k].known || (s.timeout && records->v[k].line > s.timeout))
                                continue;
                        judged += is_failure(records->text + records->v[k].begin,
                                             strcspn(records->text + records->v[k].begin, "\n"),
                                             true);
                        take_words_of(&s, &records->v[k], weak);
                }
        }
}

void capo_words_read(struct capo_evidence *e)
{
        struct capo_diagnose_finding *f = NULL;
        bool written =
                capo_prose_topic(e) != CAPO_TOPIC_NONE; /* by a person, who may say "error" */

        for (uint32_t i = 0; i < e->n_texts; i++) {
                if (e->texts[i].n[CAPO_EVIDENCE_FLIGHT] || e->texts[i].n[CAPO_EVIDENCE_LOG])
                        return; /* the verdict of capo hang is better */
        }
        for (uint32_t i = 0; i < e->n_texts; i++) {
                const struct capo_records *records = &e->texts[i].records;

                for (uint32_t k = 0; k < records->n && !has_ended_well(e, i); k++) {
                        const char *line = records->text + records->v[k].begin;

                        if (!records->v[k].known && !(written && capo_line_is_prose(line)) &&
                            is_failure(line, strcspn(line, "\n"), false))
                                take_failure(e, &f,
                                             (struct capo_evidence_mark){i, records->v[k].line},
                                             line);
                }
        }
}
