/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernels of NCCL EP do: route tokens to the ranks of their experts and back. All of it
 * runs as tasks of a stream. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ep.h"

size_t ep_type_bytes(ncclDataType_t type)
{
        switch (type) {
        case ncclInt32:
        case ncclFloat32: return 4;
        case ncclInt64:
        case ncclFloat64: return 8;
        case ncclFloat16:
        case ncclBfloat16: return 2;
        default: return 1;
        }
}

void ep_handle_free(struct ncclEpHandle *handle)
{
        if (atomic_fetch_sub(&handle->refs, 1) > 1)
                return;
        for (size_t i = 0; i < handle->n_places; i++)
                free(handle->place[i].came);
        free(handle->place);
        free(handle->idx);
        free(handle);
}

void ep_call_free(struct ep_call *call)
{
        if (call->kept)
                return;
        if (call->handle)
                ep_handle_free(call->handle);
        free(call->counts);
        free(call->mask);
        free(call);
}

static uint64_t now_ns(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Rank @peer did not come: mask it, or end as a kernel's trap does. */
static void give_up(struct ncclEpGroup *g, int peer)
{
        if (g->config.enable_mask) {
                atomic_store(&g->active[peer], 0);
                atomic_store(&g->error, 1);
                return;
        }
        fprintf(stderr, "NCCL EP: rank %d: timeout, rank %d did not come\n", g->rank, peer);
        g->lost = true;
        standin_lost();
}

/* Wait until @word is at least @value. */
static bool await(struct ncclEpGroup *g, _Atomic uint64_t *word, uint64_t value, int peer)
{
        uint64_t end = now_ns() + g->timeout_ns;

        for (long pause = 1000; atomic_load(word) < value; pause += pause < 200000 ? 1000 : 0) {
                if (now_ns() > end) {
                        give_up(g, peer);
                        return false;
                }
                nanosleep(&(struct timespec){.tv_nsec = pause}, NULL);
        }
        return true;
}

static struct ep_slot *slot_of(struct ncclEpGroup *g, int to, int from, uint64_t exchange)
{
        size_t nth = (size_t)from * EP_SLOTS + exchange % EP_SLOTS;

        return (struct ep_slot *)((char *)(g->segment[to] + 1) + nth * g->slot_size);
}

static struct ep_token *token_at(const struct ncclEpGroup *g, struct ep_slot *slot, size_t nth)
{
        return (struct ep_token *)((char *)(slot + 1) + nth * g->token_size);
}

static int rank_of(const struct ncclEpGroup *g, int64_t expert)
{
        return expert < 0 || expert >= g->config.num_experts ? -1
                                                             : (int)(expert / g->local_experts);
}

static int64_t get_int(const void *array, ncclDataType_t type, size_t nth)
{
        return type == ncclInt32 ? ((const int32_t *)array)[nth] : ((const int64_t *)array)[nth];
}

static void put_int(void *array, ncclDataType_t type, size_t nth, int64_t value)
{
        if (!array)
                return;
        if (type == ncclInt32)
                ((int32_t *)array)[nth] = (int32_t)value;
        else
                ((int64_t *)array)[nth] = value;
}

/* The routing of this step: in->type, n_rows tokens, row_bytes is the top-k. */
void ep_run_update(void *arg)
{
        struct ep_call *c = arg;
        struct ncclEpHandle *h = c->handle;
        size_t n = c->n_rows * c->row_bytes;

        h->tokens = c->n_rows;
        h->topk = (int)c->row_bytes;
        h->idx = realloc(h->idx, (n ? n : 1) * sizeof *h->idx);
        for (size_t i = 0; i < n; i++)
                h->idx[i] = get_int(c->in, c->type, i);
        if (!c->counts) {
                ep_call_free(c);
                return;
        }
        memset(c->counts, 0, ((size_t)c->group->n + c->group->config.num_experts) * 4);
        for (size_t t = 0; t < h->tokens; t++) {
                for (int r = 0; r < c->group->n; r++) {
                        bool there = false;

                        for (int k = 0; k < h->topk; k++) {
                                int64_t e = h->idx[t * (size_t)h->topk + (size_t)k];

                                there |= rank_of(c->group, e) == r;
                                if (rank_of(c->group, e) == r)
                                        c->counts[c->group->n + e]++;
                        }
                        c->counts[r] += there;
                }
        }
}

/* After the sum over all ranks: what this one will receive. */
void ep_run_counts(void *arg)
{
        struct ep_call *c = arg;
        const struct ncclEpGroup *g = c->group;
        size_t total = 0, align = c->handle->alignment ? c->handle->alignment : 1;
        bool flat = c->handle->layout == NCCL_EP_LAYOUT_FLAT;

        for (int e = 0; e < g->local_experts; e++) {
                size_t n = (size_t)c->counts[g->n + g->rank * g->local_experts + e];

                n = flat ? n : (n + align - 1) / align * align;
                put_int(c->counters, c->counter_type, (size_t)e, (int64_t)n);
                put_int(c->offsets, c->offset_type, (size_t)e, (int64_t)total);
                total += n;
        }
        put_int(c->total, c->total_type, 0, flat ? c->counts[g->rank] : (int64_t)total);
        ep_call_free(c);
}

static void send_tokens(struct ep_call *c, int to, struct ep_slot *slot)
{
        struct ncclEpHandle *h = c->handle;
        struct ncclEpGroup *g = h->group;

        slot->n = 0;
        for (size_t t = 0; c->what == EP_DISPATCH && t < h->tokens; t++) {
                struct ep_token *out = token_at(g, slot, slot->n);
                bool there = false;

                for (int k = 0; k < EP_TOPK; k++) {
                        size_t at = t * (size_t)h->topk + (size_t)k;

                        out->idx[k] = k < h->topk ? h->idx[at] : -1;
                        out->weight[k] = k < h->topk && c->in_weights ? c->in_weights[at] : 0;
                        there |= rank_of(g, out->idx[k]) == to;
                }
                if (!there)
                        continue;
                out->token = (int32_t)t;
                out->expert = -1;
                memcpy(out->row, (const char *)c->in + t * c->row_bytes, c->row_bytes);
                slot->n++;
        }
        for (size_t i = 0; c->what == EP_COMBINE && i < h->n_places; i++) {
                const struct ep_place *p = &h->place[i];
                struct ep_token *out = token_at(g, slot, slot->n);
                bool per_slot = h->layout == NCCL_EP_LAYOUT_EXPERT_MAJOR;

                if (p->source != to)
                        continue;
                *out = *p->came;
                out->token = p->token;
                out->expert = p->expert;
                for (int k = 0; k < h->topk && c->in_weights; k++)
                        out->weight[k] =
                                c->in_weights[per_slot ? p->row
                                                       : p->row * (size_t)h->topk + (size_t)k];
                memcpy(out->row, (const char *)c->in + p->row * c->row_bytes, c->row_bytes);
                slot->n++;
        }
}

void ep_run_send(void *arg)
{
        struct ep_call *c = arg;
        struct ncclEpGroup *g = c->group;
        uint64_t number = ++g->exchange;

        c->handle->exchange = number;
        for (int i = 0; i < g->n && !g->lost; i++) {
                int to = (g->rank + i) % g->n;
                struct ep_slot *slot = slot_of(g, to, g->rank, number);

                if (!atomic_load(&g->active[to]) ||
                    !await(g, &slot->taken, atomic_load(&slot->sent), to))
                        continue;
                send_tokens(c, to, slot);
                atomic_store(&slot->sent, number);
        }
}

static struct ep_place *add_place(struct ncclEpHandle *h, int source, const struct ep_token *in,
                                  int expert, size_t row)
{
        struct ep_place *p;

        h->place = realloc(h->place, (h->n_places + 1) * sizeof *h->place);
        p = &h->place[h->n_places++];
        *p = (struct ep_place){source, in->token, expert, row, malloc(sizeof *in)};
        memcpy(p->came, in, sizeof *in);
        return p;
}

static void put_row(struct ep_call *c, const struct ep_token *in, size_t row)
{
        memcpy((char *)c->out + row * c->row_bytes, in->row, c->row_bytes);
}

/* How many of the tokens that came are of local expert @expert. */
static size_t count_tokens(struct ep_call *c, const bool *came, int expert)
{
        struct ncclEpGroup *g = c->group;
        size_t n = 0;

        for (int s = 0; s < g->n; s++) {
                struct ep_slot *slot = slot_of(g, g->rank, s, c->handle->exchange);

                for (size_t i = 0; came[s] && i < slot->n; i++) {
                        for (int k = 0; k < c->handle->topk; k++)
                                n += token_at(g, slot, i)->idx[k] == expert;
                }
        }
        return n;
}

/* One row per token and expert, expert by expert. */
static void receive_by_expert(struct ep_call *c, const bool *came)
{
        struct ncclEpHandle *h = c->handle;
        struct ncclEpGroup *g = c->group;
        bool fixed = g->config.algorithm == NCCL_EP_ALGO_LOW_LATENCY;
        size_t zone = (size_t)g->n * g->config.max_dispatch_tokens_per_rank;
        size_t align = h->alignment ? h->alignment : 1, at = 0;

        for (int e = 0; e < g->local_experts; e++) {
                int expert = g->rank * g->local_experts + e;
                size_t row = fixed ? (size_t)e * zone : at, n = count_tokens(c, came, expert);

                for (int s = 0; s < g->n; s++) {
                        struct ep_slot *slot = slot_of(g, g->rank, s, h->exchange);

                        for (size_t i = 0; came[s] && i < slot->n; i++) {
                                struct ep_token *in = token_at(g, slot, i);

                                for (int k = 0; k < h->topk; k++) {
                                        if (in->idx[k] != expert || (!fixed && row >= c->n_rows))
                                                continue;
                                        add_place(h, s, in, expert, row);
                                        if (c->out_weights)
                                                c->out_weights[row] = in->weight[k];
                                        put_row(c, in, row++);
                                }
                        }
                }
                for (at += (n + align - 1) / align * align; !fixed && row < at && row < c->n_rows;
                     row++)
                        memset((char *)c->out + row * c->row_bytes, 0, c->row_bytes);
                put_int(c->counters, c->counter_type, (size_t)e, (int64_t)n);
        }
}

/* One row per token, rank by rank: with room for all of each rank, or without holes. */
static void receive_by_rank(struct ep_call *c, const bool *came)
{
        struct ncclEpHandle *h = c->handle;
        struct ncclEpGroup *g = c->group;
        bool fixed = h->layout == NCCL_EP_LAYOUT_RANK_MAJOR;
        size_t row = 0;

        for (int s = 0; s < g->n; s++) {
                struct ep_slot *slot = slot_of(g, g->rank, s, h->exchange);
                size_t n = came[s] ? slot->n : 0;

                if (fixed)
                        row = (size_t)s * g->config.max_dispatch_tokens_per_rank;
                for (size_t i = 0; i < n && row < c->n_rows; i++, row++) {
                        struct ep_token *in = token_at(g, slot, i);

                        add_place(h, s, in, -1, row);
                        put_row(c, in, row);
                        for (int k = 0; k < h->topk; k++) {
                                bool here = rank_of(g, in->idx[k]) == g->rank;
                                int64_t id = in->idx[k] -
                                             (c->global_ids ? 0 : g->rank * g->local_experts);
                                size_t to = row * (size_t)h->topk + (size_t)k;

                                put_int(c->out_idx, c->idx_type, to, here ? id : -1);
                                if (c->out_weights)
                                        c->out_weights[to] = here ? in->weight[k] : 0;
                        }
                }
                put_int(c->source_counters, ncclInt32, (size_t)s, (int64_t)n);
        }
}

static float get_float(const void *array, ncclDataType_t type, size_t nth)
{
        uint32_t bits;
        float f;

        if (type == ncclFloat32)
                return ((const float *)array)[nth];
        bits = (uint32_t)((const uint16_t *)array)[nth] << 16;
        memcpy(&f, &bits, sizeof f);
        return f;
}

static void put_float(void *array, ncclDataType_t type, size_t nth, float value)
{
        uint32_t bits;

        if (type == ncclFloat32) {
                ((float *)array)[nth] = value;
                return;
        }
        memcpy(&bits, &value, sizeof bits);
        ((uint16_t *)array)[nth] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Sum up what the experts made of this rank's tokens, rank by rank. */
static void receive_results(struct ep_call *c, const bool *came)
{
        struct ncclEpHandle *h = c->handle;
        struct ncclEpGroup *g = c->group;
        size_t width = c->row_bytes / ep_type_bytes(c->type);
        float *sum = calloc(h->tokens * width + 1, sizeof *sum);
        bool weigh = g->config.algorithm == NCCL_EP_ALGO_LOW_LATENCY &&
                     h->layout == NCCL_EP_LAYOUT_EXPERT_MAJOR && c->out_weights;

        for (int s = 0; s < g->n; s++) {
                struct ep_slot *slot = slot_of(g, g->rank, s, h->exchange);

                for (size_t i = 0; came[s] && i < slot->n; i++) {
                        struct ep_token *in = token_at(g, slot, i);
                        size_t t = (size_t)in->token;
                        float weight = 1;

                        for (int k = 0; k < h->topk && t < h->tokens; k++) {
                                size_t at = t * (size_t)h->topk + (size_t)k;

                                if (weigh && in->idx[k] == in->expert)
                                        weight = c->out_weights[at];
                                if (c->backward && c->out_weights &&
                                    (in->expert < 0 ? rank_of(g, in->idx[k]) == s
                                                    : in->idx[k] == in->expert))
                                        c->out_weights[at] = in->weight[k];
                        }
                        for (size_t j = 0; j < width && t < h->tokens; j++)
                                sum[t * width + j] += weight * get_float(in->row, c->type, j);
                }
        }
        for (size_t i = 0; i < h->tokens * width && i < c->n_rows * width; i++)
                put_float(c->out, c->type, i, sum[i]);
        free(sum);
}

void ep_run_receive(void *arg)
{
        struct ep_call *c = arg;
        struct ncclEpHandle *h = c->handle;
        struct ncclEpGroup *g = c->group;
        bool *came = calloc((size_t)g->n, sizeof *came);

        for (int s = 0; s < g->n && !g->lost; s++)
                came[s] = atomic_load(&g->active[s]) &&
                          await(g, &slot_of(g, g->rank, s, h->exchange)->sent, h->exchange, s);
        if (!g->lost && c->what == EP_DISPATCH) {
                for (size_t i = 0; i < h->n_places; i++)
                        free(h->place[i].came);
                h->n_places = 0;
                if (h->layout == NCCL_EP_LAYOUT_EXPERT_MAJOR)
                        receive_by_expert(c, came);
                else
                        receive_by_rank(c, came);
        } else if (!g->lost) {
                receive_results(c, came);
        }
        for (int s = 0; s < g->n; s++) {
                if (came[s])
                        atomic_store(&slot_of(g, g->rank, s, h->exchange)->taken, h->exchange);
        }
        free(came);
        ep_call_free(c);
}

/* All ranks that answer meet, agree on the number of the next exchange, and empty their boxes. */
void ep_run_clean(void *arg)
{
        struct ep_call *c = arg;
        struct ncclEpGroup *g = c->group;
        struct ep_segment *own = g->segment[g->rank];

        atomic_store(&own->at, g->exchange);
        for (int phase = 0; phase < 2; phase++) {
                atomic_store(&own->barrier, ++g->barriers);
                for (int r = 0; r < g->n && !g->lost; r++) {
                        if (!atomic_load(&g->active[r]) ||
                            !await(g, &g->segment[r]->barrier, g->barriers, r))
                                continue;
                        if (phase == 0 && atomic_load(&g->segment[r]->at) > g->exchange)
                                g->exchange = atomic_load(&g->segment[r]->at);
                }
                for (int s = 0; phase == 0 && s < g->n * EP_SLOTS; s++) {
                        struct ep_slot *slot = slot_of(g, g->rank, s / EP_SLOTS, (uint64_t)s);

                        atomic_store(&slot->taken, atomic_load(&slot->sent));
                }
        }
        for (int r = 0; r < g->n; r++)
                atomic_store(&g->active[r], 1);
        ep_call_free(c);
}
