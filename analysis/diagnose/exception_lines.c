/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A Python exception of one rank while others wait for it:
 *
 *      [rank5]: Traceback (most recent call last):
 *      [rank5]:   File "train.py", line 212, in forward
 *      [rank5]: ValueError: too many values to unpack
 *
 * It is the cause only if three conditions hold. Watchdogs of other ranks timed out and that rank's
 * did not (else it continued after the exception). The exception came first (by line, or it is in
 * another file). It is not one that the failure of another rank raises.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util.h"
#include "analysis/diagnose/evidence.h"

enum { MOST_RANKS = 1 << 20 };

static const char TIMEOUT[] = "Watchdog caught collective operation timeout";

struct exceptions {
        struct capo_evidence *e;
        struct capo_diagnose_finding *f; /* NULL: none so far */
        uint32_t text, timeout;          /* timeout: line of the text's first timeout; 0: none */
        bool *waits;                     /* by rank: it timed out */
        uint32_t n_waits;                /* number of such ranks */
};

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

static int take_wait(const char *at, const char *line, uint32_t number, void *arg)
{
        struct exceptions *x = arg;
        int32_t rank = capo_text_rank(&x->e->texts[x->text], line);

        x->timeout = x->timeout ? x->timeout : number;
        if (rank >= 0 && rank < MOST_RANKS && !x->waits[rank]) {
                x->waits[rank] = true;
                x->n_waits++;
        }
        return 0;
}

static int take_first(const char *at, const char *line, uint32_t number, void *arg)
{
        uint32_t *first = arg;

        *first = *first ? *first : number;
        return 0;
}

/* Is it an exception that follows from another rank's failure, or from ending the job? */
static bool is_consequence(const char *exception)
{
        static const char *const words[] = {
                "NCCL",   "Dist",       "c10d",    "loo/",       "Socket",    "TCPStore",
                "Signal", "Interrupt",  "Connect", "ChildFail",  "Broken",    "imed out",
                "imeout", "SystemExit", "ray.",    "CUDA error", "HIP error", "Warning"};
        size_t size = strcspn(exception, "\n");

        for (size_t i = 0; i < N_ELEMENTS(words); i++) {
                if (memmem(exception, size, words[i], strlen(words[i])))
                        return true;
        }
        return !memmem(exception, size, "Error", 5) && !memmem(exception, size, "Exception", 9);
}

static int take_traceback(const char *at, const char *line, uint32_t number, void *arg)
{
        struct exceptions *x = arg;
        const char *exception = capo_exception_line(at, line);
        int32_t rank = capo_text_rank(&x->e->texts[x->text], line);

        if (rank < 0 || rank >= MOST_RANKS || exception == line || is_consequence(exception) ||
            x->waits[rank] || (x->timeout && number > x->timeout))
                return 0;
        if (!x->f) {
                x->f = capo_evidence_finding(x->e);
                if (!x->f)
                        return -1;
                x->f->rank = CAPO_RANK_HANG;
                x->f->kind = "exception";
                capo_quote(exception, x->f->detail, sizeof x->f->detail);
        }
        capo_finding_rank_add(x->f, rank);
        capo_finding_mark(x->f, (struct capo_evidence_mark){x->text, number});
        return 0;
}

int capo_exceptions_read(struct capo_evidence *e)
{
        struct exceptions x = {.e = e};
        char who[128];
        int r = 0;

        if (!capo_evidence_has(TIMEOUT, e))
                return 0;
        x.waits = calloc(MOST_RANKS, sizeof *x.waits);
        if (!x.waits)
                return -ENOMEM;
        for (x.text = 0; x.text < e->n_texts; x.text++)
                capo_evidence_each(e, x.text, TIMEOUT, take_wait, &x);
        for (x.text = 0; x.text < e->n_texts && x.n_waits && r == 0; x.text++) {
                x.timeout = 0;
                capo_evidence_each(e, x.text, TIMEOUT, take_first, &x.timeout);
                if (capo_evidence_each(e, x.text, "Traceback (most recent call last)",
                                       take_traceback, &x) < 0)
                        r = -ENOMEM;
        }
        free(x.waits);
        if (r < 0 || !x.f)
                return r;
        capo_rank_list(x.f->ranks, x.f->n_ranks, who);
        snprintf(x.f->headline, sizeof x.f->headline,
                 "%s RAISED AN EXCEPTION before others timed out", capo_rank_shout(who));
        snprintf(x.f->next, sizeof x.f->next, "that exception and its traceback");
        return 0;
}
