/* SPDX-License-Identifier: Apache-2.0 */
/*
 * moe_play SCRIPT: one rank (RANK, WORLD_SIZE, LOCAL_RANK) of a job that uses NCCL EP and NCCL M2N. The id of the
 * communicator goes by a file beside the script. Each line is WHO WORD ARGS; WHO is *, 0,2 or !1.
 *
 *      split RANKS              ncclCommSplit of the world: those ranks are part0, the others part1
 *      group ll|ht EXPERTS TOKENS HIDDEN TIMEOUT_MS MASK [part]      ncclEpCreateGroup, next number (TIMEOUT_MS 0: the default)
 *      handle G                 ncclEpInitHandle, next number
 *      update H                 ncclEpUpdateHandle
 *      dispatch H [staged]      ncclEpDispatch        combine H [staged]      ncclEpCombine
 *      complete H               ncclEpComplete
 *      poll G STATUS            ncclEpGetAsyncError; exits with STATUS if there is one
 *      forgive G                ncclEpGetAsyncError and, if there is one, ncclEpErrorClear
 *      m2n                      ncclM2nInit
 *      reshard ROWS [columns]   ncclReshard: rows of the first half of the ranks to the second half, there cut by rows or by columns
 *      coll N [part|second]     ncclAllReduce of N floats: of the world, of the part, of the world on the second stream
 *      delay MS                 the stream needs MS        sync [second]        wait for the stream
 *      sleep MS | pause | exit STATUS | signal N (to itself) | mark | loop N ... done | forever ... done
 *
 * where.RANK (text, written before each step): number of the line, the line, calls made: dispatches, combines,
 * completes, reshards, all-reduces, turns of `forever`.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cuda.h>
#include <nccl.h>
#include <nccl_ep.h>
#include <nccl_m2n.h>

enum { LINES = 200, GROUPS = 4, HANDLES = 4, TOPK = 2 };

struct array {
        ncclEpTensor_t tensor;
        size_t sizes[3], bytes;
};

struct handle {
        ncclEpHandle_t handle;
        int group;
        struct array in, out, sent, combined, idx, weights, got_weights, got_idx, counters;
};

static struct {
        ncclEpGroup_t group;
        bool ht;
        int experts, tokens, hidden, n;
} groups[GROUPS];
static struct handle handles[HANDLES];
static char lines[LINES][96], folder[400];
static int n_lines, n_groups, n_handles, rank, size;
static long n_dispatch, n_combine, n_complete, n_reshard, n_coll, turns;
static ncclComm_t comm, part;
static ncclM2nHandle_t m2n;
static CUstream stream, second;
static CUdeviceptr floats, tile;

#define CHECK(call)                                                            \
        do {                                                                   \
                int r_ = (int)(call);                                          \
                if (r_) {                                                      \
                        fprintf(stderr, "rank %d: %s: %d\n", rank, #call, r_); \
                        exit(1);                                               \
                }                                                              \
        } while (0)
#define HEAD(type) .size = sizeof(type), .magic = NCCL_EP_MAGIC

static void write_file(const char *name, int number, const void *data, size_t bytes)
{
        char path[500], part[520];
        FILE *f;

        snprintf(path, sizeof path, "%s/%s.%d", folder, name, number);
        snprintf(part, sizeof part, "%s.part", path);
        f = fopen(part, "w");
        if (!f)
                return;
        fwrite(data, 1, bytes, f);
        fclose(f);
        rename(part, path);
}

static void tell(int line)
{
        char text[300];
        int n = snprintf(text, sizeof text, "%d|%s|%ld %ld %ld %ld %ld %ld\n", line, lines[line],
                         n_dispatch, n_combine, n_complete, n_reshard, n_coll, turns);

        write_file("where", rank, text, (size_t)n);
}

static void make(struct array *a, ncclDataType_t type, size_t element, unsigned ndim, size_t x,
                 size_t y, size_t z)
{
        CUdeviceptr data;

        a->sizes[0] = x;
        a->sizes[1] = y;
        a->sizes[2] = z;
        a->bytes = x * (ndim > 1 ? y : 1) * (ndim > 2 ? z : 1) * element;
        CHECK(cuMemAlloc(&data, a->bytes));
        CHECK(cuMemsetD32(data, 0, a->bytes / 4));
        a->tensor = (ncclEpTensor_t){.size = sizeof a->tensor,
                                     .magic = NCCL_EP_TENSOR_MAGIC,
                                     .ndim = ndim,
                                     .datatype = type,
                                     .data = (void *)data,
                                     .sizes = a->sizes};
}

static void make_group(char **w, int n)
{
        ncclEpGroupConfig_t config = {HEAD(ncclEpGroupConfig_t), .version = NCCL_EP_API_VERSION};
        int g = n_groups++;
        ncclComm_t of = n > 6 && !strcmp(w[6], "part") ? part : comm;

        groups[g].ht = !strcmp(w[0], "ht");
        groups[g].experts = atoi(w[1]);
        groups[g].tokens = atoi(w[2]);
        groups[g].hidden = atoi(w[3]);
        CHECK(ncclCommCount(of, &groups[g].n));
        config.algorithm = groups[g].ht ? NCCL_EP_ALGO_HIGH_THROUGHPUT : NCCL_EP_ALGO_LOW_LATENCY;
        config.num_experts = (unsigned)groups[g].experts;
        config.max_dispatch_tokens_per_rank = (unsigned)groups[g].tokens;
        config.max_recv_tokens_per_rank =
                groups[g].ht ? (unsigned)(groups[g].tokens * groups[g].n) : 0;
        config.max_token_bytes = (unsigned)groups[g].hidden * 2;
        config.timeout_ns = (uint64_t)atol(w[4]) * 1000000u;
        config.enable_mask = (unsigned)(n > 5 && atoi(w[5]));
        CHECK(ncclEpCreateGroup(&groups[g].group, of, &config));
}

static void make_handle(int g)
{
        struct handle *h = &handles[n_handles++];
        size_t tokens = (size_t)groups[g].tokens, rows = tokens * (size_t)groups[g].n,
               hidden = (size_t)groups[g].hidden;
        size_t local = (size_t)(groups[g].experts / groups[g].n);
        int64_t *choice;

        h->group = g;
        make(&h->in, ncclBfloat16, 2, 2, tokens, hidden, 0);
        make(&h->combined, ncclBfloat16, 2, 2, tokens, hidden, 0);
        make(&h->idx, ncclInt64, 8, 2, tokens, TOPK, 0);
        make(&h->weights, ncclFloat32, 4, 2, tokens, TOPK, 0);
        make(&h->got_weights, ncclFloat32, 4, 2, rows, TOPK, 0);
        make(&h->got_idx, ncclInt64, 8, 2, rows, TOPK, 0);
        make(&h->counters, ncclInt32, 4, 1, local, 0, 0);
        for (int i = 0; i < 2; i++) {
                struct array *a = i ? &h->sent : &h->out;

                if (groups[g].ht)
                        make(a, ncclBfloat16, 2, 2, rows, hidden, 0);
                else
                        make(a, ncclBfloat16, 2, 3, local, rows, hidden);
        }
        choice = malloc(h->idx.bytes);
        for (size_t t = 0; t < tokens; t++) {
                for (int k = 0; k < TOPK; k++)
                        choice[t * TOPK + (size_t)k] =
                                (int64_t)((t + (size_t)rank + (size_t)k * 3) %
                                          (size_t)groups[g].experts);
        }
        CHECK(cuMemcpyHtoD((CUdeviceptr)h->idx.tensor.data, choice, h->idx.bytes));
        free(choice);
        CHECK(ncclEpInitHandle(&h->handle, groups[g].group,
                               groups[g].ht ? NCCL_EP_LAYOUT_FLAT : NCCL_EP_LAYOUT_EXPERT_MAJOR,
                               NULL, TOPK, NULL));
}

static void dispatch(struct handle *h, bool staged)
{
        bool ht = groups[h->group].ht;
        ncclEpLayoutInfo_t info = {HEAD(ncclEpLayoutInfo_t),
                                   .expert_counters = &h->counters.tensor};
        ncclEpDispatchInputs_t from = {HEAD(ncclEpDispatchInputs_t), .tokens = &h->in.tensor};
        ncclEpDispatchOutputs_t to = {HEAD(ncclEpDispatchOutputs_t), .tokens = &h->out.tensor};
        ncclEpDispatchConfig_t how = {HEAD(ncclEpDispatchConfig_t), .send_only = staged};

        if (ht) {
                from.topk_weights = &h->weights.tensor;
                to.topk_weights = &h->got_weights.tensor;
                to.topk_idx = &h->got_idx.tensor;
        }
        n_dispatch++;
        CHECK(ncclEpDispatch(h->handle, &from, &to, ht ? NULL : &info, &how, stream));
}

static void combine(struct handle *h, bool staged)
{
        ncclEpCombineInputs_t back = {HEAD(ncclEpCombineInputs_t), .tokens = &h->sent.tensor};
        ncclEpCombineOutputs_t home = {HEAD(ncclEpCombineOutputs_t), .tokens = &h->combined.tensor};
        ncclEpCombineConfig_t how = {HEAD(ncclEpCombineConfig_t), .send_only = staged};

        if (!groups[h->group].ht)
                home.topk_weights = &h->weights.tensor;
        n_combine++;
        CHECK(ncclEpCombine(h->handle, &back, &home, &how, stream));
}

/* The first half of the ranks holds the rows, cut by rank; the second half gets them, cut by rows or by columns. */
static void reshard(size_t rows, bool columns)
{
        int half = size / 2, from_dims[1] = {half}, to_dims[1] = {size - half}, cut[1] = {0},
            to_cut[1] = {columns};
        size_t from_shape[2] = {rows / (size_t)half, 64},
               to_shape[2] = {columns ? rows : rows / (size_t)(size - half),
                              columns ? 64 / (size_t)(size - half) : 64};
        ncclMesh_t from_mesh = {sizeof from_mesh, NCCL_M2N_API_VERSION, 1, from_dims, 0};
        ncclMesh_t to_mesh = {sizeof to_mesh, NCCL_M2N_API_VERSION, 1, to_dims, half};
        ncclDistTensor_t from = {sizeof from,
                                 NCCL_M2N_API_VERSION,
                                 rank < half ? (void *)tile : NULL,
                                 from_shape,
                                 2,
                                 ncclFloat,
                                 &from_mesh,
                                 cut};
        ncclDistTensor_t to = {sizeof to,
                               NCCL_M2N_API_VERSION,
                               rank < half ? NULL : (void *)tile,
                               to_shape,
                               2,
                               ncclFloat,
                               &to_mesh,
                               to_cut};

        n_reshard++;
        CHECK(ncclReshard(m2n, comm, &from, &to, stream));
}

static void sleep_then_go_on(void *ms) { usleep((useconds_t)(long)ms * 1000); }

static bool mine(const char *who)
{
        bool not = *who == '!', found = false;
        char text[64], *save = NULL;

        if (*who == '*')
                return true;
        snprintf(text, sizeof text, "%s", who + not );
        for (char *p = strtok_r(text, ",", &save); p; p = strtok_r(NULL, ",", &save))
                found |= atoi(p) == rank;
        return found != not ;
}

static void step(int line)
{
        char text[96], pid[16], *w[10] = {NULL}, *save = NULL;
        int n = 0;

        snprintf(text, sizeof text, "%s", lines[line]);
        for (char *p = strtok_r(text, " ", &save); p && n < 9; p = strtok_r(NULL, " ", &save))
                w[n++] = p;
        if (!mine(w[0]))
                return;
        tell(line);
        bool staged = n > 3 && !strcmp(w[3], "staged");

        if (!strcmp(w[1], "group"))
                make_group(w + 2, n - 2);
        else if (!strcmp(w[1], "handle"))
                make_handle(atoi(w[2]));
        else if (!strcmp(w[1], "update"))
                CHECK(ncclEpUpdateHandle(handles[atoi(w[2])].handle,
                                         &handles[atoi(w[2])].idx.tensor, NULL, stream));
        else if (!strcmp(w[1], "dispatch"))
                dispatch(&handles[atoi(w[2])], staged);
        else if (!strcmp(w[1], "combine"))
                combine(&handles[atoi(w[2])], staged);
        else if (!strcmp(w[1], "complete")) {
                n_complete++;
                CHECK(ncclEpComplete(handles[atoi(w[2])].handle, NULL, stream));
        } else if (!strcmp(w[1], "poll")) {
                int error = 0;

                CHECK(ncclEpGetAsyncError(groups[atoi(w[2])].group, &error));
                if (error) {
                        fprintf(stderr, "rank %d: NCCL EP asynchronous error %d\n", rank, error);
                        _exit(atoi(w[3]));
                }
        } else if (!strcmp(w[1], "forgive")) {
                int error = 0;

                CHECK(ncclEpGetAsyncError(groups[atoi(w[2])].group, &error));
                if (error)
                        CHECK(ncclEpErrorClear(groups[atoi(w[2])].group));
        } else if (!strcmp(w[1], "split")) {
                ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

                config.commName = mine(w[2]) ? "part0" : "part1";
                CHECK(ncclCommSplit(comm, mine(w[2]) ? 0 : 1, rank, &part, &config));
        } else if (!strcmp(w[1], "signal"))
                kill(getpid(), atoi(w[2]));
        else if (!strcmp(w[1], "m2n"))
                CHECK(ncclM2nInit(&m2n, NULL));
        else if (!strcmp(w[1], "reshard"))
                reshard((size_t)atol(w[2]), n > 3);
        else if (!strcmp(w[1], "coll")) {
                n_coll++;
                CHECK(ncclAllReduce((void *)floats, (void *)floats, (size_t)atol(w[2]), ncclFloat,
                                    ncclSum, n > 3 && !strcmp(w[3], "part") ? part : comm,
                                    n > 3 && !strcmp(w[3], "second") ? second : stream));
        } else if (!strcmp(w[1], "delay"))
                CHECK(cuLaunchHostFunc(stream, sleep_then_go_on, (void *)atol(w[2])));
        else if (!strcmp(w[1], "sync"))
                CHECK(cuStreamSynchronize(n > 2 ? second : stream));
        else if (!strcmp(w[1], "sleep"))
                usleep((useconds_t)atol(w[2]) * 1000);
        else if (!strcmp(w[1], "pause"))
                for (;;)
                        pause();
        else if (!strcmp(w[1], "exit"))
                exit(atoi(w[2]));
        else if (!strcmp(w[1], "mark"))
                write_file("place", rank, pid, (size_t)snprintf(pid, sizeof pid, "%d\n", getpid()));
        else {
                fprintf(stderr, "unknown word: %s\n", lines[line]);
                exit(2);
        }
}

/* Rank 0 sees the file `stop`, and all ranks end `forever` after the same turn: each of them is at most a few ahead of another. */
static bool is_last(const char *stop)
{
        char last[500];
        FILE *f;
        long n = 0;

        snprintf(last, sizeof last, "%s/last.0", folder);
        if (rank == 0 && access(last, F_OK) && !access(stop, F_OK))
                write_file("last", 0, &(long){turns + 4}, sizeof(long));
        f = fopen(last, "r");
        if (f && fread(&n, sizeof n, 1, f) != 1)
                n = 0;
        if (f)
                fclose(f);
        return n && turns >= n;
}

static int end_of(int begin)
{
        int depth = 0;

        for (int i = begin; i < n_lines; i++) {
                char *w = strchr(lines[i], ' ');

                if (w && (!strncmp(w + 1, "loop", 4) || !strncmp(w + 1, "forever", 7)))
                        depth++;
                if (w && !strncmp(w + 1, "done", 4) && !--depth)
                        return i;
        }
        exit(2);
}

static void play(int begin, int end)
{
        char stop[500];

        snprintf(stop, sizeof stop, "%s/stop", folder);
        for (int i = begin; i < end; i++) {
                char *w = strchr(lines[i], ' ') + 1, who[64];
                bool forever = !strncmp(w, "forever", 7);

                if (strncmp(w, "loop", 4) && !forever) {
                        step(i);
                        continue;
                }
                int last = end_of(i);

                snprintf(who, sizeof who, "%.*s", (int)(w - 1 - lines[i]), lines[i]);
                /* forever: 100,000 turns, so that all ranks would make the same number */
                for (long k = forever ? 100000 : atol(w + 5); mine(who) && k > 0; k--) {
                        play(i + 1, last);
                        turns += forever;
                        if (forever && is_last(stop))
                                break;
                }
                i = last;
        }
}

int main(int argc, char **argv)
{
        const char *r = getenv("RANK"), *n = getenv("WORLD_SIZE"), *l = getenv("LOCAL_RANK");
        int count = 1, fd;
        char path[500];
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        ncclUniqueId id;
        CUcontext ctx;
        FILE *f = argc > 1 ? fopen(argv[1], "r") : NULL;

        if (!f || !r || !n)
                return 2;
        rank = atoi(r);
        size = atoi(n);
        snprintf(folder, sizeof folder, "%s", argv[1]);
        *strrchr(folder, '/') = 0;
        while (n_lines < LINES && fgets(lines[n_lines], sizeof lines[0], f)) {
                lines[n_lines][strcspn(lines[n_lines], "\n")] = 0;
                n_lines += *lines[n_lines] && *lines[n_lines] != '#';
        }
        fclose(f);
        CHECK(cuInit(0));
        CHECK(cuDeviceGetCount(&count));
        CHECK(cuDevicePrimaryCtxRetain(&ctx, (l ? atoi(l) : rank) % count));
        CHECK(cuCtxSetCurrent(ctx));
        CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        CHECK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
        CHECK(cuMemAlloc(&floats, 1 << 20));
        CHECK(cuMemAlloc(&tile, 1 << 22));
        if (rank == 0) {
                CHECK(ncclGetUniqueId(&id));
                write_file("id", 0, &id, sizeof id);
        }
        snprintf(path, sizeof path, "%s/id.0", folder);
        while (rank && (fd = open(path, O_RDONLY | O_CLOEXEC)) < 0)
                usleep(5000);
        if (rank && read(fd, &id, sizeof id) != (ssize_t)sizeof id)
                return 91;
        config.commName = "world";
        CHECK(ncclCommInitRankConfig(&comm, size, id, rank, &config));
        play(0, n_lines);
        CHECK(cuStreamSynchronize(stream));
        return 0;
}
