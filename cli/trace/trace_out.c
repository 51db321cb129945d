/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "cli/trace/trace_out.h"
#include "core/base/util.h"
#include "core/base/xalloc.h"

enum { BLOCK = 1 << 20, SPARE = 1 << 16, THREADS_MOST = 8, LEVEL = 1 };

enum state { EMPTY, FULL, TAKEN, DONE };

struct block {
        enum state state;
        char *text;
        unsigned char *packed;
        size_t n, n_packed;
        uLong check;
};

struct trace_out {
        FILE *file;
        bool gzip;
        int error;
        size_t used;          /* bytes in the block being filled */
        uint32_t fill, write; /* increasing block numbers; block i is at i % n_blocks */
        uint32_t n_blocks, n_threads;
        struct block *block;
        pthread_t thread[THREADS_MOST];
        pthread_mutex_t lock;
        pthread_cond_t changed;
        bool ending;
        uLong check; /* checksum of all text */
        uint64_t text_bytes;
};

static struct block *block_at(struct trace_out *o, uint32_t i)
{
        return &o->block[i % o->n_blocks];
}

/* Return: 0; -ENOMEM. */
static int pack_block(struct block *b, z_stream *z)
{
        deflateReset(z);
        z->next_in = (unsigned char *)b->text;
        z->avail_in = (uInt)b->n;
        z->next_out = b->packed;
        z->avail_out = (uInt)compressBound(BLOCK) + SPARE;
        if (deflate(z, Z_SYNC_FLUSH) != Z_OK || z->avail_in)
                return -ENOMEM;
        b->n_packed = (size_t)(z->next_out - b->packed);
        b->check = crc32(0, (unsigned char *)b->text, (uInt)b->n);
        return 0;
}

/* Thread: compress full blocks. */
static void *pack_blocks(void *arg)
{
        struct trace_out *o = arg;
        z_stream z = {0};
        int error = deflateInit2(&z, LEVEL, Z_DEFLATED, -15, 9, Z_DEFAULT_STRATEGY) == Z_OK
                            ? 0
                            : -ENOMEM;

        pthread_mutex_lock(&o->lock);
        for (;;) {
                struct block *b = NULL;

                for (uint32_t i = o->write; i != o->fill && !b; i++)
                        b = block_at(o, i)->state == FULL ? block_at(o, i) : NULL;
                if (!b && o->ending)
                        break;
                if (!b) {
                        pthread_cond_wait(&o->changed, &o->lock);
                        continue;
                }
                b->state = TAKEN;
                pthread_mutex_unlock(&o->lock);
                error = error ? error : pack_block(b, &z);
                pthread_mutex_lock(&o->lock);
                o->error = o->error ? o->error : error;
                b->state = DONE;
                pthread_cond_broadcast(&o->changed);
        }
        pthread_mutex_unlock(&o->lock);
        deflateEnd(&z);
        return NULL;
}

static void write_bytes(struct trace_out *o, const void *bytes, size_t n)
{
        if (!o->error && n && fwrite(bytes, 1, n, o->file) != n)
                o->error = -(errno ? errno : EIO);
}

/* Write the oldest block if it is compressed. The lock must be held. */
static void write_oldest(struct trace_out *o)
{
        struct block *b = block_at(o, o->write);

        while (b->state != DONE)
                pthread_cond_wait(&o->changed, &o->lock);
        pthread_mutex_unlock(&o->lock);
        write_bytes(o, b->packed, b->n_packed);
        o->check = crc32_combine(o->check, b->check, (z_off_t)b->n);
        pthread_mutex_lock(&o->lock);
        b->state = EMPTY;
        o->write++;
}

/* Hand over the filled block and get an empty one. */
static void next_block(struct trace_out *o)
{
        struct block *b = block_at(o, o->fill);

        o->text_bytes += o->used;
        b->n = o->used;
        o->used = 0;
        if (!o->gzip) {
                write_bytes(o, b->text, b->n);
                return;
        }
        pthread_mutex_lock(&o->lock);
        b->state = FULL;
        o->fill++;
        pthread_cond_broadcast(&o->changed);
        while (o->fill - o->write == o->n_blocks ||
               (o->fill != o->write && block_at(o, o->write)->state == DONE))
                write_oldest(o);
        pthread_mutex_unlock(&o->lock);
}

char *trace_out_room(struct trace_out *o, size_t n)
{
        if (o->used + n > BLOCK)
                next_block(o);
        return block_at(o, o->fill)->text + o->used;
}

void trace_out_take(struct trace_out *o, size_t n)
{
        o->used += n;
}

void trace_out_text(struct trace_out *o, const char *text, size_t n)
{
        for (size_t part; n; n -= part, text += part) {
                part = n < SPARE ? n : SPARE;
                memcpy(trace_out_room(o, part), text, part);
                trace_out_take(o, part);
        }
}

static void free_out(struct trace_out *o)
{
        for (uint32_t i = 0; o->block && i < o->n_blocks; i++) {
                free(o->block[i].text);
                free(o->block[i].packed);
        }
        free(o->block);
        pthread_mutex_destroy(&o->lock);
        pthread_cond_destroy(&o->changed);
        free(o);
}

static void end_threads(struct trace_out *o)
{
        pthread_mutex_lock(&o->lock);
        o->ending = true;
        pthread_cond_broadcast(&o->changed);
        pthread_mutex_unlock(&o->lock);
        for (uint32_t i = 0; i < o->n_threads; i++)
                pthread_join(o->thread[i], NULL);
}

struct trace_out *trace_out_new(FILE *file, bool gzip)
{
        static const unsigned char head[10] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255};
        struct trace_out *o = xcalloc(1, sizeof *o);
        long cores = sysconf(_SC_NPROCESSORS_ONLN);
        uint32_t threads = !gzip                  ? 0
                           : cores < 2            ? 1
                           : cores < THREADS_MOST ? (uint32_t)cores
                                                  : THREADS_MOST;
        bool whole;

        *o = (struct trace_out){.file = file, .gzip = gzip, .n_blocks = 2 * threads + 1};
        pthread_mutex_init(&o->lock, NULL);
        pthread_cond_init(&o->changed, NULL);
        o->block = xcalloc(o->n_blocks, sizeof *o->block);
        whole = o->block != NULL;
        for (uint32_t i = 0; whole && i < o->n_blocks; i++) {
                o->block[i].text = xmalloc(BLOCK + SPARE);
                o->block[i].packed = gzip ? xmalloc(compressBound(BLOCK) + SPARE) : NULL;
                whole = o->block[i].text && (o->block[i].packed || !gzip);
        }
        while (whole && o->n_threads < threads &&
               pthread_create(&o->thread[o->n_threads], NULL, pack_blocks, o) == 0)
                o->n_threads++;
        if (!whole || (gzip && !o->n_threads)) {
                end_threads(o);
                free_out(o);
                return NULL;
        }
        if (gzip)
                write_bytes(o, head, sizeof head);
        return o;
}

int trace_out_end(struct trace_out *o)
{
        unsigned char tail[10] = {3, 0}; /* an empty last block; then checksum and length */
        int r;

        next_block(o);
        if (o->gzip) {
                pthread_mutex_lock(&o->lock);
                while (o->write != o->fill)
                        write_oldest(o);
                pthread_mutex_unlock(&o->lock);
                for (int i = 0; i < 4; i++) {
                        tail[2 + i] = (unsigned char)(o->check >> 8 * i);
                        tail[6 + i] = (unsigned char)(o->text_bytes >> 8 * i);
                }
                write_bytes(o, tail, sizeof tail);
        }
        end_threads(o);
        r = o->error;
        free_out(o);
        return r;
}

char *trace_put_number(char *to, uint64_t n)
{
        char digits[20];
        int k = 0;

        do
                digits[k++] = (char)('0' + n % 10);
        while (n /= 10);
        while (k)
                *to++ = digits[--k];
        return to;
}

char *trace_put_us(char *to, uint64_t ns)
{
        unsigned rest = (unsigned)(ns % 1000);

        to = trace_put_number(to, ns / 1000);
        *to++ = '.';
        *to++ = (char)('0' + rest / 100);
        *to++ = (char)('0' + rest / 10 % 10);
        *to++ = (char)('0' + rest % 10);
        return to;
}
