/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A Python exception of one rank while others wait for it:
 *
 *      [rank5]: Traceback (most recent call last):
 *      [rank5]:   File "train.py", line 212, in forward
 *      [rank5]: ValueError: too many values to unpack
 *
 * It is the cause only where a watchdog of another rank timed out, the exception came before that
 * (by its line, or it is in another file), and it is none that the failure of another rank causes.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/base/util.h"
#include "analysis/diagnose/evidence.h"

static const char TIMEOUT[] = "Watchdog caught collective operation timeout";

struct exceptions {
        struct capo_evidence *e;
        struct capo_diagnose_finding *f;        /* NULL: none so far */
        uint32_t text, timeout;                 /* line of the text's first timeout; 0 none */
        int32_t waits[CAPO_DIAGNOSE_RANKS * 4]; /* ranks that timed out */
        uint32_t n_waits;
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
        int32_t rank = capo_line_rank(line);

        x->timeout = x->timeout ? x->timeout : number;
        for (uint32_t i = 0; i < x->n_waits; i++) {
                if (x->waits[i] == rank)
                        return 0;
        }
        if (rank >= 0 && x->n_waits < N_ELEMENTS(x->waits))
                x->waits[x->n_waits++] = rank;
        return 0;
}

static bool has_timed_out(const struct exceptions *x, int32_t rank)
{
        for (uint32_t i = 0; i < x->n_waits; i++) {
                if (x->waits[i] == rank)
                        return true;
        }
        return false;
}

/* What a rank raises because another one failed, or because somebody ended it. */
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
        int32_t rank = capo_line_rank(line);

        if (rank < 0 || exception == line || is_consequence(exception))
                return 0;
        if (x->timeout ? number > x->timeout : has_timed_out(x, rank))
                return 0;
        if (!x->f) {
                x->f = capo_evidence_finding(x->e);
                if (!x->f)
                        return -1;
                x->f->rank = CAPO_RANK_HANG;
                x->f->kind = "exception";
                snprintf(x->f->detail, sizeof x->f->detail, "%.*s",
                         (int)(strcspn(exception, "\r\n") < 160 ? strcspn(exception, "\r\n") : 160),
                         exception);
        }
        capo_finding_rank_add(x->f, rank);
        capo_finding_mark(x->f, (struct capo_evidence_mark){x->text, number});
        return 0;
}

int capo_exceptions_read(struct capo_evidence *e)
{
        struct exceptions x = {.e = e};
        uint32_t n_others = 0;
        char who[128];

        for (x.text = 0; x.text < e->n_texts; x.text++)
                capo_evidence_each(e, x.text, TIMEOUT, take_wait, &x);
        for (x.text = 0; x.text < e->n_texts && x.n_waits; x.text++) {
                struct exceptions here = {.e = e, .text = x.text};

                capo_evidence_each(e, x.text, TIMEOUT, take_wait, &here);
                x.timeout = here.timeout;
                if (capo_evidence_each(e, x.text, "Traceback (most recent call last)",
                                       take_traceback, &x) < 0)
                        return -ENOMEM;
        }
        for (uint32_t i = 0; x.f && i < x.n_waits; i++) {
                bool raised = false;

                for (uint32_t k = 0; k < x.f->n_ranks; k++)
                        raised |= x.f->ranks[k] == x.waits[i];
                n_others += !raised;
        }
        if (!x.f)
                return 0;
        if (!n_others) /* all who wait raised one: nobody waited for it */
                x.f->rank = CAPO_RANK_NOTE;
        capo_rank_list(x.f->ranks, x.f->n_ranks, who);
        snprintf(x.f->headline, sizeof x.f->headline,
                 "%s RAISED AN EXCEPTION before others timed out", capo_rank_shout(who));
        snprintf(x.f->next, sizeof x.f->next, "that exception and its traceback");
        return 0;
}
