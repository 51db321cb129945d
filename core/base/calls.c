/* SPDX-License-Identifier: Apache-2.0 */

#include "capo/algorithms.h"
#include "capo/kernels.h"
#include "capo/call_ids.h"
#include "capo/collectives.h"
#include "core/base/calls.h"
#include "core/base/text.h"

static const struct {
        const char *name;
        enum capo_call_kind kind;
} calls[CAPO_CALLS] = {
        [CAPO_CALL_NONE] = {"?", CAPO_KIND_OTHER},
#define CAPO_CALL(id, name, kind) [CAPO_CALL_##id] = {name, CAPO_KIND_##kind},
#include "capo/calls.def"
};

#define IN(coll) (1u << CAPO_COLL_##coll)

enum {
        ANY_PROTO = (1 << CAPO_PROTOS) - 1,
        SIMPLE = 1 << CAPO_PROTO_SIMPLE,
        EVERY = (1 << CAPO_COLLS) - 1
};

static const struct {
        const char *name, *word;
        uint8_t protos, colls; /* bits: enum capo_proto, capo_coll */
} algos[CAPO_ALGOS] = {
        [CAPO_ALGO_UNKNOWN] = {"-", "", ANY_PROTO, EVERY},
#define CAPO_ALGO(id, name, word, short_word, since, protos, colls) \
        [CAPO_ALGO_##id] = {name, word, protos, colls},
#include "capo/algorithms.def"
};

static const struct {
        const char *name, *word;
        unsigned grain;
} protos[CAPO_PROTOS] = {
        [CAPO_PROTO_UNKNOWN] = {"-", "", 0},
#define CAPO_PROTO(id, name, word, grain) [CAPO_PROTO_##id] = {name, word, grain},
#include "capo/protocols.def"
};

static const struct {
        uint8_t number;
        const char *algo, *proto;
} kernels[] = {
#define CAPO_KERNEL(id, number, algo, proto) {number, algo, proto},
#include "capo/kernels.def"
};

static const struct {
        const char *word;
        enum capo_call_id call;
        enum capo_call_kind kind;
} colls[CAPO_COLLS] = {
#define CAPO_COLL(id, word, ...) [CAPO_COLL_##id] = {word, CAPO_CALL_##id, CAPO_KIND_##id},
#include "capo/collectives.def"
};

static const enum capo_coll coll_at[CAPO_COLLS] = {
#define CAPO_COLL(id, word, long_word, place, size) [place] = CAPO_COLL_##id,
#include "capo/collectives.def"
};

static const char *const clocks[CAPO_CLOCKS] = {"none", "host", "event", "kernel"};

/* nccl_release.h: ncclDataType_t 0..11, ncclRedOp_t 0..4 */
static const struct {
        const char *name;
        unsigned size;
} types[] = {{"int8", 1},   {"uint8", 1},    {"int32", 4},  {"uint32", 4},
             {"int64", 8},  {"uint64", 8},   {"half", 2},   {"float", 4},
             {"double", 8}, {"bfloat16", 2}, {"f8e4m3", 1}, {"f8e5m2", 1}};
static const char *const ops[] = {"sum", "prod", "max", "min", "avg"};

bool capo_word_same(const char *a, const char *b)
{
        for (;; a++, b++) {
                while (*a == '_' || *a == '-')
                        a++;
                while (*b == '_' || *b == '-')
                        b++;
                if (tolower((unsigned char)*a) != tolower((unsigned char)*b))
                        return false;
                if (!*a)
                        return true;
        }
}

const char *capo_call_name(unsigned call) { return calls[call < CAPO_CALLS ? call : 0].name; }

enum capo_call_kind capo_call_kind(unsigned call)
{
        return calls[call < CAPO_CALLS ? call : 0].kind;
}

/* Without a default: the compiler names the kind that is missing here. */
bool capo_call_is_collective(unsigned call)
{
        switch (capo_call_kind(call)) {
        case CAPO_KIND_ALLREDUCE:
        case CAPO_KIND_BROADCAST:
        case CAPO_KIND_REDUCE:
        case CAPO_KIND_ALLGATHER:
        case CAPO_KIND_REDUCESCATTER:
        case CAPO_KIND_ALLTOALL:
        case CAPO_KIND_GATHER:
        case CAPO_KIND_SCATTER:
        case CAPO_KIND_EXCHANGE: return true;
        case CAPO_KIND_OTHER:
        case CAPO_KIND_P2P:
        case CAPO_KIND_RMA:
        case CAPO_KIND_GROUP: return false;
        }
        return false;
}

/* The row of @table, whose rows begin with their names, that has @name; 0, which is none: no row. */
static unsigned find_name(const void *table, size_t row, size_t n, const char *name)
{
        for (size_t i = 1; i < n; i++) {
                if (capo_word_same(*(const char *const *)((const char *)table + i * row), name))
                        return (unsigned)i;
        }
        return 0;
}
#define FIND(table, name) find_name(table, sizeof *(table), N_ELEMENTS(table), name)

unsigned capo_call_find(const char *name)
{
        return FIND(calls, strncasecmp(name, "nccl", 4) ? name : name + 4);
}

const char *capo_algo_name(unsigned algo) { return algos[algo < CAPO_ALGOS ? algo : 0].name; }

const char *capo_algo_word(unsigned algo) { return algos[algo < CAPO_ALGOS ? algo : 0].word; }

const char *capo_proto_name(unsigned proto) { return protos[proto < CAPO_PROTOS ? proto : 0].name; }

const char *capo_proto_word(unsigned proto) { return protos[proto < CAPO_PROTOS ? proto : 0].word; }

unsigned capo_proto_grain(unsigned proto) { return protos[proto < CAPO_PROTOS ? proto : 0].grain; }

static int kernel_of(unsigned algo_proto)
{
        for (size_t i = 0; capo_ran_beside(algo_proto) && i < N_ELEMENTS(kernels); i++) {
                if (kernels[i].number == algo_proto)
                        return (int)i;
        }
        return -1;
}

const char *capo_ran_algo(unsigned algo_proto)
{
        int kernel = kernel_of(algo_proto);

        return kernel < 0 ? capo_algo_name(algo_proto >> 4) : kernels[kernel].algo;
}

const char *capo_ran_proto(unsigned algo_proto)
{
        int kernel = kernel_of(algo_proto);

        return kernel >= 0                   ? kernels[kernel].proto
               : capo_ran_beside(algo_proto) ? "-"
                                             : capo_proto_name(algo_proto & 15);
}

bool capo_ran_half(unsigned algo_proto) { return algo_proto == CAPO_KERNEL_EP_SENT; }

unsigned capo_symk_find(const char *name)
{
        static const char *const before[] = {"AllReduce_", "AllGather_", "ReduceScatter_"};

        for (size_t i = 0; name && i < N_ELEMENTS(before); i++) {
                if (!strncmp(name, before[i], strlen(before[i])))
                        name += strlen(before[i]);
        }
        for (size_t i = 0; name && i < N_ELEMENTS(kernels); i++) {
                if (kernels[i].number > CAPO_KERNEL_SYMK && !strcmp(kernels[i].proto, name))
                        return kernels[i].number;
        }
        return CAPO_KERNEL_SYMK;
}

unsigned capo_algo_find(const char *name) { return FIND(algos, name); }

unsigned capo_proto_find(const char *name) { return FIND(protos, name); }

bool capo_pair_offered(unsigned coll, unsigned algo, unsigned proto)
{
        return algo < CAPO_ALGOS && proto < CAPO_PROTOS && algos[algo].colls >> coll & 1 &&
               algos[algo].protos >> proto & 1;
}

/* @word(i) for i from @first to @end - 1. */
static char *join_words(const char *(*word)(unsigned i), unsigned first, unsigned end,
                        const char *last, char *text, size_t room)
{
        *text = 0;
        for (unsigned i = first; i < end; i++)
                capo_append(text, room, "%s%s",
                            i == first     ? ""
                            : i + 1 == end ? last
                                           : ", ",
                            word(i));
        return text;
}

static const char *coll_word_at(unsigned place) { return colls[coll_at[place]].word; }

char *capo_algo_words(const char *last, char *text, size_t room)
{
        return join_words(capo_algo_word, 1, CAPO_ALGOS, last, text, room);
}

char *capo_proto_words(const char *last, char *text, size_t room)
{
        return join_words(capo_proto_word, 1, CAPO_PROTOS, last, text, room);
}

char *capo_coll_words(const char *last, char *text, size_t room)
{
        return join_words(coll_word_at, 0, CAPO_COLLS, last, text, room);
}

const char *capo_coll_word(unsigned coll) { return colls[coll].word; }

int capo_coll_find(const char *word) { return capo_coll_of_call(capo_call_find(word)); }

int capo_coll_of_call(unsigned call)
{
        if (call == CAPO_CALL_BCAST)
                return CAPO_COLL_BROADCAST;
        for (int i = 0; i < CAPO_COLLS; i++) {
                if (colls[i].call == call)
                        return i;
        }
        return -1;
}

unsigned capo_coll_call(unsigned coll) { return colls[coll].call; }

enum capo_call_kind capo_coll_kind(unsigned coll) { return colls[coll].kind; }

unsigned capo_coll_at(unsigned place) { return coll_at[place]; }

const char *capo_clock_name(unsigned clock) { return clocks[clock < CAPO_CLOCKS ? clock : 0]; }

unsigned capo_type_size(unsigned type) { return type < N_ELEMENTS(types) ? types[type].size : 0; }

const char *capo_type_name(unsigned type)
{
        return type < N_ELEMENTS(types) ? types[type].name : "none";
}

const char *capo_op_name(unsigned op)
{
        return op < N_ELEMENTS(ops) ? ops[op] : op == 254 ? "user" : "none";
}

double capo_busbw_factor(enum capo_call_kind kind, unsigned n_ranks)
{
        double n = n_ranks;

        switch (kind) {
        case CAPO_KIND_ALLREDUCE: return n_ranks > 1 ? 2 * (n - 1) / n : 0;
        case CAPO_KIND_ALLGATHER:
        case CAPO_KIND_REDUCESCATTER:
        case CAPO_KIND_ALLTOALL:
        case CAPO_KIND_GATHER:
        case CAPO_KIND_SCATTER: return n_ranks > 1 ? (n - 1) / n : 0;
        default: return 1;
        }
}
