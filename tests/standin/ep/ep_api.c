/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of NCCL EP: check size, magic and order as release 0.2.0 does, then give the
 * stream its tasks. Where the real library ends the process by assert or leaves by a C++ exception,
 * so does this one. NCCL is called through its public names, as there: AllGather when a group is
 * made, AllReduce when a high-throughput handle is updated.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ep.h"

#define API                      __attribute__((visibility("default")))
#define EP(result, name, params) API __typeof__(ncclEp##name) ncclEp##name;
#define M2N(result, name, params)
#include "standin_nccl_ext.def"

enum { INLINE_MAGIC = (int)NCCL_EP_TENSOR_MAGIC, ALLOC_MAGIC = (int)0xBEEFBEEFu };

/* libstdc++'s: throw a const char * */
void *__cxa_allocate_exception(size_t size);
void __cxa_throw(void *object, void *type, void (*destroy)(void *)) __attribute__((noreturn));
extern char _ZTIPKc[];

static void throw_text(const char *text)
{
        const char **e = __cxa_allocate_exception(sizeof *e);

        *e = text;
        __cxa_throw(e, _ZTIPKc, NULL);
}

static void must(bool true_, const char *what)
{
        if (true_)
                return;
        fprintf(stderr, "NCCL EP: Assertion `%s' failed.\n", what);
        abort();
}

/* Does @s, NULL or not, begin as a struct of at least @size bytes does? */
static bool is_struct(const void *s, unsigned size)
{
        const unsigned *head = s;

        return !s || (head[0] >= size && head[1] == NCCL_EP_MAGIC);
}

static bool is_tensor(const ncclEpTensor_t *t)
{
        return t && t->size >= 48 &&
               (t->magic == NCCL_EP_TENSOR_MAGIC || t->magic == (unsigned)ALLOC_MAGIC) && t->ndim &&
               t->sizes && t->data;
}

static bool is_optional_tensor(const ncclEpTensor_t *t) { return !t || is_tensor(t); }

ncclResult_t ncclEpGetVersion(int *version)
{
        if (!version)
                return ncclInvalidArgument;
        *version = NCCL_EP_VERSION_CODE;
        return ncclSuccess;
}

ncclResult_t ncclEpTensorAlloc(ncclEpTensor_t **tensor, unsigned int ndim, ncclDataType_t datatype,
                               const size_t *sizes, const ncclEpTensorAllocConfig_t *config)
{
        ncclEpTensor_t *t;

        if (!tensor || !ndim || !sizes || !is_struct(config, 8))
                return ncclInvalidArgument;
        t = calloc(1, sizeof *t + ndim * sizeof *sizes);
        *t = (ncclEpTensor_t){.size = sizeof *t,
                              .magic = (unsigned)ALLOC_MAGIC,
                              .ndim = ndim,
                              .datatype = datatype,
                              .sizes = (size_t *)(t + 1)};
        memcpy(t->sizes, sizes, ndim * sizeof *sizes);
        *tensor = t;
        return ncclSuccess;
}

ncclResult_t ncclEpTensorDestroy(ncclEpTensor_t *tensor)
{
        if (tensor && tensor->magic != (unsigned)ALLOC_MAGIC)
                return ncclInvalidArgument;
        free(tensor);
        return ncclSuccess;
}

/* ---- groups ---- */

static void *map_segment(const char *name, size_t size, bool make)
{
        int fd = shm_open(name, make ? O_RDWR | O_CREAT | O_EXCL : O_RDWR, 0600);
        void *p = MAP_FAILED;

        if (fd >= 0 && (!make || !ftruncate(fd, (off_t)size)))
                p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (fd >= 0)
                close(fd);
        return p == MAP_FAILED ? NULL : p;
}

/* Every rank's segment, by names that all gather; the second time says that all have opened theirs. */
static ncclResult_t open_segments(struct ncclEpGroup *g)
{
        enum { NAME = 64 };
        static _Atomic unsigned nth;
        char name[NAME] = "";
        CUdeviceptr names;
        CUstream stream;
        ncclResult_t rc = ncclSuccess;

        snprintf(name, sizeof name, "/standin_ep.%d.%u", getpid(), atomic_fetch_add(&nth, 1));
        if (cuStreamCreate(&stream, 1) || cuMemAlloc(&names, (size_t)g->n * NAME))
                return ncclUnhandledCudaError;
        g->segment[g->rank] = map_segment(name, g->segment_size, true);
        for (int time = 0; time < 2 && !rc; time++) {
                memcpy((char *)names + (size_t)g->rank * NAME, name, NAME);
                rc = ncclAllGather((char *)names + (size_t)g->rank * NAME, (void *)names, NAME,
                                   ncclInt8, g->comm, stream);
                if (!rc && cuStreamSynchronize(stream))
                        rc = ncclUnhandledCudaError;
                for (int r = 0; r < g->n && time == 0 && !rc; r++) {
                        if (r != g->rank)
                                g->segment[r] = map_segment((char *)names + (size_t)r * NAME,
                                                            g->segment_size, false);
                        if (!g->segment[r])
                                rc = ncclSystemError;
                }
        }
        shm_unlink(name);
        cuMemFree(names);
        cuStreamDestroy(stream);
        return rc;
}

ncclResult_t ncclEpCreateGroup(ncclEpGroup_t *group, ncclComm_t comm,
                               const ncclEpGroupConfig_t *config)
{
        const char *limit = getenv("NCCL_EP_TIMEOUT_MS");
        struct ncclEpGroup *g;
        size_t rows;
        ncclResult_t rc;

        must(group, "ep_group != nullptr");
        must(comm, "comm != nullptr");
        must(config, "config != nullptr");
        if (!is_struct(config, 96))
                return ncclInvalidArgument;
        g = calloc(1, sizeof *g);
        memcpy(&g->config, config,
               config->size < sizeof g->config ? config->size : sizeof g->config);
        g->comm = comm;
        if (ncclCommCount(comm, &g->n) || ncclCommUserRank(comm, &g->rank) ||
            !g->config.num_experts || g->config.num_experts % (unsigned)g->n ||
            !g->config.max_dispatch_tokens_per_rank || !g->config.max_token_bytes ||
            (g->config.algorithm == NCCL_EP_ALGO_HIGH_THROUGHPUT &&
             (g->config.max_token_bytes % 16 || g->config.enable_mask))) {
                free(g);
                return ncclInvalidArgument;
        }
        g->timeout_ns = limit && atoll(limit) > 0 ? (uint64_t)atoll(limit) * 1000000
                        : g->config.timeout_ns    ? g->config.timeout_ns
                                                  : 100000000000u;
        g->local_experts = (int)(g->config.num_experts / (unsigned)g->n);
        g->token_size = (sizeof(struct ep_token) + g->config.max_token_bytes + 7) / 8 * 8;
        rows = g->config.max_dispatch_tokens_per_rank *
               (size_t)(g->local_experts < EP_TOPK ? g->local_experts : EP_TOPK);
        g->slot_size = (sizeof(struct ep_slot) + rows * g->token_size + 63) / 64 * 64;
        g->segment_size = sizeof(struct ep_segment) + (size_t)g->n * EP_SLOTS * g->slot_size;
        g->segment = calloc((size_t)g->n, sizeof *g->segment);
        g->active = calloc((size_t)g->n, sizeof *g->active);
        for (int r = 0; r < g->n; r++)
                g->active[r] = 1;
        rc = open_segments(g);
        if (rc)
                ncclEpGroupDestroy(g);
        else
                *group = g;
        return rc;
}

ncclResult_t ncclEpGroupDestroy(ncclEpGroup_t group)
{
        if (!group)
                return ncclInvalidArgument;
        cuCtxSynchronize();
        for (int r = 0; r < group->n; r++) {
                if (group->segment[r])
                        munmap(group->segment[r], group->segment_size);
        }
        free(group->segment);
        free((void *)group->active);
        free(group);
        return ncclSuccess;
}

/* ---- handles ---- */

static bool fits(const struct ncclEpGroup *g, ncclEpLayout_t layout)
{
        return layout == NCCL_EP_LAYOUT_EXPERT_MAJOR ||
               layout == (g->config.algorithm == NCCL_EP_ALGO_LOW_LATENCY
                                  ? NCCL_EP_LAYOUT_RANK_MAJOR
                                  : NCCL_EP_LAYOUT_FLAT);
}

static bool is_low_latency(const struct ncclEpGroup *g)
{
        return g->config.algorithm == NCCL_EP_ALGO_LOW_LATENCY;
}

ncclResult_t ncclEpHandleMemSize(ncclEpGroup_t group, ncclEpLayout_t layout,
                                 const ncclEpHandleConfig_t *config, size_t *size, int num_topk)
{
        if (!group || !size || !is_struct(config, 16) || !fits(group, layout) ||
            num_topk > EP_TOPK || (is_low_latency(group) && num_topk <= 0))
                return ncclInvalidArgument;
        *size = group->config.max_dispatch_tokens_per_rank * (size_t)EP_TOPK * 16;
        return ncclSuccess;
}

ncclResult_t ncclEpInitHandle(ncclEpHandle_t *handle, ncclEpGroup_t group, ncclEpLayout_t layout,
                              const ncclEpHandleConfig_t *config, int num_topk,
                              const ncclEpTensor_t *handle_mem)
{
        struct ncclEpHandle *h;

        must(handle, "handle != nullptr");
        must(group, "ep_group != nullptr");
        must(layout != NCCL_EP_LAYOUT_UNSET, "layout != NCCL_EP_LAYOUT_UNSET");
        if (!is_struct(config, 16) || !is_optional_tensor(handle_mem) || !fits(group, layout) ||
            num_topk > EP_TOPK || (is_low_latency(group) && num_topk <= 0))
                return ncclInvalidArgument;
        h = calloc(1, sizeof *h);
        h->group = group;
        h->layout = layout;
        h->num_topk = num_topk;
        h->alignment = config ? config->dispatch_output_per_expert_alignment : 0;
        atomic_store(&h->refs, 1);
        *handle = h;
        return ncclSuccess;
}

static struct ep_call *new_call(struct ncclEpGroup *g, struct ncclEpHandle *h, cudaStream_t stream)
{
        CUstreamCaptureStatus capturing = 0;
        struct ep_call *c = calloc(1, sizeof *c);

        cuStreamIsCapturing(stream, &capturing);
        c->group = g;
        c->handle = h;
        c->kept = capturing;
        if (h)
                atomic_fetch_add(&h->refs, 1);
        return c;
}

static ncclResult_t give(cudaStream_t stream, void (*run)(void *), void *arg)
{
        return cuLaunchHostFunc(stream, run, arg) ? ncclUnhandledCudaError : ncclSuccess;
}

static void take_counters(struct ep_call *c, const ncclEpLayoutInfo_t *info)
{
        if (!info)
                return;
#define TAKE(where, type, tensor)             \
        if (tensor) {                         \
                c->where = (tensor)->data;    \
                c->type = (tensor)->datatype; \
        }
        TAKE(counters, counter_type, info->expert_counters)
        TAKE(offsets, offset_type, info->expert_offsets)
        TAKE(total, total_type, info->recv_total_counter)
        if (info->src_rank_counters)
                c->source_counters = info->src_rank_counters->data;
        c->global_ids = info->size >= 44 && info->recv_topk_idx_kind == NCCL_EP_EXPERT_ID_GLOBAL;
}

static bool is_layout_info(const ncclEpLayoutInfo_t *info)
{
        return is_struct(info, 40) && (!info || (is_optional_tensor(info->expert_counters) &&
                                                 is_optional_tensor(info->src_rank_counters) &&
                                                 is_optional_tensor(info->expert_offsets) &&
                                                 is_optional_tensor(info->recv_total_counter)));
}

ncclResult_t ncclEpUpdateHandle(ncclEpHandle_t handle, const ncclEpTensor_t *topk_idx,
                                const ncclEpLayoutInfo_t *layout_info, cudaStream_t stream)
{
        struct ncclEpGroup *g;
        struct ep_call *c;
        ncclResult_t rc;

        must(handle, "handle != nullptr");
        must(topk_idx, "topk_idx != nullptr");
        g = handle->group;
        if (!is_tensor(topk_idx) || topk_idx->ndim != 2 ||
            (topk_idx->datatype != ncclInt32 && topk_idx->datatype != ncclInt64) ||
            topk_idx->sizes[1] > EP_TOPK ||
            topk_idx->sizes[0] > g->config.max_dispatch_tokens_per_rank ||
            !is_layout_info(layout_info) || (is_low_latency(g) && layout_info) ||
            (handle->num_topk > 0 && topk_idx->sizes[1] != (size_t)handle->num_topk))
                return ncclInvalidArgument;
        if (handle->pending)
                return ncclInvalidUsage;
        c = new_call(g, handle, stream);
        c->in = topk_idx->data;
        c->type = topk_idx->datatype;
        c->n_rows = topk_idx->sizes[0];
        c->row_bytes = topk_idx->sizes[1];
        take_counters(c, layout_info);
        if (!is_low_latency(g)) {
                size_t n = (size_t)g->n + g->config.num_experts;

                c->counts = calloc(n, sizeof *c->counts);
                rc = give(stream, ep_run_update, c);
                if (!rc)
                        rc = ncclAllReduce(c->counts, c->counts, n, ncclInt32, ncclSum, g->comm,
                                           stream);
                if (!rc)
                        rc = give(stream, ep_run_counts, c);
        } else {
                rc = give(stream, ep_run_update, c);
        }
        handle->updated |= !rc;
        return rc;
}

ncclResult_t ncclEpCreateHandle(ncclEpHandle_t *handle, ncclEpGroup_t group, ncclEpLayout_t layout,
                                const ncclEpTensor_t *topk_idx,
                                const ncclEpLayoutInfo_t *layout_info,
                                const ncclEpHandleConfig_t *config, cudaStream_t stream)
{
        ncclEpHandle_t made;
        ncclResult_t rc;

        must(handle && group && topk_idx,
             "handle != nullptr && ep_group != nullptr && topk_idx != nullptr");
        if (!is_tensor(topk_idx) || topk_idx->ndim != 2)
                return ncclInvalidArgument;
        rc = ncclEpInitHandle(&made, group, layout, config, (int)topk_idx->sizes[1], NULL);
        if (!rc) {
                rc = ncclEpUpdateHandle(made, topk_idx, layout_info, stream);
                if (rc)
                        ncclEpHandleDestroy(made);
                else
                        *handle = made;
        }
        return rc;
}

ncclResult_t ncclEpHandleDestroy(ncclEpHandle_t handle)
{
        if (!handle)
                return ncclInvalidArgument;
        ep_handle_free(handle);
        return ncclSuccess;
}

/* ---- data ---- */

static size_t row_bytes(const ncclEpTensor_t *t)
{
        return t->sizes[t->ndim - 1] * ep_type_bytes(t->datatype);
}

static size_t count_rows(const ncclEpTensor_t *t)
{
        size_t n = 1;

        for (unsigned i = 0; i + 1 < t->ndim; i++)
                n *= t->sizes[i];
        return n;
}

static ncclResult_t start_call(struct ep_call *c, bool send_only, cudaStream_t stream)
{
        struct ncclEpHandle *h = c->handle;
        struct ncclEpGroup *g = c->group;
        ncclResult_t rc;

        if (!is_low_latency(g) && !g->config.max_recv_tokens_per_rank &&
            cuStreamSynchronize(stream))
                return ncclUnhandledCudaError;
        rc = give(stream, ep_run_send, c);
        if (!rc && send_only) {
                h->pending = c->what;
                h->started = c;
        } else if (!rc) {
                rc = give(stream, ep_run_receive, c);
        }
        return rc;
}

ncclResult_t ncclEpDispatch(ncclEpHandle_t handle, const ncclEpDispatchInputs_t *inputs,
                            const ncclEpDispatchOutputs_t *outputs,
                            const ncclEpLayoutInfo_t *layout_info,
                            const ncclEpDispatchConfig_t *config, cudaStream_t stream)
{
        struct ncclEpGroup *g;
        struct ep_call *c;

        must(handle && inputs && outputs,
             "handle != nullptr && inputs != nullptr && outputs != nullptr");
        g = handle->group;
        if (!is_struct(inputs, 32) || !is_struct(outputs, 40) || !is_layout_info(layout_info) ||
            !is_struct(config, 20) || !is_tensor(inputs->tokens) || !is_tensor(outputs->tokens) ||
            !is_optional_tensor(inputs->topk_weights) ||
            !is_optional_tensor(outputs->topk_weights) || !is_optional_tensor(outputs->topk_idx))
                return ncclInvalidArgument;
        if (row_bytes(inputs->tokens) > g->config.max_token_bytes ||
            row_bytes(inputs->tokens) != row_bytes(outputs->tokens) ||
            (!is_low_latency(g) && layout_info) ||
            (is_low_latency(g) && handle->layout == NCCL_EP_LAYOUT_EXPERT_MAJOR &&
             (!layout_info || !layout_info->expert_counters)))
                return ncclInvalidArgument;
        if (!handle->updated || handle->pending ||
            (config && config->send_only && !is_low_latency(g)) ||
            (config && config->size >= 24 && config->quant_recipe))
                return ncclInvalidUsage;
        c = new_call(g, handle, stream);
        c->what = EP_DISPATCH;
        c->in = inputs->tokens->data;
        c->in_weights = inputs->topk_weights ? inputs->topk_weights->data : NULL;
        c->row_bytes = row_bytes(inputs->tokens);
        c->out = outputs->tokens->data;
        c->n_rows = count_rows(outputs->tokens);
        c->out_weights = outputs->topk_weights ? outputs->topk_weights->data : NULL;
        c->out_idx = outputs->topk_idx ? outputs->topk_idx->data : NULL;
        c->idx_type = outputs->topk_idx ? outputs->topk_idx->datatype : ncclInt64;
        take_counters(c, layout_info);
        return start_call(c, config && config->send_only, stream);
}

ncclResult_t ncclEpCombine(ncclEpHandle_t handle, const ncclEpCombineInputs_t *inputs,
                           const ncclEpCombineOutputs_t *outputs,
                           const ncclEpCombineConfig_t *config, cudaStream_t stream)
{
        struct ep_call *c;

        must(handle && inputs && outputs,
             "handle != nullptr && inputs != nullptr && outputs != nullptr");
        if (!is_struct(inputs, 24) || !is_struct(outputs, 24) || !is_struct(config, 16) ||
            !is_tensor(inputs->tokens) || !is_tensor(outputs->tokens) ||
            !is_optional_tensor(inputs->topk_weights) ||
            !is_optional_tensor(outputs->topk_weights) ||
            row_bytes(inputs->tokens) != row_bytes(outputs->tokens) ||
            (outputs->tokens->datatype != ncclFloat32 && outputs->tokens->datatype != ncclBfloat16))
                return ncclInvalidArgument;
        if (!handle->updated || handle->pending ||
            (config && config->send_only && !is_low_latency(handle->group)) ||
            (config && config->size >= 20 && config->quant_recipe))
                return ncclInvalidUsage;
        c = new_call(handle->group, handle, stream);
        c->what = EP_COMBINE;
        c->backward = config && config->pass_direction == NCCL_EP_BWD_PASS;
        c->in = inputs->tokens->data;
        c->in_weights = inputs->topk_weights ? inputs->topk_weights->data : NULL;
        c->row_bytes = row_bytes(inputs->tokens);
        c->type = outputs->tokens->datatype;
        c->out = outputs->tokens->data;
        c->n_rows = count_rows(outputs->tokens);
        c->out_weights = outputs->topk_weights ? outputs->topk_weights->data : NULL;
        return start_call(c, config && config->send_only, stream);
}

/* Without a call to complete it succeeds. */
ncclResult_t ncclEpComplete(ncclEpHandle_t handle, const ncclEpCompleteConfig_t *config,
                            cudaStream_t stream)
{
        int pending = handle->pending;

        if (!is_struct(config, 8))
                return ncclInvalidArgument;
        handle->pending = 0;
        return pending ? give(stream, ep_run_receive, handle->started) : ncclSuccess;
}

/* ---- masks ---- */

static void must_group(struct ncclEpGroup *g)
{
        if (!g)
                throw_text("NCCL EP: ep_group is null");
}

static void run_query(void *arg)
{
        struct ep_call *c = arg;

        for (int r = 0; r < c->group->n; r++)
                ((int *)c->out)[r] = atomic_load(&c->group->active[r]);
        ep_call_free(c);
}

static void run_mask(void *arg)
{
        struct ep_call *c = arg;

        for (int r = 0; r < c->group->n; r++)
                atomic_store(&c->group->active[r], c->mask[r] != 0);
        ep_call_free(c);
}

ncclResult_t ncclEpMaskQuery(ncclEpGroup_t group, int *mask_status, cudaStream_t stream)
{
        struct ep_call *c;

        must_group(group);
        if (!group->config.enable_mask)
                return ncclInvalidUsage;
        c = new_call(group, NULL, stream);
        c->out = mask_status;
        return give(stream, run_query, c);
}

ncclResult_t ncclEpMaskUpdate(ncclEpGroup_t group, const int *mask, cudaStream_t stream)
{
        struct ep_call *c;

        must_group(group);
        if (!group->config.enable_mask)
                return ncclInvalidUsage;
        c = new_call(group, NULL, stream);
        c->mask = malloc((size_t)group->n * sizeof *mask);
        memcpy(c->mask, mask, (size_t)group->n * sizeof *mask);
        return give(stream, run_mask, c);
}

/* Waits on the host; the flag of the error stays. */
ncclResult_t ncclEpMaskClean(ncclEpGroup_t group, cudaStream_t stream)
{
        ncclResult_t rc;

        must_group(group);
        if (!group->config.enable_mask)
                return ncclInvalidUsage;
        rc = give(stream, ep_run_clean, new_call(group, NULL, stream));
        return rc ? rc : cuStreamSynchronize(stream) ? ncclUnhandledCudaError : ncclSuccess;
}

ncclResult_t ncclEpGetAsyncError(ncclEpGroup_t group, int *error)
{
        must_group(group);
        if (!group->config.enable_mask)
                return ncclInvalidUsage;
        *error = atomic_load(&group->error);
        return ncclSuccess;
}

ncclResult_t ncclEpErrorClear(ncclEpGroup_t group)
{
        must_group(group);
        if (!group->config.enable_mask)
                return ncclInvalidUsage;
        atomic_store(&group->error, 0);
        return ncclSuccess;
}
