/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an untrusted process may have left in /dev/shm, brought into a log as capo recover and capo
 * hang do. An input is a list of changes of a segment that is right, because a whole one is 190 MB
 * of holes:
 *
 *      flags u8, then { area u8, at u16, n u8, n bytes }     area CAPO_AREAS is the header
 *
 * or, with RAW among the flags, the file itself. Whatever comes of it, what was recovered is a log
 * without damage.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/util.h"
#include "analysis/log/live_logs.h"
#include "analysis/log/log_read.h"
#include "analysis/log/recover.h"
#include "core/log/unfinished.h"
#include "core/log/segment_calls.h"
#include "tests/fuzz/fuzz.h"
#include "tests/log_numbers.h"

enum { TRACED = 1, PEEK = 2, LOG_THERE = 4, RAW = 8, SMALL = 16 };
enum { RECORDS = 64, RINGS = 2, RING_ROOM = 8192, REACH = 1 << 16, LOG_MOST = 64 << 20 };
static_assert(sizeof(struct capo_ring) + RECORDS * sizeof(struct capo_record) <= RING_ROOM, "room");

static struct capo_segment_header right[2]; /* by TRACED */
static uint8_t items[CAPO_AREAS][REACH];
static char path[64], log_path[64];

static struct capo_record record(uint32_t i)
{
        return (struct capo_record){.t_begin = 1000 + i * 1000,
                                    .t_end = 1100 + i * 1000,
                                    .bytes = 64u << i % 5,
                                    .gpu_ns = i % 3 ? 0 : 777,
                                    .seq = i + 1,
                                    .peer = -1,
                                    .comm = 1,
                                    .site = (uint16_t)(1 + i % 2),
                                    .call = CAPO_CALL_ALLREDUCE,
                                    .clock = i % 3 ? CAPO_CLOCK_HOST : CAPO_CLOCK_EVENT,
                                    .algo_proto = CAPO_ALGO_RING << 4 | CAPO_PROTO_SIMPLE,
                                    .thread = 1};
}

/* Rings lie far apart in the file, and beside each other here. */
static void *item(enum capo_area_id area, uint32_t i)
{
        return items[area] + (area == CAPO_AREA_RINGS ? RING_ROOM : right[0].areas[area].item) * i;
}

/* A frame of text as the recorder puts it. */
static uint32_t text(enum capo_area_id area, uint32_t at, unsigned type, const char *words)
{
        uint32_t head[2] = {type, (uint32_t)strlen(words)};

        memcpy(items[area] + at, head, sizeof head);
        memcpy(items[area] + at + 8, words, head[1]);
        return at + 8 + ((head[1] + 7) & ~7u);
}

static void fill_header(struct capo_segment_header *h, bool traced)
{
        static const uint32_t used[CAPO_AREAS] = {
                [CAPO_AREA_COMMS] = 2, [CAPO_AREA_SITES] = 2, [CAPO_AREA_CELLS] = 1,
                [CAPO_AREA_HISTS] = 2, [CAPO_AREA_SLOTS] = 3, [CAPO_AREA_RINGS] = RINGS};

        capo_segment_lay_out(h, &(struct capo_segment_config){RECORDS * sizeof(struct capo_record),
                                                              RECORDS, traced});
        memcpy(h->magic, CAPO_SEGMENT_MAGIC, sizeof h->magic);
        h->version = CAPO_SEGMENT_VERSION;
        h->header_size = sizeof *h;
        h->pid = 1234567;
        h->start_time = 1;
        strcpy(h->host, "somewhere");
        strcpy(h->boot_id, "another");
        h->ready = 1;
        h->clock = (struct capo_timebase){
                .ns_per_tick = 1, .now_ticks = 300000, .now_mono_ns = 300000};
        h->threads = 2;
        h->calls = 4;
        h->flight_head = 4;
        for (int i = 0; i < CAPO_AREAS; i++) {
                uint64_t n = REACH / h->areas[i].item;

                h->areas[i].used = used[i];
                h->areas[i].committed =
                        n < h->areas[i].capacity ? (uint32_t)n : h->areas[i].capacity;
        }
        h->areas[CAPO_AREA_TEXT].committed = h->areas[CAPO_AREA_TEXT].capacity;
        h->areas[CAPO_AREA_RINGS].committed = RINGS;
}

static void prepare(void)
{
        struct capo_seg_comm *comm;
        struct capo_seg_site *site;
        struct capo_seg_cell *cell;
        struct capo_seg_hist *hist;
        struct capo_slot *slot;
        struct capo_ring *ring;
        uint32_t at;

        fill_header(&right[0], false);
        fill_header(&right[1], true);
        for (uint16_t i = 0; i < 2; i++) {
                comm = item(CAPO_AREA_COMMS, i);
                *comm = (struct capo_seg_comm){
                        .log = {.id = (uint16_t)(i + 1), .n_ranks = 2, .uid = 7, .t_created = 500},
                        .name = "dp",
                        .stamp = 1};
                site = item(CAPO_AREA_SITES, i);
                *site = (struct capo_seg_site){.ready = 1, .n_pc = 2, .pc = {0x1234, 0x5678}};
                hist = item(CAPO_AREA_HISTS, i);
                *hist = (struct capo_seg_hist){
                        .count = 4, .sum_ns = 400, .min_ns = 100, .max_ns = 100};
                hist->bucket[capo_hist_bucket(100)] = 4;
                ring = item(CAPO_AREA_RINGS, i);
                *ring = (struct capo_ring){.head = 20,
                                           .tail = 4,
                                           .state = CAPO_RING_LIVE,
                                           .thread = 1 + i,
                                           .size = RECORDS};
                for (uint32_t k = 0; k < 22; k++)
                        ring->records[k] = record(k);
                ring->records[20].t_end = 0; /* in this one it died */
        }
        strcpy(site->py, "train.py:12 step\n");
        site->py_size = (uint16_t)strlen(site->py);
        cell = item(CAPO_AREA_CELLS, 0);
        *cell = (struct capo_seg_cell){.key = {.bytes = 64, .comm = 1, .call = CAPO_CALL_ALLREDUCE},
                                       .count = 4};
        cell->host = 1;
        cell->gpu = 2;
        for (uint32_t i = 0; i < 4; i++)
                *(struct capo_record *)item(CAPO_AREA_FLIGHT, i) = record(i);
        for (uint32_t i = 0; i < 3; i++) {
                slot = item(CAPO_AREA_SLOTS, i);
                *slot = (struct capo_slot){
                        .record = record(30 + i), .state = CAPO_SLOT_TAKEN + i, .thread = 1};
        }
        at = text(CAPO_AREA_TEXT, 0, CAPO_FRAME_INFO, "host\tsomewhere\npid\t1234567\n");
        right[0].text_head = right[1].text_head =
                text(CAPO_AREA_TEXT, at, CAPO_FRAME_RULES, "digest 0123\n");
        at = text(CAPO_AREA_KEPT, 0, CAPO_FRAME_FABRIC, "begin 1\nend 1\n");
        for (int i = 0; i < 2; i++) {
                right[i].kept_now = 1;
                right[i].kept_size[0] = at;
        }
        snprintf(path, sizeof path, "%s/capo-%u-1234567-1", fuzz_folder(), (unsigned)geteuid());
        snprintf(log_path, sizeof log_path, "%s/left.capo", fuzz_folder());
}

static void put(int fd, const void *what, size_t n, uint64_t at)
{
        must(pwrite(fd, what, n, (off_t)at) == (ssize_t)n);
}

static void write_segment(unsigned flags, struct fuzz_bytes *b)
{
        struct capo_segment_header h = right[flags & TRACED ? 1 : 0];
        _cleanup_close_ int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        uint64_t reach[CAPO_AREAS];

        must(fd >= 0);
        if (flags & RAW) {
                put(fd, b->at, b->left, 0);
                return;
        }
        for (int i = 0; i < CAPO_AREAS; i++) {
                const struct capo_area *a = &h.areas[i];

                reach[i] = a->committed * a->item;
                reach[i] = reach[i] < REACH ? reach[i] : REACH;
                for (uint32_t k = 0; i == CAPO_AREA_RINGS && k < RINGS; k++)
                        put(fd, item(CAPO_AREA_RINGS, k), RING_ROOM, a->offset + k * a->item);
                if (i != CAPO_AREA_RINGS)
                        put(fd, items[i], i == CAPO_AREA_HISTS ? 8192 : 4096, a->offset);
        }
        if (!(flags & SMALL))
                must(ftruncate(fd, (off_t)h.size) == 0);
        while (b->left > 4) {
                unsigned area = (unsigned)fuzz_number(b, 1) % (CAPO_AREAS + 1);
                uint64_t at = fuzz_number(b, 2), n = fuzz_number(b, 1);

                n = n < b->left ? n : b->left;
                if (area == CAPO_AREAS && at + n <= sizeof h)
                        memcpy((char *)&h + at, b->at, n);
                else if (area < CAPO_AREAS && at + n <= reach[area])
                        put(fd, b->at, n, right[flags & TRACED ? 1 : 0].areas[area].offset + at);
                b->at += n;
                b->left -= n;
        }
        put(fd, &h, sizeof h, 0);
}

static void read_log(struct capo_log *log)
{
        struct capo_log_frame f;

        must(capo_log_size(log) < LOG_MOST);
        while (capo_log_next(log, &f) > 0)
                ;
        must(!capo_log_health(log)->n_damages && !capo_log_health(log)->cut_bytes);
        capo_log_close(log);
}

static int found(const struct capo_segment_info *info, void *cookie)
{
        *(struct capo_segment_info *)cookie = *info;
        return 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct fuzz_bytes b = {data, size};
        struct capo_segment_info info;
        unsigned flags = (unsigned)fuzz_number(&b, 1);
        struct capo_log *log;
        char why[256];
        int r = -1;

        if (!*path)
                prepare();
        write_segment(flags, &b);
        unlink(log_path);
        if (flags & LOG_THERE)
                close(open(log_path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
        if (flags & PEEK && capo_segment_find(fuzz_folder(), NULL, true, found, &info) == 1) {
                must(strlen(info.log_path) < sizeof info.log_path);
                r = capo_live_log_open(&info, &log);
                if (r == 0)
                        read_log(log);
        } else {
                r = capo_segment_recover(path, log_path, &info);
                if (r == 0 && !(flags & LOG_THERE)) {
                        must(capo_log_open(log_path, &log, why, sizeof why) == 0);
                        read_log(log);
                }
        }
        unlink(path);
        unlink(log_path);
        return 0;
}
