/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The truth behind gen_job: step k of n starts at k ms plus per-rank noise, on every rank; a
 * collective starts on the GPU when the rank reaches it, and ends on all ranks 100 us + bytes / 50
 * GB/s after the last rank has started. Host i shows clocks that are off by i * (clock_ns + drift *
 * t).
 */
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/base/util.h"
#include "tests/golden/gen_log.h"
#include "tests/log_numbers.h"

static void put(struct gen_log *g, const void *bytes, size_t n)
{
        if (n && fwrite(bytes, n, 1, g->file) != 1) {
                perror("gen_log");
                exit(1);
        }
}

void gen_log_open_with(struct gen_log *g, const char *path, const struct capo_log_header *header)
{
        g->header = *header;
        g->file = fopen(path, "we");
        if (!g->file) {
                perror(path);
                exit(1);
        }
        put(g, header, sizeof *header);
}

void gen_log_open(struct gen_log *g, const char *path, uint32_t pid)
{
        struct capo_log_header h = {.order = CAPO_LOG_ORDER,
                                    .version = CAPO_LOG_VERSION,
                                    .min_reader = CAPO_LOG_MIN_READER,
                                    .header_size = sizeof h,
                                    .pid = pid,
                                    .t0_ticks = 1000000000,
                                    .t0_mono_ns = 1000000000,
                                    .t0_real_ns = 1795183331000000000, /* 2026-11-20 14:02:11 UTC */
                                    .ticks_per_s = 1000000000};

        memcpy(h.magic, CAPO_LOG_MAGIC, sizeof h.magic);
        gen_log_open_with(g, path, &h);
}

void gen_log_close(struct gen_log *g)
{
        if (fclose(g->file) != 0) {
                perror("gen_log");
                exit(1);
        }
}

void gen_log_frame(struct gen_log *g, unsigned type, const void *payload, uint32_t size)
{
        struct capo_frame f = {.type = (uint16_t)type, .size = size};

        f.check = XXH3_64bits_withSeed(payload, size, type | (uint64_t)size << 32);
        put(g, &f, sizeof f);
        put(g, payload, size);
        put(g, "\0\0\0\0\0\0\0", -size & 7);
}

void gen_log_text(struct gen_log *g, unsigned type, const char *text)
{
        gen_log_frame(g, type, text, (uint32_t)strlen(text));
}

static void struct_and_text(struct gen_log *g, unsigned type, const void *head, size_t n_head,
                            const char *text)
{
        size_t n_text = strlen(text);
        _cleanup_free_ char *payload = malloc(n_head + n_text);

        memcpy(payload, head, n_head);
        memcpy(payload + n_head, text, n_text);
        gen_log_frame(g, type, payload, (uint32_t)(n_head + n_text));
}

void gen_log_comm(struct gen_log *g, struct capo_log_comm comm, const char *name)
{
        comm.name_size = (uint16_t)strlen(name);
        struct_and_text(g, CAPO_FRAME_COMM, &comm, sizeof comm, name);
}

void gen_log_site(struct gen_log *g, struct capo_log_site site, const char *text)
{
        site.text_size = (uint32_t)strlen(text);
        struct_and_text(g, CAPO_FRAME_SITE, &site, sizeof site, text);
}

void gen_log_shapes(struct gen_log *g, const struct capo_log_shape *shapes, unsigned n)
{
        gen_log_frame(g, CAPO_FRAME_SHAPE, shapes, n * (uint32_t)sizeof *shapes);
}

void gen_hist_add(struct gen_hist *h, uint64_t ns, uint64_t times)
{
        if (!h->head.count || ns < h->head.min_ns)
                h->head.min_ns = ns;
        if (ns > h->head.max_ns)
                h->head.max_ns = ns;
        h->head.count += times;
        h->head.sum_ns += ns * times;
        h->head.sum_sq += (double)ns * (double)ns * (double)times;
        h->count[capo_hist_bucket(ns)] += times;
}

static size_t put_hist(char *at, const struct gen_hist *h)
{
        struct capo_log_hist head = h->head;
        size_t n = sizeof head;

        head.n = 0;
        for (unsigned b = 0; b < CAPO_HIST_BUCKETS; b++) {
                struct capo_log_hist_pair pair = {.bucket = b, .count = h->count[b]};

                if (!pair.count)
                        continue;
                memcpy(at + n, &pair, sizeof pair);
                n += sizeof pair;
                head.n++;
        }
        memcpy(at, &head, sizeof head);
        return n;
}

void gen_log_cell(struct gen_log *g, struct capo_log_cell cell, const struct gen_hist *host,
                  const struct gen_hist *gpu)
{
        gen_log_cell_waited(g, cell, host, gpu, NULL);
}

void gen_log_cell_waited(struct gen_log *g, struct capo_log_cell cell, const struct gen_hist *host,
                         const struct gen_hist *gpu, const struct gen_hist *waited)
{
        char payload[sizeof cell + 3 * (sizeof(struct capo_log_hist) +
                                        CAPO_HIST_BUCKETS * sizeof(struct capo_log_hist_pair))];
        size_t n = sizeof cell;

        cell.hists = (uint8_t)((host ? 1 : 0) | (gpu ? 2 : 0) | (waited ? 4 : 0));
        memcpy(payload, &cell, sizeof cell);
        if (host)
                n += put_hist(payload + n, host);
        if (gpu)
                n += put_hist(payload + n, gpu);
        if (waited)
                n += put_hist(payload + n, waited);
        gen_log_frame(g, CAPO_FRAME_CELL, payload, (uint32_t)n);
}

static size_t put_column(char *at, const void *values, uint32_t n, size_t width)
{
        size_t size = (n * width + 7) & ~(size_t)7;

        if (!values)
                return 0;
        memset(at + size - 8, 0, 8);
        memcpy(at, values, n * width);
        return size;
}

void gen_log_block(struct gen_log *g, uint64_t base, unsigned thread, uint32_t n,
                   const uint32_t *t_begin, const uint32_t *host_ns, const uint32_t *seq,
                   const uint16_t *shape, const uint32_t *gpu_ns, const uint32_t *aux)
{
        struct capo_log_block head = {
                .base = base,
                .n = n,
                .columns = (uint16_t)((gpu_ns ? CAPO_COLUMN_GPU : 0) | (aux ? CAPO_COLUMN_AUX : 0)),
                .thread = (uint16_t)thread};
        _cleanup_free_ char *payload = malloc(sizeof head + 6 * (4 * (size_t)n + 8));
        size_t at = sizeof head;

        memcpy(payload, &head, sizeof head);
        if (n) {
                at += put_column(payload + at, t_begin, n, 4);
                at += put_column(payload + at, host_ns, n, 4);
                at += put_column(payload + at, seq, n, 4);
                at += put_column(payload + at, shape, n, 2);
                at += put_column(payload + at, gpu_ns, n, 4);
                at += put_column(payload + at, aux, n, 4);
        }
        gen_log_frame(g, CAPO_FRAME_BLOCK, payload, (uint32_t)at);
}

uint64_t gen_noise(uint64_t a, uint64_t b, uint64_t below)
{
        uint64_t x = a * 0x9e3779b97f4a7c15ull + b * 0xbf58476d1ce4e5b9ull + 0x94d049bb133111ebull;

        x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
        x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
        return (x ^ (x >> 31)) % below;
}

/* True time at which @rank starts call @nth; calls are 1 ms apart. */
static uint64_t arrival(const struct gen_job *job, unsigned rank, uint32_t nth)
{
        uint64_t t = (uint64_t)nth * 1000000 + gen_noise(rank, nth, 1000);

        if (rank == job->late_rank && gen_noise(77, nth, 4) != 0)
                t += job->late_ns;
        return t;
}

enum { BLOCK = 4096 };

/* What runs size @s of @job, and whether it tells how long it waited. */
static uint8_t ran_of(const struct gen_job *job, unsigned s, bool *waits)
{
        static const uint8_t beside[] = {CAPO_KERNEL_SYMK_RSXLD_AGXST, CAPO_KERNEL_SYMK_AGXLL_R,
                                         CAPO_KERNEL_SYMK, CAPO_KERNEL_COPY_ENGINE};

        *waits = job->symk && beside[s % 4] > CAPO_KERNEL_SYMK;
        return job->symk ? beside[s % 4] : CAPO_ALGO_RING << 4 | CAPO_PROTO_SIMPLE;
}

static void write_rank(const struct gen_job *job, unsigned rank, unsigned node, unsigned n_ranks,
                       unsigned local)
{
        uint32_t n_calls = job->n_steps * job->n_sizes;
        uint32_t first =
                job->kept_calls && job->kept_calls < n_calls ? n_calls - job->kept_calls : 0;
        static uint32_t t_begin[BLOCK], host_ns[BLOCK], seq[BLOCK], gpu_ns[BLOCK], aux[BLOCK];
        static uint16_t shape_of[BLOCK];
        struct capo_log_shape shapes[64] = {{0}};
        struct gen_hist *host = calloc(3 * job->n_sizes, sizeof *host), *gpu = host + job->n_sizes,
                        *waited = gpu + job->n_sizes;
        bool waits;
        struct gen_log g;
        char path[4096], text[1024];
        uint64_t base = 0, end = 0, n_counted = 0, until = 0;
        unsigned n = 0, counted;

        snprintf(path, sizeof path, "%s/node-%c%u.%u.capo", job->dir, 'a' + node % 26, node / 26,
                 3000 + rank);
        gen_log_open(&g, path, 3000 + rank);
        snprintf(
                text, sizeof text,
                "host\tnode-%c%u\nboot_id\tb%u\nrank\t%u\nlocal_rank\t%u\nworld_size\t%u\njob\t48213\n"
                "cmdline\t/usr/bin/python3 train.py --model "
                "bert-large\ntrace\t%s\nnccl.version\t2.28.9\nnccl.path\t/usr/lib/libnccl.so.2\n",
                'a' + node % 26, node / 26, node, rank, local, n_ranks,
                job->trace && !job->kept_calls ? "all" : "last");
        gen_log_text(&g, CAPO_FRAME_INFO, text);
        snprintf(text, sizeof text, "gpu.busid.%u\t0000:%02x:00.0\n", local, local + 1);
        if (job->bus)
                gen_log_text(&g, CAPO_FRAME_INFO, text);
        gen_log_comm(&g,
                     (struct capo_log_comm){.id = 1,
                                            .rank = (int32_t)rank,
                                            .n_ranks = (int32_t)n_ranks,
                                            .device = (int32_t)local,
                                            .n_nodes = -1,
                                            .min_local = -1,
                                            .max_local = -1,
                                            .color = -1,
                                            .uid = 0xdada,
                                            .handle = 0x1000},
                     "dp");
        if (job->modelled) {
                snprintf(text, sizeof text,
                         "digest\t02acbeef33334444\nmodelled\t%s\nfile\t/shared/p.json\nname\tp\n",
                         rank == job->modelled ? "allowed" : "not allowed");
                gen_log_text(&g, CAPO_FRAME_RULES, text);
        }
        for (unsigned s = 0; s < job->n_sizes; s++) {
                uint8_t ran = ran_of(job, s, &waits);

                shapes[s] = (struct capo_log_shape){.bytes = job->sizes[s],
                                                    .stream = 7,
                                                    .peer = -1,
                                                    .id = (uint16_t)s,
                                                    .cell = (uint16_t)s,
                                                    .comm = 1,
                                                    .site = 1,
                                                    .call = CAPO_CALL_ALLREDUCE,
                                                    .type = 7,
                                                    .clock = waits      ? CAPO_CLOCK_KERNEL
                                                             : job->gpu ? CAPO_CLOCK_EVENT
                                                                        : CAPO_CLOCK_HOST,
                                                    .algo_proto = ran,
                                                    .channels = 4};
        }
        gen_log_shapes(&g, shapes, job->n_sizes);
        for (uint32_t nth = 0; nth < n_calls; nth++) {
                unsigned s = nth % job->n_sizes;
                uint64_t mine = arrival(job, rank, nth), last = mine, t, late, host_time;
                int64_t off =
                        (int64_t)node * (job->clock_ns + (int64_t)(job->drift * (double)mine));

                if (job->gpu) { /* the end is the same for all: as if the late rank were the last,
                                   which it nearly is */
                        late = arrival(job, job->late_rank, nth);
                        last = late > mine ? late : mine;
                        for (unsigned r = 0; r < n_ranks; r += n_ranks < 9 ? 1 : n_ranks / 8) {
                                late = arrival(job, r, nth);
                                last = late > last ? late : last;
                        }
                }
                host_time = 2000 + gen_noise(rank + 1000, nth, 500);
                t = (uint64_t)((int64_t)mine + off +
                               1000000000); /* all clocks run behind a second of start-up */
                counted = !job->stale || nth < n_calls / 2;
                n_counted += counted;
                gen_hist_add(&host[s], host_time, counted);
                if (n == 0)
                        base = t;
                t_begin[n] = (uint32_t)(t - base);
                host_ns[n] = (uint32_t)host_time;
                seq[n] = nth + 1;
                shape_of[n] = (uint16_t)s;
                if (job->gpu) {
                        uint64_t on_gpu = last - mine + 100000 + job->sizes[s] / 50 + job->slow_ns;

                        gpu_ns[n] = (uint32_t)on_gpu;
                        gen_hist_add(&gpu[s], on_gpu, counted);
                        ran_of(job, s, &waits);
                        aux[n] = waits ? (uint32_t)(1 + last - mine + 2000) : 0;
                        if (job->queued) {
                                uint64_t begin = until > t ? until : t;

                                aux[n] = (uint32_t)(1 + (begin - t) / 100);
                                until = begin + on_gpu;
                        }
                        if (waits)
                                gen_hist_add(&waited[s], last - mine + 2000, counted);
                }
                end = t + host_time;
                if (nth >= first && ++n == BLOCK) {
                        if (job->trace)
                                gen_log_block(&g, base, 0, n, t_begin, host_ns, seq, shape_of,
                                              job->gpu ? gpu_ns : NULL,
                                              job->symk || job->queued ? aux : NULL);
                        n = 0;
                } else if (nth < first) {
                        n = 0;
                }
        }
        if (n && job->trace)
                gen_log_block(&g, base, 0, n, t_begin, host_ns, seq, shape_of,
                              job->gpu ? gpu_ns : NULL, job->symk || job->queued ? aux : NULL);
        for (unsigned s = 0; s < job->n_sizes; s++)
                gen_log_cell_waited(&g,
                                    (struct capo_log_cell){.bytes = job->sizes[s],
                                                           .count = host[s].head.count,
                                                           .id = (uint16_t)s,
                                                           .comm = 1,
                                                           .call = CAPO_CALL_ALLREDUCE,
                                                           .algo_proto = shapes[s].algo_proto,
                                                           .channels = 4,
                                                           .clock = job->gpu ? shapes[s].clock
                                                                             : CAPO_CLOCK_NONE},
                                    &host[s], job->gpu ? &gpu[s] : NULL,
                                    waited[s].head.count ? &waited[s] : NULL);
        gen_log_site(&g,
                     (struct capo_log_site){
                             .id = 1, .count = n_calls, .host_ns = (uint64_t)n_calls * 2250},
                     "train_step+0x40 (train)\nmain+0x1f0 (train)\n");
        gen_log_frame(&g, CAPO_FRAME_END,
                      &(struct capo_log_end){.t_ns = end + 5000000,
                                             .mono_ns = end + 5000000 + 1000000000,
                                             .real_ns = g.header.t0_real_ns + end + 5000000,
                                             .calls = n_counted,
                                             .cost_ns = 17.0,
                                             .ticks_per_s = 1e9,
                                             .clean = !job->killed,
                                             .threads = 1},
                      sizeof(struct capo_log_end));
        gen_log_close(&g);
        free(host);
}

uint64_t gen_job_write(const struct gen_job *job)
{
        unsigned n_ranks = 0, rank = 0;
        uint64_t n_calls = (uint64_t)job->n_steps * job->n_sizes;

        for (unsigned node = 0; node < job->n_nodes; node++)
                n_ranks += job->layout[node];
        for (unsigned node = 0; node < job->n_nodes; node++) {
                for (unsigned local = 0; local < job->layout[node] && rank + job->missing < n_ranks;
                     local++, rank++)
                        write_rank(job, rank, node, n_ranks, local);
        }
        if (job->kept_calls && job->kept_calls < n_calls)
                n_calls = job->kept_calls;
        return job->trace ? n_calls * rank : 0;
}

/* Calls of one kind in one cell: @n of them, host 2 us to 3 us, GPU (when @clock says so) base to 2
 * * base. */
static void mixed_cell(struct gen_log *g, struct capo_log_cell cell, uint64_t n, uint64_t base_ns)
{
        struct gen_hist host = {0}, gpu = {0};
        bool on_gpu = cell.clock == CAPO_CLOCK_EVENT || cell.clock == CAPO_CLOCK_KERNEL;

        for (uint64_t i = 0; i < n; i++) {
                gen_hist_add(&host, 2000 + gen_noise(cell.id, i, 1000), 1);
                if (on_gpu && i % 8 == 0)
                        gen_hist_add(&gpu, base_ns + gen_noise(cell.id + 100, i, base_ns), 1);
        }
        cell.count = n;
        gen_log_cell(g, cell,
                     cell.flags & (CAPO_RECORD_MEMBER | CAPO_RECORD_CAPTURED) ? NULL : &host,
                     on_gpu ? &gpu : NULL);
}

void gen_mixed_write(const char *dir)
{
        enum {
                RING_LL = CAPO_ALGO_RING << 4 | CAPO_PROTO_LL,
                TREE = CAPO_ALGO_TREE << 4 | CAPO_PROTO_SIMPLE
        };
        const struct capo_log_comm unknown = {
                .n_nodes = -1, .min_local = -1, .max_local = -1, .color = -1};

        for (unsigned rank = 0; rank < 4; rank++) {
                struct capo_log_comm world = unknown, tp = unknown, pp = unknown, self = unknown;
                char path[4096], text[512];
                struct gen_log g;
                uint16_t id = 0;

                snprintf(path, sizeof path, "%s/host%u.%u.capo", dir, rank / 2, 700 + rank);
                gen_log_open(&g, path, 700 + rank);
                snprintf(
                        text, sizeof text,
                        "host\thost%u\nrank\t%u\nworld_size\t4\ncmdline\t./train\nnccl.version\t2.27.3\nnccl.how\t"
                        "dlopen\n",
                        rank / 2, rank);
                gen_log_text(&g, CAPO_FRAME_INFO, text);
                world = (struct capo_log_comm){.id = 1,
                                               .rank = (int)rank,
                                               .n_ranks = 4,
                                               .device = (int)rank % 2,
                                               .uid = 11,
                                               .color = -1,
                                               .t_created = 5};
                tp = (struct capo_log_comm){.id = 2,
                                            .parent = 1,
                                            .rank = (int)rank % 2,
                                            .n_ranks = 2,
                                            .color = (int)rank / 2,
                                            .uid = 20 + rank / 2,
                                            .t_created = 100};
                pp = (struct capo_log_comm){.id = 3,
                                            .parent = 1,
                                            .rank = (int)rank / 2,
                                            .n_ranks = 2,
                                            .color = (int)rank % 2,
                                            .uid = 30 + rank % 2,
                                            .t_created = 200};
                self = (struct capo_log_comm){
                        .id = 4, .n_ranks = 1, .color = -1, .uid = 40 + rank, .t_created = 300};
                tp.device = pp.device = self.device = world.device;
                gen_log_comm(&g, world, "");
                gen_log_comm(&g, tp, "");
                gen_log_comm(&g, pp, "pipe");
                gen_log_comm(&g, self, "");
                gen_log_text(
                        &g, CAPO_FRAME_RULES,
                        rank == 3
                                ? "digest\t1111aaaa11112222\nfile\t/other/p.json\nname\tp\n"
                                : "digest\t02acbeef33334444\nfile\t/shared/p.json\nname\tmycluster\n"
                                  "row\t1\t41\tlayout=2+2\tall_reduce\t0\t4000\tTree\tLL128\t0\n");
                for (unsigned k = 0; k < 20; k++)
                        mixed_cell(&g,
                                   (struct capo_log_cell){.bytes = 1000 * (k + 1),
                                                          .id = id++,
                                                          .comm = 1,
                                                          .call = CAPO_CALL_ALLREDUCE,
                                                          .algo_proto = RING_LL,
                                                          .channels = 1,
                                                          .rule = k < 3 ? 1 : 0,
                                                          .clock = CAPO_CLOCK_EVENT},
                                   64, 20000 + 100 * k);
                mixed_cell(&g,
                           (struct capo_log_cell){.bytes = 1 << 26,
                                                  .id = id++,
                                                  .comm = 1,
                                                  .call = CAPO_CALL_ALLGATHER,
                                                  .algo_proto = TREE,
                                                  .channels = 8,
                                                  .clock = CAPO_CLOCK_KERNEL},
                           40, 3000000);
                mixed_cell(&g,
                           (struct capo_log_cell){.bytes = 1 << 20,
                                                  .id = id++,
                                                  .comm = 2,
                                                  .call = CAPO_CALL_REDUCESCATTER},
                           30, 0);
                mixed_cell(
                        &g,
                        (struct capo_log_cell){.bytes = 4096,
                                               .id = id++,
                                               .comm = 3,
                                               .flags = CAPO_RECORD_MEMBER,
                                               .call = rank < 2 ? CAPO_CALL_SEND : CAPO_CALL_RECV},
                        50, 0);
                mixed_cell(&g,
                           (struct capo_log_cell){.bytes = 8192,
                                                  .id = id++,
                                                  .comm = 3,
                                                  .flags = CAPO_RECORD_GROUP,
                                                  .call = CAPO_CALL_GROUP,
                                                  .clock = CAPO_CLOCK_EVENT},
                           25, 9000);
                mixed_cell(&g,
                           (struct capo_log_cell){.bytes = 2048,
                                                  .id = id++,
                                                  .comm = 1,
                                                  .flags = CAPO_RECORD_CAPTURED,
                                                  .call = CAPO_CALL_ALLREDUCE},
                           5, 0);
                mixed_cell(&g,
                           (struct capo_log_cell){.bytes = 16,
                                                  .id = id++,
                                                  .comm = 1,
                                                  .call = CAPO_CALL_BROADCAST,
                                                  .result = rank == 1 ? 5 : 0},
                           3, 0);
                mixed_cell(
                        &g,
                        (struct capo_log_cell){.id = id++, .comm = 1, .call = CAPO_CALL_COMMINIT},
                        1, 0);
                gen_log_site(
                        &g,
                        (struct capo_log_site){.id = 1,
                                               .count = 1000,
                                               .host_ns = 2300000,
                                               .gpu_ns = 40000000,
                                               .gpu_count = 160},
                        "c10d::Reducer::mark_bucket_ready\nautograd::Engine\ntrain.py:214 backward\n");
                gen_log_site(&g, (struct capo_log_site){.id = 2, .count = 400, .host_ns = 900000},
                             "main\n");
                gen_log_frame(&g, CAPO_FRAME_END,
                              &(struct capo_log_end){.t_ns = 9000000000,
                                                     .calls = 1500,
                                                     .dropped = rank == 2 ? 7 : 0,
                                                     .cost_ns = 16,
                                                     .clean = rank == 2 ? 2 : 1,
                                                     .threads = 3},
                              sizeof(struct capo_log_end));
                gen_log_close(&g);
        }
}
