/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Structs of all sizes, magic numbers and versions go through to the library: the same pointers, the
 * same bytes, the same answer. Each struct ends at a page that cannot be read, so that a look beyond
 * its size ends the program. usage: app_versions LIBRARY (fake_ext.c, opened by dlopen). With capo
 * in front the names must not be known before that.
 */
#include <dlfcn.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <nccl_ep.h>
#include <nccl_m2n.h>
#include "../jobs/perf_job.h"
#include "fake_ext.h"

static struct job job;
static const struct fake_ext *last;
static unsigned n_versions;

static void fail(const char *what, size_t size)
{
        fprintf(stderr, "app_versions: %s, size %zu: not passed through as it was\n", what, size);
        exit(1);
}

/* @size bytes before a page that cannot be read, with the beginning of @from. */
static void *at_edge(const void *from, size_t whole, size_t size)
{
        size_t page = (size_t)sysconf(_SC_PAGESIZE);
        char *p = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (p == MAP_FAILED || mprotect(p + page, page, PROT_NONE))
                exit(2);
        memset(p, 0xa5, page);
        memcpy(p + page - size, from, size < whole ? size : whole);
        return p + page - size;
}

/* One version of a struct whose head is size and magic; @call makes the call with it. */
static void try_version(const char *what, const void *from, size_t whole, unsigned size,
                        unsigned magic, ncclResult_t (*call)(void *s), unsigned which)
{
        unsigned before = last->n;
        char copy[4096];
        unsigned *s = at_edge(from, whole, size);
        ncclResult_t rc, wanted;

        s[0] = size;
        if (magic && size >= 8)
                s[1] = magic;
        memcpy(copy, s, size);
        rc = call(s);
        wanted = last->n % 7 == 0 ? ncclInvalidUsage : ncclSuccess;
        if (last->n != before + 1 || last->given[which] != s || memcmp(copy, s, size) != 0 ||
            (rc != wanted && last->given[0] == (void *)FAKE_HANDLE))
                fail(what, size);
        n_versions++;
}

#define FUNCTION(name) static __typeof__(name) *p_##name;
FUNCTION(ncclEpCreateGroup)
FUNCTION(ncclEpGroupDestroy)
FUNCTION(ncclEpInitHandle)
FUNCTION(ncclEpUpdateHandle)
FUNCTION(ncclEpDispatch)
FUNCTION(ncclEpCombine)
FUNCTION(ncclReshard)

#define HEAD(type) .size = sizeof(type), .magic = NCCL_EP_MAGIC
static size_t sizes[] = {6, 8};
static ncclEpTensor_t tensor = {.size = 48,
                                .magic = NCCL_EP_TENSOR_MAGIC,
                                .ndim = 2,
                                .datatype = ncclFloat32,
                                .sizes = sizes};
static ncclEpDispatchInputs_t from = {HEAD(ncclEpDispatchInputs_t), .tokens = &tensor};
static ncclEpCombineOutputs_t home = {HEAD(ncclEpCombineOutputs_t), .tokens = &tensor};
static ncclEpHandle_t handle;
static ncclEpGroup_t group;
static int dims[] = {1}, placements[] = {0};
static ncclMesh_t mesh = {sizeof mesh, 2, 1, dims, 0};
static ncclDistTensor_t tile = {sizeof tile, 2, NULL, sizes, 2, ncclFloat32, &mesh, placements};

static ncclResult_t group_config(void *s)
{
        ncclResult_t rc = p_ncclEpCreateGroup(&group, job.comm, s);
        struct fake_ext made = *last;

        p_ncclEpGroupDestroy(group);
        *(struct fake_ext *)last = made;
        return rc;
}

static ncclResult_t topk_idx(void *s) { return p_ncclEpUpdateHandle(handle, s, NULL, job.stream); }

static ncclResult_t inputs(void *s)
{
        return p_ncclEpDispatch(handle, s, NULL, NULL, NULL, job.stream);
}

static ncclResult_t tokens(void *s)
{
        ncclEpDispatchInputs_t in = from;
        ncclResult_t rc;

        in.tokens = s;
        rc = p_ncclEpDispatch(handle, &in, NULL, NULL, NULL, job.stream);
        if (last->given[1] == &in)
                ((struct fake_ext *)last)->given[1] = s;
        return rc;
}

static ncclResult_t dispatch_config(void *s)
{
        return p_ncclEpDispatch(handle, &from, NULL, NULL, s, job.stream);
}

static ncclResult_t outputs(void *s) { return p_ncclEpCombine(handle, NULL, s, NULL, job.stream); }

static ncclResult_t combine_config(void *s)
{
        return p_ncclEpCombine(handle, NULL, &home, s, job.stream);
}

/* NCCL M2N: a size of eight bytes, then the version. */
static void try_tile(size_t size, unsigned version)
{
        ncclDistTensor_t *s;

        tile.size = size;
        tile.version = version;
        s = at_edge(&tile, sizeof tile, size);
        p_ncclReshard(NULL, job.comm, s, s, job.stream);
        if (last->given[1] != s || last->given[2] != s)
                fail("tensor of a reshard", size);
        n_versions++;
}

int main(int argc, char **argv)
{
        static const unsigned group_sizes[] = {8, 12, 16, 20, 80, 84, 95, 96, 104, 112, 128, 4000};
        static const unsigned small_sizes[] = {8, 12, 15, 16, 20, 24, 32};
        static const unsigned tensor_sizes[] = {8, 12, 40, 48, 56};
        static const unsigned bad[] = {NCCL_EP_TENSOR_MAGIC, NCCL_EP_MAGIC + 1};
        ncclEpGroupConfig_t config = {HEAD(ncclEpGroupConfig_t), .version = 2, .num_experts = 8};
        ncclEpDispatchConfig_t how = {HEAD(ncclEpDispatchConfig_t)};
        ncclEpCombineConfig_t how_back = {HEAD(ncclEpCombineConfig_t)};
        void *library;

        job_open(&job, "world");
        if (argc != 2 || dlsym(RTLD_DEFAULT, "ncclEpDispatch") ||
            dlsym(RTLD_DEFAULT, "ncclReshard")) {
                fprintf(stderr, "app_versions: the names are known before the library is\n");
                return 1;
        }
        library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
        last = library ? dlsym(library, "fake_ext_last") : NULL;
        if (!last)
                return 2;
#undef FUNCTION
#define FUNCTION(name) p_##name = (__typeof__(p_##name))dlsym(library, #name);
        FUNCTION(ncclEpCreateGroup)
        FUNCTION(ncclEpGroupDestroy)
        FUNCTION(ncclEpInitHandle)
        FUNCTION(ncclEpUpdateHandle)
        FUNCTION(ncclEpDispatch)
        FUNCTION(ncclEpCombine)
        FUNCTION(ncclReshard)
#define EACH(list) (size_t i = 0; i < sizeof(list) / sizeof *(list); i++)
        for
                EACH(group_sizes)
        try_version("group config", &config, sizeof config, group_sizes[i], 0, group_config, 2);
        for
                EACH(bad)
        try_version("group config, magic", &config, sizeof config, 112, bad[i], group_config, 2);
        p_ncclEpCreateGroup(&group, job.comm, &config);
        p_ncclEpInitHandle(&handle, group, NCCL_EP_LAYOUT_EXPERT_MAJOR, NULL, 2, NULL);
        for
                EACH(tensor_sizes)
                {
                        try_version("top-k", &tensor, sizeof tensor, tensor_sizes[i], 0, topk_idx,
                                    1);
                        try_version("tokens", &tensor, sizeof tensor, tensor_sizes[i], 0, tokens,
                                    1);
                }
        try_version("tokens, magic", &tensor, sizeof tensor, 48, NCCL_EP_MAGIC, tokens, 1);
        for
                EACH(small_sizes)
                {
                        try_version("inputs", &from, sizeof from, small_sizes[i], 0, inputs, 1);
                        try_version("outputs", &home, sizeof home, small_sizes[i], 0, outputs, 1);
                        try_version("dispatch config", &how, sizeof how, small_sizes[i], 0,
                                    dispatch_config, 2);
                        try_version("combine config", &how_back, sizeof how_back, small_sizes[i], 0,
                                    combine_config, 2);
                }
        for
                EACH(bad)
                {
                        try_version("inputs, magic", &from, sizeof from, 32, bad[i], inputs, 1);
                        try_version("dispatch config, magic", &how, sizeof how, 24, bad[i],
                                    dispatch_config, 2);
                }
        for (unsigned version = 1; version <= 3; version++) {
                try_tile(16, version);
                try_tile(56, version);
                try_tile(64, version);
        }
        how.quant_recipe = NCCL_EP_DISP_QUANT_DS_FP8E3M4;
        how_back.quant_recipe = NCCL_EP_COMB_QUANT_NVFP4;
        p_ncclEpDispatch(handle, &from, NULL, NULL, &how, job.stream);
        p_ncclEpCombine(handle, NULL, &home, &how_back, job.stream);
        printf("%u versions\n", n_versions);
        job_close(&job);
        return 0;
}
