/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <stdbool.h>
#include <strings.h>

#include "core/base/calls.h"
#include "core/base/util.h"

static const struct {
        const char *name;
        enum capo_call_kind kind;
} calls[CAPO_CALLS] = {
        [CAPO_CALL_NONE] = {"?", CAPO_KIND_OTHER},
#define CAPO_CALL(id, name, kind) [CAPO_CALL_##id] = {name, CAPO_KIND_##kind},
#include "capo/calls.def"
#undef CAPO_CALL
};

static const char *const algos[CAPO_ALGOS] = {"-",    "Tree",     "Ring", "CollNetDirect", "CollNetChain",
                                              "NVLS", "NVLSTree", "PAT"};
static const char *const protos[CAPO_PROTOS] = {"-", "LL", "LL128", "Simple"};
static const char *const clocks[CAPO_CLOCKS] = {"none", "host", "event", "kernel"};

/* nccl.h: ncclDataType_t 0..11, ncclRedOp_t 0..4 */
static const struct {
        const char *name;
        unsigned size;
} types[] = {{"int8", 1}, {"uint8", 1}, {"int32", 4},  {"uint32", 4},   {"int64", 8},  {"uint64", 8},
             {"half", 2}, {"float", 4}, {"double", 8}, {"bfloat16", 2}, {"f8e4m3", 1}, {"f8e5m2", 1}};
static const char *const ops[] = {"sum", "prod", "max", "min", "avg"};

/* Equal but for case and the separators people put into these words. */
static bool same_word(const char *a, const char *b)
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

static unsigned find(const char *const *names, unsigned n, const char *name)
{
        for (unsigned i = 1; i < n; i++) {
                if (same_word(names[i], name))
                        return i;
        }
        return 0;
}

const char *capo_call_name(unsigned call)
{
        return calls[call < CAPO_CALLS ? call : 0].name;
}

enum capo_call_kind capo_call_kind(unsigned call)
{
        return calls[call < CAPO_CALLS ? call : 0].kind;
}

enum capo_call_id capo_call_find(const char *name)
{
        if (!strncasecmp(name, "nccl", 4))
                name += 4;
        for (unsigned i = 1; i < CAPO_CALLS; i++) {
                if (same_word(calls[i].name, name))
                        return i;
        }
        return CAPO_CALL_NONE;
}

const char *capo_algo_name(unsigned algo)
{
        return algos[algo < CAPO_ALGOS ? algo : 0];
}

const char *capo_proto_name(unsigned proto)
{
        return protos[proto < CAPO_PROTOS ? proto : 0];
}

enum capo_algo capo_algo_find(const char *name)
{
        return find(algos, CAPO_ALGOS, name);
}

enum capo_proto capo_proto_find(const char *name)
{
        return find(protos, CAPO_PROTOS, name);
}

const char *capo_clock_name(unsigned clock)
{
        return clocks[clock < CAPO_CLOCKS ? clock : 0];
}

unsigned capo_type_size(unsigned type)
{
        return type < N_ELEMENTS(types) ? types[type].size : 0;
}

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
