/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Beat t of round R is at (R * beats + t) * gap plus noise, on every rank; a call ends on the GPUs
 * of all who are in it 20 us + bytes / 50 GB/s after the last one has come, and the gap is longer
 * than any of that, so a stream is idle at each call. In the last round of a job with a fault the
 * host goes on as long as it can, and what pattern_play() says does not end was not seen to end.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/calls.h"
#include "core/base/util.h"
#include "tests/golden/gen_log.h"
#include "tests/golden/pattern_play.h"
#include "tests/log_numbers.h"

enum {
        PER_NODE = 8,
        SHAPES = 1024,
        BLOCK = 512,
        NOISE_NS = 1000,
        STILL_S = 60,
        START_NS = 1000000000
};

struct writer {
        const struct pattern_play *play;
        uint64_t gap_ns;
        /* of the rank being written: */
        struct gen_log log;
        unsigned rank;
        struct capo_log_shape shape[SHAPES];
        unsigned n_shapes;
        struct {
                struct gen_hist host, gpu;
                uint64_t count;
        } cell[SHAPES];
        uint32_t t_begin[BLOCK], host_ns[BLOCK], seq[BLOCK], gpu_ns[BLOCK], aux[BLOCK];
        uint16_t shape_of[BLOCK];
        uint64_t base, last, n_records;
        unsigned n;
        uint32_t seqs[PATTERN_COMMS + 1], p2ps[PATTERN_COMMS + 1], groups;
        struct oldest {
                char line[200];
                uint64_t begin;
        } running[PATTERN_COMMS + 1]; /* by communicator; 0: of several */
};

static uint64_t duration_ns(uint64_t bytes) { return 20000 + bytes / 50; }

static unsigned ranks_of(const struct writer *w, const struct pattern_comm *c)
{
        return c->n * (c->grows ? w->play->job->copies : 1);
}

/* As a record has them. What a rank of a communicator that grows has of a whole becomes less. */
static uint64_t bytes_of(const struct writer *w, const struct pattern_call *c)
{
        const struct pattern_comm *comm = &w->play->p->comm[c->comm];
        enum capo_call_kind kind = capo_call_kind(c->call);
        unsigned ranks = ranks_of(w, comm), size = capo_type_size(c->type);

        if (kind != CAPO_KIND_ALLGATHER && kind != CAPO_KIND_REDUCESCATTER &&
            kind != CAPO_KIND_ALLTOALL && kind != CAPO_KIND_GATHER && kind != CAPO_KIND_SCATTER)
                return c->count * size;
        return (c->count * comm->n + ranks - 1) / ranks * ranks * size;
}

static uint64_t late_ns(const struct writer *w, uint64_t beat)
{
        return gen_noise(77, beat, 4) ? w->play->job->late_ns : 0;
}

/* Is the late rank in it, too? */
static bool with_late(const struct writer *w, unsigned i)
{
        const struct pattern_job *job = w->play->job;
        uint32_t k = pattern_key_at(w->play, w->rank, i);
        const struct pattern_key *key;

        if (job->late_rank < 0 || k == PATTERN_NO_KEY)
                return false;
        key = &w->play->key[k];
        return key->ranks >> ((unsigned)job->late_rank % w->play->p->ranks) & 1 &&
               (key->shared ||
                (unsigned)job->late_rank / w->play->p->ranks == w->rank / w->play->p->ranks);
}

static uint16_t shape_for(struct writer *w, const struct capo_log_shape *like)
{
        struct capo_log_shape s = *like;

        for (unsigned i = 0; i < w->n_shapes; i++) {
                s.id = s.cell = (uint16_t)i;
                if (!memcmp(&s, &w->shape[i], sizeof s))
                        return (uint16_t)i;
        }
        if (w->n_shapes == SHAPES)
                exit(1);
        s.id = s.cell = (uint16_t)w->n_shapes;
        gen_log_shapes(&w->log, &s, 1);
        memset(&w->cell[w->n_shapes], 0, sizeof w->cell[0]);
        w->shape[w->n_shapes] = s;
        return (uint16_t)w->n_shapes++;
}

static void flush(struct writer *w)
{
        if (w->n)
                gen_log_block(&w->log, w->base, 1, w->n, w->t_begin, w->host_ns, w->seq,
                              w->shape_of, w->gpu_ns, w->aux);
        w->n = 0;
}

static void add(struct writer *w, const struct capo_log_shape *like, uint64_t t, uint32_t host_ns,
                uint32_t seq, uint64_t gpu_ns, uint32_t aux)
{
        uint16_t s = shape_for(w, like);

        if (w->n == BLOCK || (w->n && t - w->base > 4000000000))
                flush(w);
        w->base = w->n ? w->base : t;
        w->t_begin[w->n] = (uint32_t)(t - w->base);
        w->host_ns[w->n] = host_ns;
        w->seq[w->n] = seq;
        w->shape_of[w->n] = s;
        w->gpu_ns[w->n] = (uint32_t)gpu_ns;
        w->aux[w->n++] = aux;
        w->cell[s].count++;
        if (!(like->flags & (CAPO_RECORD_MEMBER | CAPO_RECORD_CAPTURED)))
                gen_hist_add(&w->cell[s].host, host_ns, 1);
        if (like->clock == CAPO_CLOCK_EVENT)
                gen_hist_add(&w->cell[s].gpu, gpu_ns, 1);
        w->last = t + host_ns;
        w->n_records++;
}

static void not_ended(struct writer *w, const struct capo_log_shape *s, uint64_t t, uint32_t seq)
{
        struct oldest *o = &w->running[s->comm];

        if (o->begin)
                return;
        o->begin = t;
        snprintf(o->line, sizeof o->line, "1 %s %u %u %llu %llu %u %u %d %u",
                 capo_call_name(s->call), seq, s->comm, (unsigned long long)s->bytes,
                 (unsigned long long)t, s->type, s->op, s->peer, s->stream);
}

/* A call, or a group of @n, at beat @beat of all; @ended: was it seen to end on the GPU? */
static void item(struct writer *w, const struct pattern_class *class, unsigned i, unsigned n,
                 uint64_t beat, bool ended)
{
        const struct pattern_job *job = w->play->job;
        const struct pattern_call *first = &class->call[i];
        struct capo_log_shape group = {.peer = -1,
                                       .stream = first->stream,
                                       .comm = first->comm,
                                       .call = CAPO_CALL_GROUP,
                                       .type = 255,
                                       .op = 255,
                                       .clock = ended ? CAPO_CLOCK_EVENT : CAPO_CLOCK_NONE,
                                       .flags = CAPO_RECORD_GROUP};
        uint64_t at = START_NS + beat * w->gap_ns, t, end = at + NOISE_NS;
        uint32_t host_ns = (uint32_t)(2000 + gen_noise(w->rank + 1000, beat, 500));
        uint32_t seq = 0;

        t = at + gen_noise(w->rank, beat, NOISE_NS) +
            ((int)w->rank == job->late_rank ? late_ns(w, beat) : 0);
        if (n > 1)
                w->groups++;
        for (unsigned k = i; k < i + n; k++) {
                const struct pattern_call *c = &class->call[k];
                bool p2p = capo_call_kind(c->call) == CAPO_KIND_P2P;
                struct capo_log_shape s = {
                        .bytes = bytes_of(w, c),
                        .stream = c->stream,
                        .peer = c->peer,
                        .comm = c->comm,
                        .call = c->call,
                        .type = c->type,
                        .op = c->op,
                        .clock = ended && n == 1 && !c->captured ? CAPO_CLOCK_EVENT
                                                                 : CAPO_CLOCK_NONE,
                        .flags = (uint8_t)((n > 1 ? CAPO_RECORD_MEMBER : 0) |
                                           (c->captured ? CAPO_RECORD_CAPTURED : 0))};

                if (job->fault == PATTERN_DIFFERS && !ended && w->rank == job->fault_rank &&
                    k == job->fault_at)
                        s.bytes *= 2;
                if (p2p && w->play->p->comm[c->comm].grows)
                        s.peer += (int)(w->rank / w->play->p->ranks * w->play->p->comm[c->comm].n);
                if (!p2p && !c->captured) {
                        s.algo_proto = CAPO_ALGO_RING << 4 | CAPO_PROTO_SIMPLE;
                        s.channels = 4;
                }
                if (with_late(w, k) && at + NOISE_NS + late_ns(w, beat) > end)
                        end = at + NOISE_NS + late_ns(w, beat);
                seq = p2p ? ++w->p2ps[c->comm] : ++w->seqs[c->comm];
                group.bytes += s.bytes;
                group.comm = group.comm == c->comm ? group.comm : 0;
                group.channels = k == i ? (p2p ? CAPO_CALL_GROUP : c->call)
                                        : (group.channels == (p2p ? CAPO_CALL_GROUP : c->call)
                                                   ? group.channels
                                                   : 0);
                if (n > 1)
                        add(w, &s, t, 100, seq, 0, w->groups);
                else
                        add(w, &s, t, host_ns, seq,
                            s.clock == CAPO_CLOCK_EVENT ? end - t + duration_ns(s.bytes) : 0, 0);
                if (n == 1 && !ended && !c->captured)
                        not_ended(w, &s, t, seq);
        }
        if (n > 1) {
                add(w, &group, t, host_ns, w->groups,
                    ended ? end - t + duration_ns(group.bytes) : 0, ended ? 0 : w->groups);
                if (!ended)
                        not_ended(w, &group, t, w->groups);
        }
}

static void make(struct writer *w, const struct pattern_call *c, uint64_t beat)
{
        struct capo_log_shape s = {.peer = -1,
                                   .comm = c->comm,
                                   .call = c->call,
                                   .type = 255,
                                   .op = 255,
                                   .clock = CAPO_CLOCK_HOST};

        add(w, &s, START_NS + beat * w->gap_ns, 100000, 0, 0, 0);
}

static bool is_destruction(const struct pattern_call *c)
{
        return c->call == CAPO_CALL_COMMDESTROY || c->call == CAPO_CALL_COMMABORT ||
               c->call == CAPO_CALL_COMMFINALIZE;
}

static void rounds(struct writer *w)
{
        const struct pattern_job *job = w->play->job;
        const struct pattern_class *class = pattern_class_of(w->play->p, w->rank);

        for (unsigned round = 0; round < job->rounds; round++) {
                bool faulty = job->fault != PATTERN_WHOLE && round == job->rounds - 1;

                for (unsigned i = 0, n; i < class->n_calls; i += n) {
                        const struct pattern_call *c = &class->call[i];
                        uint64_t beat = (uint64_t)round * w->play->ticks +
                                        pattern_tick_at(w->play, w->rank, i);

                        n = pattern_item(class, i);
                        if (faulty && job->fault == PATTERN_MISSING && w->rank == job->fault_rank &&
                            i >= job->fault_at)
                                return;
                        if (capo_call_kind(c->call) != CAPO_KIND_OTHER)
                                item(w, class, i, n, beat,
                                     !faulty ||
                                             w->play->ended[(size_t)w->rank * w->play->most_calls +
                                                            i]);
                        else if (is_destruction(c) ? round == job->rounds - 1 && !faulty
                                                   : round == 0)
                                make(w, c, beat);
                }
        }
}

static void communicators(struct writer *w)
{
        const struct pattern *p = w->play->p;
        unsigned r = w->rank % p->ranks, copy = w->rank / p->ranks, inst;

        for (unsigned f = 1; f <= p->n_comms; f++) {
                const struct pattern_comm *c = &p->comm[f];
                int place = pattern_place(c, r, &inst);

                if (place < 0)
                        continue;
                gen_log_comm(
                        &w->log,
                        (struct capo_log_comm){
                                .id = (uint16_t)f,
                                .parent = (uint16_t)c->parent,
                                .rank = place + (int)(c->grows ? copy * c->n : 0),
                                .n_ranks = (int)ranks_of(w, c),
                                .device = (int)w->rank % PER_NODE,
                                .n_nodes = -1,
                                .min_local = -1,
                                .max_local = -1,
                                .color = c->parent ? (int)(inst + (c->grows ? 0 : copy * c->n_inst))
                                                   : -1,
                                .uid = 0x100000000ull * f + inst +
                                       (c->grows ? 0 : (uint64_t)copy * c->n_inst),
                                .t_created = START_NS / 2 + f,
                                .handle = 0x1000 * f},
                        c->name);
        }
}

static uint64_t write_rank(struct writer *w)
{
        const struct pattern_job *job = w->play->job;
        unsigned node = w->rank / PER_NODE;
        bool faulty = job->fault != PATTERN_WHOLE;
        const struct oldest *first = NULL;
        uint64_t end;
        char text[4096];

        w->n_shapes = w->n = w->groups = 0;
        w->n_records = w->last = 0;
        memset(w->seqs, 0, sizeof w->seqs);
        memset(w->p2ps, 0, sizeof w->p2ps);
        memset(w->running, 0, sizeof w->running);
        snprintf(text, sizeof text, "%s/node-%u.%u.capo", job->dir, node, 3000 + w->rank);
        gen_log_open(&w->log, text, 3000 + w->rank);
        snprintf(
                text, sizeof text,
                "host\tnode-%u\nboot_id\tb%u\nrank\t%u\nlocal_rank\t%u\nworld_size\t%u\njob\t48214\ncmdline\tpattern\ntrace\tall\n"
                "gpu.sample\t1\nnccl.version\t2.28.9\nnccl.path\t/usr/lib/libnccl.so.2\n",
                node, node, w->rank, w->rank % PER_NODE, w->play->p->ranks * job->copies);
        gen_log_text(&w->log, CAPO_FRAME_INFO, text);
        communicators(w);
        rounds(w);
        flush(w);
        for (unsigned s = 0; s < w->n_shapes; s++) {
                const struct capo_log_shape *h = &w->shape[s];
                bool host = !(h->flags & (CAPO_RECORD_MEMBER | CAPO_RECORD_CAPTURED)),
                     gpu = h->clock == CAPO_CLOCK_EVENT;

                gen_log_cell(
                        &w->log,
                        (struct capo_log_cell){.bytes = h->bytes,
                                               .count = w->cell[s].count,
                                               .id = (uint16_t)s,
                                               .comm = h->comm,
                                               .call = h->call,
                                               .algo_proto = h->algo_proto,
                                               .channels = h->channels,
                                               .clock = gpu ? CAPO_CLOCK_EVENT : CAPO_CLOCK_NONE,
                                               .flags = h->flags},
                        host ? &w->cell[s].host : NULL, gpu ? &w->cell[s].gpu : NULL);
        }
        for (unsigned f = 0; f <= PATTERN_COMMS; f++) {
                const struct oldest *o = &w->running[f];

                if (!o->begin)
                        continue;
                first = first && first->begin <= o->begin ? first : o;
                snprintf(text, sizeof text, "unfinished+\trunning %s\n", o->line);
                gen_log_text(&w->log, CAPO_FRAME_INFO, text);
        }
        if (first) {
                snprintf(text, sizeof text, "unfinished+\tgpu %s\n", first->line);
                gen_log_text(&w->log, CAPO_FRAME_INFO, text);
        }
        /* all are ended at one moment, by whoever ends a job that stands */
        end = START_NS + (uint64_t)job->rounds * w->play->ticks * w->gap_ns +
              (faulty ? STILL_S * 1000000000ull : 5000000);
        gen_log_frame(&w->log, CAPO_FRAME_END,
                      &(struct capo_log_end){.t_ns = end,
                                             .mono_ns = end + w->log.header.t0_mono_ns,
                                             .real_ns = end + w->log.header.t0_real_ns,
                                             .calls = w->n_records,
                                             .cost_ns = 17.0,
                                             .ticks_per_s = 1e9,
                                             .clean = faulty ? 2 : 1,
                                             .threads = 1},
                      sizeof(struct capo_log_end));
        gen_log_close(&w->log);
        return w->n_records;
}

uint64_t pattern_write(const struct pattern *p, const struct pattern_job *job)
{
        struct writer *w = calloc(1, sizeof *w);
        struct pattern_play play;
        uint64_t n = 0, longest = 0;

        if (!w)
                exit(1);
        pattern_play(p, job, &play);
        w->play = &play;
        for (unsigned i = 0; i < p->n_classes; i++) {
                uint64_t together = 0; /* more than any group */

                for (unsigned k = 0; k < p->class[i].n_calls; k++)
                        together += p->class[i].call[k].type == 255
                                            ? 0
                                            : bytes_of(w, &p->class[i].call[k]);
                longest = together > longest ? together : longest;
        }
        w->gap_ns = job->busy ? job->late_ns + duration_ns(longest) + 5000
                              : (job->late_ns + duration_ns(longest)) / 1000000 * 1000000 + 2000000;
        for (w->rank = 0; w->rank < p->ranks * job->copies; w->rank++)
                n += write_rank(w);
        pattern_play_free(&play);
        free(w);
        return n;
}
