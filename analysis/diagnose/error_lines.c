/* SPDX-License-Identifier: Apache-2.0 */
/* How torchrun and Slurm name who failed first, and exceptions. */
#include "analysis/diagnose/evidence.h"
#include "core/base/xalloc.h"

static void take_first(const char *at, const char *line, uint32_t number, void *arg)
{
        uint32_t *first = arg;

        *first = *first ? *first : number;
}

/* The exception of a traceback whose first line is @line: the first line after it that is not
 * indented. All lines may have the prefix before @at ("[rank0]: "). Return: that line; @line if the
 * traceback is cut. */
const char *capo_exception_line(const char *at, const char *line)
{
        const char *next = strchr(line, '\n');
        size_t prefix =
                next && !strncmp(next + 1, line, (size_t)(at - line)) ? (size_t)(at - line) : 0;

        for (; next && *++next; next = strchr(next, '\n')) {
                if (!strncmp(next, line, prefix) && !strchr(" \t\r\n|", next[prefix]))
                        return next;
        }
        return line;
}

/* ---- torchrun's report ---- */

/* Each node's agent prints one block:
 *
 *      Failures:
 *      [1]:
 *        time      : 2026-11-26_15:43:04
 *        host      : node7
 *        rank      : 5 (local_rank: 1)
 *        exitcode  : -15 (pid: 1235)
 *        traceback : Signal 15 (SIGTERM) received by PID 1235
 *      Root Cause (first observed failure):
 *      [0]:
 *        time      : 2026-11-26_15:43:03
 *        ...
 *
 * With several blocks, the one with the earliest time names the first failure of the job. */
enum { MOST_LINES = 8, MOST_RANK = 1 << 20, WORD = 72 };

struct failure {
        char time[WORD], host[WORD]; /* "": missing */
        int32_t rank;                /* -1: missing */
        long exit_code, pid;
        bool exited; /* exit_code and pid are set */
        struct capo_evidence_mark mark;
};

struct failures {
        struct capo_evidence *e;
        struct failure first;
        bool any;
        uint32_t text;
};

/* The value after "@key   : " in the line that begins at @line; NULL: another line. */
static const char *find_value(const char *line, const char *key)
{
        size_t size = strcspn(line, "\n"), n = strlen(key);

        for (const char *at = line; (at = memmem(at, size - (size_t)(at - line), key, n));) {
                const char *behind = at + n + strspn(at + n, " ");
                bool begins = at == line || at[-1] == ' ';

                if (begins && *behind == ':')
                        return behind + 1 + strspn(behind + 1, " ");
                at += n;
        }
        return NULL;
}

static bool read_number(const char *at, long *number)
{
        char *end;

        *number = strtol(at, &end, 10);
        return end != at;
}

static void take_word(const char *at, char word[WORD])
{
        capo_take_word(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_:.-",
                       word, WORD);
}

static void read_line(const char *line, struct failure *f)
{
        const char *time = find_value(line, "time"), *host = find_value(line, "host"),
                   *rank = find_value(line, "rank"), *code = find_value(line, "exitcode"),
                   *pid = code ? memmem(code, strcspn(code, "\n"), "(pid: ", 6) : NULL;
        long number;

        if (time)
                take_word(time, f->time);
        if (host)
                take_word(host, f->host);
        if (rank && f->rank < 0 && read_number(rank, &number) && number >= 0 && number < MOST_RANK)
                f->rank = (int32_t)number;
        if (pid && !f->exited)
                f->exited = read_number(code, &f->exit_code) && read_number(pid + 6, &f->pid);
}

int32_t capo_torchrun_rank(const char *text, const char *line)
{
        struct failure f = {.rank = -1};

        if (!find_value(line, "exitcode") && !find_value(line, "traceback"))
                return -1;
        for (unsigned i = 0; i < MOST_LINES && f.rank < 0 && line > text; i++) {
                for (line--; line > text && line[-1] != '\n';)
                        line--;
                if (!strncmp(line + strcspn(line, ":\n"), ":\n", 2)) /* "[1]:" begins a failure */
                        break;
                read_line(line, &f);
        }
        return f.rank;
}

static void take_block(const char *at, const char *line, uint32_t number, void *arg)
{
        struct failures *s = arg;
        struct failure f = {.rank = -1, .mark = {s->text, number}};

        for (unsigned i = 0; i < MOST_LINES && (line = strchr(line, '\n')); i++)
                read_line(++line, &f);
        if (f.rank >= 0 && f.exited && (!s->any || strcmp(f.time, s->first.time) < 0)) {
                s->first = f;
                s->any = true;
        }
}

static void take_place(const char *at, const char *line, uint32_t number, void *arg)
{
        struct failures *s = arg;

        if (!s->first.mark.line)
                s->first.mark = (struct capo_evidence_mark){s->text, number};
}

/* Add how the first process ended, if no other line tells more. */
static void tell_first(const struct failure *first, struct capo_diagnose_finding *f)
{
        char how[96] = "", where[WORD + 16] = "";

        capo_finding_rank_add(f, first->rank);
        if (first->exited)
                SAY(how, " (%s %ld, PID %ld)", first->exit_code < 0 ? "signal" : "exit code",
                    labs(first->exit_code), first->pid);
        if (*first->host)
                SAY(where, " on host %s", first->host);
        SAY(f->headline, "NOT DECIDED WHY: torchrun saw rank %d fail first%s%s", first->rank, how,
            where);
        SAY(f->next,
            "the output of rank %d%s from before its end: its own error is the first cause",
            first->rank, where);
}

static bool has_rank(const struct capo_diagnose_finding *f, int32_t rank)
{
        for (uint32_t i = 0; i < f->n_ranks; i++) {
                if (f->ranks[i] == rank)
                        return true;
        }
        return false;
}

/* Is there a line that tells how that rank ended (SIGKILL, a crash)? */
static bool is_explained(const struct capo_evidence *e, int32_t rank)
{
        for (uint32_t i = 0; i < e->n_findings; i++) {
                if (e->findings[i].rank >= CAPO_RANK_ERROR && has_rank(&e->findings[i], rank))
                        return true;
        }
        return false;
}

void capo_torchrun_read(struct capo_evidence *e, const struct capo_diagnose_finding *verdict)
{
        struct failures s = {.e = e, .first = {.rank = -1}};
        struct capo_diagnose_finding *f, before;
        size_t at = verdict ? (size_t)(verdict - e->findings) : 0;

        capo_evidence_all(e, "Root Cause", take_block, &s, &s.text);
        for (s.text = 0; s.text < e->n_texts && !s.any && !verdict; s.text++)
                capo_evidence_each(e, s.text, "ChildFailedError", take_place, &s);
        if (!s.first.mark.line || is_explained(e, s.first.rank))
                return;
        f = capo_evidence_finding(e);
        capo_finding_is(f, e->timed_out ? CAPO_RANK_NOTE : CAPO_RANK_UNDECIDED, "error", "unsure");
        capo_finding_mark(f, s.first.mark);
        if (!s.any) {
                SAY(f->headline, "NOT DECIDED WHY: torchrun reports a process that failed");
                SAY(f->next, "the output of the process that torchrun names as the first to fail");
                return;
        }
        tell_first(&s.first, f);
        if (verdict && !strcmp(e->findings[at].kind, "error") && e->findings[at].n_ranks &&
            !has_rank(&e->findings[at], s.first.rank)) { /* a later failure is no verdict */
                before = e->findings[at];
                e->findings[at] = *f;
                *f = before;
        }
}

/* ---- exceptions ---- */

/* A Python exception of one rank while others wait for it:
 *
 *      [rank5]: Traceback (most recent call last):
 *      [rank5]:   File "train.py", line 212, in forward
 *      [rank5]: ValueError: too many values to unpack
 *
 * It is the cause only if three conditions hold. Watchdogs of other ranks timed out and that rank's
 * did not (else it continued after the exception). The exception came first (by line, or it is in
 * another file). It is not one that the failure of another rank raises. */
struct exceptions {
        struct capo_evidence *e;
        struct capo_diagnose_finding *f; /* NULL: none so far */
        uint32_t text, timeout;          /* timeout: line of the text's first timeout; 0: none */
        bool *waits;                     /* by rank: it timed out */
        uint32_t n_waits;                /* number of such ranks */
};

static void take_wait(const char *at, const char *line, uint32_t number, void *arg)
{
        struct exceptions *x = arg;
        int32_t rank = capo_text_rank(&x->e->texts[x->text], line);

        x->timeout = x->timeout ? x->timeout : number;
        if (rank >= 0 && rank < MOST_RANK && !x->waits[rank]) {
                x->waits[rank] = true;
                x->n_waits++;
        }
}

/* Is it an exception that follows from another rank's failure, or from ending the job? */
static bool is_consequence(const char *exception)
{
        return capo_line_has(
                       exception,
                       "NCCL|Dist|c10d|loo/|Socket|TCPStore|Signal|Interrupt|Connect|ChildFail|Broken|imed out|imeout|SystemExit|ray.|CUDA error|HIP error|Warning") ||
               !capo_line_has(exception, "Error|Exception");
}

static void take_traceback(const char *at, const char *line, uint32_t number, void *arg)
{
        struct exceptions *x = arg;
        const char *exception = capo_exception_line(at, line);
        int32_t rank = capo_text_rank(&x->e->texts[x->text], line);

        if (rank < 0 || rank >= MOST_RANK || exception == line || is_consequence(exception) ||
            x->waits[rank] || (x->timeout && number > x->timeout))
                return;
        if (!x->f) {
                x->f = capo_evidence_finding(x->e);
                capo_finding_is(x->f, CAPO_RANK_HANG, "exception", "likely");
                capo_quote(exception, x->f->detail, sizeof x->f->detail);
        }
        capo_finding_rank_add(x->f, rank);
        capo_finding_mark(x->f, (struct capo_evidence_mark){x->text, number});
}

void capo_exceptions_read(struct capo_evidence *e)
{
        struct exceptions x = {.e = e};
        char who[128];

        if (!capo_evidence_has(CAPO_TIMEOUT_LINE, e))
                return;
        x.waits = xcalloc(MOST_RANK, sizeof *x.waits);
        capo_evidence_all(e, CAPO_TIMEOUT_LINE, take_wait, &x, &x.text);
        for (x.text = 0; x.text < e->n_texts && x.n_waits; x.text++) {
                x.timeout = 0;
                capo_evidence_each(e, x.text, CAPO_TIMEOUT_LINE, take_first, &x.timeout);
                capo_evidence_each(e, x.text, "Traceback (most recent call last)", take_traceback,
                                   &x);
        }
        free(x.waits);
        if (!x.f)
                return;
        capo_rank_list(x.f->ranks, x.f->n_ranks, who);
        SAY(x.f->headline, "%s RAISED AN EXCEPTION before others timed out", capo_rank_shout(who));
        SAY(x.f->next, "that exception and its traceback");
}
