/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plugins are found, probed and obeyed as the NCCL release we say we are would do.
 *
 * usage: check_plugins tuner|profiler FOLDER ABI NCCL-VERSION     FOLDER holds plugin_tuner_vN.so,
 * plugin_profiler_vN.so
 *
 * Each run is a process of its own, since a library looks for its plugins once.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <nccl.h>
#include "standin_check.h"

int n_checks, n_failures;

struct tuner_ask {
        int algo, proto, channels, fail_get, all_off;
        int inits, gets, ends, chunks;
        size_t n_ranks, n_nodes, bytes;
        int coll, pipe_ops, n_algo, n_proto, reg;
        int nvl_domains, nvl_min, nvl_max, scale_ring_latency;
        float table[7][3];
};
struct profiler_seen {
        int mask, inits, ends;
        int starts[16], stops[16], states[32], orphans, bad;
        char algo[16], proto[16], func[16], name[32];
        int channels, n_nodes, n_ranks;
        uint64_t kernel_ns;
};

static ncclComm_t comms[2];
static CUstream streams[2];
static float *buffer[2];
static char log_path[64];

/* The last line of NCCL's log that says a decision. */
static const char *decision(void)
{
        static char last[512];
        char line[512];
        FILE *f = fopen(log_path, "r");

        *last = 0;
        while (f && fgets(line, sizeof line, f))
                if (strstr(line, "Bytes -> Algo"))
                        strcpy(last, line);
        if (f)
                fclose(f);
        return last;
}

static void open_comms(const char *name)
{
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        ncclUniqueId id;

        config.commName = name;
        EXPECT_IS(ncclGetUniqueId(&id), ncclSuccess);
        ncclGroupStart();
        for (int i = 0; i < 2; i++) {
                CUcontext ctx;

                cuDevicePrimaryCtxRetain(&ctx, i);
                cuCtxSetCurrent(ctx);
                EXPECT_IS(ncclCommInitRankConfig(&comms[i], 2, id, i, &config), ncclSuccess);
        }
        EXPECT_IS(ncclGroupEnd(), ncclSuccess);
}

static void close_comms(void)
{
        for (int i = 0; i < 2; i++)
                EXPECT_IS(ncclCommDestroy(comms[i]), ncclSuccess);
}

static ncclResult_t all_reduce(size_t count, bool right)
{
        ncclResult_t r;

        for (int i = 0; i < 2; i++)
                for (size_t k = 0; k < count; k++)
                        buffer[i][k] = (float)(i + 1);
        ncclGroupStart();
        for (int i = 0; i < 2; i++)
                ncclAllReduce(buffer[i], buffer[i], count, ncclFloat, ncclSum, comms[i],
                              streams[i]);
        r = ncclGroupEnd();
        for (int i = 0; i < 2; i++)
                EXPECT_IS(cuStreamSynchronize(streams[i]), CUDA_SUCCESS);
        if (right)
                EXPECT(buffer[0][0] == 3 && buffer[1][count - 1] == 3);
        return r;
}

static void tuner(const char *path, int abi)
{
        void *lib = dlopen(path, RTLD_NOW);
        struct tuner_ask *t = dlsym(lib, "tuner_ask");
        int gets, version;

        ncclGetVersion(&version);
        t->algo = 0;
        t->proto = 0;
        t->channels = 3;
        open_comms(NULL);
        EXPECT(t->inits == 2 && t->n_ranks == 2 && t->n_nodes == 1);
        EXPECT_IS(all_reduce(100000, true), ncclSuccess);
        EXPECT(t->gets == 2 && t->coll == 4 && t->bytes == 400000 && t->pipe_ops == 1);
        EXPECT(strstr(decision(),
                      "AllReduce: 400000 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..2}"));
        if (abi >= 3) {
                EXPECT(t->n_algo == 7 && t->n_proto == 3);
                EXPECT(t->table[0][0] > 0 && t->table[1][2] > 0 && t->table[0][1] == -1.0f &&
                       t->table[4][2] == -1.0f);
        }
        if (abi >= 5)
                EXPECT(t->nvl_domains == 1 && t->nvl_min == 2 && t->nvl_max == 2);
        t->algo = 1;
        t->proto = 2;
        t->channels = 0; /* the library's own number */
        EXPECT_IS(all_reduce(100000, true), ncclSuccess);
        EXPECT(strstr(decision(), "Algo RING proto SIMPLE channel{Lo..Hi}={0..0}"));
        t->channels = 100; /* an upper bound: no more than there are, none below a share that
                              depends on the release */
        EXPECT_IS(all_reduce(20000, true), ncclSuccess);
        EXPECT(strstr(decision(), abi <= 2 && version < 22304 ? "Hi}={0..7}"
                                  : version < 22900           ? "Hi}={0..3}"
                                                              : "Hi}={0..1}"));
        if (abi == 6)
                EXPECT(t->chunks > 0);

        /* Zero counts, sends and one-rank communicators never come to a tuner. */
        gets = t->gets;
        EXPECT_IS(ncclAllReduce(NULL, NULL, 0, ncclFloat, ncclSum, comms[0], streams[0]),
                  ncclSuccess);
        ncclGroupStart();
        for (int i = 0; i < 2; i++)
                ncclAlltoAll(buffer[i], buffer[i] + 100, 10, ncclFloat, comms[i], streams[i]);
        EXPECT_IS(ncclGroupEnd(), ncclSuccess);
        EXPECT(t->gets == gets);
        /* Two alike in one group are one question about their sum. */
        ncclGroupStart();
        for (int k = 0; k < 2; k++)
                for (int i = 0; i < 2; i++)
                        ncclAllGather(buffer[i], buffer[i] + 1000, 10, ncclFloat, comms[i],
                                      streams[i]);
        EXPECT_IS(ncclGroupEnd(), ncclSuccess);
        EXPECT(t->gets == gets + 2 && t->bytes == 160 && t->coll == 2);

        t->channels = 1;
        if (abi >= 3) {
                t->algo = 0; /* a cell of -1 is left alone by this tuner: the library's own choice
                                remains */
                t->proto = 1;
                EXPECT_IS(all_reduce(100, true), ncclSuccess);
                EXPECT(!strstr(decision(), "LL128"));
                t->all_off = 1;
                EXPECT_IS(all_reduce(100, false), ncclInternalError);
                t->all_off = 0;
        }
        t->fail_get = 3; /* the headers promise a fall-back; every release fails the call */
        EXPECT_IS(all_reduce(100, false), ncclInternalError);
        t->fail_get = 0;
        EXPECT_IS(all_reduce(100, true), ncclSuccess);
        close_comms();
        EXPECT(t->ends == 2);
        dlclose(lib);
}

/* v5 and v6 may correct the constants before the model uses them. */
static void tuner_constants(const char *path)
{
        void *lib = dlopen(path, RTLD_NOW);
        struct tuner_ask *t = dlsym(lib, "tuner_ask");
        float before[3];

        t->algo = -1;
        open_comms(NULL);
        EXPECT_IS(all_reduce(1000000, true), ncclSuccess);
        memcpy(before, t->table[1], sizeof before);
        close_comms();
        t->scale_ring_latency = 10;
        open_comms(NULL);
        EXPECT_IS(all_reduce(1000000, true), ncclSuccess);
        EXPECT(t->table[1][2] > before[2] && t->table[1][0] > before[0]);
        close_comms();
        dlclose(lib);
}

static void profiler(const char *path, int abi)
{
        void *lib = dlopen(path, RTLD_NOW);
        struct profiler_seen *p = dlsym(lib, "profiler_seen");
        int p2p_channels;

        p->mask = 1 | 2 | 4 | 64;
        open_comms("named");
        EXPECT(p->inits == 2);
        if (abi >= 4)
                EXPECT(!strcmp(p->name, "named") && p->n_nodes == 1 && p->n_ranks == 2);
        for (int k = 0; k < 5; k++)
                EXPECT_IS(all_reduce(1000, true), ncclSuccess);
        ncclGroupStart();
        for (int i = 0; i < 2; i++) {
                ncclSend(buffer[i], 10, ncclFloat, 1 - i, comms[i], streams[i]);
                ncclRecv(buffer[i] + 100, 10, ncclFloat, 1 - i, comms[i], streams[i]);
        }
        EXPECT_IS(ncclGroupEnd(), ncclSuccess);
        for (int i = 0; i < 2; i++)
                cuStreamSynchronize(streams[i]);
        EXPECT(p->starts[0] == 12 && p->stops[0] == 12); /* a group per rank and call */
        EXPECT(p->starts[1] == 10 && p->stops[1] == 10);
        EXPECT(p->starts[2] == 4 && p->stops[2] == 4);
        p2p_channels = 4;
        EXPECT(p->starts[6] == 10 * p->channels + p2p_channels && p->stops[6] == p->starts[6]);
        EXPECT(!strcmp(p->func, "AllReduce") && !strcmp(p->proto, "LL") && p->channels == 1);
        EXPECT(!strcmp(p->algo, "RING") || !strcmp(p->algo, "TREE"));
        EXPECT(p->orphans == 0 && p->bad == 0);
        if (abi >= 4)
                EXPECT(p->states[22] == p->starts[6] && p->kernel_ns > 0);
        if (abi >= 5)
                EXPECT(p->starts[8] == 12 && p->starts[9] == 10 && p->starts[10] == 4);
        close_comms();
        EXPECT(p->ends == 2);

        /* Only what is asked for, and its parents. */
        memset(p, 0, sizeof *p);
        p->mask = 2;
        open_comms(NULL);
        EXPECT_IS(all_reduce(1000, true), ncclSuccess);
        EXPECT(p->starts[1] == 2 && p->starts[0] == 2 && p->starts[6] == 0 && p->starts[2] == 0);
        close_comms();
        memset(p, 0, sizeof *p);
        open_comms(NULL);
        EXPECT_IS(all_reduce(1000, true), ncclSuccess);
        EXPECT(p->inits == 2 && p->starts[0] == 0 && p->starts[1] == 0 && p->starts[8] == 0);
        close_comms();
        dlclose(lib);
}

int main(int argc, char **argv)
{
        char path[1024];
        bool tunes;
        int abi;

        if (argc != 5) {
                fprintf(stderr,
                        "usage: check_plugins tuner|constants|profiler FOLDER ABI NCCL-VERSION\n");
                return 2;
        }
        tunes = strcmp(argv[1], "profiler") != 0;
        abi = atoi(argv[3]);
        snprintf(path, sizeof path, "%s/plugin_%s_v%d.so", argv[2], tunes ? "tuner" : "profiler",
                 abi);
        snprintf(log_path, sizeof log_path, "/tmp/check_plugins.%d.log", getpid());
        unlink(log_path); /* of an earlier process of this number */
        setenv(tunes ? "NCCL_TUNER_PLUGIN" : "NCCL_PROFILER_PLUGIN", path, 1);
        setenv("CAPO_STANDIN_NCCL_VERSION", argv[4], 1);
        setenv("NCCL_DEBUG", "INFO", 1);
        setenv("NCCL_DEBUG_SUBSYS", "TUNING,PROFILE", 1);
        setenv("NCCL_DEBUG_FILE", log_path, 1);
        EXPECT_IS(cuInit(0), CUDA_SUCCESS);
        for (int i = 0; i < 2; i++) {
                CUcontext ctx;
                CUdeviceptr p;

                cuDevicePrimaryCtxRetain(&ctx, i);
                cuCtxSetCurrent(ctx);
                cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING);
                cuMemAlloc(&p, 8 << 20);
                buffer[i] = (float *)(uintptr_t)p;
        }
        if (!strcmp(argv[1], "tuner"))
                tuner(path, abi);
        else if (tunes)
                tuner_constants(path);
        else
                profiler(path, abi);
        unlink(log_path);
        return DONE("check_plugins");
}
