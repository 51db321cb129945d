/* SPDX-License-Identifier: Apache-2.0 */
/* Output of NCCL_DEBUG=INFO, with many processes mixed:
 *
 *      host:pid:tid [0] NCCL INFO comm 0xa1 rank 0 nranks 2 cudaDev 0 ... commId 0x5 - Init START
 *      host:pid:tid [0] NCCL INFO AllReduce: opCount 1a sendbuff .. recvbuff .. count 8 datatype 7
 *      op 0 root 0 comm 0xa1 [nranks=2] stream 0x10
 *
 * A communicator has another address in each process; commId joins them. Without it, communicators
 * with the same calls are joined, if each process has only one such. Sends and receives are left
 * out, because their groups are not printed. Nor is what a stream waits for, so all calls of a
 * process are treated as one queue. */
#include "core/base/calls.h"
#include "core/base/xalloc.h"
#include "analysis/diagnose/evidence.h"
#include "analysis/hang/foreign.h"
#include "analysis/hang/hang_load.h"

enum { SOLE_MOST = 512, DEBUG_NAME = 96, DEBUG_KEY = 96, DEBUG_MOST = 4096, DEBUG_HEADS = 4096 };

struct debug_process {
        char name[DEBUG_NAME]; /* "host:pid" */
        int32_t rank, of;      /* in the largest communicator; -1 */
        uint32_t n_kept;       /* number of its calls that are kept */
        uint32_t next;         /* index of the older one with the same hash, + 1; 0: none */
};

/* A communicator in one process. */
struct debug_comm {
        uint32_t process, number; /* number: of the job-wide communicator; CAPO_HANG_NONE */
        uint64_t address;
        int32_t rank, n_ranks;
        char key[DEBUG_KEY]; /* equal on all ranks; "": not known */
        bool began, ended;
        struct capo_evidence_mark mark;
        uint64_t hash, last_count;
        uint32_t n_calls;
        bool rising;  /* opCount grew by 1 with each call */
        bool counted; /* so its numbers are equal on all ranks */
        uint64_t first_count;
        uint32_t next; /* index of the older one with the same hash, + 1; 0: none */
};

struct debug_call {
        uint32_t comm; /* index of the process's communicator */
        uint64_t count, op_count;
        uint32_t nth;
        uint8_t call, type, op;
        int32_t root;
        struct capo_evidence_mark mark;
};

struct debug {
        struct capo_evidence *e;
        uint32_t text;
        struct debug_process *processes;
        struct debug_comm *comms;
        struct debug_call *calls;
        uint32_t n_processes, n_comms, n_calls;
        uint32_t last; /* process of the line before */
        uint32_t process_heads[DEBUG_HEADS],
                comm_heads[DEBUG_HEADS]; /* newest item of a hash, + 1 */
        bool sole;                       /* all comms are one, which each process has (is_sole()) */
        bool cut; /* more processes or communicators than can be kept: calls prove nothing */
};

static const char LETTERS[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

static bool hex_after(const char *line, size_t size, const char *word, uint64_t *out)
{
        const char *at = memmem(line, size, word, strlen(word));
        char *end;

        if (!at)
                return false;
        at += strlen(word);
        *out = strtoull(at, &end, 16);
        return end != at;
}

static bool integer_after(const char *line, size_t size, const char *word, int64_t *out)
{
        const char *at = memmem(line, size, word, strlen(word));
        char *end;

        if (!at)
                return false;
        at += strlen(word);
        *out = strtoll(at, &end, 10);
        return end != at;
}

/* Parse "host:100:110 [0] NCCL INFO"; @at is the blank before NCCL. */
static uint32_t find_process(struct debug *d, const char *line, const char *at)
{
        const char *end = at, *begin, *colon;
        char name[DEBUG_NAME];
        uint32_t hash = 0;
        size_t n;

        if (end > line && end[-1] == ']') {
                while (end > line && *end != '[')
                        end--;
        }
        while (end > line && end[-1] == ' ')
                end--;
        for (begin = end; begin > line && !strchr(" \t>", begin[-1]);)
                begin--;
        colon = memchr(begin, ':', (size_t)(end - begin));
        colon = colon ? memchr(colon + 1, ':', (size_t)(end - colon - 1)) : NULL;
        n = colon ? (size_t)(colon - begin) : 0;
        if (!n || n >= DEBUG_NAME)
                return CAPO_HANG_NONE;
        memcpy(name, begin, n);
        name[n] = 0;
        if (d->n_processes && !strcmp(d->processes[d->last].name, name))
                return d->last;
        for (size_t i = 0; i < n; i++)
                hash = hash * 31 + (uint8_t)name[i];
        hash %= DEBUG_HEADS;
        for (uint32_t i = d->process_heads[hash]; i; i = d->processes[i - 1].next) {
                if (!strcmp(d->processes[i - 1].name, name))
                        return d->last = i - 1;
        }
        d->cut |= d->n_processes == DEBUG_MOST;
        if (d->cut)
                return CAPO_HANG_NONE;
        xarray_room(&d->processes, d->n_processes, sizeof *d->processes);
        d->processes[d->n_processes] =
                (struct debug_process){.rank = -1, .of = -1, .next = d->process_heads[hash]};
        memcpy(d->processes[d->n_processes].name, name, n + 1);
        d->last = d->n_processes++;
        return (d->process_heads[hash] = d->n_processes) - 1;
}

/* The newest communicator with that address. */
static struct debug_comm *find_comm(struct debug *d, uint32_t process, uint64_t address, bool add)
{
        uint32_t hash = (uint32_t)((address ^ process) * UINT64_C(0x9e3779b97f4a7c15) >> 52);

        for (uint32_t i = d->comm_heads[hash]; i && !add; i = d->comms[i - 1].next) {
                if (d->comms[i - 1].process == process && d->comms[i - 1].address == address)
                        return &d->comms[i - 1];
        }
        d->cut |= d->n_comms == DEBUG_MOST;
        if (d->cut)
                return NULL;
        xarray_room(&d->comms, d->n_comms, sizeof *d->comms);
        d->comms[d->n_comms] = (struct debug_comm){.process = process,
                                                   .number = CAPO_HANG_NONE,
                                                   .address = address,
                                                   .rank = -1,
                                                   .n_ranks = -1,
                                                   .rising = true,
                                                   .next = d->comm_heads[hash]};
        d->comm_heads[hash] = ++d->n_comms;
        return &d->comms[d->n_comms - 1];
}

/* Keep only the last calls of each process. */
static void drop_calls(struct debug *d)
{
        uint32_t n = 0;

        for (uint32_t i = 0; i < d->n_calls; i++) {
                struct debug_process *p = &d->processes[d->comms[d->calls[i].comm].process];

                if (p->n_kept > CAPO_HANG_CALLS)
                        p->n_kept--;
                else
                        d->calls[n++] = d->calls[i];
        }
        d->n_calls = n;
}

static int add_call(struct debug *d, const struct debug_call *call)
{
        if (d->n_calls >= 2 * CAPO_HANG_CALLS * d->n_processes + 65536)
                drop_calls(d);
        d->processes[d->comms[call->comm].process].n_kept++;
        *xadd(d->calls, d->n_calls) = *call;
        return 0;
}

static void take_init(struct debug *d, uint32_t process, const char *line, size_t size,
                      struct capo_evidence_mark mark, bool ended)
{
        uint64_t address, id = 0, parent;
        int64_t rank, n_ranks, split, color;
        struct debug_comm *c;
        char key[DEBUG_KEY] = "";

        if (!hex_after(line, size, "comm 0x", &address) ||
            !integer_after(line, size, " rank ", &rank) ||
            !integer_after(line, size, " nranks ", &n_ranks) || rank < 0 || n_ranks < 1 ||
            rank >= n_ranks || n_ranks > 1 << 20)
                return;
        if (hex_after(line, size, "commId 0x", &id))
                SAY(key, "%llx", (unsigned long long)id);
        else if (hex_after(line, size, "parent 0x", &parent) &&
                 integer_after(line, size, "splitCount ", &split) &&
                 integer_after(line, size, "color ", &color) &&
                 (c = find_comm(d, process, parent, false)) && *c->key)
                SAY(key, "%.40s/%lld/%lld", c->key, (long long)split, (long long)color);
        c = find_comm(d, process, address, false);
        if (c && (c->n_calls || (ended && c->ended) || (!ended && c->began)))
                c = find_comm(d, process, address, true); /* the address is used again */
        if (!c)
                return;
        memcpy(c->key, key, DEBUG_KEY);
        c->rank = (int32_t)rank;
        c->n_ranks = (int32_t)n_ranks;
        c->began = true;
        c->ended |= ended;
        c->mark = mark;
        if (n_ranks > d->processes[process].of) {
                d->processes[process].of = (int32_t)n_ranks;
                d->processes[process].rank = (int32_t)rank;
        }
        if (n_ranks > d->e->n_ranks)
                d->e->n_ranks = (int32_t)n_ranks;
}

static void take_call(struct debug *d, uint32_t process, const char *said, size_t size,
                      struct capo_evidence_mark mark)
{
        struct debug_call call = {.mark = mark};
        uint64_t address;
        int64_t count, type, op, root, n_ranks;
        struct debug_comm *c;
        char name[32];

        if (!capo_take_word(said, LETTERS, name, sizeof name) ||
            !hex_after(said, size, "opCount ", &call.op_count) ||
            !hex_after(said, size, " comm 0x", &address) ||
            !integer_after(said, size, " count ", &count) ||
            !integer_after(said, size, " datatype ", &type) ||
            !integer_after(said, size, " op ", &op) || !integer_after(said, size, " root ", &root))
                return;
        call.call = (uint8_t)capo_call_find(name);
        if (capo_call_kind(call.call) < CAPO_KIND_ALLREDUCE ||
            capo_call_kind(call.call) > CAPO_KIND_SCATTER)
                return;
        c = find_comm(d, process, address, false);
        if (!c && !d->e->texts[d->text].n[CAPO_EVIDENCE_INIT])
                c = find_comm(d, process, address, true); /* only its calls were logged */
        if (!c)
                return;
        if (c->n_ranks < 0 && integer_after(said, size, "[nranks=", &n_ranks) && n_ranks > 0)
                c->n_ranks = (int32_t)(n_ranks < 1 << 20 ? n_ranks : -1);
        call.comm = (uint32_t)(c - d->comms);
        call.count = (uint64_t)count;
        call.type = (uint8_t)type;
        call.op = (uint8_t)op;
        call.root = (int32_t)root;
        c->first_count = c->n_calls ? c->first_count : call.op_count;
        c->rising &= !c->n_calls || call.op_count == c->last_count + 1;
        c->last_count = call.op_count;
        call.nth = c->n_calls++;
        c->hash = (c->hash ^ call.call ^ call.count * 0x9e3779b97f4a7c15u ^
                   (uint64_t)call.type << 8 ^ (uint64_t)call.root << 16) *
                  0x100000001b3u;
        if (add_call(d, &call) < 0)
                d->cut = true;
}

static void take_line(const char *at, const char *line, uint32_t number, void *arg)
{
        struct debug *d = arg;
        const char *said = at + strlen(" NCCL INFO ");
        size_t size = strcspn(said, "\n");
        struct capo_evidence_mark mark = {d->text, number};
        bool began = memmem(said, size, "Init START", 10),
             ended = memmem(said, size, "Init COMPLETE", 13),
             call = memmem(said, size, ": opCount ", 10);
        uint32_t process;

        if (!began && !ended && !call)
                return;
        process = find_process(d, line, at);
        if (process == CAPO_HANG_NONE)
                return;
        if (call)
                take_call(d, process, said, size, mark);
        else
                take_init(d, process, said, size, mark, ended);
}

/* ---- which communicators belong together ---- */

/* Is there one communicator in each process, with as many ranks as there are processes? */
static bool is_sole(const struct debug *d)
{
        for (uint32_t i = 0; i < d->n_comms; i++) {
                if (*d->comms[i].key || d->comms[i].n_ranks != (int32_t)d->n_processes)
                        return false;
                for (uint32_t k = 0; k < i; k++) {
                        if (d->comms[k].process == d->comms[i].process)
                                return false;
                }
        }
        return d->n_comms == d->n_processes && d->n_processes <= SOLE_MOST;
}

static bool is_alike(const struct debug *d, const struct debug_comm *a, const struct debug_comm *b)
{
        if (d->sole)
                return true;
        if (*a->key || *b->key)
                return !strcmp(a->key, b->key) && a->n_ranks == b->n_ranks;
        return a->n_calls && a->n_calls == b->n_calls && a->hash == b->hash &&
               a->n_ranks == b->n_ranks;
}

/* Without an id: has each process one such communicator, and are all ranks there? @seen: by
 * process, the communicator for which it was counted last, + 1. */
static bool is_whole(const struct debug *d, uint32_t first, uint32_t *seen)
{
        const struct debug_comm *a = &d->comms[first];
        int32_t n = 0;

        if (*a->key)
                return true;
        for (uint32_t i = 0; i < d->n_comms; i++) {
                if (!is_alike(d, a, &d->comms[i]))
                        continue;
                if (seen[d->comms[i].process] == first + 1)
                        return false;
                seen[d->comms[i].process] = first + 1;
                n++;
        }
        return n == a->n_ranks;
}

/* Are its calls numbered equally on all ranks? They are not if the lines of one rank begin later,
 * or if communicators that share resources share a counter. */
static bool is_counted(const struct debug *d, const struct debug_comm *c)
{
        for (uint32_t i = 0; i < d->n_comms; i++) {
                const struct debug_comm *o = &d->comms[i];

                if (o->number == c->number && o->n_calls && o->first_count != c->first_count)
                        return false;
        }
        return c->rising || c->first_count == 0;
}

static void join_comms(struct debug *d, struct capo_hang_foreign *to, uint32_t *member,
                       uint32_t *seen)
{
        for (uint32_t i = 0; i < d->n_comms; i++) {
                struct debug_comm *c = &d->comms[i];
                char name[32];
                uint32_t comm, n = 0;

                if (c->number != CAPO_HANG_NONE || !is_whole(d, i, seen))
                        continue;
                SAY(name, "communicator 0x%llx", (unsigned long long)c->address);
                comm = capo_hang_foreign_comm(to, name, 0, c->n_ranks);
                for (uint32_t k = i; k < d->n_comms; k++) {
                        if (k != i && !is_alike(d, c, &d->comms[k]))
                                continue;
                        member[k] = capo_hang_foreign_member(
                                to, comm, d->comms[k].process,
                                d->comms[k].rank >= 0 ? d->comms[k].rank : (int32_t)n);
                        n++;
                        d->comms[k].number = comm;
                }
        }
}

static bool is_given(const struct debug *d, const struct debug_call *call)
{
        const struct debug_comm *c = &d->comms[call->comm];

        return c->number != CAPO_HANG_NONE && c->counted && call->op_count < UINT32_MAX - 1;
}

static void give_calls(struct debug *d, struct capo_hang_foreign *to, const uint32_t *member)
{
        drop_calls(d);
        for (uint32_t i = 0; i < d->n_comms; i++) {
                struct debug_comm *c = &d->comms[i];
                uint64_t issued = c->rising ? c->last_count + 1 : c->n_calls;

                c->counted = is_counted(d, c);
                if (c->number != CAPO_HANG_NONE && c->counted && c->n_calls && issued < UINT32_MAX)
                        to->hang->comms[c->number].members[member[i]].issued = (uint32_t)issued;
        }
        for (uint32_t i = 0; i < d->n_calls; i++) {
                const struct debug_call *call = &d->calls[i];
                const struct debug_comm *c = &d->comms[call->comm];
                enum capo_call_kind kind = capo_call_kind(call->call);
                bool rooted = kind == CAPO_KIND_BROADCAST || kind == CAPO_KIND_REDUCE;
                uint64_t seq = c->rising ? call->op_count + 1 : call->nth + 1;
                struct capo_hang_call new = {.begin_ns = i + 1,
                                             .end_ns = i + 1,
                                             .call = call->call,
                                             .bytes = call->count * capo_type_size(call->type),
                                             .type = call->type,
                                             .op = call->op,
                                             .peer = rooted ? call->root : -1,
                                             .comm = c->number,
                                             .member = member[call->comm]};

                if (!is_given(d, call))
                        continue;
                new.seq = (uint32_t)seq;
                capo_hang_foreign_call(to, c->process, &new);
        }
}

static void make_job(struct debug *d, struct capo_hang_foreign *to)
{
        uint32_t *member = xcalloc(d->n_comms + 1, sizeof *member),
                 *seen = xcalloc(d->n_processes + 1, sizeof *seen);

        for (uint32_t i = 0; i < d->n_processes; i++)
                capo_hang_foreign_process(to, d->processes[i].rank, d->processes[i].name, 0);
        d->sole = is_sole(d);
        join_comms(d, to, member, seen);
        give_calls(d, to, member);
        free(member);
        free(seen);
}

enum { BEHIND_ORDER = 16 };

/* ---- findings ---- */

/* "rank 3", or "host:pid". */
static char *process_words(const struct debug *d, uint32_t process, char *text)
{
        if (d->processes[process].rank >= 0)
                snprintf(text, DEBUG_NAME + 8, "rank %d", d->processes[process].rank);
        else
                snprintf(text, DEBUG_NAME + 8, "%s", d->processes[process].name);
        return text;
}

static void mark_last(const struct debug *d, struct capo_diagnose_finding *f, uint32_t process,
                      uint32_t comm, uint32_t seq)
{
        for (uint32_t i = 0; i < d->n_calls; i++) {
                const struct debug_call *call = &d->calls[i];
                const struct debug_comm *c = &d->comms[call->comm];

                if (c->process == process && c->number == comm &&
                    (c->rising ? call->op_count : call->nth) + 1 == seq)
                        capo_finding_mark(f, call->mark);
        }
}

/* "count 53 of datatype 4, root 0" of that call; "": it is not there. */
static const char *call_words(const struct debug *d, uint32_t process, uint32_t comm, uint32_t seq,
                              char text[96])
{
        *text = 0;
        for (uint32_t i = 0; i < d->n_calls; i++) {
                const struct debug_call *call = &d->calls[i];
                const struct debug_comm *c = &d->comms[call->comm];

                if (c->process == process && c->number == comm &&
                    (c->rising ? call->op_count : call->nth) + 1 == seq)
                        snprintf(text, 96, "%s: count %llu of datatype %u, root %d",
                                 capo_call_name(call->call), (unsigned long long)call->count,
                                 call->type, call->root);
        }
        return text;
}

/* Number of calls that the process made after the one it would wait in: if there are any, it did
 * not wait there. */
static uint32_t count_behind(const struct capo_hang_process *p, const struct capo_hang_step *s)
{
        uint32_t n = 0;

        for (uint32_t i = 0; i < p->n_calls; i++) {
                if (p->calls[i].comm == s->comm && p->calls[i].seq == s->seq)
                        n = p->n_calls - i - 1;
        }
        return n;
}

static void tell_order(const struct debug *d, const struct capo_hang_job *job,
                       const struct capo_hang_verdict *v, struct capo_diagnose_finding *f)
{
        char who[DEBUG_NAME + 8];

        capo_finding_is(f, CAPO_RANK_HANG, "order", "likely");
        for (uint32_t i = 0; i < v->n_steps; i++) {
                const struct capo_hang_step *s = &v->steps[i];

                if (count_behind(&job->processes[s->process], s) > BEHIND_ORDER)
                        f->rank = CAPO_RANK_NOTE; /* with so many calls after it, it got through */
                capo_finding_rank_add(f, d->processes[s->process].rank);
                mark_last(d, f, s->process, s->comm, s->seq);
                if (strlen(f->detail) < 350)
                        ADD(f->detail, "%s%s makes %s #%u of %s first", i ? "\n" : "",
                            process_words(d, s->process, who), capo_call_name(s->call), s->seq,
                            job->comms[s->comm].name);
        }
        if (capo_evidence_has("Destroy COMPLETE", d->e))
                f->rank = CAPO_RANK_NOTE;
        SAY(f->headline, "TWO COMMUNICATORS ARE USED IN OPPOSITE ORDER by %s and %u other%s",
            process_words(d, v->steps[0].process, who), v->n_steps - 1, v->n_steps > 2 ? "s" : "");
        SAY(f->next,
            "are these calls in one ncclGroup, where the order does not matter? Else all ranks need one order");
}

static void tell_call(const struct debug *d, const struct capo_hang_job *job,
                      const struct capo_hang_verdict *v, struct capo_diagnose_finding *f)
{
        bool differs = v->kind == CAPO_HANG_MISMATCH;
        char who[DEBUG_NAME + 8];

        if (differs || d->e->timed_out)
                capo_finding_is(f, CAPO_RANK_HANG, differs ? "mismatch" : "missing", "likely");
        else
                capo_finding_is(f, CAPO_RANK_UNDECIDED, "undecided", "unsure");
        for (uint32_t i = 0; i < v->n_culprits; i++) {
                uint32_t process = v->culprits[i].process;

                capo_finding_rank_add(f, d->processes[process].rank);
                if (job->processes[process].n_calls)
                        mark_last(d, f, process, v->comm,
                                  differs ? v->seq : job->comms[v->comm].members[0].issued);
        }
        for (uint32_t i = 0; i < job->comms[v->comm].n_members; i++)
                mark_last(d, f, job->comms[v->comm].members[i].process, v->comm, v->seq);
        process_words(d, v->culprits[0].process, who);
        if (differs)
                SAY(f->headline, "%s MAKES ANOTHER CALL than another rank as #%u of %s", who,
                    v->seq, job->comms[v->comm].name);
        else
                SAY(f->headline, "%s%s HAS NOT MADE %s #%u of %s, by the lines here",
                    f->rank == CAPO_RANK_HANG ? "" : "IF THE JOB HANGS: ", who,
                    v->call ? capo_call_name(v->call->call) : "call", v->seq,
                    job->comms[v->comm].name);
        if (!differs)
                SAY(f->detail, "lines of %u of %u ranks show it", v->n_waiting, v->n_ranks);
        for (uint32_t i = 0, n = 0; i < job->comms[v->comm].n_members && differs && n < 2; i++) {
                uint32_t at = job->comms[v->comm].members[i].process;
                char words[96], one[DEBUG_NAME + 8];
                bool culprit = at == v->culprits[0].process;

                if (culprit != !n) /* the culprit, then the first of the others */
                        continue;
                if (*call_words(d, at, v->comm, v->seq, words))
                        ADD(f->detail, "%s%s: %s", n ? "\n" : "", process_words(d, at, one), words);
                n++;
                i = UINT32_MAX; /* begin again */
        }
        SAY(f->next,
            "stacks of all ranks: does the program of %s take another way before that call?", who);
}

static void judge_calls(struct debug *d)
{
        _cleanup_(capo_job_freep) struct capo_job *job = capo_job_new();
        struct capo_hang_job hang = {.now_ns = d->n_calls + 2};
        struct capo_hang_foreign to = {.job = job, .hang = &hang};
        struct capo_hang_verdict v = {0};
        struct capo_diagnose_finding *f;

        make_job(d, &to);
        capo_hang_foreign_finish(&to, 0);
        capo_hang_judge(&hang, &v);
        if ((v.kind == CAPO_HANG_ORDER && v.n_steps > 1) ||
            ((v.kind == CAPO_HANG_MISSING || v.kind == CAPO_HANG_MISMATCH) && v.n_culprits &&
             v.comm != CAPO_HANG_NONE)) {
                f = capo_evidence_finding(d->e);
                if (v.kind == CAPO_HANG_ORDER)
                        tell_order(d, &hang, &v, f);
                else
                        tell_call(d, &hang, &v, f);
        }
        capo_hang_verdict_finish(&v);
        capo_hang_job_finish(&hang);
}

/* Is it the same call, by what all ranks print alike? */
static bool is_same_call(const struct debug *d, const struct debug_call *a,
                         const struct debug_call *b)
{
        return a->call == b->call && a->op_count == b->op_count && a->count == b->count &&
               d->comms[a->comm].n_ranks == d->comms[b->comm].n_ranks;
}

/* The only call of @process that is the same as @call: its index; n_calls: none, or several. */
static uint32_t find_twin(const struct debug *d, uint32_t process, const struct debug_call *call)
{
        uint32_t found = d->n_calls;

        for (uint32_t i = 0; i < d->n_calls; i++) {
                if (d->comms[d->calls[i].comm].process != process ||
                    !is_same_call(d, &d->calls[i], call))
                        continue;
                if (found < d->n_calls)
                        return d->n_calls;
                found = i;
        }
        return found;
}

/* Two communicators of different size, whose calls two ranks print in opposite order: the ids that
 * would join their ranks need not be there. */
static void judge_turns(struct debug *d)
{
        for (uint32_t k = d->n_calls; k-- > 1;) {
                const struct debug_call *b = &d->calls[k], *a = b - 1;
                const struct debug_comm *ca = &d->comms[a->comm], *cb = &d->comms[b->comm];
                struct capo_diagnose_finding *f;
                char one[DEBUG_NAME + 8], other[DEBUG_NAME + 8];

                if (ca->process != cb->process || ca->n_ranks == cb->n_ranks || ca->n_ranks < 2 ||
                    cb->n_ranks < 2)
                        continue;
                for (uint32_t p = 0; p < d->n_processes && p < SOLE_MOST; p++) {
                        uint32_t x = p == ca->process ? d->n_calls : find_twin(d, p, a),
                                 y = x < d->n_calls ? find_twin(d, p, b) : x;

                        if (y >= d->n_calls || y > x)
                                continue;
                        f = capo_evidence_finding(d->e);
                        capo_finding_is(f, CAPO_RANK_HANG, "order", "likely");
                        process_words(d, ca->process, one);
                        process_words(d, p, other);
                        SAY(f->headline,
                            "TWO COMMUNICATORS ARE USED IN OPPOSITE ORDER by %s and %s", one,
                            other);
                        SAY(f->detail, "%s: %s (of %d ranks), then %s (of %d)\n%s: %s, then %s",
                            one, capo_call_name(a->call), ca->n_ranks, capo_call_name(b->call),
                            cb->n_ranks, other, capo_call_name(b->call), capo_call_name(a->call));
                        SAY(f->next, "stacks of both ranks: are they in these two calls?");
                        capo_finding_mark(f, a->mark);
                        capo_finding_mark(f, b->mark);
                        capo_finding_mark(f, d->calls[x].mark);
                        capo_finding_mark(f, d->calls[y].mark);
                        return;
                }
                if (d->n_calls - k > DEBUG_KEY)
                        return; /* the last calls decide */
        }
}

/* A communicator that ranks began to create, but that no rank completed. */
static void judge_creations(struct debug *d)
{
        for (uint32_t i = 0; i < d->n_comms; i++) {
                const struct debug_comm *c = &d->comms[i];
                struct capo_diagnose_finding *f;
                uint32_t n = 0, n_ended = 0;
                bool first = true;
                char ranks[128];
                int32_t list[CAPO_DIAGNOSE_RANKS];
                uint32_t n_list = 0;

                for (uint32_t k = 0; k < d->n_comms; k++) {
                        const struct debug_comm *o = &d->comms[k];

                        if (!*c->key || strcmp(o->key, c->key) != 0)
                                continue;
                        first &= k >= i;
                        n++;
                        n_ended += o->ended;
                }
                if (!first || !n || n_ended)
                        continue;
                f = capo_evidence_finding(d->e);
                for (int32_t rank = 0; rank < c->n_ranks && n_list < N_ELEMENTS(list); rank++) {
                        bool there = false;

                        for (uint32_t k = 0; k < d->n_comms; k++)
                                there |= !strcmp(d->comms[k].key, c->key) &&
                                         d->comms[k].rank == rank;
                        if (!there)
                                list[n_list++] = rank;
                }
                for (uint32_t k = 0; k < d->n_comms; k++) {
                        if (!strcmp(d->comms[k].key, c->key))
                                capo_finding_mark(f, d->comms[k].mark);
                }
                capo_finding_is(f, CAPO_RANK_UNDECIDED, "birth", "unsure");
                SAY(f->headline,
                    "A COMMUNICATOR OF %d RANKS: lines of %u rank%s begin its creation, none reports Init COMPLETE",
                    c->n_ranks, n, n == 1 ? "" : "s");
                if (n_list)
                        SAY(f->detail, "no such line of %s", capo_rank_list(list, n_list, ranks));
                SAY(f->next,
                    "%s: NCCL_DEBUG=INFO, NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,NET,P2P, and stacks of all ranks",
                    n_list ? "the lines of these ranks, or that there are none"
                           : "what follows in the log, or that nothing does");
        }
}

void capo_debug_read(struct capo_evidence *e)
{
        struct debug d = {.e = e};

        capo_evidence_all(e, " NCCL INFO ", take_line, &d, &d.text);
        if (d.n_calls && !d.cut) {
                uint32_t n = e->n_findings;

                judge_calls(&d);
                if (e->n_findings == n && capo_evidence_hangs(e))
                        judge_turns(&d);
        }
        judge_creations(&d);
        xfree(d.processes, d.comms, d.calls);
}
