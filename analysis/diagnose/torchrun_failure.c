/* SPDX-License-Identifier: Apache-2.0 */
/*
 * torchrun's report of failed processes; each node's agent prints one block:
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
 * With several blocks, the one with the earliest time names the first failure of the job.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util.h"
#include "analysis/diagnose/evidence.h"

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

static int take_block(const char *at, const char *line, uint32_t number, void *arg)
{
        struct failures *s = arg;
        struct failure f = {.rank = -1, .mark = {s->text, number}};

        for (unsigned i = 0; i < MOST_LINES && (line = strchr(line, '\n')); i++)
                read_line(++line, &f);
        if (f.rank >= 0 && f.exited && (!s->any || strcmp(f.time, s->first.time) < 0)) {
                s->first = f;
                s->any = true;
        }
        return 0;
}

static int take_place(const char *at, const char *line, uint32_t number, void *arg)
{
        struct failures *s = arg;

        if (!s->first.mark.line)
                s->first.mark = (struct capo_evidence_mark){s->text, number};
        return 0;
}

/* Add how the first process ended, if no other line tells more. */
static void tell_first(const struct failure *first, struct capo_diagnose_finding *f)
{
        char how[96] = "", where[WORD + 16] = "";

        capo_finding_rank_add(f, first->rank);
        if (first->exited)
                snprintf(how, sizeof how, " (%s %ld, PID %ld)",
                         first->exit_code < 0 ? "signal" : "exit code", labs(first->exit_code),
                         first->pid);
        if (*first->host)
                snprintf(where, sizeof where, " on host %s", first->host);
        snprintf(f->headline, sizeof f->headline,
                 "NOT DECIDED WHY: torchrun saw rank %d fail first%s%s", first->rank, how, where);
        snprintf(f->next, sizeof f->next,
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

int capo_torchrun_read(struct capo_evidence *e)
{
        struct failures s = {.e = e, .first = {.rank = -1}};
        const struct capo_diagnose_finding *verdict = capo_evidence_verdict(e);
        struct capo_diagnose_finding *f, before;
        size_t at = verdict ? (size_t)(verdict - e->findings) : 0;

        for (s.text = 0; s.text < e->n_texts; s.text++)
                capo_evidence_each(e, s.text, "Root Cause", take_block, &s);
        for (s.text = 0; s.text < e->n_texts && !s.any && !verdict; s.text++)
                capo_evidence_each(e, s.text, "ChildFailedError", take_place, &s);
        if (!s.first.mark.line || is_explained(e, s.first.rank))
                return 0;
        f = capo_evidence_finding(e);
        if (!f)
                return -ENOMEM;
        f->rank = e->timed_out ? CAPO_RANK_NOTE : CAPO_RANK_UNDECIDED;
        f->kind = "error";
        f->sure = "unsure";
        capo_finding_mark(f, s.first.mark);
        if (!s.any) {
                snprintf(f->headline, sizeof f->headline,
                         "NOT DECIDED: a process failed, and its own error is not here");
                snprintf(f->next, sizeof f->next,
                         "the output of the process that torchrun names as the first to fail");
                return 0;
        }
        tell_first(&s.first, f);
        if (verdict && !strcmp(e->findings[at].kind, "error") && e->findings[at].n_ranks &&
            !has_rank(&e->findings[at], s.first.rank)) { /* a later failure is no verdict */
                before = e->findings[at];
                e->findings[at] = *f;
                *f = before;
        }
        return 0;
}
