/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>

#include "analysis/hang/ras.h"
#include "capo/call_ids.h"
#include "capo/msg.h"
#include "core/base/among.h"
#include "core/base/clock.h"
#include "core/base/order.h"
#include "core/base/xalloc.h"

/* RAS's text for people. It omits communicators whose ranks have all launched the same. For others,
 * it names the ranks of the smaller side:
 *
 *      #0-0 (f3532dd4dcf57853) MISMATCH
 *        Communicator ranks have different AllGather operation counts
 *        3 ranks have launched up to operation 2
 *        Rank 2 has launched up to operation 1 -- GPU 0 managed by process 16397 on node 10.0.0.7
 *
 * The ranks that are not named have the count of the line that names none. The size of a
 * communicator is in the table above, in the row of its group (the 0 before the dash). */
/* Limit on ranks of all communicators. Under a fuzzer it is small: otherwise fuzzing soon does
 * nothing but create ranks. */
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
enum { LARGEST = 1 << 10 };
#else
enum { LARGEST = 1 << 20 };
#endif

enum { GROUPS = 4096 };

/* Meaning of the last "N ranks ..." line; it applies to the ranks named below it, or to all unnamed
 * ones. */
enum said { NOTHING, COUNT, STATUS, ERROR, MISSING };

struct reading {
        struct ras_snapshot *snapshot;
        struct ras_comm *comm;
        bool in_summary, in_table, all_dead,
                silent; /* in a section about processes: DEAD, or those that did not answer */
        int32_t size[GROUPS], n_ranks;
        /* of the communicator's section */
        bool *named;
        int call; /* index in ras_calls[] */
        enum said said;
        uint64_t count, rest;
        bool has_rest, pending; /* pending: the last "N ranks" line has named no rank so far */
        char status[16];
};

static struct ras_rank *rank_at(struct reading *rd, int64_t rank)
{
        return rd->comm && rank >= 0 && rank < rd->comm->n_ranks ? &rd->comm->ranks[rank] : NULL;
}

/* Parse " -- GPU 0 managed by process 16397 on node 10.0.0.7". */
static void take_who(struct ras_rank *r, const char *line)
{
        const char *gpu = strstr(line, "-- GPU "), *process = strstr(line, "managed by process ");
        const char *node = process ? strstr(process, " on node ") : NULL;

        if (!gpu || !node)
                return;
        r->device = atoi(gpu + 7);
        r->pid = (uint32_t)strtoul(process + 19, NULL, 10);
        snprintf(r->host, sizeof r->host, "%.*s", (int)strcspn(node + 9, " \r\n"), node + 9);
}

static void apply_field(struct reading *rd, struct ras_rank *r, enum said said)
{
        switch (said) {
        case COUNT:
                r->count[rd->call] = rd->count;
                rd->named[r->rank] = true;
                break;
        case STATUS:
                r->making = !strcmp(rd->status, "INIT");
                r->ended = !strcmp(rd->status, "ABORT") || !strcmp(rd->status, "FINALIZE") ||
                           !strcmp(rd->status, "NOCOMM");
                break;
        case ERROR: r->error = 1; break;
        case MISSING:
                r->absent = true;
                r->dead = rd->all_dead && !rd->silent;
                break;
        default: break;
        }
}

/* A line of counts without named ranks is about the rest. If there are two such lines, it is not
 * known which ranks each one is about. */
static void end_line(struct reading *rd)
{
        if (!rd->pending)
                return;
        rd->snapshot->partial |= rd->has_rest;
        rd->rest = rd->has_rest && rd->rest > rd->count ? rd->rest : rd->count;
        rd->has_rest = true;
        rd->pending = false;
}

/* End of the counts of one collective: unnamed ranks get the count of the line without names. */
static void end_counts(struct reading *rd)
{
        end_line(rd);
        for (uint32_t i = 0; rd->has_rest && rd->comm && i < rd->comm->n_ranks; i++) {
                if (!rd->named[i])
                        rd->comm->ranks[i].count[rd->call] = rd->rest;
        }
        rd->has_rest = false;
        rd->said = NOTHING;
        if (rd->comm)
                memset(rd->named, 0, rd->comm->n_ranks * sizeof *rd->named);
}

/* Parse "#0-1 (f3532dd4dcf57853) MISMATCH". A communicator may have several sections. */
static void begin_comm(struct reading *rd, const char *line)
{
        unsigned group, place;
        uint64_t hash;
        char id[24];
        int at = 0;

        end_counts(rd);
        rd->comm = NULL;
        if (sscanf(line, "#%u-%u (%16[0-9a-fA-F]) %n", &group, &place, id, &at) < 3 ||
            group >= GROUPS)
                return;
        hash = strtoull(id, NULL, 16);
        rd->said = !strncmp(line + at, "INCOMPLETE", 10) ? MISSING : NOTHING;
        rd->comm = LAST_OF(c, rd->snapshot->comms, rd->snapshot->n_comms, c->hash == hash);
        if (!rd->comm && rd->size[group] > LARGEST - rd->n_ranks) {
                rd->snapshot->partial = true;
                return;
        }
        if (!rd->comm && rd->size[group] > 0) {
                rd->n_ranks += rd->size[group];
                rd->comm = ras_comm_new(rd->snapshot, id, hash, rd->size[group]);
                for (int32_t i = 0; i < rd->size[group]; i++)
                        ras_rank_new(rd->comm, i);
        }
        if (!rd->comm)
                return;
        free(rd->named);
        rd->named = xcalloc(rd->comm->n_ranks + 1, sizeof *rd->named);
}

/* Parse "The missing ranks: 2,3" (up to 2.25). */
static void missing_list(struct reading *rd, const char *list)
{
        char *end;

        for (long rank = strtol(list, &end, 10); end != list;
             list = end + (*end == ','), rank = strtol(list, &end, 10)) {
                if (rank_at(rd, rank))
                        apply_field(rd, rank_at(rd, rank), MISSING);
        }
}

static void take_line(struct reading *rd, const char *line)
{
        unsigned long rank, n;
        char word[32];
        int at = 0;

        if (sscanf(line, "Communicator ranks have different %31s", word) == 1) {
                end_counts(rd);
                rd->call = ras_call_of(word);
                if (rd->call < 0) /* up to 2.25 "collective": all kinds together */
                        rd->call = RAS_ANY;
        } else if (sscanf(line, "%lu ranks have launched up to operation %lu", &n, &rank) == 2 ||
                   (sscanf(line, "%lu ranks have not launched %n", &n, &at) == 1 && at)) {
                end_line(rd);
                rd->said = COUNT;
                rd->count = at ? 0 : rank;
                rd->pending = true;
        } else if (sscanf(line, "%lu ranks have status %15s", &n, rd->status) == 2) {
                rd->said = STATUS;
        } else if (sscanf(line, "%lu ranks reported %31s", &n, word) == 2) {
                rd->said = ERROR;
        } else if (!strncmp(line, "The missing rank", 16) && strchr(line, ':')) {
                missing_list(rd, strchr(line, ':') + 1);
        } else if (sscanf(line, "Rank %lu %n", &rank, &at) == 1 && at &&
                   rank_at(rd, (int64_t)rank)) {
                struct ras_rank *r = rank_at(rd, (int64_t)rank);
                enum said said = rd->said;

                take_who(r, line);
                if (sscanf(line + at, "has launched up to operation %lu", &n) == 1 ||
                    !strncmp(line + at, "has not launched", 16)) {
                        uint64_t kept = rd->count;

                        rd->count = line[at + 4] == 'n' ? 0 : n;
                        apply_field(rd, r, COUNT);
                        rd->count = kept;
                } else if (sscanf(line + at, "has status %15s", rd->status) == 1) {
                        apply_field(rd, r, STATUS);
                } else if (!strncmp(line + at, "reported ", 9)) {
                        apply_field(rd, r, ERROR);
                } else {
                        rd->pending &= said != COUNT;
                        apply_field(rd, r, said);
                }
        }
}

static void parse_line(struct reading *rd, const char *line)
{
        int group, comms, nodes, size;
        char per_node[16];

        if (*line == '#') {
                begin_comm(rd, line);
                return;
        }
        if (!strncmp(line, "Job summary", 11))
                rd->in_summary = true;
        if (strstr(line, "#  in group"))
                rd->in_table = true;
        else if (rd->in_summary && !rd->in_table &&
                 sscanf(line, "%d %15s %d", &nodes, per_node, &size) == 3 && nodes > 0)
                rd->snapshot->n_nodes += (uint32_t)nodes;
        else if (rd->in_table &&
                 sscanf(line, "%d %d %d %15s %d", &group, &comms, &nodes, per_node, &size) == 5 &&
                 group >= 0 && group < GROUPS && size > 0 && size <= LARGEST)
                rd->size[group] = size;
        else if (!strncmp(line, "DEAD", 4))
                rd->all_dead = true;
        else if (!strncmp(line, "INCOMPLETE", 10))
                rd->silent = true;
        else if (rd->comm)
                take_line(rd, line + strspn(line, " "));
}

static uint64_t sum_calls(const struct ras_rank *r)
{
        uint64_t n = 0;

        for (int i = 0; i < RAS_CALLS; i++)
                n += r->count[i];
        return n;
}

static void ras_read_text(char *text, struct ras_snapshot *out)
{
        _cleanup_free_ struct reading *rd = xcalloc(1, sizeof *rd);
        char *rest = text;

        rd->snapshot = out;
        for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n"))
                parse_line(rd, line);
        end_counts(rd);
        free(rd->named);
        out->partial |= !out->n_comms;
        for (uint32_t i = 0; i < out->n_comms; i++)
                out->partial |=
                        !ANY_OF(r, out->comms[i].ranks, out->comms[i].n_ranks, sum_calls(r) > 0);
}

enum { MAKING = 7 /* ncclInProgress */ };

static const struct call {
        const char *name;
        uint8_t call;
} calls[RAS_CALLS] = {
        {"AllReduce", CAPO_CALL_ALLREDUCE},
        {"Broadcast", CAPO_CALL_BROADCAST},
        {"Reduce", CAPO_CALL_REDUCE},
        {"AllGather", CAPO_CALL_ALLGATHER},
        {"AlltoAll", CAPO_CALL_ALLTOALL},
        {"ReduceScatter", CAPO_CALL_REDUCESCATTER},
        {"Gather", CAPO_CALL_GATHER},
        {"Scatter", CAPO_CALL_SCATTER},
        [RAS_ANY] = {"collective", CAPO_CALL_ALLREDUCE}, /* the kind is not reported: any_kind */
};

int ras_call_of(const char *name)
{
        const struct call *found = FIRST_OF(row, calls, RAS_CALLS, !strcasecmp(name, row->name));

        return found ? (int)(found - calls) : RAS_UNKNOWN;
}

struct ras_comm *ras_comm_new(struct ras_snapshot *snapshot, const char *id, uint64_t hash,
                              int32_t size)
{
        struct ras_comm *c = xput(snapshot->comms, snapshot->n_comms, .hash = hash, .size = size);

        snprintf(c->id, sizeof c->id, "%s", id);
        return c;
}

struct ras_rank *ras_rank_new(struct ras_comm *comm, int32_t rank)
{
        return xput(comm->ranks, comm->n_ranks, .rank = rank, .device = -1);
}

void ras_snapshot_finish(struct ras_snapshot *snapshot)
{
        for (uint32_t i = 0; i < snapshot->n_comms; i++)
                free(snapshot->comms[i].ranks);
        free(snapshot->comms);
        *snapshot = (struct ras_snapshot){0};
}

/* ---- JSON ---- */

static const char *text_of(const json_t *o, const char *key)
{
        const char *s = json_string_value(json_object_get(o, key));

        return s ? s : "";
}

static int32_t int_of(const json_t *o, const char *key, int32_t otherwise)
{
        const json_t *v = json_object_get(o, key);
        json_int_t n = json_integer_value(v);

        return json_is_integer(v) && n > INT32_MIN && n < INT32_MAX ? (int32_t)n : otherwise;
}

static void read_rank(struct ras_comm *comm, const json_t *o, bool absent)
{
        const json_t *status = json_object_get(o, "status"),
                     *counts = json_object_get(o, "collective_counts");
        struct ras_rank *r = ras_rank_new(comm, int_of(o, "rank", -1));
        int32_t state = int_of(status, "init_state", 0), pid = int_of(o, "pid", 0);
        const char *name;
        json_t *n;

        r->device = int_of(o, "nvml_dev", -1);
        r->pid = pid > 0 ? (uint32_t)pid : 0;
        snprintf(r->host, sizeof r->host, "%s", text_of(o, "host"));
        r->making = state == MAKING;
        r->error = state && state != MAKING ? state : int_of(status, "async_error", 0);
        r->error = r->error == MAKING ? 0 : r->error;
        r->ended = json_is_true(json_object_get(status, "abort_flag")) ||
                   json_is_true(json_object_get(status, "destroy_flag")) ||
                   json_is_true(json_object_get(status, "finalize_called"));
        r->dead = json_is_true(json_object_get(status, "considered_dead"));
        r->absent = r->dead || json_is_true(json_object_get(status, "unresponsive"));
        if (absent && !r->absent) /* it answered, and no longer has that communicator */
                r->ended = true;
        json_object_foreach((json_t *)counts, name, n)
        {
                int at = ras_call_of(name);

                if (at >= 0 && json_integer_value(n) > 0)
                        r->count[at] = (uint64_t)json_integer_value(n);
        }
}

static void read_json(const json_t *doc, struct ras_snapshot *out)
{
        size_t i, k;
        json_t *c, *rank;

        json_array_foreach(json_object_get(doc, "communicators"), i, c)
        {
                const char *hash = text_of(c, "hash");
                struct ras_comm *comm =
                        ras_comm_new(out, hash, strtoull(hash, NULL, 16), int_of(c, "size", -1));

                json_array_foreach(json_object_get(c, "ranks"), k, rank)
                        read_rank(comm, rank, false);
                json_array_foreach(json_object_get(c, "missing_ranks"), k, rank)
                        read_rank(comm, rank, true);
        }
}

CAPO_ORDERED(by_rank, struct ras_rank, CAPO_ORDER(a->rank, b->rank));

CAPO_ORDERED(by_size, struct ras_comm, CAPO_ORDER(b->size, a->size), strcmp(a->id, b->id));

int ras_read(char *text, struct ras_snapshot *out, char *why, size_t room)
{
        json_auto_t *doc = NULL;
        int line = (int)strcspn(text, "\r\n"), r = 0;
        json_error_t error;

        *out = (struct ras_snapshot){.at_ns = capo_clock_of(CLOCK_REALTIME)};
        if (text[strspn(text, " \r\n")] == '{') {
                doc = json_loads(text, 0, &error);
                if (!json_is_array(json_object_get(doc, "communicators")))
                        r = capo_why(-EINVAL, why, room,
                                     "what NCCL's RAS answered cannot be read: %s",
                                     doc ? "it has no communicators" : error.text);
                else
                        read_json(doc, out);
        } else if (strstr(text, "NCCL version ")) {
                ras_read_text(text, out);
        } else {
                r = capo_why(-EINVAL, why, room, "what answered is no RAS of NCCL: %.*s",
                             line < 60 ? line : 60, text);
        }
        for (uint32_t i = 0; i < out->n_comms; i++)
                CAPO_SORT(out->comms[i].ranks, out->comms[i].n_ranks, by_rank);
        CAPO_SORT(out->comms, out->n_comms, by_size);
        return r;
}

/* ---- the job ---- */

/* The ranks of one communicator, compared. */
struct counted {
        uint64_t least[RAS_CALLS],
                most; /* per call the least over ranks; the most calls of any rank in total */
        bool moved;
};

static struct counted compare_counts(const struct ras_snapshot *before, const struct ras_comm *c)
{
        const struct ras_comm *comms = before->comms,
                              *was = comms ? bsearch(c, comms, before->n_comms, sizeof *comms,
                                                     by_size)
                                           : NULL;
        struct counted n = {0};

        n.moved = !was || was->n_ranks != c->n_ranks ||
                  ANY_OF(r, was->ranks, was->n_ranks,
                         memcmp(r->count, c->ranks[r - was->ranks].count, sizeof r->count) != 0 ||
                                 r->making != c->ranks[r - was->ranks].making);
        for (int k = 0; k < RAS_CALLS; k++)
                n.least[k] = UINT64_MAX;
        for (uint32_t i = 0; i < c->n_ranks; i++) {
                const struct ras_rank *r = &c->ranks[i];

                if (r->absent || r->making)
                        continue;
                n.most = sum_calls(r) > n.most ? sum_calls(r) : n.most;
                for (int k = 0; k < RAS_CALLS; k++)
                        n.least[k] = r->count[k] < n.least[k] ? r->count[k] : n.least[k];
        }
        return n;
}

/* The kind of the last call, as far as counts show it: one that other ranks have made less often,
 * else one that all have made. */
static uint8_t last_call(const struct ras_rank *r, const struct counted *n)
{
        for (int above = 1; above >= 0; above--) {
                for (int k = 0; k < RAS_CALLS; k++) {
                        if (r->count[k] > (above ? n->least[k] : 0))
                                return calls[k].call;
                }
        }
        return CAPO_CALL_GROUP;
}

/* A rank is identified by process and GPU, so that it can be found in other communicators. */
static uint32_t process_of(struct capo_hang_foreign *f, json_t **known, const struct ras_rank *r,
                           int32_t rank)
{
        uint32_t next = f->job->n_processes, process = next;
        char key[128];

        snprintf(key, sizeof key, "%u %d %s", r->pid, r->device, r->host);
        if (r->pid)
                process = capo_hang_foreign_number(known, key, next);
        if (process == next)
                capo_hang_foreign_process(f, rank, *r->host ? r->host : "not told", r->pid);
        return process;
}

static void add_rank(struct capo_hang_foreign *f, const struct ras_comm *c,
                     const struct ras_rank *r, const struct counted *n, uint32_t comm,
                     uint32_t process, uint64_t at_ns)
{
        struct capo_hang_process *p = &f->hang->processes[process];
        struct capo_hang_call call = {.begin_ns = at_ns, .end_ns = at_ns, .comm = comm, .peer = -1};
        struct capo_hang_member *m;

        p->end_ns = f->hang->now_ns;
        p->life = r->dead ? CAPO_HANG_KILLED : r->absent ? CAPO_HANG_STOPPED : p->life;
        if (r->making) { /* it is in the call that creates the communicator */
                call.call = CAPO_CALL_COMMINIT;
                call.comm = call.member = CAPO_HANG_NONE;
                call.bytes = (uint64_t)c->size;
                call.stream = (uint32_t)(c->hash ^ c->hash >> 32);
                call.where = CAPO_HANG_HOST;
                call.end_ns = 0;
                capo_hang_foreign_call(f, process, &call);
                return;
        }
        call.member = capo_hang_foreign_member(f, comm, process, r->rank);
        m = &f->hang->comms[comm].members[call.member];
        m->dead = r->ended;
        m->issued = (uint32_t)(r->absent || (r->ended && !sum_calls(r)) ? n->most : sum_calls(r));
        if (m->issued == n->most && m->issued &&
            (r->absent || r->error)) /* it will not get through the last call */
                m->issued--;
        call.seq = m->issued;
        call.call = last_call(r, n);
        if (r->error) {
                call.result = (int8_t)r->error;
                call.seq++;
        }
        if (!r->absent && call.seq)
                capo_hang_foreign_call(f, process, &call);
}

void ras_job(const struct ras_snapshot *first, const struct ras_snapshot *second,
             struct capo_job *job, struct capo_hang_job *out)
{
        struct capo_hang_foreign f = {.job = job, .hang = out};
        json_t *known = NULL;

        out->now_ns = second->at_ns;
        out->counted = true;
        out->partial = first->partial || second->partial;
        for (uint32_t i = 0; i < second->n_comms; i++) {
                const struct ras_comm *c = &second->comms[i];
                struct counted n = compare_counts(first, c);
                uint32_t comm = capo_hang_foreign_comm(&f, c->id, c->hash, c->size);

                for (const struct ras_rank *r = c->ranks; r < PAST_OF(c->ranks, c->n_ranks); r++) {
                        bool in_job = c->size > 0 && (comm == 0 || r->pid);

                        add_rank(&f, c, r, &n, comm,
                                 process_of(&f, &known, r, in_job ? r->rank : -1),
                                 n.moved ? second->at_ns : first->at_ns);
                        out->any_kind |= r->count[RAS_ANY] > 0;
                }
        }
        json_decref(known);
        capo_hang_foreign_finish(&f, 0);
        out->n_nodes = second->n_nodes; /* the text names only some ranks and their nodes */
}
