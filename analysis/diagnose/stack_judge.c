/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks of several ranks: which rank does something else while others wait in a collective, and
 * where do their ways part?
 *
 * Only the main thread of each process counts. Its innermost frame that stack_words.def knows says
 * what it does. The outermost frames are compared: where two ranks are in one function at different
 * lines, a call lies between that one of them made and the other did not.
 *
 * The rank is in the file's name ("rank3.txt") or in the line of the process; else it has its pid.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/text.h"
#include "core/base/util.h"
#include "analysis/diagnose/evidence.h"

enum { MOST_PROCESSES = 4096, NAMED = 4, PID_ROOM = 1 << 16, FRAMES = 64, FRAME_NAME = 96 };

enum doing { DOING_OTHER, DOING_BUSY, DOING_LEAVES, DOING_WAITS, DOINGS };

static const struct {
        enum doing doing;
        const char *word, *words;
} stack_words[] = {
#define STACK_WORD(doing, word, words) {DOING_##doing, word, words},
#include "analysis/diagnose/stack_words.def"
};

/* A line of a stack: "main (FILE:70)", "File FILE, line 70 in main", "#1 main () at FILE:70". */
struct frame {
        const char *at; /* its first letter that is no blank */
        size_t size;
};

struct stack_process {
        int32_t rank; /* -1 not known */
        long pid;     /* 0 not known */
        enum doing doing;
        const char *words; /* what it does; static text */
        struct frame frames[FRAMES];
        uint32_t n_frames; /* innermost first */
        struct capo_evidence_mark mark;
};

struct stacks {
        struct capo_evidence *e;
        uint32_t text;
        struct stack_process *v;
        uint32_t n;
};

/* ---- reading ---- */

/* The number behind the first of the words in the line; -1: none. */
static int32_t number_behind(const char *line, size_t size, const char *const *words)
{
        for (; *words; words++) {
                size_t n = strlen(*words);

                for (const char *at = line;
                     (at = memmem(at, size - (size_t)(at - line), *words, n)); at++) {
                        const char *digit = at + n + (at[n] == '_' || at[n] == '-' || at[n] == ' ');

                        if (isdigit((unsigned char)*digit) &&
                            (at == line || !isalpha((unsigned char)at[-1])))
                                return (int32_t)(strtoul(digit, NULL, 10) & 0xfffff);
                }
        }
        return -1;
}

/* The last "Process N: command" before @line; NULL: none. */
static const char *find_process(const char *text, const char *line)
{
        static const char mark[] = "Process ";
        const char *found = NULL, *from = line - text > PID_ROOM
                                                  ? line - PID_ROOM
                                                  : text; /* search only the last part */

        for (const char *at = from; (at = memmem(at, (size_t)(line - at), mark, sizeof mark - 1));
             at++) {
                if (at == text || at[-1] == '\n')
                        found = at;
        }
        return found;
}

/* The frames below a thread's line: up to an empty line or the next thread. */
static void read_frames(const char *from, struct stack_process *p)
{
        while (*from && p->n_frames < FRAMES) {
                size_t n = strcspn(from, "\n"), blank = strspn(from, " \t");

                if (blank >= n || !strncmp(from, "Thread ", 7) ||
                    !strncmp(from, "Current thread ", 15) || !strncmp(from, "Process ", 8))
                        break;
                p->frames[p->n_frames++] = (struct frame){from + blank, n - blank};
                from += n + (from[n] == '\n');
        }
}

static void find_doing(struct stack_process *p)
{
        for (uint32_t i = 0; i < p->n_frames; i++) {
                for (size_t k = 0; k < N_ELEMENTS(stack_words); k++) {
                        if (!memmem(p->frames[i].at, p->frames[i].size, stack_words[k].word,
                                    strlen(stack_words[k].word)))
                                continue;
                        p->doing = stack_words[k].doing;
                        p->words = stack_words[k].words;
                        return;
                }
        }
}

static int add_process(struct stacks *s, const char *line, uint32_t number)
{
        static const char *const words[] = {"rank", "Rank", "task", "Worker_TP", "TP", NULL};
        const struct capo_evidence_text *t = &s->e->texts[s->text];
        const char *frames = line + strcspn(line, "\n"), *process = find_process(t->text, line),
                   *name = capo_base_name(t->name);
        struct stack_process new = {.rank = -1, .mark = {s->text, number}};

        if (process) {
                new.pid = strtol(process + strlen("Process "), NULL, 10);
                new.rank = number_behind(process, strcspn(process, "\n"), words);
        }
        if (new.rank < 0)
                new.rank = number_behind(name, strlen(name), words);
        read_frames(frames + (*frames == '\n'), &new);
        find_doing(&new);
        if (!new.n_frames || s->n == MOST_PROCESSES)
                return 0;
        if (capo_array_room(&s->v, s->n, sizeof *s->v) < 0)
                return -ENOMEM;
        s->v[s->n++] = new;
        return 0;
}

static int take_main(const char *at, const char *line, uint32_t number, void *arg)
{
        return !strncmp(line, "Thread ", 7) ? add_process(arg, line, number) : 0;
}

static int take_first_thread(const char *at, const char *line, uint32_t number, void *arg)
{
        return at == line ? add_process(arg, line, number) : 0;
}

/* ---- where ways part ---- */

/* "evaluate (FILE)" and 77 of "evaluate (FILE:77)". Return: is it such a frame? */
static bool read_place(const struct frame *f, char name[FRAME_NAME], long *line)
{
        const char *end = f->at + f->size, *colon = memrchr(f->at, ':', f->size);
        char *after;

        if (!colon || f->size >= FRAME_NAME || end[-1] != ')')
                return false;
        *line = strtol(colon + 1, &after, 10);
        snprintf(name, FRAME_NAME, "%.*s)", (int)(colon - f->at), f->at);
        return after == end - 1 && *line > 0;
}

enum { SKIPPED = 3 }; /* outer frames that only one of two dumps may have */

/* The outermost function that both are in at different lines. Return: is there one? */
static bool find_parting(const struct stack_process *a, const struct stack_process *b,
                         char name[FRAME_NAME], long *line_a, long *line_b)
{
        for (uint32_t skip = 0; skip <= 2 * SKIPPED; skip++) {
                uint32_t skip_a = skip & 1 ? 0 : skip / 2, skip_b = skip & 1 ? skip / 2 + 1 : 0;
                bool same = true;

                for (uint32_t i = skip_a; i < a->n_frames && same; i++) {
                        uint32_t k = i - skip_a + skip_b;
                        char other[FRAME_NAME];

                        same = k < b->n_frames &&
                               read_place(&a->frames[a->n_frames - 1 - i], name, line_a) &&
                               read_place(&b->frames[b->n_frames - 1 - k], other, line_b) &&
                               !strcmp(name, other);
                        if (same && *line_a != *line_b)
                                return true;
                }
        }
        return false;
}

static char *process_words(const struct stack_process *p, char text[32])
{
        if (p->rank >= 0)
                snprintf(text, 32, "rank %d", p->rank);
        else if (p->pid > 0)
                snprintf(text, 32, "pid %ld", p->pid);
        else
                snprintf(text, 32, "a process");
        return text;
}

/* "rank 0: line 77, now in all_gather_into_tensor (FILE:3357)". */
static void tell_place(struct capo_diagnose_finding *f, const struct stack_process *p, long line)
{
        char who[32];
        const struct frame *in = &p->frames[0];

        if (strlen(f->detail) > 500)
                return;
        capo_append(f->detail, sizeof f->detail, "%s%s: line %ld, now in %.*s",
                    *f->detail ? "\n" : "", process_words(p, who), line,
                    (int)(in->size < 120 ? in->size : 120), in->at);
        capo_finding_rank_add(f, p->rank);
        capo_finding_mark(f, p->mark);
}

static bool judge_parting(const struct stacks *s, struct capo_diagnose_finding *f)
{
        char name[FRAME_NAME], who[32], other[32];
        long line, line_other;

        for (uint32_t i = 1; i < s->n; i++) {
                const struct stack_process *a = &s->v[0], *b = &s->v[i];

                if (!a->doing || !b->doing ||
                    (a->doing != DOING_WAITS && b->doing != DOING_WAITS) ||
                    !find_parting(a, b, name, &line, &line_other))
                        continue;
                f->rank = CAPO_RANK_HANG;
                f->kind = "mismatch";
                f->sure = "likely";
                snprintf(
                        f->headline, sizeof f->headline,
                        "%s AND %s ARE AT DIFFERENT PLACES of %s: one makes a call that the other does "
                        "not make",
                        capo_rank_shout(process_words(a, who)),
                        capo_rank_shout(process_words(b, other)), name);
                tell_place(f, a, line);
                tell_place(f, b, line_other);
                snprintf(f->missing, sizeof f->missing,
                         "a second dump a minute later: do these stacks change?");
                snprintf(
                        f->next, sizeof f->next,
                        "what lies between lines %ld and %ld: a collective under a condition (if rank == "
                        "0), or a loop that ends earlier on one rank (its data, its sequences): make it "
                        "on all ranks, as often",
                        line < line_other ? line : line_other,
                        line < line_other ? line_other : line);
                return true;
        }
        return false;
}

/* ---- who does something else ---- */

static void name_others(const struct stacks *s, struct capo_diagnose_finding *f, enum doing doing,
                        uint32_t n)
{
        const struct stack_process *first = NULL;
        char who[32];

        for (uint32_t i = 0, shown = 0; i < s->n && shown < NAMED; i++) {
                const struct stack_process *p = &s->v[i];

                if (p->doing != doing)
                        continue;
                first = first ? first : p;
                capo_finding_rank_add(f, p->rank);
                capo_finding_mark(f, p->mark);
                capo_append(f->detail, sizeof f->detail, "%s%s: %s, in %.*s", shown++ ? "\n" : "",
                            process_words(p, who), p->words,
                            (int)(p->frames[0].size < 100 ? p->frames[0].size : 100),
                            p->frames[0].at);
        }
        if (!first)
                return;
        process_words(first, who);
        if (n == 1)
                snprintf(f->headline, sizeof f->headline,
                         "%s IS NOT IN A COLLECTIVE that the others wait in: it is %s",
                         capo_rank_shout(who), first->words);
        else
                snprintf(f->headline, sizeof f->headline,
                         "%u PROCESSES ARE NOT IN A COLLECTIVE that the others wait in", n);
}

static bool judge_others(const struct stacks *s, const uint32_t *n, enum doing doing,
                         struct capo_diagnose_finding *f)
{
        if (!n[doing] || !n[DOING_WAITS] || n[doing] > (s->n + 1) / 2 ||
            n[DOING_OTHER] > n[DOING_WAITS])
                return false;
        f->rank = CAPO_RANK_HANG;
        f->kind = "missing";
        f->sure = "likely";
        name_others(s, f, doing, n[doing]);
        capo_append(f->detail, sizeof f->detail,
                    "\n%u other%s wait%s in a collective or for %s GPU", n[DOING_WAITS],
                    n[DOING_WAITS] == 1 ? "" : "s", n[DOING_WAITS] == 1 ? "s" : "",
                    n[DOING_WAITS] == 1 ? "its" : "their");
        snprintf(f->missing, sizeof f->missing,
                 "a second dump a minute later: does that stack change?");
        snprintf(
                f->next, sizeof f->next,
                doing == DOING_LEAVES
                        ? "why did that process end its work before the others: an exception, fewer "
                          "batches, a call under a condition"
                        : "look at what that process does: files, network storage, a compilation, data "
                          "of that rank; a longer timeout if it only takes long");
        return true;
}

static void judge_stacks(const struct stacks *s, const uint32_t *n, struct capo_diagnose_finding *f)
{
        if (judge_others(s, n, DOING_BUSY, f) || judge_parting(s, f) ||
            judge_others(s, n, DOING_LEAVES, f))
                return;
        f->rank = CAPO_RANK_UNDECIDED;
        f->kind = "undecided";
        f->sure = "unsure";
        for (uint32_t i = 0; i < s->n; i++)
                capo_finding_mark(f, s->v[i].mark);
        snprintf(f->headline, sizeof f->headline,
                 "NOT DECIDED WHO IS THE CAUSE: of %u stacks %u wait in a collective or for their "
                 "GPU",
                 s->n, n[DOING_WAITS]);
        snprintf(f->missing, sizeof f->missing,
                 "the stacks of all ranks of the job, each dumped at the same moment");
        snprintf(f->next, sizeof f->next,
                 "py-spy dump --native --pid PID of every rank; flight recorder dumps show which "
                 "call each is in");
}

int capo_stacks_read(struct capo_evidence *e)
{
        struct stacks s = {.e = e};
        struct capo_diagnose_finding *f;
        uint32_t n[DOINGS] = {0};
        int r = 0;

        for (s.text = 0; s.text < e->n_texts && r == 0; s.text++) {
                uint32_t before = s.n;

                if (!e->texts[s.text].text)
                        continue;
                if (capo_evidence_each(e, s.text, "\"MainThread\"", take_main, &s) < 0 ||
                    (s.n == before &&
                     capo_evidence_each(e, s.text, "Thread 1 (", take_first_thread, &s) < 0))
                        r = -ENOMEM;
        }
        for (uint32_t i = 0; i < s.n; i++)
                n[s.v[i].doing]++;
        if (r == 0 && s.n && (n[DOING_WAITS] || n[DOING_BUSY])) {
                f = capo_evidence_finding(e);
                r = f ? 0 : -ENOMEM;
                if (f)
                        judge_stacks(&s, n, f);
        }
        free(s.v);
        return r;
}
