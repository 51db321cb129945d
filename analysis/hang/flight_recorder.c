/* SPDX-License-Identifier: Apache-2.0 */
/* PyTorch's flight recorder: one dump per rank (torch/csrc/distributed/c10d/FlightRecorder.hpp;
 * versions 2.x). Input is the JSON of _dump_nccl_trace_json(), or the pickle that is dumped on a
 * timeout, converted to JSON; the pickle also has call sites.
 *
 *      entry        a call: group, number there (collective_seq_id), sizes, state
 *      "coalesced"  closes a group of calls: the entries just before it with the same numbers,
 *                   which are never marked completed themselves
 *
 * Operators, roots and streams are not in the dump: the collectives of a group are treated as one
 * queue, and single sends and receives as one queue per peer. */

#include "capo/call_ids.h"
#include "capo/msg.h"
#include "core/base/among.h"
#include "core/base/calls.h"
#include "core/base/others_file.h"
#include "core/base/xalloc.h"
#include "analysis/hang/foreign.h"

enum {
        MOST_BYTES = 1 << 28, /* of a file; 20,000 calls with their sites are 40 MB */
        FRAMES = 8,
        SETTLED_NS =
                2000000000, /* the recorder checks only at intervals whether calls have ended */
};

/* Consecutive calls of one group, until the entry that closes it. */
struct run {
        uint32_t comm, first;
        json_int_t number;
};

/* A communicator: same name and same ranks in all dumps. */
struct group {
        char *name, *ranks;
        uint32_t member; /* of the dump being read; CAPO_HANG_NONE */
};

struct flight {
        struct capo_hang_foreign to;
        struct group *groups; /* by communicator */
        struct run run;
        uint32_t process;
        uint64_t last_ns;
};

static const char *string_or_empty(const json_t *o)
{
        const char *s = json_string_value(o);

        return s ? s : "";
}

static json_int_t get_integer(const json_t *o, const char *key)
{
        const json_t *v = json_object_get(o, key);

        return json_is_string(v) ? strtoll(json_string_value(v), NULL, 10) : json_integer_value(v);
}

/* ---- words ---- */

static const struct name {
        const char *word; /* begin of the name, without "_" */
        uint8_t call;
} names[] = {
        {"all_reduce", CAPO_CALL_ALLREDUCE},
        {"allreduce", CAPO_CALL_ALLREDUCE},
        {"barrier", CAPO_CALL_ALLREDUCE},
        {"all_gather", CAPO_CALL_ALLGATHER},
        {"allgather", CAPO_CALL_ALLGATHER},
        {"all_to_all", CAPO_CALL_ALLTOALL},
        {"reduce_scatter", CAPO_CALL_REDUCESCATTER},
        {"reduce", CAPO_CALL_REDUCE},
        {"broadcast", CAPO_CALL_BROADCAST},
        {"gather", CAPO_CALL_GATHER},
        {"scatter", CAPO_CALL_SCATTER},
        {"send", CAPO_CALL_SEND},
        {"recv", CAPO_CALL_RECV},
};

/* Parse "nccl:all_reduce". Return: CAPO_CALL_GROUP: the end of a group, or an unknown name. */
static uint8_t call_of(const char *name)
{
        const char *colon = strrchr(name, ':');
        const struct name *known;

        name = colon ? colon + 1 : name;
        name += *name == '_';
        known = FIRST_OF(row, names, N_ELEMENTS(names),
                         !strncasecmp(name, row->word, strlen(row->word)));
        return known ? known->call : CAPO_CALL_GROUP;
}

/* By c10::ScalarType's names. */
static uint8_t type_of(const json_t *types, unsigned *size)
{
        static const struct scalar {
                const char *word;
                uint8_t type, size;
        } known[] = {{"Float8_e4m3", 10, 1}, {"Float8_e5m2", 11, 1}, {"Float", 7, 4},
                     {"BFloat16", 9, 2},     {"Half", 6, 2},         {"Double", 8, 8},
                     {"Long", 4, 8},         {"Int", 2, 4},          {"Byte", 1, 1},
                     {"Char", 0, 1},         {"Bool", 1, 1}};
        const char *word = string_or_empty(json_array_get(types, 0));

        const struct scalar *found = FIRST_OF(row, known, N_ELEMENTS(known),
                                              !strncmp(word, row->word, strlen(row->word)));

        *size = found ? found->size : 1;
        return found ? found->type : UINT8_MAX;
}

static uint64_t count_elements(const json_t *sizes)
{
        uint64_t sum = 0;
        size_t i, k;
        json_t *one, *dim;

        json_array_foreach(sizes, i, one)
        {
                uint64_t n = 1;

                json_array_foreach(one, k, dim)
                {
                        if (__builtin_mul_overflow(n, (uint64_t)json_integer_value(dim), &n))
                                n = 0;
                }
                sum += n;
        }
        return sum;
}

/* The size that must be equal on all ranks; 0: PyTorch allows different ones. */
static uint64_t bytes_of(const json_t *e, uint8_t call, unsigned size)
{
        uint64_t n;

        switch (capo_call_kind(call)) {
        case CAPO_KIND_ALLREDUCE:
        case CAPO_KIND_BROADCAST:
        case CAPO_KIND_REDUCE:
        case CAPO_KIND_ALLGATHER:
        case CAPO_KIND_P2P: break;
        case CAPO_KIND_REDUCESCATTER:
                return count_elements(json_object_get(e, "output_sizes")) * size;
        default: return 0;
        }
        if (strstr(string_or_empty(json_object_get(e, "profiling_name")), "_v"))
                return 0;
        n = count_elements(json_object_get(e, "input_sizes"));
        return (n ? n : count_elements(json_object_get(e, "output_sizes"))) * size;
}

/* The peer in "send 0->3", "recv 1<-?"; -1 not known. */
static int32_t peer_of(const char *name)
{
        const char *p = strrchr(name, strstr(name, "->") ? '>' : '-');
        char *end;
        long n = p ? strtol(p + 1, &end, 10) : -1;

        return p && end != p + 1 && n >= 0 && n < 1 << 24 ? (int32_t)n : -1;
}

static uint16_t site_of(struct flight *f, const json_t *frames)
{
        char *site = NULL;
        json_t *frame;
        size_t i, size = 0;
        FILE *out = json_array_size(frames) ? xmemstream(&site, &size) : NULL;

        if (!out)
                return 0;
        json_array_foreach(frames, i, frame)
        {
                if (i < FRAMES)
                        fprintf(out, "%s%.511s:%lld %.511s", i ? "\n" : "",
                                capo_base_name(string_or_empty(json_object_get(frame, "filename"))),
                                (long long)get_integer(frame, "line"),
                                string_or_empty(json_object_get(frame, "name")));
        }
        xmemclose(out);
        return capo_hang_foreign_site(&f->to, site);
}

/* ---- groups ---- */

/* @config: has "ranks", an array or "[0, 2, 5]"; NULL: the dump does not describe the group. Return: its
 * communicator. */
static uint32_t join_group(struct flight *f, const char *name, const json_t *config)
{
        json_t *given = json_object_get(config, "ranks");
        json_auto_t *ranks = json_is_array(given) ? json_incref(given)
                                                  : json_loads(string_or_empty(given), 0, NULL);
        _cleanup_free_ char *list =
                json_is_array(ranks) ? json_dumps(ranks, JSON_COMPACT) : xstrdup("");
        const char *desc = string_or_empty(json_object_get(config, "desc"));
        uint32_t comm = 0, n = f->to.hang->n_comms;
        int32_t size = (int32_t)json_array_size(ranks), me = f->to.hang->processes[f->process].rank,
                place = size ? -1 : me;

        for (int32_t i = 0; i < size && place < 0; i++)
                place = json_integer_value(json_array_get(ranks, (size_t)i)) == me ? i : -1;
        while (comm < n && (strcmp(f->groups[comm].name, name) != 0 ||
                            strcmp(f->groups[comm].ranks, list) != 0))
                comm++;
        if (comm == n) {
                xarray_room(&f->groups, n, sizeof *f->groups);
                capo_hang_foreign_comm(&f->to,
                                       *desc && strcmp(desc, "undefined") != 0 ? desc : name, 0,
                                       size ? size : -1);
                f->groups[comm] = (struct group){.name = xstrdup(name), .ranks = steal(&list)};
        }
        f->groups[comm].member = capo_hang_foreign_member(&f->to, comm, f->process, place);
        return comm;
}

/* ---- calls ---- */

static uint8_t gpu_of(const json_t *e)
{
        return !strcmp(string_or_empty(json_object_get(e, "state")), "completed")
                       ? CAPO_HANG_GPU_ENDED
                       : CAPO_HANG_GPU_RUNNING;
}

/* The end of a group: its state applies to its calls, which are just before it. */
static void close_group(struct flight *f, const json_t *e, uint32_t comm)
{
        struct capo_hang_process *p = &f->to.hang->processes[f->process];
        json_int_t collective = get_integer(e, "collective_seq_id");
        uint32_t first = p->n_calls;

        if (f->run.comm == comm && f->run.number == get_integer(e, "p2p_seq_id"))
                first = f->run.first;
        else if (p->n_calls && p->calls[p->n_calls - 1].comm == comm &&
                 p->calls[p->n_calls - 1].seq == collective)
                first = p->n_calls - 1;
        for (uint32_t i = first; i < p->n_calls; i++) {
                p->calls[i].gpu = gpu_of(e);
                p->calls[i].stream = comm;
                p->calls[i].group = first + 1;
        }
        f->run.comm = CAPO_HANG_NONE;
}

static void take_entry(struct flight *f, const json_t *e)
{
        const char *group = string_or_empty(json_array_get(json_object_get(e, "process_group"), 0));
        const char *name = string_or_empty(json_object_get(e, "profiling_name"));
        struct capo_hang_process *p = &f->to.hang->processes[f->process];
        struct group *known = FIRST_OF(g, f->groups, f->to.hang->n_comms,
                                       g->member != CAPO_HANG_NONE && !strcmp(g->name, group));
        uint32_t comm = known ? (uint32_t)(known - f->groups) : join_group(f, group, NULL);
        struct capo_hang_call c = {.call = call_of(name),
                                   .peer = -1,
                                   .gpu = gpu_of(e),
                                   .op = UINT8_MAX},
                              *last;
        json_int_t seq = get_integer(e, "collective_seq_id"),
                   ended = get_integer(e, "time_discovered_completed_ns");
        struct capo_hang_member *m;
        unsigned size;

        m = &f->to.hang->comms[comm].members[f->groups[comm].member];
        c.comm = comm;
        c.member = f->groups[comm].member;
        c.begin_ns = (uint64_t)get_integer(e, "time_created_ns");
        c.end_ns = c.begin_ns; /* the host's call has returned, since it is in the dump */
        c.type = type_of(json_object_get(e, "input_dtypes"), &size);
        c.bytes = bytes_of(e, c.call, size);
        f->last_ns = c.begin_ns > f->last_ns ? c.begin_ns : f->last_ns;
        f->last_ns = ended > 0 && (uint64_t)ended > f->last_ns ? (uint64_t)ended : f->last_ns;
        if (capo_call_kind(c.call) == CAPO_KIND_P2P) {
                json_int_t run = get_integer(e, "p2p_seq_id");

                c.peer = peer_of(name);
                c.stream = 1u << 31 | ((comm * 2 + (c.call == CAPO_CALL_SEND)) * 0x9e3779b1u ^
                                       (uint32_t)c.peer);
                if (f->run.comm != comm || f->run.number != run)
                        f->run = (struct run){.comm = comm, .first = p->n_calls, .number = run};
        } else {
                if (seq < 0 || seq >= UINT32_MAX)
                        return;
                m->issued = (uint32_t)seq > m->issued ? (uint32_t)seq : m->issued;
                if (c.call == CAPO_CALL_GROUP) {
                        close_group(f, e, comm);
                        return;
                }
                f->run.comm = CAPO_HANG_NONE;
                c.seq = (uint32_t)seq;
                c.stream = comm;
                last = p->n_calls ? &p->calls[p->n_calls - 1] : NULL;
                if (last && last->comm == comm &&
                    last->seq == c.seq) { /* another call of a group */
                        last->bytes += c.bytes;
                        return;
                }
        }
        c.site = site_of(f, json_object_get(e, "frames"));
        capo_hang_foreign_call(&f->to, f->process, &c);
}

/* ---- dumps ---- */

static void take_dump(struct flight *f, const json_t *dump)
{
        const json_t *entries = json_object_get(dump, "entries");
        /* otherwise the oldest entries were overwritten */
        bool whole = get_integer(json_array_get(entries, 0), "record_id") == 0;
        const char *name;
        json_t *v;
        size_t i;

        f->run.comm = CAPO_HANG_NONE;
        for (i = 0; i < f->to.hang->n_comms; i++)
                f->groups[i].member = CAPO_HANG_NONE;
        json_object_foreach(json_object_get(dump, "pg_config"), name, v) join_group(f, name, v);
        json_array_foreach(entries, i, v) take_entry(f, v);
        for (i = 0; i < f->to.hang->n_comms; i++) {
                if (f->groups[i].member != CAPO_HANG_NONE)
                        f->to.hang->comms[i].members[f->groups[i].member].whole_p2p = whole;
        }
}

/* The last number in the file name. */
static int32_t rank_in(const char *path)
{
        const char *name = capo_base_name(path), *end = name + strlen(name), *begin;

        while (end > name && !isdigit((unsigned char)end[-1]))
                end--;
        for (begin = end; begin > name && isdigit((unsigned char)begin[-1]);)
                begin--;
        return end > begin && end - begin < 9 ? atoi(begin) : -1;
}

static int load_dump(const char *path, json_t **out, uint64_t *written_ns, char *why, size_t room)
{
        char reason[200];
        struct stat st;
        int fd = capo_others_open(path, O_RDONLY, CAPO_ANY_OWNER, &st, reason, sizeof reason);
        _cleanup_fclose_ FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
        json_error_t error;

        if (fd < 0)
                return capo_why(fd, why, room, "%s: %s", path, reason);
        *written_ns = (uint64_t)st.st_mtim.tv_sec * 1000000000 + (uint64_t)st.st_mtim.tv_nsec;
        if (fgetc(file) == 0x80)
                return capo_why(
                        -EINVAL, why, room,
                        "%s is a pickle, which can run programs when it is read; of a file that you trust make JSON: "
                        "python3 -c 'import json, pickle, sys; json.dump(pickle.load(open(sys.argv[1], \"rb\")), "
                        "open(sys.argv[1] + \".json\", \"w\"))' %s",
                        path, path);
        rewind(file);
        *out = st.st_size <= MOST_BYTES ? json_loadf(file, JSON_REJECT_DUPLICATES, &error) : NULL;
        if (json_is_array(json_object_get(*out, "entries")) ||
            json_is_object(json_object_get(*out, "pg_config")))
                return 0;
        return capo_why(-EINVAL, why, room, "%s: %s", path,
                        st.st_size > MOST_BYTES ? "larger than 256 MiB"
                        : *out ? "no dump of PyTorch's flight recorder: it has no entries"
                               : error.text);
}

static int read_dump(struct flight *f, const char *path, uint64_t *written_ns, char *why,
                     size_t room)
{
        json_auto_t *dump = NULL;
        int32_t rank = rank_in(path);
        int r = load_dump(path, &dump, written_ns, why, room);

        if (r < 0)
                return r;
        if (rank < 0)
                return capo_why(-EINVAL, why, room,
                                "%s: its name has no number at its end, which would be the rank",
                                path);
        for (uint32_t i = 0; i < f->to.hang->n_processes; i++) {
                if (f->to.hang->processes[i].rank == rank)
                        return capo_why(-EINVAL, why, room, "%s and %s are both of rank %d",
                                        f->to.job->processes[i].host, path, rank);
        }
        f->process = capo_hang_foreign_process(&f->to, rank, capo_base_name(path), 0);
        take_dump(f, dump);
        return 0;
}

int capo_hang_flight(char *const *paths, size_t n, struct capo_job *job, struct capo_hang_job *out,
                     char *why, size_t room)
{
        struct flight f = {.to = {.job = job, .hang = out}};
        uint64_t first_ns = UINT64_MAX;
        int r = 0;

        for (size_t i = 0; i < n && r == 0; i++) {
                uint64_t written_ns = 0;

                r = read_dump(&f, paths[i], &written_ns, why, room);
                first_ns = written_ns < first_ns ? written_ns : first_ns;
        }
        for (uint32_t i = 0; i < out->n_comms && f.groups; i++) {
                free(f.groups[i].name);
                free(f.groups[i].ranks);
        }
        free(f.groups);
        out->now_ns = first_ns > f.last_ns && first_ns != UINT64_MAX ? first_ns : f.last_ns;
        for (uint32_t i = 0; i < out->n_processes; i++) {
                struct capo_hang_process *p = &out->processes[i];

                p->end_ns = out->now_ns;
                for (uint32_t k = 0; k < p->n_calls; k++) { /* may not be checked yet */
                        if (p->calls[k].gpu == CAPO_HANG_GPU_RUNNING &&
                            p->calls[k].begin_ns + SETTLED_NS > out->now_ns)
                                p->calls[k].gpu = CAPO_HANG_GPU_UNKNOWN;
                }
        }
        return capo_hang_foreign_finish(&f.to, r);
}
