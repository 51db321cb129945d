/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL EP: groups, handles, and what Dispatch and Combine move. Bytes are an upper bound, from the
 * tokens that a rank gives (Dispatch) or gets back (Combine): where they go is decided on the GPU.
 */

#include "capo/call_ids.h"
#include "capo/kernels.h"
#include "capo/msg.h"
#include "shim/nccl/ext_ep.h"
#include "shim/nccl/ext_real.h"

/* A handle. It is found by its address without a lock, in the few places behind its own. */
struct ep_handle {
        _Atomic uintptr_t at; /* 0 free, 1 being filled */
        struct capo_comm *group;
        int topk;
        bool by_rank; /* not EXPERT_MAJOR: a token goes once to each rank that has experts for it */
        _Atomic bool pending;
};
enum {
        HANDLES = 1 << 14,
        PROBES = 16,
        NUMBER_TOPK = 0,
        NUMBER_EXPERTS,
        NUMBER_HIDDEN,
        NUMBER_QUANT,
        NUMBER_TOKEN
};
static struct ep_handle handles[HANDLES];

static struct ep_handle *handle_at(uintptr_t at, unsigned probe)
{
        return &handles[((at * 0x9e3779b97f4a7c15u >> 50) + probe) % HANDLES];
}

static struct ep_handle *find_handle(const void *handle)
{
        static __thread struct ep_handle *last __attribute__((tls_model("initial-exec")));

        if (handle && last &&
            atomic_load_explicit(&last->at, memory_order_acquire) == (uintptr_t)handle)
                return last;
        for (unsigned i = 0; handle && i < PROBES; i++) {
                struct ep_handle *h = handle_at((uintptr_t)handle, i);

                if (atomic_load_explicit(&h->at, memory_order_acquire) == (uintptr_t)handle)
                        return last = h;
        }
        return NULL;
}

/* ---- structs ---- */

static bool knows_struct(const void *s, unsigned magic)
{
        const unsigned *head = s; /* size, magic */

        if (!s || (head[0] >= 2 * sizeof *head && head[1] == magic))
                return s;
        capo_ext_unknown();
        return false;
}

#define KNOWS(s, field) (knows_struct(s, CAPO_EP_MAGIC) && CAPO_EXT_HAS(s, field))

static bool knows_tensor(const ncclEpTensor_t *tensor)
{
        if (!tensor)
                return false;
        if (!CAPO_EXT_HAS(tensor, sizes) ||
            (tensor->magic != CAPO_EP_TENSOR_MAGIC && tensor->magic != CAPO_EP_ALLOC_MAGIC)) {
                capo_ext_unknown();
                return false;
        }
        return tensor->ndim && tensor->sizes;
}

/* ---- groups ---- */

void capo_ep_group_created(struct capo_tls *t, struct capo_record *r, ncclEpGroup_t *group,
                           const ncclEpGroupConfig_t *config, ncclResult_t rc, const void *real)
{
        struct capo_comm *parent = t->comm, *made;
        bool high;

        if (rc != ncclSuccess || !group || !*group || parent == capo_comm_none())
                return;
        high = KNOWS(config, algorithm) && config->algorithm == CAPO_EP_HIGH_THROUGHPUT;
        made = capo_comm_guest(t, parent, *group, high ? CAPO_GUEST_EP_HT : CAPO_GUEST_EP_LL,
                               high ? "ep-ht" : "ep-ll");
        if (made == capo_comm_none())
                return;
        made->experts = KNOWS(config, num_experts) ? config->num_experts : 0;
        made->guest_error = KNOWS(config, enable_mask) && config->enable_mask && !high
                                    ? capo_ext_sibling(real, "ncclEpGetAsyncError")
                                    : NULL;
        atomic_store_explicit(&made->guest_masked, 0, memory_order_relaxed);
        r->comm = made->id;
}

/* An answer of ncclEpGetAsyncError: once where capo asked (@known 1), once the program (2). */
static void record_masked(struct capo_tls *t, struct capo_comm *group, uint8_t known, uint32_t site)
{
        uint64_t now = capo_clock_ticks();

        if (atomic_exchange_explicit(&group->guest_masked, known, memory_order_relaxed) >= known)
                return;
        capo_record_put(t, (struct capo_record){.t_begin = now,
                                                .t_end = now,
                                                .peer = -1,
                                                .comm = group->id,
                                                .site = (uint16_t)site,
                                                .call = CAPO_CALL_EPGETASYNCERROR,
                                                .type = NO_TYPE,
                                                .op = NO_OP,
                                                .clock = CAPO_CLOCK_HOST,
                                                .thread = (uint16_t)t->thread});
        capo_warn_once("NCCL EP masked a rank that did not come in time: results lack its tokens");
}

/* The kernels of NCCL EP mask a rank that does not come in time and go on without it. The flag that
 * tells lies in host memory (nccl_ep.h, "Lightweight host-side check"). */
static void look_for_masked(struct capo_tls *t, struct capo_comm *group)
{
        ncclResult_t (*ask)(ncclEpGroup_t, int *) =
                group ? (__typeof__(ask))group->guest_error : NULL;
        int error = 0;

        if (likely(!ask) || atomic_load_explicit(&group->guest_masked, memory_order_relaxed))
                return;
        if (ask(group->handle, &error) == ncclSuccess && error)
                record_masked(t, group, 1, 0);
}

struct capo_comm *capo_ep_group_ending(struct capo_tls *t, ncclEpGroup_t group)
{
        struct capo_comm *comm = capo_comm_known(group);

        look_for_masked(t, comm);
        return comm;
}

void capo_ep_group_ended(struct capo_tls *t, ncclResult_t rc)
{
        if (rc == ncclSuccess && t->comm->guest)
                capo_comm_destroyed(t->comm, false);
}

void capo_ep_cleared(ncclResult_t rc, ncclEpGroup_t group)
{
        struct capo_comm *comm = rc == ncclSuccess ? capo_comm_known(group) : NULL;

        if (comm)
                atomic_store_explicit(&comm->guest_masked, 0, memory_order_relaxed);
}

/* Asked over and over: recorded when it answers that a rank was masked. */
ncclResult_t capo_ncclEpGetAsyncError(const void *real, const void *caller, const void *frame,
                                      ncclEpGroup_t group, int *error)
{
        ncclResult_t rc = ((ncclResult_t(*)(ncclEpGroup_t, int *))real)(group, error);
        struct capo_tls *t = &capo_tls;
        struct capo_comm *comm;

        if (rc != ncclSuccess || !error || !*error || !(comm = capo_comm_known(group)) ||
            capo_ext_passes(t, caller, frame))
                return rc;
        record_masked(t, comm, 2, capo_site_here(t, caller, frame));
        atomic_signal_fence(memory_order_seq_cst);
        t->inside = NULL;
        return rc;
}

/* ---- handles ---- */

struct capo_comm *capo_ep_group_of(ncclEpHandle_t handle)
{
        struct ep_handle *h = find_handle(handle);

        return h ? h->group : NULL;
}

static int topk_of(const ncclEpTensor_t *topk_idx)
{
        return knows_tensor(topk_idx) && topk_idx->ndim == 2 && topk_idx->sizes[1] < 1 << 16
                       ? (int)topk_idx->sizes[1]
                       : 0;
}

void capo_ep_handle_made(ncclResult_t rc, ncclEpHandle_t *handle, ncclEpGroup_t group,
                         ncclEpLayout_t layout, int num_topk, const ncclEpTensor_t *topk_idx)
{
        struct capo_comm *comm = capo_comm_known(group);

        if (rc != ncclSuccess || !handle || !*handle || !comm)
                return;
        for (unsigned i = 0; i < PROBES; i++) {
                struct ep_handle *h = handle_at((uintptr_t)*handle, i);
                uintptr_t there = 0;

                if (!atomic_compare_exchange_strong(&h->at, &there, 1))
                        continue;
                h->group = comm;
                h->topk = topk_idx ? topk_of(topk_idx) : num_topk > 0 ? num_topk : 0;
                h->by_rank = layout != CAPO_EP_EXPERT_MAJOR;
                atomic_store_explicit(&h->pending, false, memory_order_relaxed);
                atomic_store_explicit(&h->at, (uintptr_t)*handle, memory_order_release);
                return;
        }
        capo_warn_once("more handles of NCCL EP than capo has room for: calls of some are recorded "
                       "without group and bytes");
}

void capo_ep_handle_updated(ncclResult_t rc, ncclEpHandle_t handle, const ncclEpTensor_t *topk_idx)
{
        struct ep_handle *h = rc == ncclSuccess ? find_handle(handle) : NULL;
        int topk = h ? topk_of(topk_idx) : 0;

        if (topk)
                h->topk = topk;
}

struct capo_comm *capo_ep_handle_forgotten(ncclEpHandle_t handle)
{
        struct ep_handle *h = find_handle(handle);
        struct capo_comm *group = h ? h->group : NULL;

        if (h)
                atomic_store_explicit(&h->at, 0, memory_order_release);
        return group;
}

/* ---- data ---- */

static const char *const quants[] = {"none", "forward", "ds-fp8"}, *const back_quants[] = {"none",
                                                                                           "nvfp4"};

static unsigned asked_text(const struct capo_call_asked *asked, char *line, unsigned room)
{
        const int *n = asked->number;
        int wrote = snprintf(line, room, "config: topk=%d experts=%d hidden=%d token_bytes=%d",
                             n[NUMBER_TOPK], n[NUMBER_EXPERTS], n[NUMBER_HIDDEN], n[NUMBER_TOKEN]);

        if (wrote > 0 && (unsigned)wrote < room && n[NUMBER_QUANT] > 0)
                wrote += snprintf(line + wrote, room - (unsigned)wrote, " quantisation=%s",
                                  n[NUMBER_QUANT] < 3   ? quants[n[NUMBER_QUANT]]
                                  : n[NUMBER_QUANT] < 8 ? "unknown"
                                                        : back_quants[1]);
        if (wrote > 0 && (unsigned)wrote < room)
                wrote += snprintf(line + wrote, room - (unsigned)wrote, "\n");
        return wrote > 0 && (unsigned)wrote < room ? (unsigned)wrote : 0;
}

/* What @tokens, of which each goes to top-k experts, are at most. */
static struct capo_what tokens_of(ncclEpHandle_t handle, const ncclEpTensor_t *tokens,
                                  bool send_only, int quant, struct capo_call_asked *asked)
{
        enum { FLOAT4X2 = 12 }; /* two numbers in a byte */
        struct ep_handle *h = find_handle(handle);
        struct capo_what what = {.type = NO_TYPE, .op = NO_OP, .peer = -1};
        uint64_t row = 1, copies;

        if (!h)
                return what;
        if (send_only)
                atomic_store_explicit(&h->pending, true, memory_order_relaxed);
        asked->kernel = send_only                             ? CAPO_KERNEL_EP_SENT
                        : h->group->guest == CAPO_GUEST_EP_HT ? CAPO_KERNEL_EP_HT
                                                              : CAPO_KERNEL_EP_LL;
        if (!knows_tensor(tokens))
                return what;
        for (unsigned i = 1; i < tokens->ndim && i < 8; i++)
                row *= tokens->sizes[i];
        copies = (uint64_t)h->topk;
        if (h->by_rank && h->group->n_ranks && copies > h->group->n_ranks)
                copies = h->group->n_ranks;
        what.type = (unsigned)tokens->datatype <= FLOAT4X2 ? tokens->datatype : NO_TYPE;
        what.count = row * copies;
        asked->number[NUMBER_TOKEN] = (int)capo_bytes(&what, 1);
        what.count *= tokens->sizes[0];
        asked->number[NUMBER_TOPK] = h->topk;
        asked->number[NUMBER_EXPERTS] = (int)h->group->experts;
        asked->number[NUMBER_HIDDEN] = (int)(tokens->datatype == FLOAT4X2 ? 2 * row : row);
        asked->number[NUMBER_QUANT] = quant;
        asked->text = asked_text;
        return what;
}

struct capo_what capo_ep_dispatch(ncclEpHandle_t handle, const ncclEpDispatchInputs_t *inputs,
                                  const ncclEpDispatchConfig_t *config,
                                  struct capo_call_asked *asked)
{
        bool how = config && KNOWS(config, send_only);

        return tokens_of(handle, inputs && KNOWS(inputs, tokens) ? inputs->tokens : NULL,
                         how && config->send_only,
                         how && CAPO_EXT_HAS(config, quant_recipe) ? config->quant_recipe : 0,
                         asked);
}

struct capo_what capo_ep_combine(ncclEpHandle_t handle, const ncclEpCombineOutputs_t *outputs,
                                 const ncclEpCombineConfig_t *config, struct capo_call_asked *asked)
{
        bool how = config && KNOWS(config, send_only);

        return tokens_of(handle, outputs && KNOWS(outputs, tokens) ? outputs->tokens : NULL,
                         how && config->send_only,
                         how && CAPO_EXT_HAS(config, quant_recipe) && config->quant_recipe ? 8 : 0,
                         asked);
}

/* The second half of a call; nothing, where none is open. */
struct capo_what capo_ep_complete(ncclEpHandle_t handle, struct capo_call_asked *asked)
{
        struct ep_handle *h = find_handle(handle);
        bool pending = h && atomic_exchange_explicit(&h->pending, false, memory_order_relaxed);

        if (pending)
                asked->kernel = CAPO_KERNEL_EP_LL;
        return (struct capo_what){
                .type = NO_TYPE, .op = NO_OP, .peer = -1, .p2p = pending, .other = !pending};
}

void capo_ep_sent(struct capo_tls *t, ncclResult_t rc, ncclEpHandle_t handle,
                  const struct capo_call_asked *asked)
{
        struct ep_handle *h = find_handle(handle);

        if (rc != ncclSuccess && h && asked->kernel == CAPO_KERNEL_EP_SENT)
                atomic_store_explicit(&h->pending, false, memory_order_relaxed);
        look_for_masked(t, h ? h->group : NULL);
}
