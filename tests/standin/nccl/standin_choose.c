/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost model and the choice. As in NCCL, a table of predicted microseconds per (algorithm,
 * protocol) is filled, a tuner may change it, and the smallest entry wins; -1 is "not available".
 *
 *     time = base + hops * hop latency + bytes on the busiest rank's links / bandwidth
 *
 * Hops: ring 2(n-1) for all-reduce, n-1 otherwise; tree 2 ceil(log2 n). Bytes: ring 2(n-1)/n resp.
 * (n-1)/n of the size; a chain (broadcast, reduce) the size; the tree's root takes in n-1 inputs
 * and sends log2 n results. The constants are round numbers in the region of what shm and loopback
 * tcp do on a few-core machine. They are not fitted to the machine at hand, on purpose: a real
 * model is wrong in places too, and finding where is what a tuner is for.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "std.h"

const char *const algo_names[N_ALGOS] = {
        "TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT"};
const char *const proto_names[N_PROTOS] = {"LL", "LL128", "SIMPLE"};
const char *const func_names[N_FUNCS] = {"Broadcast", "Reduce",   "AllGather", "ReduceScatter",
                                         "AllReduce", "SendRecv", "Send",      "Recv",
                                         "AlltoAll",  "Scatter",  "Gather",    "AllGatherV",
                                         "PutSignal", "Signal",   "WaitSignal"};

enum { SHM = 0, TCP = 2 }; /* rows of hw_lat: NCCL's NVLink and NET */

static const struct {
        double base_lat, shm_hop, tcp_hop; /* us */
} latency[2][N_PROTOS] = {
        [ALGO_TREE] = {[PROTO_LL] = {20, 8, 30}, [PROTO_SIMPLE] = {25, 25, 90}},
        [ALGO_RING] = {[PROTO_LL] = {20, 8, 30}, [PROTO_SIMPLE] = {25, 25, 90}},
};
static const double bandwidth_gbs[3] = {[SHM] = 2.0, [TCP] = 0.8}; /* Simple, one rank's link */
static const double ll_share = 0.4;           /* LL copies twice and sends 4 KiB at a time */
static const size_t channel_bytes = 1u << 20; /* a further channel for each of these */

/* The names NCCL_ALGO and NCCL_PROTO know, without '_' and in any case. */
static int find(const char *word, size_t n, const char *const *names, int count)
{
        for (int i = 0; i < count; i++) {
                const char *p = names[i];
                size_t k = 0;

                for (; *p; p++)
                        if (*p != '_') {
                                if (k >= n || strncasecmp(p, word + k, 1))
                                        break;
                                k++;
                        }
                if (!*p && k == n)
                        return i;
        }
        return -1;
}

/*
 * "ring,tree", "^ll128", and from 2.24 on "ring;allreduce:tree;broadcast:^ll". keep[function][item]
 * is cleared for what is excluded. Returns false for a word nobody knows.
 */
static bool parse_list(const char *text, const char *const *names, int count, bool keep[5][8])
{
        for (const char *p = text; *p;) {
                size_t n = strcspn(p, ";"), colon = strcspn(p, ":");
                int fn = -1;
                const char *q = p, *end = p + n;
                bool listed[8] = {false}, invert;

                if (colon < n) {
                        fn = find(p, colon, func_names, 5);
                        if (fn < 0)
                                return false;
                        q = p + colon + 1;
                }
                invert = *q == '^';
                q += invert;
                while (q < end) {
                        size_t w = strcspn(q, ",;");
                        int item = find(q, w, names, count);

                        if (item < 0) {
                                if (std_version() >= 22400)
                                        return false;
                        } else {
                                listed[item] = true;
                        }
                        q += w;
                        q += *q == ',';
                }
                for (int f = 0; f < 5; f++)
                        for (int i = 0; i < count && (fn < 0 || f == fn); i++)
                                keep[f][i] = listed[i] != invert;
                p = end + (*end == ';');
        }
        return true;
}

ncclResult_t model_init(struct comm *comm)
{
        const char *algo = getenv("NCCL_ALGO"), *proto = getenv("NCCL_PROTO");
        bool keep_algo[5][8], keep_proto[5][8];
        struct tuner_constants *c = &comm->constants;

        memset(keep_algo, 1, sizeof keep_algo);
        memset(keep_proto, 1, sizeof keep_proto);
        comm->env_restricts = (algo && *algo) || (proto && *proto);
        if (algo && !parse_list(algo, algo_names, N_ALGOS, keep_algo))
                return fail(comm, ncclInvalidUsage, "NCCL_ALGO=%s: unknown algorithm or function",
                            algo);
        if (proto && !parse_list(proto, proto_names, N_PROTOS, keep_proto))
                return fail(comm, ncclInvalidUsage, "NCCL_PROTO=%s: unknown protocol or function",
                            proto);
        for (int f = 0; f < 5; f++)
                for (int a = 0; a < N_ALGOS; a++)
                        for (int p = 0; p < N_PROTOS; p++)
                                comm->allowed[f][a][p] =
                                        keep_algo[f][a] && keep_proto[f][p] && p != PROTO_LL128 &&
                                        (a == ALGO_RING || (a == ALGO_TREE && f == FN_ALLREDUCE));
        for (int a = 0; a < 2; a++)
                for (int p = 0; p < N_PROTOS; p++) {
                        c->base_lat[a][p] = latency[a][p].base_lat;
                        c->hw_lat[SHM][a][p] = c->hw_lat[1][a][p] = latency[a][p].shm_hop;
                        c->hw_lat[TCP][a][p] = latency[a][p].tcp_hop;
                }
        for (int i = 0; i < 4; i++)
                for (int scale = 0; scale < 3; scale++) {
                        double bw = bandwidth_gbs[scale ? TCP : SHM];

                        c->ll_max_bw[i][scale] = ll_share * bw;
                        c->tree_bw[i][scale] = bw;
                }
        return ncclSuccess;
}

static float predict(const struct comm *comm, enum func fn, size_t bytes, int algo, int proto,
                     int pipe_ops)
{
        const struct tuner_constants *c = &comm->constants;
        int n = comm->n, type = comm->n_nodes > 1 ? TCP : SHM,
            scale = comm->n_nodes > 2 ? 2 : comm->n_nodes - 1;
        double depth = ceil(log2(n)), bw = bandwidth_gbs[type], hops, factor;

        if (algo == ALGO_TREE) {
                hops = 2 * depth;
                factor = n - 1 + depth;
                bw = c->tree_bw[0][scale] < bw ? c->tree_bw[0][scale] : bw;
        } else {
                hops = fn == FN_ALLREDUCE ? 2 * (n - 1) : n - 1;
                factor = fn == FN_ALLREDUCE                             ? 2.0 * (n - 1) / n
                         : fn == FN_ALLGATHER || fn == FN_REDUCESCATTER ? (double)(n - 1) / n
                                                                        : 1;
        }
        if (proto == PROTO_LL)
                bw = c->ll_max_bw[0][scale];
        return (float)((c->base_lat[algo][proto] + hops * c->hw_lat[type][algo][proto]) * pipe_ops +
                       (double)bytes * factor / (1000 * bw));
}

/* NCCL's own number of channels: enough work for each, and no more threads of this host's ranks
 * than cores. */
static int own_channels(const struct comm *comm, size_t bytes)
{
        long cores = sysconf(_SC_NPROCESSORS_ONLN) / comm->max_local;
        size_t n = bytes / channel_bytes;

        if (n > (size_t)(cores < 1 ? 1 : cores))
                n = (size_t)(cores < 1 ? 1 : cores);
        if (n > (size_t)comm->n_channels)
                n = (size_t)comm->n_channels;
        return n ? (int)n : 1;
}

/* Fewer channels than asked when each would have less than this: 512 B, since 2.23 16 KiB,
 * since 2.29 32 KiB. */
static size_t smallest_share(void)
{
        return std_version() >= 22900 ? 32768 : std_version() >= 22304 ? 16384 : 512;
}

/* What a lone call gives its first channel, as reported to a tuner: whole cells of 32 KiB of
 * traffic (enqueue.cc, 2.30). */
static size_t first_share(const struct comm *comm, enum func fn, size_t bytes, int proto,
                          int channels)
{
        size_t ranks = fn == FN_ALLGATHER || fn == FN_REDUCESCATTER ? (size_t)comm->n : 1,
               own = bytes / ranks;
        size_t traffic = (fn == FN_ALLREDUCE ? 2 : ranks) * (proto == PROTO_LL ? 4 : 1);
        size_t cell = ((32768 + traffic - 1) / traffic + 15) / 16 * 16, n = (size_t)channels;
        size_t each = ((own * traffic + n - 1) / n + 15) / 16 * 16,
               cells = (each + cell * traffic - 1) / (cell * traffic);

        return (channels == 1 || cells * cell > own ? own : cells * cell) * ranks;
}

ncclResult_t choose(struct comm *comm, struct task *tasks, int n, int pipe_ops, float *us)
{
        /* From 2.29.2 on the scan starts at FLT_MAX; before, entries of 3.6e9 us and more were
         * unusable. */
        float table[N_ALGOS][N_PROTOS], best = std_version() >= 22902 ? 3.4e38f : 3600000000.0f;
        enum func fn = tasks[0].fn;
        int algo = -1, proto = -1, channels = 0, asked = 0;
        size_t bytes = 0, chunk = SIMPLE_CHUNK;
        ncclResult_t r = ncclSuccess;
        const struct how *how = &tasks[0].how;
        bool left = false;

        if (sym_choose(comm, tasks, n)) {
                *us = 1;
                return ncclSuccess;
        }
        for (int i = 0; i < n; i++)
                bytes += tasks[i].bytes;
        for (int a = 0; a < N_ALGOS; a++)
                for (int p = 0; p < N_PROTOS; p++)
                        table[a][p] = comm->allowed[fn][a][p]
                                              ? predict(comm, fn, bytes, a, p, pipe_ops)
                                              : -1.0f;
        for (int a = 0; a < N_ALGOS; a++)
                for (int p = 0; p < N_PROTOS; p++)
                        left |= table[a][p] >= 0 && !how->leave_out[a][p];
        if (!left && how->force)
                return fail(comm, ncclInvalidArgument, "%s: nothing of algSelection is available",
                            func_names[fn]);
        for (int a = 0; a < N_ALGOS && left; a++)
                for (int p = 0; p < N_PROTOS; p++)
                        if (how->leave_out[a][p])
                                table[a][p] = -1.0f;
        if (comm->tuned) {
                tuner_ask(comm, fn, bytes, pipe_ops, &table[0][0], 0, &asked, &r);
                if (r)
                        return r;
        }
        for (int a = 0; a < N_ALGOS; a++)
                for (int p = 0; p < N_PROTOS; p++)
                        if (table[a][p] != -1.0f && table[a][p] >= 0.0f && table[a][p] < best) {
                                best = table[a][p];
                                algo = a;
                                proto = p;
                        }
        if (algo < 0)
                return fail(comm, comm->env_restricts ? ncclInvalidUsage : ncclInternalError,
                            "%s: no algorithm and protocol is available%s", func_names[fn],
                            comm->env_restricts ? "; NCCL_ALGO or NCCL_PROTO excludes them all"
                                                : "");
        if (proto == PROTO_LL128 || algo > ALGO_RING || (algo == ALGO_TREE && fn != FN_ALLREDUCE))
                return fail(comm, ncclInternalError,
                            "%s: a tuner chose %s %s, which was not available", func_names[fn],
                            algo_names[algo], proto_names[proto]);
        channels = own_channels(comm, bytes);
        if (asked) {
                int8_t field = (int8_t)asked; /* an 8-bit field in NCCL */

                if (field <= 0)
                        return fail(comm, ncclInternalError, "a tuner asked for %d channels",
                                    asked);
                channels = field < comm->n_channels ? field : comm->n_channels;
                while (channels > 1 && bytes / (size_t)channels < smallest_share())
                        channels--;
        }
        if (how->min_channels && channels < how->min_channels)
                channels =
                        how->min_channels < comm->n_channels ? how->min_channels : comm->n_channels;
        if (how->max_channels && channels > how->max_channels)
                channels = how->max_channels;
        if (proto == PROTO_SIMPLE && comm->tuned) {
                chunk = tuner_chunk(comm, fn, first_share(comm, fn, bytes, proto, channels), algo,
                                    proto, chunk, &r);
                if (r)
                        return r;
                chunk = (chunk < MAX_CHUNK ? chunk : MAX_CHUNK) / 512 * 512;
                if (!chunk)
                        return fail(comm, ncclInternalError,
                                    "a tuner asked for chunks of less than 512 bytes");
                if (chunk != SIMPLE_CHUNK && comm->rank == 0)
                        INFO(SUB_TUNING, "%s: %zu Bytes, chunks of %zu as the tuner says",
                             func_names[fn], bytes, chunk);
        }
        for (int i = 0; i < n; i++) {
                tasks[i].algo = algo;
                tasks[i].proto = proto;
                tasks[i].channels = channels;
                tasks[i].chunk = chunk;
        }
        if (comm->rank == 0)
                INFO(SUB_TUNING, "%s: %zu Bytes -> Algo %s proto %s channel{Lo..Hi}={%d..%d}",
                     func_names[fn], bytes, algo_names[algo], proto_names[proto], 0, channels - 1);
        *us = best;
        return ncclSuccess;
}
