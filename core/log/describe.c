/* SPDX-License-Identifier: Apache-2.0 */
/* See the header. The segment may be a dead process's and damaged, so every number in it is
 * checked before it is used. */
#include <stdio.h>
#include <string.h>

#include "capo/call_kinds.h"
#include "capo/frame_types.h"
#include "core/log/describe.h"
#include "core/log/info.h"
#include "core/log/segment_calls.h"

static void copy_text(const struct capo_describe *d, uint64_t at, void *out, size_t n)
{
        const struct capo_area *a = &d->seg->header->areas[CAPO_AREA_TEXT];
        const char *text = capo_area_at(d->seg, CAPO_AREA_TEXT, 0);

        for (size_t i = 0; i < n; i++)
                ((char *)out)[i] = text[(at + i) % a->capacity];
}

static bool is_text(uint32_t type)
{
        return type == CAPO_FRAME_INFO || type == CAPO_FRAME_FABRIC || type == CAPO_FRAME_RULES ||
               type == CAPO_FRAME_HANG || type == CAPO_FRAME_MACHINE;
}

void capo_describe_texts(struct capo_describe *d)
{
        uint64_t head = atomic_load_explicit(&d->seg->header->text_head, memory_order_acquire);

        if (d->again && head <= d->seg->header->areas[CAPO_AREA_TEXT].capacity)
                d->out->done.text_tail = 0; /* nothing was overwritten yet: say it all again */
        if (head - d->out->done.text_tail > d->seg->header->areas[CAPO_AREA_TEXT].capacity)
                d->out->done.text_tail =
                        head; /* a damaged file: there was never room for so much */
        while (head - d->out->done.text_tail >= 8) {
                uint32_t piece[2]; /* type, size */

                copy_text(d, d->out->done.text_tail, piece, sizeof piece);
                if (!is_text(piece[0]) || piece[1] > sizeof d->text ||
                    head - d->out->done.text_tail < 8 + (uint64_t)piece[1]) {
                        d->out->done.text_tail = head; /* an untrusted file, damaged */
                        break;
                }
                copy_text(d, d->out->done.text_tail + 8, d->text, piece[1]);
                capo_output_frame(d->out, piece[0], d->text, piece[1], NULL, 0);
                d->out->done.text_tail += 8 + (uint64_t)((piece[1] + 7) & ~7u);
        }
}

void capo_describe_kept(struct capo_describe *d)
{
        uint32_t now = atomic_load_explicit(&d->seg->header->kept_now, memory_order_acquire),
                 piece[2];
        uint32_t size = now ? d->seg->header->kept_size[now - 1] : 0;

        for (uint32_t at = 0; at + sizeof piece <= size;
             at += sizeof piece + ((piece[1] + 7) & ~7u)) {
                const char *text =
                        capo_area_at(d->seg, CAPO_AREA_KEPT, (now - 1) * CAPO_KEPT_HALF + at);

                memcpy(piece, text, sizeof piece);
                if (!is_text(piece[0]) ||
                    piece[1] > size - at - sizeof piece) /* an untrusted file, damaged */
                        return;
                capo_output_frame(d->out, piece[0], text + sizeof piece, piece[1], NULL, 0);
        }
}

static void comms_write(struct capo_describe *d)
{
        const struct capo_timebase *clock = &d->seg->header->clock;
        uint32_t n = atomic_load_explicit(&d->seg->header->areas[CAPO_AREA_COMMS].used,
                                          memory_order_acquire);

        for (uint32_t i = 0; i < n; i++) {
                struct capo_seg_comm *comm = capo_area_at(d->seg, CAPO_AREA_COMMS, i), copy;

                capo_lock(&d->seg->lock);
                copy = *comm;
                comm->written = copy.stamp;
                capo_unlock(&d->seg->lock);
                if (copy.stamp == 0 || (copy.stamp == copy.written && !d->again))
                        continue;
                copy.name[sizeof copy.name - 1] = 0;
                copy.log.name_size = (uint16_t)strlen(copy.name);
                copy.log.t_created = capo_clock_ns(clock, copy.log.t_created);
                copy.log.t_destroyed =
                        copy.log.t_destroyed ? capo_clock_ns(clock, copy.log.t_destroyed) : 0;
                capo_output_frame(d->out, CAPO_FRAME_COMM, &copy.log, sizeof copy.log, copy.name,
                                  copy.log.name_size);
        }
}

/* Numbers only: what is left when nobody can name the addresses any more. */
static unsigned plain_text(const struct capo_seg_site *site, char *text, unsigned room)
{
        unsigned n = 0;

        for (uint32_t i = 0; i < site->n_pc && i < CAPO_SITE_FRAMES && n + 24 < room; i++)
                n += (unsigned)snprintf(text + n, room - n, "0x%llx\n",
                                        (unsigned long long)site->pc[i]);
        return n;
}

static void name_site(const struct capo_describe *d, struct capo_seg_site *site)
{
        unsigned n = 0;

        if (site->py_size && site->py_size <= sizeof site->py) {
                memcpy(site->text, site->py, site->py_size);
                n = site->py_size;
        }
        n += (d->site_text ? d->site_text : plain_text)(site, site->text + n,
                                                        (unsigned)sizeof site->text - n);
        site->text_size = (uint16_t)n;
}

void capo_describe_name_site(struct capo_describe *d)
{
        uint32_t n = atomic_load_explicit(&d->seg->header->areas[CAPO_AREA_SITES].used,
                                          memory_order_acquire);

        while (d->named < n) {
                struct capo_seg_site *site = capo_area_at(d->seg, CAPO_AREA_SITES, d->named);

                if (!atomic_load_explicit(&site->ready, memory_order_acquire))
                        return;
                d->named++;
                if (!site->text_size) {
                        name_site(d, site);
                        return;
                }
        }
}

static void sites_write(struct capo_describe *d)
{
        uint32_t n = atomic_load_explicit(&d->seg->header->areas[CAPO_AREA_SITES].used,
                                          memory_order_acquire);

        for (uint32_t i = 0; i < n; i++) {
                struct capo_seg_site *site = capo_area_at(d->seg, CAPO_AREA_SITES, i);
                struct capo_log_site log;
                char body[sizeof site->text + sizeof site->chosen];
                size_t size;

                if (!atomic_load_explicit(&site->ready, memory_order_acquire) ||
                    (site->written == 1 + site->log.count && !d->again))
                        continue;
                if (!site->text_size)
                        name_site(d, site);
                log = site->log;
                log.id = (uint16_t)(i + 1);
                log.text_size = site->text_size <= sizeof site->text ? site->text_size : 0;
                log.chosen = site->chosen.gpu_count > 0;
                size = log.text_size + (log.chosen ? sizeof site->chosen : 0);
                memcpy(body, site->text, log.text_size);
                memcpy(body + log.text_size, &site->chosen, sizeof site->chosen);
                site->written = 1 + log.count;
                capo_output_frame(d->out, CAPO_FRAME_SITE, &log, sizeof log, body, size);
        }
}

void capo_describe_things(struct capo_describe *d)
{
        comms_write(d);
        sites_write(d);
}

uint64_t capo_describe_dropped(const struct capo_describe *d)
{
        const struct capo_segment_header *h = d->seg->header;
        uint64_t n = h->dropped;

        for (uint32_t i = 0; i < h->areas[CAPO_AREA_RINGS].used; i++)
                n += ((const struct capo_ring *)capo_area_at(d->seg, CAPO_AREA_RINGS, i))->dropped;
        return n;
}

void capo_describe_end(struct capo_describe *d, unsigned clean)
{
        const struct capo_timebase *clock = &d->seg->header->clock;
        struct capo_log_end end = {
                .t_ns = capo_clock_ns(clock, clock->now_ticks),
                .mono_ns = clock->now_mono_ns,
                .real_ns = clock->now_real_ns,
                .calls = d->seg->header->calls,
                .dropped = capo_describe_dropped(d),
                .gpu_dropped = d->seg->header->gpu_dropped,
                .shape_overflow = d->seg->header->shape_overflow,
                .bytes_lost = d->out->log.lost_bytes + d->seg->header->text_lost,
                .cost_ns = d->seg->header->cost_ns,
                .ticks_per_s = clock->ns_per_tick > 0 ? 1e9 / clock->ns_per_tick : 0,
                .clean = clean,
                .threads = d->seg->header->threads,
        };

        if (d->seg->header->went_private) {
                int n = snprintf(d->text, sizeof d->text, "%s\tfull\n", CAPO_INFO_MEMORY);

                capo_output_frame(d->out, CAPO_FRAME_INFO, d->text, (size_t)n, NULL, 0);
        }
        if (d->out->done.left_out) {
                int n = snprintf(d->text, sizeof d->text, "%s\t%llu\n", CAPO_INFO_LEFT_OUT,
                                 (unsigned long long)d->out->done.left_out);

                capo_output_frame(d->out, CAPO_FRAME_INFO, d->text, (size_t)n, NULL, 0);
        }
        d->dropped = end.dropped;
        capo_output_frame(d->out, CAPO_FRAME_END, &end, sizeof end, NULL, 0);
}
