/* SPDX-License-Identifier: Apache-2.0 */
/* Finds ranks that are missing, behind or in another call, from the numbers that a watchdog prints.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/base/text.h"
#include "core/base/util.h"
#include "analysis/diagnose/watchdog.h"

/* Do all ranks use the same name for one group? */
static bool is_one_group(const char *group)
{
        return *group && strncmp(group, "PG ", 3) != 0;
}

/* Add the ranks of @group that @chosen accepts to the text and to the finding. */
static void name_ranks(const struct watches *w, const char *group, struct capo_diagnose_finding *f,
                       bool (*chosen)(const struct watch *, int64_t), int64_t seq, bool accused,
                       char *text, uint32_t *n_out)
{
        int32_t list[256];
        uint32_t n = 0, total = 0;

        for (uint32_t i = 0; i < w->n; i++) {
                const struct watch *at = &w->v[i];

                if (strcmp(at->group, group) != 0 || !chosen(at, seq))
                        continue;
                total++;
                if (n < N_ELEMENTS(list))
                        list[n++] = at->rank;
                if (accused)
                        capo_finding_rank_add(f, at->rank);
                capo_finding_mark(f, at->mark);
        }
        for (uint32_t i = 1; i < n; i++) {
                for (uint32_t k = i; k && list[k - 1] > list[k]; k--) {
                        int32_t other = list[k];

                        list[k] = list[k - 1];
                        list[k - 1] = other;
                }
        }
        capo_rank_list(list, n, text);
        *n_out = total;
}

static bool is_stuck_in(const struct watch *w, int64_t seq)
{
        return w->stuck == seq;
}

static bool is_not_stuck_in(const struct watch *w, int64_t seq)
{
        return w->stuck >= 0 && w->stuck != seq;
}

static bool has_not_enqueued(const struct watch *w, int64_t seq)
{
        return w->enqueued >= 0 && w->enqueued < seq && (w->stuck < 0 || w->stuck > w->enqueued);
}

struct front {
        int64_t least, most;
        const struct watch *first,
                *differs; /* first: in the oldest call; differs: in another call */
        uint32_t n_stuck, n_absent;
        bool p2p;
};

/* Their numbers cannot be compared with other ranks'. */
static bool is_p2p(const char *op)
{
        return !strcmp(op, "SEND") || !strcmp(op, "RECV") || !strcmp(op, "COALESCED") ||
               !strcmp(op, "RECVANYSOURCE");
}

/* Must the number of elements be equal on all ranks? */
static bool is_alike(const char *op)
{
        return !strcmp(op, "ALLREDUCE") || !strcmp(op, "BROADCAST") || !strcmp(op, "REDUCE") ||
               !strcmp(op, "_ALLGATHER_BASE") || !strcmp(op, "_REDUCE_SCATTER_BASE");
}

static struct front read_front(const struct watches *w, const char *group)
{
        struct front f = {.least = -1, .most = -1};

        for (uint32_t i = 0; i < w->n; i++) {
                const struct watch *at = &w->v[i];

                if (strcmp(at->group, group) != 0 || at->stuck < 0)
                        continue;
                f.n_stuck++;
                f.most = at->stuck > f.most ? at->stuck : f.most;
                if (f.least < 0 || at->stuck <= f.least) {
                        f.first = at->stuck < f.least || !f.first || !*f.first->op ? at : f.first;
                        f.least = at->stuck;
                }
        }
        if (!f.first) /* no rank of the group is stuck */
                return f;
        for (uint32_t i = 0; i < w->n; i++) {
                const struct watch *at = &w->v[i];

                if (strcmp(at->group, group) != 0)
                        continue;
                f.n_absent += has_not_enqueued(at, f.least);
                f.p2p |= is_p2p(at->op);
                if (at->stuck != f.least || !*at->op || !*f.first->op)
                        continue;
                if (strcmp(at->op, f.first->op) != 0 ||
                    (is_alike(at->op) && at->in >= 0 && f.first->in >= 0 && at->in != f.first->in))
                        f.differs = f.differs ? f.differs : at;
        }
        return f;
}

static const char *group_words(const char *group, char *text)
{
        snprintf(text, 96, *group ? "process group %s" : "an unnamed process group",
                 group + (strncmp(group, "PG ", 3) ? 0 : 3));
        return text;
}

static void judge_missing(const struct watches *w, const char *group, const struct front *front,
                          struct capo_diagnose_finding *f)
{
        char who[128], waiting[128], name[96];
        uint32_t n, n_wait;

        f->rank = CAPO_RANK_HANG;
        f->kind = "missing";
        name_ranks(w, group, f, is_stuck_in, front->least, false, waiting, &n_wait);
        name_ranks(w, group, f, has_not_enqueued, front->least, true, who, &n);
        capo_rank_shout(who);
        snprintf(f->headline, sizeof f->headline, "%s %s NOT MADE %s number %lld of %s", who,
                 n == 1 ? "HAS" : "HAVE", *front->first->op ? front->first->op : "call",
                 (long long)front->least, group_words(group, name));
        snprintf(f->detail, sizeof f->detail, "%s wait%s in it", waiting, n_wait == 1 ? "s" : "");
        snprintf(f->missing, sizeof f->missing, "stacks of %s would say why: py-spy dump --pid PID",
                 capo_rank_list(f->ranks, f->n_ranks, who));
        snprintf(f->next, sizeof f->next,
                 "look at what that rank does instead: data loading, a branch, an exception");
}

static void judge_behind(const struct watches *w, const char *group, const struct front *front,
                         struct capo_diagnose_finding *f)
{
        char who[128], shout[128], waiting[128], name[96], op[WATCH_WORD + 4] = "";
        uint32_t n, n_wait;
        const struct watch *behind = front->first;

        name_ranks(w, group, f, is_stuck_in, front->most, false, waiting, &n_wait);
        name_ranks(w, group, f, is_not_stuck_in, front->most, true, who, &n);
        for (uint32_t i = 0; i < w->n; i++) {
                if (!strcmp(w->v[i].group, group) && w->v[i].stuck >= 0 &&
                    w->v[i].stuck < front->most)
                        behind = &w->v[i];
        }
        if (*behind->op)
                snprintf(op, sizeof op, " (%s)", behind->op);
        f->rank = is_one_group(group) ? CAPO_RANK_HANG : CAPO_RANK_UNDECIDED;
        f->kind = is_one_group(group) ? "behind" : "undecided";
        f->sure = is_one_group(group) ? "likely" : "unsure";
        snprintf(shout, sizeof shout, "%s", who);
        capo_rank_shout(shout);
        if (front->most - front->least == 1)
                snprintf(f->headline, sizeof f->headline, "%s %s ONE CALL BEHIND in %s%s", shout,
                         n == 1 ? "IS" : "ARE", group_words(group, name), op);
        else
                snprintf(f->headline, sizeof f->headline, "%s %s UP TO %lld CALLS BEHIND in %s%s",
                         shout, n == 1 ? "IS" : "ARE", (long long)(front->most - front->least),
                         group_words(group, name), op);
        snprintf(f->detail, sizeof f->detail, "%s wait%s in number %lld; %s %s in %lld", waiting,
                 n_wait == 1 ? "s" : "", (long long)front->most, who, n == 1 ? "is" : "are",
                 (long long)front->least);
        if (behind->completed >= 0 && strlen(f->detail) < 300)
                capo_append(f->detail, sizeof f->detail,
                            "\nrank %d has completed %lld and enqueued %lld", behind->rank,
                            (long long)behind->completed, (long long)behind->enqueued);
        snprintf(f->missing, sizeof f->missing, "%s%s would say why: py-spy dump --pid PID",
                 is_one_group(group) ? "stacks of "
                                     : "which process group each line is of; stacks of ",
                 capo_rank_list(f->ranks, f->n_ranks, who));
        snprintf(f->next, sizeof f->next,
                 "look at the GPU and NIC of %s (nvidia-smi, dmesg), and at what it runs before "
                 "that call",
                 who);
}

static void judge_differs(const struct watches *w, const char *group, const struct front *front,
                          struct capo_diagnose_finding *f)
{
        const struct watch *a = front->first, *b = front->differs;
        char name[96];

        f->rank = is_one_group(group) ? CAPO_RANK_HANG : CAPO_RANK_UNDECIDED;
        f->kind = is_one_group(group) ? "mismatch" : "undecided";
        f->sure = is_one_group(group) ? "likely" : "unsure";
        capo_finding_mark(f, a->mark);
        capo_finding_mark(f, b->mark);
        capo_finding_rank_add(f, a->rank);
        capo_finding_rank_add(f, b->rank);
        snprintf(f->headline, sizeof f->headline,
                 "RANKS %d AND %d MADE DIFFERENT CALLS as number %lld of %s", a->rank, b->rank,
                 (long long)front->least, group_words(group, name));
        snprintf(f->detail, sizeof f->detail,
                 "rank %d: %s of %lld elements\nrank %d: %s of %lld elements", a->rank, a->op,
                 (long long)a->in, b->rank, b->op, (long long)b->in);
        snprintf(f->missing, sizeof f->missing,
                 "the call sites: TORCH_NCCL_TRACE_BUFFER_SIZE=2000 before the next start");
        snprintf(f->next, sizeof f->next,
                 "what makes one rank call something else: a branch, the last batch, a shape");
}

static void judge_waiting(const struct watches *w, const char *group, const struct front *front,
                          struct capo_diagnose_finding *f)
{
        const char *op = *front->first->op ? front->first->op : "call";
        char waiting[128], name[96];
        uint32_t n;
        bool all;

        name_ranks(w, group, f, is_stuck_in, front->least, false, waiting, &n);
        all = strstr(group, "default_pg") && w->e->n_ranks > 1 && n == (uint32_t)w->e->n_ranks;
        f->rank = all ? CAPO_RANK_HANG : CAPO_RANK_UNDECIDED;
        f->kind = all ? "running" : "undecided";
        f->sure = all ? "likely" : "unsure";
        group_words(group, name);
        if (all) {
                snprintf(f->headline, sizeof f->headline, "ALL RANKS ARE IN %s number %lld of %s",
                         op, (long long)front->least, name);
                snprintf(f->detail, sizeof f->detail, "a GPU or the network does not end it");
                snprintf(f->next, sizeof f->next,
                         "dmesg (Xid) and NIC counters of all nodes; NCCL_DEBUG=INFO; "
                         "TORCH_NCCL_TRACE_BUFFER_SIZE=2000");
                return;
        }
        snprintf(f->headline, sizeof f->headline,
                 "NOT DECIDED WHO IS THE CAUSE: %s wait%s in %s number %lld of %s", waiting,
                 n == 1 ? "s" : "", op, (long long)front->least, name);
        snprintf(f->detail, sizeof f->detail, "%s",
                 is_p2p(op) ? "sends and receives of different ranks have numbers of their own"
                            : "no rank that printed anything is behind or ahead");
        snprintf(f->missing, sizeof f->missing,
                 "the lines of the other ranks of this group, or that there are none; dumps of the "
                 "flight recorder of all ranks (TORCH_NCCL_TRACE_BUFFER_SIZE=2000)");
        snprintf(f->next, sizeof f->next,
                 "look at the ranks that print nothing: py-spy dump --pid PID on their nodes; run "
                 "the job under capo run");
}

int capo_watch_group(const struct watches *w, const char *group)
{
        struct front front = read_front(w, group);
        struct capo_diagnose_finding *f;

        if (!front.n_stuck)
                return 0;
        f = capo_evidence_finding(w->e);
        if (!f)
                return -ENOMEM;
        if (front.p2p)
                judge_waiting(w, group, &front, f);
        else if (front.n_absent && is_one_group(group))
                judge_missing(w, group, &front, f);
        else if (front.least < front.most)
                judge_behind(w, group, &front, f);
        else if (front.differs)
                judge_differs(w, group, &front, f);
        else
                judge_waiting(w, group, &front, f);
        return 0;
}

struct line_mark {
        struct capo_diagnose_finding *f;
        uint32_t text;
};

static int mark_line(const char *at, const char *line, uint32_t number, void *arg)
{
        struct line_mark *to = arg;

        capo_finding_mark(to->f, (struct capo_evidence_mark){to->text, number});
        return 0;
}

int capo_watch_undecided(struct watches *w)
{
        static const char dump_signal[] = "dump signal due to a collective timeout",
                          own[] = "Watchdog caught collective operation timeout";
        const char *words = w->e->timed_out ? own : dump_signal;
        struct capo_diagnose_finding *f;

        for (uint32_t i = 0; i < w->n; i++) {
                if (w->v[i].stuck >= 0)
                        return 0;
        }
        if (!capo_evidence_has(words, w->e))
                return 0;
        f = capo_evidence_finding(w->e);
        if (!f)
                return -ENOMEM;
        for (uint32_t i = 0; i < w->e->n_texts; i++) {
                if (w->e->texts[i].text)
                        capo_evidence_each(w->e, i, words, mark_line, &(struct line_mark){f, i});
        }
        f->rank = CAPO_RANK_UNDECIDED;
        f->kind = "undecided";
        f->sure = "unsure";
        snprintf(f->headline, sizeof f->headline,
                 "NOT DECIDED WHO IS THE CAUSE: a collective timed out, and %s",
                 w->e->timed_out ? "its line has no usable number" : "its line is not here");
        if (w->e->timed_out)
                snprintf(f->detail, sizeof f->detail,
                         "the line lacks its rank, or PyTorch printed no true SeqNum");
        else if (w->n)
                snprintf(f->detail, sizeof f->detail,
                         "the ranks that print something have completed all calls of the groups "
                         "they name");
        snprintf(f->missing, sizeof f->missing, "the lines \"%s\" of all ranks", own);
        snprintf(f->next, sizeof f->next,
                 "the log of the rank that timed out; dumps of the flight recorder of all ranks");
        return 0;
}
