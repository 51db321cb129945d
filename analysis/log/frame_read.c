/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes payloads of frames. The log may be newer or damaged: no byte beyond them is read. */
#include <math.h>

#include "analysis/log/log_read.h"
#include "capo/record.h"
#include "core/base/util.h"

/* Copy the struct at the begin of a payload. */
static int head_of(const struct capo_log_frame *f, void *out, size_t size)
{
        if (f->size < size)
                return -EBADMSG;
        memcpy(out, f->payload, size);
        return 0;
}

int capo_log_comm(const struct capo_log_frame *f, struct capo_log_comm *out, const char **name)
{
        *name = (const char *)f->payload + sizeof *out;
        return head_of(f, out, sizeof *out) < 0 || out->name_size > f->size - sizeof *out ? -EBADMSG
                                                                                          : 0;
}

int capo_log_site(const struct capo_log_frame *f, struct capo_log_site *out, const char **text)
{
        *text = (const char *)f->payload + sizeof *out;
        return head_of(f, out, sizeof *out) < 0 || out->text_size > f->size - sizeof *out ? -EBADMSG
                                                                                          : 0;
}

struct capo_log_site_chosen capo_log_site_chosen(const struct capo_log_frame *f)
{
        struct capo_log_site_chosen out = {0};
        struct capo_log_site site;
        const char *text;

        if (capo_log_site(f, &site, &text) == 0 && site.chosen &&
            f->size - sizeof site - site.text_size >= sizeof out)
                memcpy(&out, text + site.text_size, sizeof out);
        return out;
}

int capo_log_end(const struct capo_log_frame *f, struct capo_log_end *out)
{
        int r = head_of(f, out, sizeof *out);

        if (r == 0 && !isfinite(out->cost_ns))
                out->cost_ns = 0;
        return r;
}

unsigned capo_log_shapes(const struct capo_log_frame *f, const struct capo_log_shape **out)
{
        *out = f->payload;
        return f->size / sizeof **out;
}

bool capo_log_wide(const struct capo_log_frame *f, unsigned i, struct capo_record *out)
{
        if (i >= f->size / sizeof *out)
                return false;
        memcpy(out, (const struct capo_record *)f->payload + i, sizeof *out);
        if (f->version < 2) { /* version 1 has two words: the begin on the GPU (never written) and
                                 the duration there */
                uint32_t words[2];

                memcpy(words, &out->gpu_ns, sizeof words);
                out->gpu_ns = words[1];
        }
        return true;
}

static int hist_view(const struct capo_log_frame *f, size_t *at, struct capo_log_hist_view *out)
{
        if (f->size - *at < sizeof out->head)
                return -EBADMSG;
        memcpy(&out->head, (const char *)f->payload + *at, sizeof out->head);
        if (!isfinite(out->head.sum_sq)) /* JSON has no infinity or NaN */
                out->head.sum_sq = 0;
        *at += sizeof out->head;
        if (out->head.n > (f->size - *at) / sizeof *out->pairs)
                return -EBADMSG;
        out->pairs = (const void *)((const char *)f->payload + *at);
        *at += out->head.n * sizeof *out->pairs;
        return 0;
}

/* The first @n of a CELL's histograms; empty ones for those that it does not have. */
static int cell_views(const struct capo_log_frame *f, struct capo_log_cell *out,
                      struct capo_log_hist_view *views, unsigned n)
{
        size_t at = sizeof *out;
        int r = head_of(f, out, sizeof *out);

        for (unsigned i = 0; r == 0 && i < n; i++) {
                views[i] = (struct capo_log_hist_view){0};
                if (out->hists & 1u << i)
                        r = hist_view(f, &at, &views[i]);
        }
        return r;
}

int capo_log_cell(const struct capo_log_frame *f, struct capo_log_cell *out,
                  struct capo_log_hist_view *host, struct capo_log_hist_view *gpu)
{
        struct capo_log_hist_view views[2];
        int r = cell_views(f, out, views, 2);

        if (r == 0) {
                *host = views[0];
                *gpu = views[1];
        }
        return r;
}

int capo_log_cell_waited(const struct capo_log_frame *f, struct capo_log_hist_view *out)
{
        struct capo_log_hist_view views[3];
        struct capo_log_cell cell;
        int r = cell_views(f, &cell, views, 3);

        if (r == 0)
                *out = views[2];
        return r;
}

int capo_log_block(const struct capo_log_frame *f, struct capo_log_columns *out)
{
        const struct capo_log_block *b = f->payload;
        const unsigned char *at = (const unsigned char *)(b + 1);
        uint64_t words, halves;

        if (f->size < sizeof *b)
                return -EBADMSG;
        words = capo_log_pad(4 * (uint64_t)b->n);
        halves = capo_log_pad(2 * (uint64_t)b->n);
        if (3 * words + halves + words * !!(b->columns & CAPO_COLUMN_GPU) +
                    words * !!(b->columns & CAPO_COLUMN_AUX) >
            f->size - sizeof *b)
                return -EBADMSG;
        *out = (struct capo_log_columns){.base = b->base, .n = b->n, .thread = b->thread};
        out->t_begin = (const uint32_t *)at;
        out->host_ns = (const uint32_t *)(at += words);
        out->seq = (const uint32_t *)(at += words);
        out->shape = (const uint16_t *)(at += words);
        at += halves;
        if (b->columns & CAPO_COLUMN_GPU) {
                out->gpu_ns = (const uint32_t *)at;
                at += words;
        }
        if (b->columns & CAPO_COLUMN_AUX)
                out->aux = (const uint32_t *)at;
        return 0;
}

/* The inverse of how the writer stores each field of a record, chosen by the last word of its row.
 */
#define KEPT_BEGIN(name)  out->name = columns->base + columns->t_begin[i];
#define KEPT_END(name)    out->name = columns->base + columns->t_begin[i] + columns->host_ns[i];
#define KEPT_SEQ(name)    out->name = columns->seq[i];
#define KEPT_GPU(name)    out->name = columns->gpu_ns ? columns->gpu_ns[i] : 0;
#define KEPT_GROUP(name)  out->name = group_of(columns, i, shape);
#define KEPT_THREAD(name) out->name = columns->thread;
#define KEPT_SHAPE(name)  out->name = shape->name;
static uint32_t group_of(const struct capo_log_columns *columns, uint32_t i,
                         const struct capo_log_shape *shape)
{
        if (shape->flags & CAPO_RECORD_MEMBER || shape->clock == CAPO_CLOCK_EVENT ||
            shape->clock == CAPO_CLOCK_KERNEL)
                return columns->aux ? columns->aux[i] : 0;
        return shape->flags & CAPO_RECORD_GROUP ? columns->seq[i] : 0;
}

void capo_log_record(const struct capo_log_columns *columns, uint32_t i,
                     const struct capo_log_shape *shape, struct capo_record *out)
{
#define CAPO_FIELD(type, name, kept) KEPT_##kept(name)
#include "capo/record_fields.def"
}

const char *capo_log_next_line(const struct capo_log_frame *f, size_t *at, size_t *n_line)
{
        const char *line = (const char *)f->payload + *at, *end;

        if (*at >= f->size)
                return NULL;
        end = memchr(line, '\n', f->size - *at);
        *n_line = end ? (size_t)(end - line) : f->size - *at;
        *at += *n_line + !!end;
        return line;
}
