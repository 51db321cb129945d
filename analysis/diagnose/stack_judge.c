/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks of several ranks: which rank does something else while the others wait in a collective?
 *
 * Only the main thread of each process counts, and only host work that is recognised by its frames
 * counts against a rank. py-spy prints no rank: it is taken from the file name ("rank3.txt"), else
 * the process is named by its pid.
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

enum { MOST_PROCESSES = 4096, NAMED = 4, PID_ROOM = 1 << 16 };

enum doing { DOING_OTHER, DOING_BUSY, DOING_WAITS, DOINGS };

#define BUSY  DOING_BUSY
#define WAITS DOING_WAITS
static const struct {
        enum doing doing;
        const char *word, *words;
} stack_words[] = {
#define STACK_WORD(doing, word, words) {doing, word, words},
#include "analysis/diagnose/stack_words.def"
};
#undef BUSY
#undef WAITS

struct stack_process {
        int32_t rank; /* -1 not known */
        long pid;     /* 0 not known */
        enum doing doing;
        const char *words; /* what it does; static text */
        struct capo_evidence_mark mark;
};

struct stacks {
        struct capo_evidence *e;
        uint32_t text;
        struct stack_process *v;
        uint32_t n;
};

/* Rank from a file name: "rank3", "rank_3", "rank-3". */
static int32_t name_rank(const char *name)
{
        const char *at = strstr(capo_base_name(name), "rank");

        if (!at)
                return -1;
        at += 4 + (at[4] == '_' || at[4] == '-');
        return isdigit((unsigned char)*at) ? (int32_t)strtol(at, NULL, 10) : -1;
}

/* Length of the frames below a thread's line: up to an empty line or the next thread. */
static size_t frames_size(const char *from)
{
        const char *end = from;

        while (*end) {
                size_t n = strcspn(end, "\n");

                if (!n || !strncmp(end, "Thread ", 7) || !strncmp(end, "Current thread ", 15) ||
                    !strncmp(end, "Process ", 8))
                        break;
                end += n + (end[n] == '\n');
        }
        return (size_t)(end - from);
}

/* The pid in the last "Process N:" before @line. */
static long find_pid(const char *text, const char *line)
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
        return found ? strtol(found + sizeof mark - 1, NULL, 10) : 0;
}

static int add_process(struct stacks *s, const char *line, uint32_t number)
{
        const struct capo_evidence_text *t = &s->e->texts[s->text];
        const char *frames = line + strcspn(line, "\n");
        struct stack_process new = {.rank = name_rank(t->name),
                                    .pid = find_pid(t->text, line),
                                    .mark = {s->text, number}};
        size_t size;

        frames += *frames == '\n';
        size = frames_size(frames);
        for (size_t i = 0; i < N_ELEMENTS(stack_words) && new.doing == DOING_OTHER; i++) {
                if (memmem(frames, size, stack_words[i].word, strlen(stack_words[i].word))) {
                        new.doing = stack_words[i].doing;
                        new.words = stack_words[i].words;
                }
        }
        if (!size || s->n == MOST_PROCESSES)
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

static void name_busy(const struct stacks *s, struct capo_diagnose_finding *f, uint32_t n)
{
        const struct stack_process *first = NULL;
        char who[32];

        for (uint32_t i = 0, shown = 0; i < s->n && shown < NAMED; i++) {
                const struct stack_process *p = &s->v[i];

                if (p->doing != DOING_BUSY)
                        continue;
                first = first ? first : p;
                capo_finding_rank_add(f, p->rank);
                capo_finding_mark(f, p->mark);
                capo_append(f->detail, sizeof f->detail, "%s%s: %s", shown++ ? "\n" : "",
                            process_words(p, who), p->words);
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

static void judge_stacks(const struct stacks *s, const uint32_t *n, struct capo_diagnose_finding *f)
{
        bool few = n[DOING_BUSY] == 1 || n[DOING_BUSY] <= s->n / 4;

        f->rank = CAPO_RANK_UNDECIDED;
        f->kind = "undecided";
        f->sure = "unsure";
        if (n[DOING_BUSY] && few && n[DOING_WAITS] >= 2 && n[DOING_OTHER] <= n[DOING_WAITS]) {
                f->rank = CAPO_RANK_HANG;
                f->kind = "missing";
                f->sure = "likely";
                name_busy(s, f, n[DOING_BUSY]);
                capo_append(f->detail, sizeof f->detail,
                            "\n%u others wait in a collective or for their GPU", n[DOING_WAITS]);
                snprintf(f->missing, sizeof f->missing,
                         "a second dump a minute later: does that stack change?");
                snprintf(f->next, sizeof f->next,
                         "look at what that process does: files, network storage, data of that "
                         "rank");
                return;
        }
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
