/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of PyTorch's watchdog (torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp, 2.0 to 2.11):
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
 * have completed is behind. A rank that printed nothing proves nothing: its lines may be lost. */
#include "analysis/diagnose/evidence.h"
#include "core/base/xalloc.h"

enum { WATCH_GROUP = 64, WATCH_WORD = 40 };

/* One rank in one process group. -1: not known. */
struct watch {
        int32_t rank;
        uint16_t story;
        char group[WATCH_GROUP]; /* "67", "0(default_pg)"; "": not known */
        int64_t stuck;           /* number of the call that timed out */
        char op[WATCH_WORD];
        int64_t in, out;
        int64_t enqueued, completed;
        struct capo_evidence_mark mark;
};

struct watches {
        struct capo_evidence *e;
        uint32_t text;
        struct watch *v;
        uint32_t n;
};

enum {
        MOST_LINES = 8192,
        STATUS_ROOM = 400,
        MOST_APART = 64, /* calls between ranks of one job */
        MOST_BEHIND = 4, /* more of them, in other calls: the ranks run different code */
};

/* A number that another writer's record cuts may lack digits. */
static bool number_within(const struct watches *w, const char *from, size_t size, const char *word,
                          int64_t *out)
{
        const char *at = memmem(from, size, word, strlen(word));
        const struct capo_record *record;
        char *end;
        long long n;

        if (!at)
                return false;
        at += strlen(word);
        n = strtoll(at, &end, 10);
        if (end == at || n < 0 ||
            n >= INT64_C(1) << 40) /* PyTorch 2.3 prints uninitialised values */
                return false;
        record = *end == '\n' ? capo_record_at(&w->e->texts[w->text].records, end) : NULL;
        if (record && record->cut)
                return false;
        *out = n;
        return true;
}

static bool number_after(const struct watches *w, const char *line, const char *word, int64_t *out)
{
        return number_within(w, line, strcspn(line, "\n"), word, out);
}

/* The last mark of its kind before @at. "[PG ID 4 PG GUID 67 Rank 3]" gives 67, which is the same
 * group on all ranks. "[PG 1 Rank 3]" of older releases gives "PG 1": there each process numbers
 * its own groups and counts sends like collectives, so numbers of different ranks cannot be
 * compared. Return: the mark; NULL: none. */
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
        SAY(word, "%.*s", (int)(end - mark), mark);
        for (char *blank; (blank = strstr(word, " (default"));) /* one group, written in two ways */
                memmove(blank, blank + 1, strlen(blank));
        snprintf(group, WATCH_GROUP, "%s%s", guid || strstr(word, "default_pg") ? "" : "PG ", word);
        return found;
}

static void add_watch(struct watches *w, const struct watch *new)
{
        if (w->n == MOST_LINES)
                return;
        capo_rank_seen(w->e, new->rank);
        *xadd(w->v, w->n) = *new;
}

/* "WorkNCCL(SeqNum=..." may be on the next line if a terminal broke it. */
static void take_timeout(const char *at, const char *line, uint32_t number, void *arg)
{
        struct watches *w = arg;
        struct watch new = {.rank = capo_text_rank(&w->e->texts[w->text], line),
                            .story = capo_text_story(&w->e->texts[w->text], line),
                            .stuck = -1,
                            .in = -1,
                            .out = -1,
                            .enqueued = -1,
                            .completed = -1,
                            .mark = {w->text, number}};
        const char *work = memmem(at, strnlen(at, 200), "WorkNCCL(", 9), *op;

        w->e->timed_out = true;
        if (!work || new.rank < 0 || !number_after(w, work, "SeqNum=", &new.stuck))
                return;
        op = memmem(work, strnlen(work, 200), "OpType=", 7);
        if (op)
                capo_take_word(op + 7, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_", new.op,
                               sizeof new.op);
        number_after(w, work, "NumelIn=", &new.in);
        number_after(w, work, "NumelOut=", &new.out);
        find_group(line, at, new.group);
        add_watch(w, &new);
}

/* The line may be broken anywhere between its mark and here. */
static void take_status(const char *at, const char *line, uint32_t number, void *arg)
{
        struct watches *w = arg;
        const char *text = w->e->texts[w->text].text,
                   *from = at - text > STATUS_ROOM ? at - STATUS_ROOM : text, *mark;
        struct watch new = {.story = capo_text_story(&w->e->texts[w->text], at),
                            .stuck = -1,
                            .in = -1,
                            .out = -1,
                            .enqueued = -1,
                            .completed = -1,
                            .mark = {w->text, number}};
        size_t size;

        mark = find_group(from, at, new.group);
        if (!mark)
                return;
        for (line = mark; line > text && line[-1] != '\n';)
                line--;
        new.rank = capo_text_rank(&w->e->texts[w->text], line);
        size = strnlen(at, 120);
        if (new.rank < 0 || (!number_within(w, at, size, "NCCL work: ", &new.enqueued) &&
                             !number_within(w, at, size, "enqueued work: ", &new.enqueued) &&
                             !number_within(w, at, size, "NCCL \nwork: ", &new.enqueued)))
                return;
        if (!number_within(w, at, size, "completed NCCL work: ", &new.completed))
                number_within(w, at, size, "completed work: ", &new.completed);
        if (new.completed > new.enqueued)
                new.completed = -1;
        size = (size_t)(at - mark);
        if (!number_within(w, mark, size, "work sequence id: ", &new.stuck) &&
            !number_within(w, mark, size, "watchdog at work: ", &new.stuck) &&
            !number_within(w, mark, size, "Timeout at NCCL work: ", &new.stuck) &&
            new.completed >= 0 && new.completed < new.enqueued)
                new.stuck = new.completed + 1; /* the call it waits in while others time out */
        add_watch(w, &new);
}

/* ---- one row for each rank and group ---- */

static bool is_of(const struct watch *w, uint16_t story, const char *group)
{
        return w->story == story && !strcmp(w->group, group);
}

static struct watch *find_watch(struct watches *w, uint32_t n, const struct watch *key)
{
        for (uint32_t i = 0; i < n; i++) {
                if (w->v[i].rank == key->rank && is_of(&w->v[i], key->story, key->group))
                        return &w->v[i];
        }
        return NULL;
}

/* Their numbers cannot be compared with other ranks'. */
static bool is_p2p(const char *op)
{
        return !strcmp(op, "SEND") || !strcmp(op, "RECV") || !strcmp(op, "COALESCED") ||
               !strcmp(op, "RECVANYSOURCE");
}

/* The group of a timeout is in the status line with the same rank and number, and its operation in
 * the timeout's. */
static void name_groups(struct watches *w)
{
        for (uint32_t i = 0; i < w->n; i++) {
                for (uint32_t k = 0; k < w->n && !*w->v[i].op; k++) {
                        if (w->v[k].rank == w->v[i].rank && w->v[k].story == w->v[i].story &&
                            w->v[k].stuck == w->v[i].stuck && is_p2p(w->v[k].op))
                                memcpy(w->v[i].op, w->v[k].op, WATCH_WORD);
                }
                for (uint32_t k = 0; k < w->n && !*w->v[i].group; k++) {
                        if (*w->v[k].group && w->v[k].rank == w->v[i].rank &&
                            w->v[k].story == w->v[i].story && w->v[k].stuck == w->v[i].stuck)
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

/* ---- who is missing, behind, or in another call ---- */

static void set_kind(struct capo_diagnose_finding *f, bool decided, const char *kind)
{
        if (decided)
                capo_finding_is(f, CAPO_RANK_HANG, kind, "likely");
        else
                capo_finding_is(f, CAPO_RANK_UNDECIDED, "undecided", "unsure");
}

/* Do all ranks use the same name for one group? */
static bool is_one_group(const struct watches *w, const char *group)
{
        if (!*group) /* the job has only one, as NCCL's lines show */
                return capo_evidence_has("@one-comm", w->e);
        return strncmp(group, "PG ", 3) != 0;
}

/* Add the ranks in @of's story and group that @chosen accepts to the text and to the finding. */
static void name_ranks(const struct watches *w, const struct watch *of,
                       struct capo_diagnose_finding *f,
                       bool (*chosen)(const struct watch *, int64_t), int64_t seq, bool accused,
                       char *text, uint32_t *n_out)
{
        int32_t list[256];
        uint32_t n = 0, total = 0;

        for (uint32_t i = 0; i < w->n; i++) {
                const struct watch *at = &w->v[i];

                if (!is_of(at, of->story, of->group) || !chosen(at, seq))
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

static bool is_stuck_in(const struct watch *w, int64_t seq) { return w->stuck == seq; }

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
                *differs;          /* first: in the oldest call; differs: in another call */
        const struct watch *apart; /* in another call, more than one further */
        uint32_t n_stuck, n_absent;
        bool p2p;
};

/* Must the number of elements be equal on all ranks? */
static bool is_alike(const char *op)
{
        return !strcmp(op, "ALLREDUCE") || !strcmp(op, "BROADCAST") || !strcmp(op, "REDUCE") ||
               !strcmp(op, "_ALLGATHER_BASE") || !strcmp(op, "_REDUCE_SCATTER_BASE");
}

static struct front read_front(const struct watches *w, const struct watch *of)
{
        struct front f = {.least = -1, .most = -1};

        for (uint32_t i = 0; i < w->n; i++) {
                const struct watch *at = &w->v[i];

                if (!is_of(at, of->story, of->group) || at->stuck < 0)
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

                if (!is_of(at, of->story, of->group))
                        continue;
                f.n_absent += has_not_enqueued(at, f.least);
                f.p2p |= is_p2p(at->op);
                if (at->stuck < 0 || !*at->op || !*f.first->op)
                        continue;
                if (at->stuck > f.least + MOST_BEHIND && strcmp(at->op, f.first->op) != 0)
                        f.apart = f.apart ? f.apart : at;
                if (at->stuck != f.least)
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

static void judge_missing(const struct watches *w, const struct watch *of,
                          const struct front *front, struct capo_diagnose_finding *f)
{
        char who[128], waiting[128], name[96];
        uint32_t n, n_wait;

        capo_finding_is(f, CAPO_RANK_HANG, "missing", "likely");
        name_ranks(w, of, f, is_stuck_in, front->least, false, waiting, &n_wait);
        name_ranks(w, of, f, has_not_enqueued, front->least, true, who, &n);
        capo_rank_shout(who);
        SAY(f->headline, "%s %s NOT MADE %s number %lld of %s", who, n == 1 ? "HAS" : "HAVE",
            *front->first->op ? front->first->op : "call", (long long)front->least,
            group_words(of->group, name));
        SAY(f->detail, "%s %s not completed it", waiting, n_wait == 1 ? "has" : "have");
        SAY(f->next, "where is %s at that time: its log, and its stack (py-spy dump --pid PID)",
            capo_rank_list(f->ranks, f->n_ranks, who));
}

static void judge_behind(const struct watches *w, const struct watch *of, const struct front *front,
                         struct capo_diagnose_finding *f)
{
        char who[128], shout[128], waiting[128], name[96], op[WATCH_WORD + 4] = "";
        uint32_t n, n_wait;
        const struct watch *behind = front->first;

        name_ranks(w, of, f, is_stuck_in, front->most, false, waiting, &n_wait);
        name_ranks(w, of, f, is_not_stuck_in, front->most, true, who, &n);
        for (uint32_t i = 0; i < w->n; i++) {
                if (is_of(&w->v[i], of->story, of->group) && w->v[i].stuck >= 0 &&
                    w->v[i].stuck < front->most)
                        behind = &w->v[i];
        }
        if (*behind->op)
                SAY(op, " (%s)", behind->op);
        set_kind(f, is_one_group(w, of->group), "behind");
        SAY(shout, "%s", who);
        capo_rank_shout(shout);
        if (front->most - front->least == 1)
                SAY(f->headline, "%s %s ONE CALL BEHIND in %s%s", shout, n == 1 ? "IS" : "ARE",
                    group_words(of->group, name), op);
        else
                SAY(f->headline, "%s %s UP TO %lld CALLS BEHIND in %s%s", shout,
                    n == 1 ? "IS" : "ARE", (long long)(front->most - front->least),
                    group_words(of->group, name), op);
        SAY(f->detail, "%s %s not completed number %lld; %s: number %lld", waiting,
            n_wait == 1 ? "has" : "have", (long long)front->most, who, (long long)front->least);
        if (behind->completed >= 0 && strlen(f->detail) < 300)
                ADD(f->detail, "\nrank %d has completed %lld and enqueued %lld", behind->rank,
                    (long long)behind->completed, (long long)behind->enqueued);
        SAY(f->next, "%swhere is %s at that time: its log, and its stack (py-spy dump --pid PID)",
            is_one_group(w, of->group) ? "" : "which process group is each line of? ",
            capo_rank_list(f->ranks, f->n_ranks, who));
}

enum { LISTED = 64 };

/* Ranks in the oldest call that make the same as the first of them, or not. Return: how many, the
 * first LISTED of them in @list, in order. */
static uint32_t list_alike(const struct watches *w, const struct watch *of,
                           const struct front *front, bool alike, int32_t list[LISTED])
{
        uint32_t n = 0;

        for (uint32_t i = 0; i < w->n && n < LISTED; i++) {
                const struct watch *at = &w->v[i];
                bool same = !strcmp(at->op, front->first->op) &&
                            (at->in == front->first->in || !is_alike(at->op));
                uint32_t k;

                if (!is_of(at, of->story, of->group) || at->stuck != front->least || !*at->op ||
                    same != alike)
                        continue;
                for (k = n++; k && list[k - 1] > at->rank; k--)
                        list[k] = list[k - 1];
                list[k] = at->rank;
        }
        return n;
}

static void judge_differs(const struct watches *w, const struct watch *of,
                          const struct front *front, struct capo_diagnose_finding *f)
{
        const struct watch *a = front->first, *b = front->differs ? front->differs : front->apart;
        int32_t lists[2][LISTED];
        uint32_t n[2] = {list_alike(w, of, front, true, lists[0]),
                         list_alike(w, of, front, false, lists[1])},
                 few = n[1] < n[0];
        char name[96], who[128], others[128];

        set_kind(f, is_one_group(w, of->group), "mismatch");
        capo_finding_mark(f, a->mark);
        capo_finding_mark(f, b->mark);
        group_words(of->group, name);
        if (a->stuck != b->stuck || n[0] == n[1] || n[few] > CAPO_DIAGNOSE_RANKS) {
                capo_finding_rank_add(f, a->rank);
                capo_finding_rank_add(f, b->rank);
                SAY(f->headline,
                    a->stuck == b->stuck
                            ? "RANKS %d AND %d MADE DIFFERENT CALLS as number %lld of %s"
                            : "RANKS %d AND %d ARE IN DIFFERENT CALLS, from number %lld on, of %s",
                    a->rank, b->rank, (long long)front->least, name);
        } else {
                for (uint32_t i = 0; i < n[few]; i++)
                        capo_finding_rank_add(f, lists[few][i]);
                capo_rank_list(lists[few], n[few], who);
                capo_rank_list(lists[!few], n[!few], others);
                SAY(f->headline, "%s MADE ANOTHER CALL than %s as number %lld of %s",
                    capo_rank_shout(who), others, (long long)front->least, name);
        }
        SAY(f->detail,
            "rank %d: %s of %lld elements (number %lld)\nrank %d: %s of %lld elements (number %lld)",
            a->rank, a->op, (long long)a->in, (long long)a->stuck, b->rank, b->op, (long long)b->in,
            (long long)b->stuck);
        SAY(f->next,
            "where in the program does each of the two make its call? Dumps of the flight recorder (TORCH_NCCL_TRACE_BUFFER_SIZE=2000) show it");
}

static void take_processes(const char *at, const char *line, uint32_t number, void *arg)
{
        *(uint32_t *)arg = (uint32_t)strtoul(at + strlen("nproc-per-node") +
                                                     strspn(at + strlen("nproc-per-node"), " ="),
                                             NULL, 10);
}

/* The few ranks of a job of known size that report no wait in the call @seq. False: not known. */
static bool name_silent(const struct watches *w, const struct watch *of, int64_t seq,
                        char words[128])
{
        const struct capo_evidence *e = w->e;
        uint32_t world = e->n_ranks > 0 ? (uint32_t)e->n_ranks : 0, n = 0;
        int32_t silent[CAPO_DIAGNOSE_RANKS];

        for (uint32_t i = 0; i < e->n_texts && !world; i++) {
                if (capo_text_has(&e->texts[i], "nnodes"))
                        return false;
                capo_evidence_each(e, i, "nproc-per-node", take_processes, &world);
                capo_evidence_each(e, i, "nproc_per_node", take_processes, &world);
        }
        for (int32_t rank = 0; rank < (int32_t)world && world < 1 << 12; rank++) {
                bool waits = false;

                for (uint32_t i = 0; i < w->n; i++)
                        waits |= w->v[i].rank == rank && is_of(&w->v[i], of->story, of->group) &&
                                 is_stuck_in(&w->v[i], seq);
                if (!waits && n * 2 + 2 > world)
                        return false;
                if (!waits && n < CAPO_DIAGNOSE_RANKS)
                        silent[n++] = rank;
        }
        capo_rank_list(silent, n, words);
        return n > 0;
}

static void judge_waiting(const struct watches *w, const struct watch *of,
                          const struct front *front, struct capo_diagnose_finding *f)
{
        const char *op = *front->first->op ? front->first->op : "call";
        char waiting[128], name[96];
        uint32_t n;
        bool all;

        name_ranks(w, of, f, is_stuck_in, front->least, false, waiting, &n);
        all = strstr(of->group, "default_pg") && w->e->n_ranks > 1 && n == (uint32_t)w->e->n_ranks;
        set_kind(f, all, "running");
        group_words(of->group, name);
        SAY(f->next, "%s: is one in another call than the others?",
            capo_evidence_has("(most recent call first)", w->e)
                    ? "flight recorder dumps of all ranks (TORCH_NCCL_TRACE_BUFFER_SIZE=2000)"
                    : "stacks of all ranks during the wait (py-spy dump --pid PID)");
        if (all) {
                SAY(f->headline, "ALL %u RANKS ARE IN %s number %lld of %s", n, op,
                    (long long)front->least, name);
                return;
        }
        SAY(f->headline, "NOT DECIDED WHO IS THE CAUSE: %s %s not completed %s number %lld of %s",
            waiting, n == 1 ? "has" : "have", op, (long long)front->least, name);
        if (strstr(op, "ALLGATHER") && front->first->in > 0 &&
            front->first->out % front->first->in == 0 && front->first->out / front->first->in > n)
                SAY(f->detail,
                    "the group has %lld ranks by the sizes of that call; its timeout is printed here by %u",
                    (long long)(front->first->out / front->first->in), n);
        if (is_p2p(op))
                SAY(f->detail, "sends and receives of different ranks have numbers of their own");
        if (front->least <= 2 && w->e->n_seen && !w->e->seen[0] && n + 1 >= w->e->n_seen)
                SAY(f->next,
                    "no line here is of rank 0: where is it at that time (its log, py-spy dump --pid PID)?");
        else if (strstr(of->group, "default_pg") && name_silent(w, of, front->least, waiting)) {
                ADD(f->headline, "; no line of %s is about it", waiting);
                SAY(f->next,
                    "where is %s at that time: its log, and its stack (py-spy dump --pid PID)",
                    waiting);
        }
}

/* A collective ends on no rank before all are in it, so ranks of one job are at most a few small
 * broadcasts apart. */
static void judge_apart(const struct watches *w, const struct watch *of, const struct front *front,
                        struct capo_diagnose_finding *f)
{
        char waiting[128], others[128], name[96];
        uint32_t n, n_others;

        name_ranks(w, of, f, is_stuck_in, front->most, false, waiting, &n);
        name_ranks(w, of, f, is_not_stuck_in, front->most, false, others, &n_others);
        capo_finding_is(f, CAPO_RANK_UNDECIDED, "undecided", "unsure");
        SAY(f->headline,
            "NOT DECIDED: these lines are of more than one job, attempt or group, all named %s",
            group_words(of->group, name));
        SAY(f->detail,
            "%s wait%s in number %lld, %s in %lld: ranks of one job cannot be so far apart",
            waiting, n == 1 ? "s" : "", (long long)front->most, others, (long long)front->least);
        SAY(f->next,
            "capo diagnose of each job and attempt alone; which pod or host is each line of?");
}

/* ---- one rank waits not ---- */

enum { WAITING = 1 << 12 };

struct solo {
        uint32_t n, text;
        bool waits[WAITING];
        int32_t most;
        uint32_t first_text, first_line; /* of the first timeout; 0: none */
        const char *work;                /* the last line before it that says what is done */
        uint32_t work_line;
};

static void take_waiting(const char *at, const char *line, uint32_t number, void *arg)
{
        struct solo *s = arg;
        int32_t rank = capo_line_rank(line);

        if (!s->first_line) {
                s->first_text = s->text;
                s->first_line = number;
        }
        if (rank < 0 || rank >= WAITING)
                return;
        s->n += !s->waits[rank];
        s->waits[rank] = true;
        s->most = rank > s->most ? rank : s->most;
}

static void take_work(const char *at, const char *line, uint32_t number, void *arg)
{
        struct solo *s = arg;

        if (s->text == s->first_text && number < s->first_line && number >= s->work_line) {
                s->work = line;
                s->work_line = number;
        }
}

/* All ranks but one report that they timed out, and the log shows work that one rank often does alone.
 * Return: is it so? */
static bool judge_solo(const struct watches *w, struct capo_diagnose_finding *f)
{
        static const char *const works[] = {"Saving",    "saving",          "checkpoint",
                                            "valuat",    "alidat",          "okeniz",
                                            "Map:",      "Map (num_proc",   "Generating train",
                                            "reprocess", "Writing example", "Creating features",
                                            "Filter:",   "ownloading",      "B/s]",
                                            "Init /",    "onsolidat",       "Converting",
                                            "Building"};
        struct solo *s = xcalloc(1, sizeof *s);
        int32_t alone = -1;
        uint32_t n_alone = 0;
        char who[128];
        int32_t list[CAPO_DIAGNOSE_RANKS];
        uint32_t n_list = 0;

        capo_evidence_all(w->e, CAPO_TIMEOUT_LINE, take_waiting, s, &s->text);
        for (int32_t rank = 0; rank <= s->most; rank++) {
                n_alone += !s->waits[rank];
                alone = s->waits[rank] ? alone : rank;
                if (s->waits[rank] && n_list < N_ELEMENTS(list))
                        list[n_list++] = rank;
        }
        for (size_t i = 0; i < N_ELEMENTS(works); i++)
                capo_evidence_all(w->e, works[i], take_work, s, &s->text);
        if (s->n < 2 || n_alone != 1 || alone || !s->work) {
                free(s);
                return false;
        }
        capo_finding_is(f, CAPO_RANK_HANG, "missing", "likely");
        f->n_ranks = 0;
        capo_finding_rank_add(f, alone);
        capo_rank_list(list, n_list, who);
        SAY(f->headline, "%s%s TIMED OUT, AND NO LINE SAYS SO OF RANK 0", capo_rank_shout(who),
            s->n > n_list ? " and more" : "");
        SAY(f->detail, "before that: ");
        capo_quote(s->work, f->detail + strlen(f->detail), sizeof f->detail - strlen(f->detail));
        capo_finding_mark(f, (struct capo_evidence_mark){s->first_text, s->work_line});
        SAY(f->next,
            "does rank 0 alone work there (prepare data, save, evaluate)? Its stack shows it: py-spy dump --pid PID");
        free(s);
        return true;
}

/* Add the finding about the story and group of @of, if one of its ranks waits. */
static void judge_group(const struct watches *w, const struct watch *of)
{
        struct front front = read_front(w, of);
        struct capo_diagnose_finding *f;

        if (!front.n_stuck)
                return;
        f = capo_evidence_finding(w->e);
        f->story = of->story;
        if (front.p2p)
                judge_waiting(w, of, &front, f);
        else if (front.differs) /* why the ranks behind it do not come on */
                judge_differs(w, of, &front, f);
        else if (front.most - front.least > MOST_APART)
                judge_apart(w, of, &front, f);
        else if (front.apart && is_one_group(w, of->group))
                judge_differs(w, of, &front, f);
        else if (front.n_absent && is_one_group(w, of->group))
                judge_missing(w, of, &front, f);
        else if (front.least < front.most)
                judge_behind(w, of, &front, f);
        else if (!judge_solo(w, f))
                judge_waiting(w, of, &front, f);
}

/* Add a finding if ranks timed out or received a dump signal, and none says what it waits in. */
static void judge_silent(struct watches *w)
{
        static const char dump_signal[] = "dump signal due to a collective timeout",
                          own[] = "Watchdog caught collective operation timeout";
        const char *words = w->e->timed_out ? own : dump_signal;
        struct capo_diagnose_finding *f;

        for (uint32_t i = 0; i < w->n; i++) {
                if (w->v[i].stuck >= 0)
                        return;
        }
        if (!capo_evidence_has(words, w->e))
                return;
        f = capo_evidence_finding(w->e);
        capo_evidence_find(w->e, words, true, f);
        capo_finding_is(f, CAPO_RANK_UNDECIDED, "undecided", "unsure");
        if (w->e->timed_out && judge_solo(w, f))
                return;
        SAY(f->headline, "NOT DECIDED WHO IS THE CAUSE: a collective timed out, and %s",
            w->e->timed_out ? "its line has no usable number" : "its line is not here");
        SAY(f->next, "the lines \"%s\" of all ranks, and their flight recorder dumps", own);
}

void capo_watchdog_read(struct capo_evidence *e)
{
        struct watches w = {.e = e};

        capo_evidence_all(e, "Watchdog caught collective operation timeout", take_timeout, &w,
                          &w.text);
        capo_evidence_all(e, "ast enqueued ", take_status, &w, &w.text);
        name_groups(&w);
        merge_watches(&w);
        for (uint32_t i = 0; i < w.n; i++) {
                bool first = true;

                for (uint32_t k = 0; k < i; k++)
                        first &= !is_of(&w.v[k], w.v[i].story, w.v[i].group);
                if (first)
                        judge_group(&w, &w.v[i]);
        }
        judge_silent(&w);
        free(w.v);
}
