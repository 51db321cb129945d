/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/text.h"
#include "core/base/util.h"
#include "tests/steps/made_jobs.h"
#include "tests/log_numbers.h"

enum { WORLD = 1, TP, PP, EP };

/* The choices of one job. */
struct plan {
        uint64_t random;
        enum made_kind kind;
        uint32_t layers, micro, stage, stages, buckets, warm, log_each, eval_each, eval_len;
        uint64_t layer_bytes, act_bytes, bucket[64];
        bool loss, norm, first_forward, grows, forward_sync, gpipe;
        double extra, swap, stall;
};

struct making {
        struct plan p;
        struct made_job job;
        uint64_t now, gap;
        uint32_t batch; /* requests, where they differ */
};

static uint64_t next_random(struct plan *p)
{
        uint64_t x = p->random += 0x9e3779b97f4a7c15;

        x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
        x = (x ^ x >> 27) * 0x94d049bb133111eb;
        return x ^ x >> 31;
}

static uint32_t within(struct plan *p, uint32_t least, uint32_t most)
{
        return least + (uint32_t)(next_random(p) % (most - least + 1));
}

static bool happens(struct plan *p, double chance)
{
        return (double)(next_random(p) >> 11) < chance * (double)(1ull << 53);
}

static void put(struct making *m, uint32_t comm, uint8_t call, uint64_t bytes, int32_t peer)
{
        struct made_job *job = &m->job;
        uint64_t noise = next_random(&m->p) % (m->gap / 4 + 1);

        if (capo_array_room(&job->call, job->n, sizeof *job->call) < 0)
                exit(1);
        m->now += m->gap + noise;
        job->call[job->n++] = (struct capo_step_call){
                .t_ns = m->now, .bytes = bytes, .comm = comm, .peer = peer, .call = call};
        if (happens(&m->p, m->p.stall))
                m->now += 200 * m->gap;
        if (happens(&m->p, m->p.extra))
                put(m, WORLD, CAPO_CALL_ALLREDUCE, 8 << next_random(&m->p) % 4, -1);
}

static void all_reduce(struct making *m, uint32_t comm, uint64_t bytes)
{
        put(m, comm, CAPO_CALL_ALLREDUCE, bytes, -1);
}

/* ---- forward and backward of one micro-batch ---- */

static void all_to_alls(struct making *m, uint32_t layers)
{
        for (uint32_t i = 0; i < layers; i++) {
                uint64_t tokens = 512 + next_random(&m->p) % 512;

                put(m, EP, CAPO_CALL_ALLTOALL, tokens * 4096, -1);
                put(m, EP, CAPO_CALL_ALLTOALL, tokens * 4096, -1);
        }
}

static void gather_layers(struct making *m, uint32_t n)
{
        for (uint32_t i = 0; i < n; i++)
                put(m, WORLD, CAPO_CALL_ALLGATHER, m->p.layer_bytes, -1);
}

/* As recorded of fully_shard: the next layer is gathered before the last one is reduced. */
static void gather_backwards(struct making *m, bool reduce)
{
        gather_layers(m, 1);
        for (uint32_t i = 1; i < m->p.layers; i++) {
                gather_layers(m, 1);
                if (reduce)
                        put(m, WORLD, CAPO_CALL_REDUCESCATTER, m->p.layer_bytes, -1);
        }
        if (reduce)
                put(m, WORLD, CAPO_CALL_REDUCESCATTER, m->p.layer_bytes, -1);
}

static void tensor_layers(struct making *m, uint32_t n)
{
        for (uint32_t i = 0; i < 2 * n; i++)
                all_reduce(m, TP, m->p.act_bytes);
}

/* 1F1B, or all forward and then all backward, as stage @stage of @stages sees it. */
static void forward_stage(struct making *m)
{
        if (m->p.stage)
                put(m, PP, CAPO_CALL_RECV, m->p.act_bytes, (int)m->p.stage - 1);
        if (m->p.kind == MADE_3D)
                tensor_layers(m, m->p.layers);
        if (m->p.stage + 1 < m->p.stages)
                put(m, PP, CAPO_CALL_SEND, m->p.act_bytes, (int)m->p.stage + 1);
}

static void backward_stage(struct making *m)
{
        if (m->p.stage + 1 < m->p.stages)
                put(m, PP, CAPO_CALL_RECV, m->p.act_bytes, (int)m->p.stage + 1);
        if (m->p.kind == MADE_3D)
                tensor_layers(m, m->p.layers);
        if (m->p.stage)
                put(m, PP, CAPO_CALL_SEND, m->p.act_bytes, (int)m->p.stage - 1);
}

static void pipeline_step(struct making *m)
{
        uint32_t warm = m->p.stages - m->p.stage - 1;

        if (m->p.gpipe || warm > m->p.micro)
                warm = m->p.micro;
        for (uint32_t i = 0; i < warm; i++)
                forward_stage(m);
        for (uint32_t i = warm; i < m->p.micro; i++) {
                forward_stage(m);
                backward_stage(m);
        }
        for (uint32_t i = 0; i < warm; i++)
                backward_stage(m);
}

static void ddp_buckets(struct making *m)
{
        for (uint32_t i = 0; i < m->p.buckets; i++)
                all_reduce(m, WORLD, m->p.bucket[i]);
}

/* ---- one step ---- */

static void decode_step(struct making *m)
{
        if (happens(&m->p, 0.1))
                m->batch = within(&m->p, 1, 64);
        if (happens(&m->p, 0.02))
                m->batch = within(&m->p, 256, 2048); /* requests are read in */
        for (uint32_t i = 0; i < 2 * m->p.layers + 1; i++)
                all_reduce(m, TP, 8192ull * m->batch);
        put(m, TP, CAPO_CALL_ALLGATHER, 32064ull * (m->batch > 64 ? 1 : m->batch), -1);
        m->batch = m->batch > 64 ? within(&m->p, 1, 64) : m->batch;
}

static void make_step(struct making *m)
{
        const struct plan *p = &m->p;

        switch (p->kind) {
        case MADE_DDP: /* accumulates without a call (no_sync) */
                if (p->forward_sync)
                        put(m, WORLD, CAPO_CALL_BCAST, 544, 0);
                ddp_buckets(m);
                break;
        case MADE_FSDP:
                for (uint32_t i = 0; i < p->micro; i++) {
                        gather_layers(m, p->layers);
                        gather_backwards(m, i + 1 == p->micro);
                }
                break;
        case MADE_ZERO2:
                for (uint32_t i = 0; i < p->micro; i++)
                        ddp_buckets(m);
                all_reduce(m, WORLD, 4);
                put(m, WORLD, CAPO_CALL_ALLGATHER, p->layer_bytes, -1);
                break;
        case MADE_ZERO3:
                for (uint32_t i = 0; i < p->micro; i++) {
                        gather_layers(m, p->layers);
                        gather_backwards(m, true);
                }
                all_reduce(m, WORLD, 8);
                break;
        case MADE_TENSOR:
                for (uint32_t i = 0; i < p->micro; i++)
                        tensor_layers(m, 2 * p->layers);
                ddp_buckets(m);
                break;
        case MADE_PIPELINE:
                pipeline_step(m);
                if (p->buckets)
                        ddp_buckets(m);
                break;
        case MADE_MOE:
                for (uint32_t i = 0; i < p->micro; i++)
                        all_to_alls(m, 2 * p->layers);
                ddp_buckets(m);
                break;
        case MADE_3D:
                pipeline_step(m);
                ddp_buckets(m);
                break;
        case MADE_DECODE: decode_step(m); break;
        default: break;
        }
        if (p->loss)
                all_reduce(m, WORLD, 4);
        if (p->norm)
                all_reduce(m, WORLD, 8);
        m->now += (10 + next_random(&m->p) % 3) * m->gap; /* the optimizer, the next batch */
}

/* Forward alone, and a figure averaged. */
static void evaluate(struct making *m)
{
        for (uint32_t i = 0; i < m->p.eval_len; i++) {
                switch (m->p.kind) {
                case MADE_FSDP:
                case MADE_ZERO3: gather_layers(m, m->p.layers); break;
                case MADE_TENSOR:
                case MADE_3D: tensor_layers(m, m->p.layers); break;
                case MADE_MOE: all_to_alls(m, m->p.layers); break;
                default: all_reduce(m, WORLD, 16); break;
                }
        }
        all_reduce(m, WORLD, 12);
        m->now += 100 * m->gap;
}

/* ---- a job ---- */

static void choose(struct plan *p)
{
        static const uint32_t micros[] = {1, 1, 2, 4, 8, 16}, logs[] = {0, 0, 10, 20, 50, 100};
        bool train = p->kind < MADE_DECODE;

        p->layers = within(p, 2, 24);
        p->micro = micros[next_random(p) % N_ELEMENTS(micros)];
        p->stages = 2 << next_random(p) % 3;
        p->stage = within(p, 0, p->stages - 1);
        if (p->kind == MADE_PIPELINE || p->kind == MADE_3D)
                p->micro = within(p, p->stages, 4 * p->stages);
        p->gpipe = happens(p, 0.3);
        p->layer_bytes = 4096ull * within(p, 16, 60000);
        p->act_bytes = 4096ull * within(p, 64, 8192);
        p->buckets = within(p, p->kind == MADE_DDP ? 2 : 1, 12);
        if (p->kind == MADE_PIPELINE && happens(p, 0.4))
                p->buckets = 0;
        for (uint32_t i = 0; i < p->buckets; i++)
                p->bucket[i] = (25u << 20) - 4 * (next_random(p) % 3 ? 4321 : within(p, 0, 99999));
        if (p->buckets)
                p->bucket[p->buckets - 1] = 4096ull * within(p, 64, 6000);
        p->loss = train && happens(p, 0.3);
        p->norm = train && happens(p, 0.3);
        p->forward_sync = happens(p, 0.3);
        p->warm = within(p, 0, 40);
        p->log_each = train ? logs[next_random(p) % N_ELEMENTS(logs)] : 0;
        p->eval_each = train && happens(p, 0.4) ? within(p, 40, 300) : 0;
        p->eval_len = within(p, 5, 20);
        p->extra = happens(p, 0.2) ? 0.0005 : 0;
        p->swap = happens(p, 0.3) ? 0.01 : 0;
        p->stall = happens(p, 0.5) ? 0.002 : 0;
}

/* Two threads of a rank do not always take turns alike. */
static void swap_calls(struct making *m)
{
        for (uint32_t i = 1; i < m->job.n; i++) {
                struct capo_step_call *a = &m->job.call[i - 1], *b = &m->job.call[i], c = *a;

                if (a->comm == b->comm || !happens(&m->p, m->p.swap))
                        continue;
                *a = *b;
                a->t_ns = c.t_ns;
                c.t_ns = b->t_ns;
                *b = c;
                i++;
        }
}

static void start(struct making *m)
{
        for (uint32_t i = 0; i < m->p.warm; i++)
                put(m, WORLD, CAPO_CALL_BCAST, 4 * within(&m->p, 1, 1 << 20), 0);
}

static void make_sweep(struct making *m)
{
        uint32_t each = within(&m->p, 5, 100);

        for (uint64_t bytes = 8; bytes <= 1 << 28; bytes *= 2) {
                for (uint32_t i = 0; i < each; i++)
                        all_reduce(m, WORLD, bytes);
        }
}

static void make_chaos(struct making *m)
{
        static const uint8_t calls[] = {CAPO_CALL_ALLREDUCE, CAPO_CALL_ALLGATHER, CAPO_CALL_BCAST,
                                        CAPO_CALL_SEND, CAPO_CALL_RECV};
        uint32_t n = within(&m->p, 100, 5000);

        for (uint32_t i = 0; i < n; i++)
                put(m, within(&m->p, 1, 3), calls[next_random(&m->p) % N_ELEMENTS(calls)],
                    1024ull << next_random(&m->p) % 12, -1);
}

const char *made_name(enum made_kind kind)
{
        static const char *const names[] = {"DDP", "FSDP", "ZeRO-2", "ZeRO-3", "tensor", "pipeline",
                                            "MoE", "3D",   "decode", "sweep",  "chaos"};

        return names[kind];
}

static void cut_beginning(struct made_job *job, uint32_t cut)
{
        if (cut >= job->n)
                return;
        memmove(job->call, job->call + cut, (job->n - cut) * sizeof *job->call);
        job->n -= cut;
}

struct made_job made_plain(enum made_kind kind, uint32_t layers, uint32_t steps)
{
        struct making m = {.p = {.kind = kind,
                                 .layers = layers,
                                 .micro = layers,
                                 .stages = 2,
                                 .buckets = 1,
                                 .bucket = {4680},
                                 .layer_bytes = 2080,
                                 .act_bytes = 64},
                           .gap = 10000,
                           .batch = 1,
                           .job.kind = kind};

        if (kind != MADE_PIPELINE)
                m.p.micro = 1;
        else
                m.p.buckets = 0;
        for (uint32_t i = 0; i < steps; i++)
                make_step(&m);
        m.job.period = m.job.n / steps;
        m.job.steps = steps;
        return m.job;
}

struct made_job made_job(enum made_kind kind, uint64_t seed)
{
        struct making m = {.p = {.random = seed * 2654435761u + kind * 977u, .kind = kind},
                           .gap = 50000,
                           .batch = 8,
                           .job.kind = kind};
        uint32_t from, most, epoch, stalls;

        choose(&m.p);
        epoch = happens(&m.p, 0.3) ? within(&m.p, 60, 200) : 0;
        snprintf(
                m.job.what, sizeof m.job.what,
                "layers %u micro %u stage %u/%u%s buckets %u loss %d norm %d log %u eval %u x %u epoch %u extra %g swap %g",
                m.p.layers, m.p.micro, m.p.stage, m.p.stages, m.p.gpipe ? " gpipe" : "",
                m.p.buckets, m.p.loss, m.p.norm, m.p.log_each, m.p.eval_each, m.p.eval_len, epoch,
                m.p.extra, m.p.swap);
        if (kind == MADE_SWEEP)
                make_sweep(&m);
        else if (kind == MADE_CHAOS)
                make_chaos(&m);
        if (kind >= MADE_STEPS)
                return m.job;
        start(&m);
        { /* one step alone, to know it */
                struct making one = m;
                uint32_t before = one.job.n;

                one.job.call = NULL;
                one.job.n = 0;
                one.p.extra = one.p.stall = 0;
                before = 0;
                make_step(&one);
                m.job.period = one.job.n - before;
                free(one.job.call);
        }
        from = m.job.n;
        most = 30 + 16000 / m.job.period;
        most = within(&m.p, most / 3, most);
        stalls = 0;
        for (uint32_t i = 0; i < most; i++) {
                make_step(&m);
                m.job.steps++;
                if (m.p.log_each && (i + 1) % m.p.log_each == 0)
                        all_reduce(&m, WORLD, 20);
                if (m.p.eval_each && (i + 1) % m.p.eval_each == 0)
                        evaluate(&m);
                if (epoch && i + 1 == epoch + stalls) {
                        stalls += epoch + within(&m.p, 0, 7);
                        put(&m, WORLD, CAPO_CALL_BCAST, 24, 0);
                }
        }
        swap_calls(&m);
        if (happens(&m.p, 0.5))
                cut_beginning(&m.job, from + next_random(&m.p) % m.job.period);
        return m.job;
}
