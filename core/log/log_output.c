/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/random.h>
#include <sys/syscall.h>

#include "core/base/util.h"
#include "core/log/log_output.h"

void capo_output_init(struct capo_output *o, struct capo_segment_header *h)
{
        o->h = h;
        o->log = (struct capo_log_writer){.path = h->log_path, .fd = -1, .buffer = o->buffer};
        o->done = h->commit[h->commit_now];
}

static void make_true(struct capo_segment_header *h, const struct capo_commit *what)
{
        uint32_t next = !atomic_load_explicit(&h->commit_now, memory_order_relaxed);

        h->commit[next] = *what;
        atomic_store_explicit(&h->commit_now, next, memory_order_release);
        atomic_store_explicit(&h->text_tail, what->text_tail, memory_order_release);
}

static void commit_output(struct capo_output *o)
{
        o->done.log_bytes = o->log.file_bytes;
        o->h->bytes_lost = o->log.lost_bytes;
        make_true(o->h, &o->done);
}

struct capo_output_mark capo_output_mark(const struct capo_output *o)
{
        return (struct capo_output_mark){o->h->commit[o->h->commit_now], o->log.lost_bytes};
}

bool capo_output_lost(const struct capo_output *o, const struct capo_output_mark *mark)
{
        return o->log.lost_bytes > mark->lost_bytes;
}

void capo_output_back(struct capo_output *o, const struct capo_output_mark *mark)
{
        o->done = mark->commit;
        capo_log_cut(&o->log, mark->commit.log_bytes);
        o->log.lost_bytes = o->h->bytes_lost = mark->lost_bytes;
        make_true(o->h, &o->done);
        o->resync = true;
}

int capo_output_frame(struct capo_output *o, unsigned type, const void *a, size_t n_a,
                      const void *b, size_t n_b)
{
        struct iovec iov[2] = {{(void *)a, n_a}, {(void *)b, n_b}};
        int r = capo_log_frame(&o->log, type, iov, 2);

        capo_segment_step(o->h);
        if (r < 0)
                o->resync = true;
        return r;
}

int capo_output_flush(struct capo_output *o)
{
        int r = capo_log_flush(&o->log);

        capo_segment_step(o->h);
        if (r < 0)
                o->resync = true;
        commit_output(o);
        return r;
}

static struct capo_log_header log_header(const struct capo_segment_header *h)
{
        struct capo_log_header header = {
                .order = CAPO_LOG_ORDER,
                .version = CAPO_LOG_VERSION,
                .min_reader = CAPO_LOG_MIN_READER,
                .header_size = sizeof header,
                .pid = (uint32_t)h->pid,
                .t0_ticks = h->clock.t0_ticks,
                .t0_mono_ns = h->clock.t0_mono_ns,
                .t0_real_ns = h->clock.t0_real_ns,
                .ticks_per_s =
                        h->clock.ns_per_tick > 0 ? (uint64_t)(1e9 / h->clock.ns_per_tick + 0.5) : 0,
        };

        memcpy(header.magic, CAPO_LOG_MAGIC, sizeof header.magic);
        return header;
}

/* Processes 1 of a hundred containers that call themselves the same: what no other has. */
static void name_apart(const struct capo_segment_header *h, char *end, size_t room)
{
        uint64_t drawn = 0;

        if (syscall(SYS_getrandom, &drawn, sizeof drawn, GRND_NONBLOCK) != sizeof drawn)
                drawn = (uint64_t)capo_clock_mono() ^ h->start_time << 32 ^ h->pid_ns;
        snprintf(end, room, ".%.8s-%llu-%016llx.capo", h->boot_id,
                 (unsigned long long)h->start_time, (unsigned long long)drawn);
}

int capo_output_create(struct capo_output *o)
{
        struct capo_log_header header = log_header(o->h);
        size_t length = strlen(o->h->log_path),
               stem = length < 5 ? sizeof o->h->log_path : length - strlen(".capo");
        int r = capo_log_create(&o->log, &header);

        for (int n = 1; n < 100 && r == -EEXIST && stem + 16 < sizeof o->h->log_path; n++) {
                snprintf(o->h->log_path + stem, sizeof o->h->log_path - stem, ".%d.capo", n);
                r = capo_log_create(&o->log, &header);
        }
        for (int n = 0; n < 16 && r == -EEXIST && stem + 64 < sizeof o->h->log_path; n++) {
                name_apart(o->h, o->h->log_path + stem, sizeof o->h->log_path - stem);
                r = capo_log_create(&o->log, &header);
        }
        if (r == 0)
                commit_output(o);
        else if (length >= 5) /* for the next try */
                strcpy(o->h->log_path + stem, ".capo");
        return r;
}

int capo_output_take_over(struct capo_output *o)
{
        struct capo_log_header header = log_header(o->h);
        int r = -ENOENT;

        if (o->log.nameless) {
                /* as if the log was missing */
        } else if (o->done.log_bytes >= sizeof header) {
                r = capo_log_append(&o->log, &header, o->done.log_bytes);
                if (r == 0)
                        o->log.lost_bytes = o->h->bytes_lost;
        } else if (capo_log_append(&o->log, &header, sizeof header) ==
                   0) { /* killed between making it and saying so */
                o->done = (struct capo_commit){.text_tail = o->done.text_tail};
                commit_output(o);
                r = 0;
        }
        if (r == -ENOENT) { /* text before text_tail may be overwritten by now: it stays */
                o->done = (struct capo_commit){.text_tail = o->done.text_tail};
                r = capo_output_create(o);
        }
        o->resync = true; /* what the dead one took for written may have been cut off */
        return r;
}
