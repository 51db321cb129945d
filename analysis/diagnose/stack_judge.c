/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks of several ranks: which rank does something else while others wait in a collective, and
 * where do their ways part?
 *
 * Only the main thread of each process counts. Its innermost frame that stack_words.def knows says
 * what it does. The outermost frames are compared: where two ranks are in one function at different
 * lines, a call lies between that one of them made and the other did not.
 *
 * The rank is in the file's name ("rank3.txt") or in the line of the process; else it has its pid.
 */
#include "core/base/xalloc.h"
#include "analysis/diagnose/evidence.h"

enum { MOST_PROCESSES = 4096, NAMED = 4, PID_ROOM = 1 << 16, FRAMES = 64, FRAME_NAME = 96 };

enum doing { DOING_OTHER, DOING_BUSY, DOING_LEAVES, DOING_WAITS, DOINGS };

static const struct {
        enum doing doing;
        const char *any, *words;
} stack_words[] = {
#define STACK_WORDS(doing, any, words) {DOING_##doing, any, words},
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

/* The number behind the last @mark before @line, "Process N: command", "py-spy dump --pid N  # rank 1";
 * NULL: none. */
static const char *find_process(const char *text, const char *line, const char *mark)
{
        const char *found = NULL, *from = line - text > PID_ROOM
                                                  ? line - PID_ROOM
                                                  : text; /* search only the last part */

        for (const char *at = from; (at = memmem(at, (size_t)(line - at), mark, strlen(mark)));
             at++) {
                if (*mark == '-' || at == text || at[-1] == '\n')
                        found = at + strlen(mark);
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

static bool has_any(const struct frame *f, const char *words)
{
        while (*words) {
                size_t n = strcspn(words, "|");

                if (memmem(f->at, f->size, words, n))
                        return true;
                words += n + (words[n] == '|');
        }
        return false;
}

static void find_doing(struct stack_process *p)
{
        for (uint32_t i = 0; i < p->n_frames; i++) {
                for (size_t k = 0; k < N_ELEMENTS(stack_words); k++) {
                        if (!has_any(&p->frames[i], stack_words[k].any))
                                continue;
                        p->doing = stack_words[k].doing;
                        p->words = stack_words[k].words;
                        return;
                }
        }
}

static void add_process(struct stacks *s, const char *line, uint32_t number)
{
        static const char *const words[] = {"rank", "Rank", "task", "Worker_TP", "TP", NULL};
        const struct capo_evidence_text *t = &s->e->texts[s->text];
        const char *frames = line + strcspn(line, "\n"), *name = capo_base_name(t->name);
        const char *process = find_process(t->text, line, "Process "),
                   *command = find_process(t->text, line, "--pid ");
        struct stack_process new = {.rank = -1, .mark = {s->text, number}};

        if (process && process > command) {
                new.pid = strtol(process, NULL, 10);
                new.rank = number_behind(process, strcspn(process, "\n"), words);
        }
        if (command && (!new.pid || new.pid == strtol(command, NULL, 10))) {
                new.pid = strtol(command, NULL, 10);
                if (new.rank < 0)
                        new.rank = number_behind(command, strcspn(command, "\n"), words);
        }
        if (new.rank < 0)
                new.rank = number_behind(name, strlen(name), words);
        read_frames(frames + (*frames == '\n'), &new);
        find_doing(&new);
        if (!new.n_frames || s->n == MOST_PROCESSES)
                return;
        *xadd(s->v, s->n) = new;
}

static void take_main(const char *at, const char *line, uint32_t number, void *arg)
{
        if (!strncmp(line, "Thread ", 7))
                add_process(arg, line, number);
}

static void take_first_thread(const char *at, const char *line, uint32_t number, void *arg)
{
        if (at == line)
                add_process(arg, line, number);
}

/* ---- summaries ---- */

/*      rank 0: state_dict (torch/nn) -> summon_full_params -> _all_gather_base
 *      ranks 1-3 (stage 1): wait (torch/x.py:12) <- recv_forward
 *      Thread 7 (active): backward (torch/autograd/__init__.py:147) <- train (train.py:31) */
static const char *const arrows[] = {" <- ", " -> "};

static bool split_frames(struct stack_process *p, const char *from, size_t size)
{
        const char *end = from + size;
        unsigned way = memmem(from, size, arrows[0], 4) ? 0 : 1;

        while (from < end && p->n_frames < FRAMES) {
                const char *next = memmem(from, (size_t)(end - from), arrows[way], 4);
                struct frame f = {from, (size_t)((next ? next : end) - from)};

                p->frames[p->n_frames++] = f;
                from = next ? next + 4 : end;
        }
        for (uint32_t i = 0; way && i < p->n_frames / 2; i++) { /* innermost first */
                struct frame f = p->frames[i];

                p->frames[i] = p->frames[p->n_frames - 1 - i];
                p->frames[p->n_frames - 1 - i] = f;
        }
        return p->n_frames > 1;
}

/* The ranks of "rank 0", "ranks 1, 2-3". Return: how many; @end: what follows. */
static uint32_t read_ranks(const char *line, int32_t ranks[NAMED * 16], const char **end)
{
        uint32_t n = 0;
        char *after;

        if (strncasecmp(line, "rank", 4) != 0)
                return 0;
        line += 4 + (line[4] == 's');
        for (*end = line; n < NAMED * 16; *end = line) {
                unsigned long first, last;

                line += strspn(line, " ,");
                line += strncmp(line, "and ", 4) ? 0 : 4;
                if (!isdigit((unsigned char)*line))
                        break;
                first = last = strtoul(line, &after, 10);
                if (*after == '-' && isdigit((unsigned char)after[1]))
                        last = strtoul(after + 1, &after, 10);
                for (; first <= last && last < 1 << 20 && n < NAMED * 16; first++)
                        ranks[n++] = (int32_t)first;
                line = after;
        }
        return n;
}

static void take_summary(struct stacks *s, const char *line, uint32_t number, bool *any)
{
        int32_t ranks[NAMED * 16];
        const char *end = line, *colon, *stop = line + strcspn(line, "\n");
        uint32_t n = read_ranks(line, ranks, &end);
        struct stack_process new = {.rank = -1, .mark = {s->text, number}};

        if (!n && (!strncmp(line, "Thread ", 7) || !strncasecmp(line, "pid ", 4))) {
                new.pid = tolower((unsigned char)*line) == 'p' ? strtol(line + 4, NULL, 10) : 0;
                n = 1;
        }
        colon = n ? memchr(end, ':', (size_t)(stop - end)) : NULL;
        if (!colon || colon[1] != ' ' || colon - end > 60 || stop - colon > 4000)
                return;
        if (!split_frames(&new, colon + 2, (size_t)(stop - colon) - 2) && !*any)
                return;
        *any = true;
        find_doing(&new);
        if (end == line) /* of a thread */
                ranks[0] = number_behind(capo_base_name(s->e->texts[s->text].name),
                                         strlen(capo_base_name(s->e->texts[s->text].name)),
                                         (const char *const[]){"rank", NULL});
        for (uint32_t i = 0; i < n && s->n < MOST_PROCESSES; i++) {
                new.rank = ranks[i];
                *xadd(s->v, s->n) = new;
        }
}

/* Is it an indented frame, "barrier (torch/x.py:12)"? */
static bool is_frame(const char *line)
{
        size_t n = strcspn(line, "\n"), digits = 0;

        while (n && strchr(" \t\r", line[n - 1]))
                n--;
        if (n < 8 || !strchr(" \t", *line) || line[n - 1] != ')')
                return false;
        while (digits + 2 < n && isdigit((unsigned char)line[n - 2 - digits]))
                digits++;
        return digits && line[n - 2 - digits] == ':';
}

/* A head without a thread's line, and its frames below:
 *      Process 66270 (rank 0)
 *          barrier (torch/distributed/distributed_c10d.py:2776) */
static void read_blocks(struct stacks *s)
{
        static const char *const words[] = {"rank", "Rank", "RANK", "TP", "worker", NULL};
        const struct capo_evidence_text *t = &s->e->texts[s->text];
        uint32_t before = s->n;

        for (uint32_t k = 0; k + 1 < t->records.n && s->n < MOST_PROCESSES; k++) {
                const char *head = t->records.text + t->records.v[k].begin,
                           *next = t->records.text + t->records.v[k + 1].begin;
                struct stack_process new = {.mark = {s->text, t->records.v[k].line}};

                if (strchr(" \t\n", *head) || !is_frame(next) || capo_line_has(head, "rror: "))
                        continue; /* behind an exception's words stands its place */
                new.rank = number_behind(head, strcspn(head, "\n"), words);
                if (new.rank < 0)
                        new.rank = number_behind(capo_base_name(t->name),
                                                 strlen(capo_base_name(t->name)), words);
                read_frames(next, &new);
                find_doing(&new);
                *xadd(s->v, s->n) = new;
        }
        s->e->texts[s->text].n[CAPO_EVIDENCE_STACKS] += s->n - before;
}

static void read_summaries(struct stacks *s)
{
        const struct capo_evidence_text *t = &s->e->texts[s->text];
        uint32_t before = s->n;
        bool any = false;

        if (!capo_text_has(t, arrows[0]) && !capo_text_has(t, arrows[1]))
                return;
        for (uint32_t k = 0; k < t->records.n; k++)
                take_summary(s, t->records.text + t->records.v[k].begin, t->records.v[k].line,
                             &any);
        s->e->texts[s->text].n[CAPO_EVIDENCE_STACKS] += s->n - before;
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
        ADD(f->detail, "%s%s: ", *f->detail ? "\n" : "", process_words(p, who));
        if (line)
                ADD(f->detail, "line %ld, ", line);
        ADD(f->detail, "now in %.*s", (int)(in->size < 120 ? in->size : 120), in->at);
        capo_finding_rank_add(f, p->rank);
        capo_finding_mark(f, p->mark);
}

static bool judge_parting(const struct stacks *s, struct capo_diagnose_finding *f)
{
        char name[FRAME_NAME], who[32], other[32];
        long line, line_other;

        for (uint32_t i = 1; i < s->n; i++) {
                const struct stack_process *a = &s->v[0], *b = &s->v[i];

                if ((a->doing != DOING_WAITS && b->doing != DOING_WAITS) ||
                    !find_parting(a, b, name, &line, &line_other))
                        continue;
                capo_finding_is(f, CAPO_RANK_HANG, "mismatch", "likely");
                SAY(f->headline, "%s AND %s ARE AT DIFFERENT PLACES of %s",
                    capo_rank_shout(process_words(a, who)),
                    capo_rank_shout(process_words(b, other)), name);
                tell_place(f, a, line);
                tell_place(f, b, line_other);
                SAY(f->next,
                    "a second dump a minute later: the same? Then which call between lines %ld and %ld does one of them not make?",
                    line < line_other ? line : line_other, line < line_other ? line_other : line);
                return true;
        }
        return false;
}

static bool is_p2p(const struct stack_process *p)
{
        static const char words[] =
                "p2p_communication|batch_isend_irecv|isend|irecv|_communicate|ncclSend|ncclRecv|send_forward|recv_forward|_batch_p2p|"
                "send_backward|recv_backward";

        for (uint32_t i = 0; i < p->n_frames; i++) {
                if (has_any(&p->frames[i], words))
                        return true;
        }
        return false;
}

/* All wait in sends and receives. */
static bool judge_circle(const struct stacks *s, struct capo_diagnose_finding *f)
{
        for (uint32_t i = 0; i < s->n; i++) {
                if (s->n < 2 || !is_p2p(&s->v[i]))
                        return false;
        }
        for (uint32_t i = 0; i < s->n; i++)
                capo_finding_mark(f, s->v[i].mark);
        capo_finding_is(f, CAPO_RANK_HANG, "p2p", "likely");
        SAY(f->headline, "ALL %u STACKS ARE IN SENDS AND RECEIVES", s->n);
        SAY(f->next, "does each rank send before it receives? Then each may wait for the next one");
        return true;
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
                ADD(f->detail, "%s%s: %s, in %.*s", shown++ ? "\n" : "", process_words(p, who),
                    p->words, (int)(p->frames[0].size < 100 ? p->frames[0].size : 100),
                    p->frames[0].at);
        }
        if (!first)
                return;
        process_words(first, who);
        if (n == 1)
                SAY(f->headline, "%s IS NOT IN A COLLECTIVE: it is %s", capo_rank_shout(who),
                    first->words);
        else
                SAY(f->headline, "%u PROCESSES ARE NOT IN A COLLECTIVE", n);
}

static bool judge_others(const struct stacks *s, const uint32_t *n, enum doing doing,
                         struct capo_diagnose_finding *f)
{
        if (!n[doing] || !n[DOING_WAITS] || (doing != DOING_LEAVES && n[doing] > (s->n + 1) / 2) ||
            n[DOING_OTHER] > n[DOING_WAITS])
                return false;
        capo_finding_is(f, CAPO_RANK_HANG, "missing", "likely");
        name_others(s, f, doing, n[doing]);
        ADD(f->detail, "\nof %u stacks %u %s in a collective or wait for a GPU", s->n,
            n[DOING_WAITS], n[DOING_WAITS] == 1 ? "is" : "are");
        SAY(f->next,
            "a second dump a minute later: does that stack change? Then it works, and the others wait for it");
        return true;
}

static void judge_stacks(const struct stacks *s, const uint32_t *n, struct capo_diagnose_finding *f)
{
        if (judge_others(s, n, DOING_BUSY, f) || judge_parting(s, f) ||
            judge_others(s, n, DOING_LEAVES, f) || judge_circle(s, f))
                return;
        capo_finding_is(f, CAPO_RANK_UNDECIDED, "undecided", "unsure");
        for (uint32_t i = 0; i < s->n; i++)
                capo_finding_mark(f, s->v[i].mark);
        SAY(f->headline,
            "NOT DECIDED WHO IS THE CAUSE: of %u stack%s %u %s in a collective or wait for a GPU",
            s->n, s->n == 1 ? "" : "s", n[DOING_WAITS], n[DOING_WAITS] == 1 ? "is" : "are");
        SAY(f->next, "%s",
            s->n > 1 ? "flight recorder dumps of all ranks at that time: which call is each in?"
                     : "the stacks of all other ranks at one moment: is one elsewhere?");
}

/* ---- where a process crashed ---- */

enum { CRASH_FRAMES = 4 };

/* The function of "#3  0x7f in ncclCuMemHostEnable () at FILE", "[ 2] libnccl.so(ncclFoo+0x12)"; the
 * library where there is none, "[ 1] /lib/libnccl.so.2(+0x5a2c7)". */
static size_t frame_function(const char *line, const char **name)
{
        static const char letters[] =
                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_:~";
        size_t size = strcspn(line, "\n"), n;
        const char *in = memmem(line, size, " in ", 4), *at;

        if (*line == '#' && isdigit((unsigned char)line[1])) {
                *name = in ? in + 4 : line + 1 + strspn(line + 1, "0123456789 ");
        } else {
                at = memmem(line, size, "] [", 3);
                at = *line == '[' && !at ? line : at ? at + 2 : "";
                n = strspn(at + (*at == '['), " 0123456789");
                if (!n || at[1 + n] != ']' || !memchr(at, '(', (size_t)(line + size - at)))
                        return 0;
                *name = strchr(at, '(') + 1;
                if (**name == '+') {
                        for (at = --*name; *at != '/' && *at != ' '; at--)
                                ;
                        n = (size_t)(*name - at - 1);
                        *name = at + 1;
                        return n;
                }
        }
        return isalpha((unsigned char)**name) || **name == '_' ? strspn(*name, letters) : 0;
}

void capo_crash_tell(struct capo_evidence *e)
{
        struct capo_diagnose_finding *f = NULL;
        unsigned n = 0;

        for (uint32_t i = 0; i < e->n_findings && !f; i++)
                f = strcmp(e->findings[i].kind, "crash") ? NULL : &e->findings[i];
        for (uint32_t i = 0; i < e->n_texts && f && !n; i++) {
                const struct capo_records *r = &e->texts[i].records;

                for (uint32_t k = 0; k < r->n && n < CRASH_FRAMES; k++) {
                        const char *name;
                        size_t size = frame_function(r->text + r->v[k].begin, &name);

                        if (size < 4 || size > 80)
                                continue;
                        if (!n)
                                capo_finding_mark(f, (struct capo_evidence_mark){i, r->v[k].line});
                        ADD(f->detail, "%s%.*s", n++ ? " <- " : "\nits stack: ", (int)size, name);
                }
        }
        if (n)
                SAY(f->next,
                    "the libraries at the top of that stack: their releases and known bugs; a core file and gdb show the arguments");
}

void capo_stacks_read(struct capo_evidence *e)
{
        struct stacks s = {.e = e};
        uint32_t n[DOINGS] = {0};

        for (s.text = 0; s.text < e->n_texts; s.text++) {
                uint32_t before = s.n;

                if (!e->texts[s.text].text)
                        continue;
                capo_evidence_each(e, s.text, "\"MainThread\"", take_main, &s);
                if (s.n == before)
                        capo_evidence_each(e, s.text, "Thread 1 (", take_first_thread, &s);
                if (s.n == before)
                        read_summaries(&s);
                if (s.n == before)
                        read_blocks(&s);
        }
        for (uint32_t i = 0; i < s.n; i++)
                n[s.v[i].doing]++;
        if (s.n && (n[DOING_WAITS] || n[DOING_BUSY]))
                judge_stacks(&s, n, capo_evidence_finding(e));
        free(s.v);
}
