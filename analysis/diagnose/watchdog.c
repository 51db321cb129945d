/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of PyTorch's watchdog (torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp, 2.0 to 2.11):
 *
 *      [rank3]:[E... ] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5729,
 *        OpType=BROADCAST, NumelIn=.., NumelOut=.., Timeout(ms)=600000) ran for 600008 milliseconds
 *      [rank3]:[E... ] [PG ID 4 PG GUID 67 Rank 3] failure detected by watchdog at work sequence
 *        id: 5729 PG status: last enqueued work: 6464, last completed work: 5728
 *      [rank2]:[E... ] [PG ID 0 PG GUID 0(default_pg) Rank 2] Received a dump signal due to a
 *        collective timeout from rank 6 ... Last enqueued NCCL work: 22, last completed NCCL
 * work: 21.
 *
 * Numbers count the calls of one process group. A rank that has not enqueued the call in which
 * others wait is missing from it. A rank that has not completed an earlier call that the others
 * have completed is behind. A rank that printed nothing proves nothing: its lines may be lost.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "analysis/diagnose/watchdog.h"

enum { MOST_LINES = 8192, STATUS_ROOM = 400 };

static bool number_within(const char *from, size_t size, const char *word, int64_t *out)
{
        const char *at = memmem(from, size, word, strlen(word));
        char *end;
        long long n;

        if (!at)
                return false;
        at += strlen(word);
        n = strtoll(at, &end, 10);
        if (end == at || n < 0 ||
            n >= INT64_C(1) << 40) /* PyTorch 2.3 prints uninitialised values */
                return false;
        *out = n;
        return true;
}

static bool number_after(const char *line, const char *word, int64_t *out)
{
        return number_within(line, strcspn(line, "\n"), word, out);
}

/*
 * The last mark of its kind before @at. "[PG ID 4 PG GUID 67 Rank 3]" gives 67, which is the same
 * group on all ranks. "[PG 1 Rank 3]" of older releases gives "PG 1": there each process numbers
 * its own groups and counts sends like collectives, so numbers of different ranks cannot be
 * compared. Return: the mark; NULL: none.
 */
static const char *find_group(const char *from, const char *at, char *group)
{
        const char *found = NULL, *mark, *guid, *end;
        char word[WATCH_GROUP - 3];

        for (const char *p = from; (p = memmem(p, (size_t)(at - p), "[PG ", 4)); p++)
                found = p;
        end = found ? memmem(found, (size_t)(at - found), " Rank ", 6) : NULL;
        if (!end || end <= found + 4)
                return NULL;
        mark = found + 4;
        guid = memmem(mark, (size_t)(end - mark), "GUID ", 5);
        mark = guid ? guid + 5 : mark;
        snprintf(word, sizeof word, "%.*s", (int)(end - mark), mark);
        snprintf(group, WATCH_GROUP, "%s%s", guid || strstr(word, "default_pg") ? "" : "PG ", word);
        return found;
}

static int add_watch(struct watches *w, const struct watch *new)
{
        if (w->n == MOST_LINES)
                return 0;
        if (capo_rank_seen(w->e, new->rank) < 0 || capo_array_room(&w->v, w->n, sizeof *w->v) < 0)
                return -ENOMEM;
        w->v[w->n++] = *new;
        return 0;
}

/* "WorkNCCL(SeqNum=..." may be on the next line if a terminal broke it. */
static int take_timeout(const char *at, const char *line, uint32_t number, void *arg)
{
        struct watches *w = arg;
        struct watch new = {.rank = capo_text_rank(&w->e->texts[w->text], line),
                            .stuck = -1,
                            .in = -1,
                            .out = -1,
                            .enqueued = -1,
                            .completed = -1,
                            .mark = {w->text, number}};
        const char *work = memmem(at, strnlen(at, 200), "WorkNCCL(", 9), *op;

        w->e->timed_out = true;
        if (!work || new.rank < 0 || !number_after(work, "SeqNum=", &new.stuck))
                return 0;
        op = memmem(work, strnlen(work, 200), "OpType=", 7);
        if (op)
                capo_take_word(op + 7, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_", new.op,
                               sizeof new.op);
        number_after(work, "NumelIn=", &new.in);
        number_after(work, "NumelOut=", &new.out);
        find_group(line, at, new.group);
        return add_watch(w, &new);
}

/* The line may be broken anywhere between its mark and here. */
static int take_status(const char *at, const char *line, uint32_t number, void *arg)
{
        struct watches *w = arg;
        const char *text = w->e->texts[w->text].text,
                   *from = at - text > STATUS_ROOM ? at - STATUS_ROOM : text, *mark;
        struct watch new = {.stuck = -1,
                            .in = -1,
                            .out = -1,
                            .enqueued = -1,
                            .completed = -1,
                            .mark = {w->text, number}};
        size_t size;

        mark = find_group(from, at, new.group);
        if (!mark)
                return 0;
        for (line = mark; line > text && line[-1] != '\n';)
                line--;
        new.rank = capo_text_rank(&w->e->texts[w->text], line);
        size = strnlen(at, 120);
        if (new.rank < 0 || (!number_within(at, size, "NCCL work: ", &new.enqueued) &&
                             !number_within(at, size, "enqueued work: ", &new.enqueued) &&
                             !number_within(at, size, "NCCL \nwork: ", &new.enqueued)))
                return 0;
        if (!number_within(at, size, "completed NCCL work: ", &new.completed))
                number_within(at, size, "completed work: ", &new.completed);
        if (new.completed > new.enqueued)
                new.completed = -1;
        size = (size_t)(at - mark);
        if (!number_within(mark, size, "work sequence id: ", &new.stuck) &&
            !number_within(mark, size, "watchdog at work: ", &new.stuck) &&
            !number_within(mark, size, "Timeout at NCCL work: ", &new.stuck) &&
            new.completed >= 0 && new.completed < new.enqueued)
                new.stuck = new.completed + 1; /* the call it waits in while others time out */
        return add_watch(w, &new);
}

/* ---- one row for each rank and group ---- */

static struct watch *find_watch(struct watches *w, uint32_t n, const struct watch *key)
{
        for (uint32_t i = 0; i < n; i++) {
                if (w->v[i].rank == key->rank && !strcmp(w->v[i].group, key->group))
                        return &w->v[i];
        }
        return NULL;
}

/* The group of a timeout is in the status line with the same rank and number. */
static void name_groups(struct watches *w)
{
        for (uint32_t i = 0; i < w->n; i++) {
                for (uint32_t k = 0; k < w->n && !*w->v[i].group; k++) {
                        if (*w->v[k].group && w->v[k].rank == w->v[i].rank &&
                            w->v[k].stuck == w->v[i].stuck)
                                memcpy(w->v[i].group, w->v[k].group, WATCH_GROUP);
                }
        }
}

static void merge_watches(struct watches *w)
{
        uint32_t n = 0;

        for (uint32_t i = 0; i < w->n; i++) {
                struct watch *old = find_watch(w, n, &w->v[i]), new = w->v[i];

                if (!old) {
                        w->v[n++] = new;
                        continue;
                }
                if (new.stuck >= 0 && (old->stuck < 0 || new.stuck < old->stuck ||
                                       (new.stuck == old->stuck && !*old->op))) {
                        old->stuck = new.stuck;
                        if (*new.op) {
                                memcpy(old->op, new.op, WATCH_WORD);
                                old->in = new.in;
                                old->out = new.out;
                        }
                        old->mark = new.mark;
                }
                old->enqueued = new.enqueued > old->enqueued ? new.enqueued : old->enqueued;
                old->completed = new.completed > old->completed ? new.completed : old->completed;
        }
        w->n = n;
}

int capo_watchdog_read(struct capo_evidence *e)
{
        struct watches w = {.e = e};
        int r = 0;

        for (w.text = 0; w.text < e->n_texts && r == 0; w.text++) {
                if (!e->texts[w.text].text)
                        continue;
                if (capo_evidence_each(e, w.text, "Watchdog caught collective operation timeout",
                                       take_timeout, &w) < 0 ||
                    capo_evidence_each(e, w.text, "ast enqueued ", take_status, &w) < 0)
                        r = -ENOMEM;
        }
        name_groups(&w);
        merge_watches(&w);
        for (uint32_t i = 0; i < w.n && r == 0; i++) {
                bool first = true;

                for (uint32_t k = 0; k < i; k++)
                        first &= strcmp(w.v[k].group, w.v[i].group) != 0;
                if (first)
                        r = capo_watch_group(&w, w.v[i].group);
        }
        r = r ?: capo_watch_undecided(&w);
        free(w.v);
        return r;
}
