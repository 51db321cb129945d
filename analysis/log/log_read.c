/* SPDX-License-Identifier: Apache-2.0 */
/* Only frames with a correct checksum are used. After a bad frame, the next one is first looked for
 * where the bad one says it ends (the common case), then at every multiple of 8. Each place that
 * looks like a frame header costs a checksum, so the bytes spent on it are limited to a multiple of
 * the file size: no file can make the reader slow. */

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "capo/frame_types.h"
#include "capo/msg.h"
#include "analysis/log/log_read.h"
#include "analysis/log/log_window.h"
#include "core/base/xalloc.h"

struct capo_log {
        struct capo_log_window window;
        uint64_t next; /* offset of the next frame */
        uint64_t search_left;
        struct capo_log_header header;
        struct capo_log_health health;
};

/* Larger packed logs are unpacked to a file without a name. */
#define PACKED_MOST ((uint64_t)64 << 20)

static int check_header(const struct capo_log_header *h, uint64_t file_size, char *why,
                        size_t why_size)
{
        if (memcmp(h->magic, CAPO_LOG_MAGIC, sizeof h->magic) != 0)
                return capo_why(-EBADMSG, why, why_size, "is not a capo log");
        if (h->order == __builtin_bswap32(CAPO_LOG_ORDER))
                return capo_why(-EPROTO, why, why_size,
                                "was written on a machine of the other byte order; read it there");
        if (h->order != CAPO_LOG_ORDER)
                return capo_why(-EBADMSG, why, why_size,
                                "damaged at byte 8: expected the byte order mark, found 0x%08x",
                                h->order);
        if (h->min_reader > CAPO_LOG_VERSION)
                return capo_why(
                        -EPROTO, why, why_size,
                        "is of log version %u, which needs a capo that reads version %u; this one reads up to %u",
                        h->version, h->min_reader, CAPO_LOG_VERSION);
        if (h->header_size < sizeof *h || h->header_size > 65536 || h->header_size % 8 ||
            h->header_size > file_size || h->version == 0)
                return capo_why(-EBADMSG, why, why_size,
                                "damaged at byte 12: version %u, header of %u bytes", h->version,
                                h->header_size);
        return 0;
}

void capo_log_park(struct capo_log *log) { capo_log_window_park(&log->window); }

void capo_log_rewind(struct capo_log *log)
{
        log->next = log->header.header_size;
        log->search_left = 4 * log->window.size + (64u << 20);
        log->health = (struct capo_log_health){.damages = log->health.damages};
}

/* Read and check the header; the size of @log is already known. */
static int begin_bytes(struct capo_log *log, char *why, size_t why_size)
{
        const unsigned char *bytes;
        int r = 0;

        if (log->window.size < sizeof log->header)
                return capo_why(-EBADMSG, why, why_size,
                                log->window.size ? "is not a capo log (%llu bytes)" : "is empty",
                                (unsigned long long)log->window.size);
        bytes = capo_log_window_read(&log->window, 0, sizeof log->header, &r);
        if (!bytes)
                return capo_why(r, why, why_size, "%s", strerror(-r));
        memcpy(&log->header, bytes, sizeof log->header);
        capo_log_rewind(log);
        return check_header(&log->header, log->window.size, why, why_size);
}

/* Check the header; @log already has its file and its path. */
static int begin_log(struct capo_log *log, const struct stat *st, char *why, size_t why_size)
{
        if (!S_ISREG(st->st_mode))
                return capo_why(-EBADMSG, why, why_size, "is not a regular file");
        log->window.dev = st->st_dev;
        log->window.ino = st->st_ino;
        log->window.size = (uint64_t)st->st_size;
        return begin_bytes(log, why, why_size);
}

static struct capo_log *new_log(const char *path)
{
        struct capo_log *log = xcalloc(1, sizeof *log);

        log->window.fd = -1;
        log->window.path = xstrdup(path);
        return log;
}

/* Open log @name of the file @pack; NULL: its only log. */
static int open_named(const char *pack, const char *name, struct capo_log **out, char *why,
                      size_t why_size)
{
        _cleanup_(capo_pack_finish) struct capo_pack list = {0};
        int r = capo_pack_list(pack, &list, why, why_size);
        size_t i = 0;

        if (r < 0)
                return r;
        if (!name && list.n != 1)
                return capo_why(-EBADMSG, why, why_size,
                                "holds %zu logs: expected one, such as %s/%s", list.n, pack,
                                list.v[0].name);
        while (name && i < list.n && strcmp(list.v[i].name, name) != 0)
                i++;
        return i < list.n ? capo_log_open_packed(pack, &list.v[i], out, why, why_size)
                          : capo_why(-ENOENT, why, why_size, "%s", strerror(ENOENT));
}

/* @path does not exist as a file: it may be FILE/NAME of a log in a packed file. */
static int open_inside(const char *path, struct capo_log **out, char *why, size_t why_size)
{
        const char *slash = strrchr(path, '/');
        _cleanup_free_ char *pack = slash ? strndup(path, (size_t)(slash - path)) : NULL;

        return pack ? open_named(pack, slash + 1, out, why, why_size)
                    : capo_why(-ENOTDIR, why, why_size, "%s", strerror(ENOTDIR));
}

int capo_log_open(const char *path, struct capo_log **out, char *why, size_t why_size)
{
        _cleanup_(capo_log_closep) struct capo_log *log = new_log(path);
        struct stat st;
        int r = capo_log_window_open(&log->window, path, &st, why, why_size);
        char head[4];

        if (r == -ENOTDIR)
                return open_inside(path, out, why, why_size);
        if (r == 0 && pread(log->window.fd, head, sizeof head, 0) == sizeof head &&
            capo_pack_is(head, sizeof head))
                return open_named(path, NULL, out, why, why_size);
        if (r < 0)
                return r;
        r = begin_log(log, &st, why, why_size);
        if (r == 0)
                *out = steal(&log);
        return r;
}

int capo_log_open_fd(int fd, const char *path, struct capo_log **out, char *why, size_t why_size)
{
        _cleanup_(capo_log_closep) struct capo_log *log = new_log(path);
        struct stat st;
        int r;

        capo_log_window_give(&log->window, fd);
        r = fstat(fd, &st) < 0 ? -errno : begin_log(log, &st, why, why_size);
        log->window.in_memory = r == 0 && st.st_nlink == 0;
        if (r == 0)
                *out = steal(&log);
        return r;
}

static struct capo_log_frame frame_of(const struct capo_log *log, uint64_t offset,
                                      const struct capo_frame *head, const unsigned char *bytes)
{
        return (struct capo_log_frame){.offset = offset,
                                       .payload = bytes + sizeof *head,
                                       .size = head->size,
                                       .type = head->type,
                                       .flags = head->flags,
                                       .version = log->header.version};
}

/* For logs too large for memory. */
static int open_unpacked(struct capo_log *log, char *why, size_t why_size)
{
        FILE *file = tmpfile();
        struct stat st;
        int r = file ? capo_pack_unpack(log->window.pack, log->window.entry, capo_pack_to_file,
                                        file)
                     : -errno;
        int fd = -1;

        free(steal(&log->window.pack));
        if (r == -EBADMSG)
                r = 0;
        if (r == 0 && (fflush(file) || (fd = dup(fileno(file))) < 0 || fstat(fd, &st)))
                r = -errno;
        if (file)
                fclose(file);
        if (fd >= 0)
                capo_log_window_give(&log->window, fd);
        if (r < 0)
                return capo_why(r, why, why_size, "%s", strerror(-r));
        log->window.in_memory = true;
        return begin_log(log, &st, why, why_size);
}

int capo_log_open_packed(const char *pack, const struct capo_pack_entry *entry,
                         struct capo_log **out, char *why, size_t why_size)
{
        _cleanup_free_ char *path = xprintf("%s/%s", pack, entry->name);
        _cleanup_(capo_log_closep) struct capo_log *log = new_log(path);
        int r;

        log->window.pack = xstrdup(pack);
        log->window.entry = xmalloc(sizeof *entry);
        *log->window.entry = *entry;
        if (entry->size > PACKED_MOST) {
                r = open_unpacked(log, why, why_size);
        } else {
                r = capo_log_window_unpack(&log->window);
                log->window.size = log->window.held;
                r = r < 0 ? capo_why(r, why, why_size, "%s", strerror(-r))
                          : begin_bytes(log, why, why_size);
        }
        if (r < 0)
                return r;
        if (log->window.size < entry->size)
                capo_warn("%s: damaged: only the first %llu of %llu bytes can be decompressed",
                          path, (unsigned long long)log->window.size,
                          (unsigned long long)entry->size);
        *out = steal(&log);
        return 0;
}

void capo_log_close(struct capo_log *log)
{
        if (!log)
                return;
        capo_log_window_close(&log->window);
        capo_log_window_free(&log->window);
        xfree(log->window.path, log->window.pack, log->window.entry, log->health.damages, log);
}

bool capo_log_begins_with(struct capo_log *log, struct capo_log *other)
{
        bool same = log->window.size >= other->window.size;

        for (uint64_t at = 0, n; same && at < other->window.size; at += n) {
                const unsigned char *a, *b;
                int error = 0;

                n = other->window.size - at < 65536 ? other->window.size - at : 65536;
                a = capo_log_window_read(&log->window, at, n, &error);
                b = capo_log_window_read(&other->window, at, n, &error);
                same = a && b && !memcmp(a, b, n);
        }
        return same;
}

bool capo_log_in_memory(const struct capo_log *log) { return log->window.in_memory; }

uint64_t capo_log_size(const struct capo_log *log) { return log->window.size; }

const struct capo_log_header *capo_log_header(const struct capo_log *log) { return &log->header; }

const struct capo_log_health *capo_log_health(const struct capo_log *log) { return &log->health; }

const char *capo_log_path(const struct capo_log *log) { return log->window.path; }

uint64_t capo_log_position(const struct capo_log *log) { return log->next; }

const char *capo_frame_name(unsigned type)
{
        static const char *const names[CAPO_FRAMES] = {
#define FRAME(id, number, since, meaning) [number] = #id,
#include "capo/log_frames.def"
        };

        return type < CAPO_FRAMES && names[type] ? names[type] : "?";
}

enum verdict { GOOD, BAD_CHECK, NOT_A_FRAME, BEYOND_END, FAILED };

/* Is there a complete frame with a correct checksum at @offset? @strict: also require a known type,
 * for places that may be anything. */
static enum verdict check_frame(struct capo_log *log, uint64_t offset, bool strict,
                                struct capo_log_frame *out, int *error)
{
        uint64_t left = log->window.size - offset;
        struct capo_frame head;
        const unsigned char *bytes;

        if (left < sizeof head)
                return BEYOND_END;
        bytes = capo_log_window_read(&log->window, offset, sizeof head, error);
        if (!bytes)
                return FAILED;
        memcpy(&head, bytes, sizeof head);
        if (head.type == 0 || head.size > CAPO_FRAME_MAX ||
            (strict && (head.type >= CAPO_FRAMES || head.flags)))
                return NOT_A_FRAME;
        if (head.size > left - sizeof head)
                return BEYOND_END;
        bytes = capo_log_window_read(&log->window, offset, sizeof head + head.size, error);
        if (!bytes)
                return FAILED;
        if (strict)
                log->search_left -= head.size < log->search_left ? head.size : log->search_left;
        if (XXH3_64bits_withSeed(bytes + sizeof head, head.size,
                                 head.type | (uint64_t)head.flags << 16 |
                                         (uint64_t)head.size << 32) != head.check)
                return BAD_CHECK;
        *out = frame_of(log, offset, &head, bytes);
        return GOOD;
}

static void note_damage(struct capo_log *log, uint64_t from, uint64_t to, const char *what)
{
        struct capo_log_health *h = &log->health;

        if (!h->damages)
                h->damages = xcalloc(CAPO_DAMAGES_KEPT, sizeof *h->damages);
        if (h->n_damages < CAPO_DAMAGES_KEPT)
                h->damages[h->n_damages] =
                        (struct capo_log_damage){.offset = from, .bytes = to - from, .what = what};
        h->n_damages++;
        h->bytes_lost += to - from;
}

/* The frame at log->next is bad: find the next good one. GOOD with @out, BEYOND_END or FAILED. */
static enum verdict find_next_frame(struct capo_log *log, enum verdict why,
                                    struct capo_log_frame *out, int *error)
{
        const char *what = why == BAD_CHECK ? "checksum" : "not a frame";
        uint64_t bad = log->next, at = bad + 8;
        enum verdict v = NOT_A_FRAME;
        struct capo_frame head;
        const unsigned char *bytes;

        if (why == BAD_CHECK) {
                bytes = capo_log_window_read(&log->window, bad, sizeof head, error);
                if (!bytes)
                        return FAILED;
                memcpy(&head, bytes, sizeof head);
                at = bad + sizeof head + capo_log_pad(head.size);
                if (at >= log->window.size) { /* it was the last frame */
                        note_damage(log, bad, log->window.size, what);
                        return BEYOND_END;
                }
                v = check_frame(log, at, true, out, error);
        }
        for (uint64_t next = bad + 8;
             v != GOOD && v != FAILED && next + sizeof head <= log->window.size && log->search_left;
             next += 8) {
                at = next;
                v = check_frame(log, at, true, out, error);
        }
        if (v == GOOD)
                note_damage(log, bad, at, what);
        if (v == GOOD || v == FAILED)
                return v;
        if (why == BEYOND_END) {
                log->health.cut_at = bad;
                log->health.cut_bytes = log->window.size - bad;
        } else {
                note_damage(log, bad, log->window.size, what);
        }
        return BEYOND_END;
}

int capo_log_next(struct capo_log *log, struct capo_log_frame *frame)
{
        while (log->next < log->window.size) {
                int error = 0;
                enum verdict v = check_frame(log, log->next, false, frame, &error);

                if (v != GOOD && v != FAILED)
                        v = find_next_frame(log, v, frame, &error);
                if (v == FAILED)
                        return error;
                if (v != GOOD) {
                        log->next = log->window.size;
                        return 0;
                }
                log->next = frame->offset + sizeof(struct capo_frame) + capo_log_pad(frame->size);
                if (frame->type < CAPO_FRAMES)
                        return 1;
                log->health.unknown_frames++;
        }
        return 0;
}

int capo_log_frame_at(struct capo_log *log, uint64_t offset, struct capo_log_frame *frame)
{
        struct capo_frame head;
        const unsigned char *bytes;
        int error = 0;

        bytes = capo_log_window_read(&log->window, offset, sizeof head, &error);
        if (!bytes)
                return error;
        memcpy(&head, bytes, sizeof head);
        bytes = capo_log_window_read(&log->window, offset, sizeof head + head.size, &error);
        if (!bytes)
                return error;
        *frame = frame_of(log, offset, &head, bytes);
        return 0;
}
