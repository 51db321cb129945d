/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a log of any version: frames in file order, each checked. Damage is skipped and described.
 * Only the log writer and this module know the bytes of include/capo/log.h. It uses one window of
 * memory (1 MiB; more only for a larger frame), whatever the size of the log.
 *
 *      struct capo_log_frame f;
 *      while (capo_log_next(log, &f) > 0)
 *              if (f.type == CAPO_FRAME_BLOCK && capo_log_block(&f, &columns) == 0) ... */
#pragma once

#include <stdbool.h>

#include "capo/log_layout.h"

struct capo_record;

struct capo_log; /* an open log */
struct capo_pack_entry;

/* One frame. `payload` is aligned to 8 bytes and valid until the next call on the same log. */
struct capo_log_frame {
        uint64_t offset; /* of the frame in the file */
        const void *payload;
        uint32_t size; /* of the payload */
        uint16_t type;
        uint16_t flags;
        uint16_t version; /* of the file */
};

#define CAPO_DAMAGES_KEPT 8
struct capo_log_damage {
        uint64_t offset;  /* first byte that could not be used */
        uint64_t bytes;   /* how many were skipped */
        const char *what; /* "checksum", "not a frame", "cut" ...; static text */
};

/* What was wrong with a log so far. A cut end is normal for a killed process and is not damage. */
struct capo_log_health {
        struct capo_log_damage
                *damages;        /* the first CAPO_DAMAGES_KEPT; the log's, until it is closed */
        uint64_t n_damages;      /* all */
        uint64_t bytes_lost;     /* in damaged places */
        uint64_t cut_at;         /* offset of the frame in which the file ends */
        uint64_t cut_bytes;      /* bytes of that frame that are in the file; 0: not cut */
        uint64_t unknown_frames; /* of types this version does not know, skipped */
};

/** capo_log_open() - open @path for reading and check its header
 * @out:  set only on success; capo_log_close() it
 * @why:  one sentence without the path on failure ("is not a capo log", ...)
 *
 * Return: 0; -errno of open or read; -EBADMSG: not a log, or cut before its first frame; -EPROTO: a
 * log this version cannot read (newer format, other byte order). */
int capo_log_open(const char *path, struct capo_log **out, char *why, size_t why_size);

/** capo_log_open_fd() - the same for an open file
 * @fd: always closed or owned by the log; the file may have no name (memfd_create)
 * @path: its name, or that of the log that it stands for */
int capo_log_open_fd(int fd, const char *path, struct capo_log **out, char *why, size_t why_size);

/** capo_log_open_packed() - open one log of a file with several (analysis/log/pack.h)
 * @pack, @entry: copied. capo_log_path() is PACK/NAME, which capo_log_open() accepts too.
 *
 * If a part of it is damaged, a line says so and the log ends there. Return: as capo_log_open(). */
int capo_log_open_packed(const char *pack, const struct capo_pack_entry *entry,
                         struct capo_log **out, char *why, size_t why_size);

/** capo_log_close() - NULL is allowed. */
void capo_log_close(struct capo_log *log);

static inline void capo_log_closep(struct capo_log **log) { capo_log_close(*log); }

const struct capo_log_header *capo_log_header(const struct capo_log *log);
const struct capo_log_health *capo_log_health(const struct capo_log *log);
const char *capo_log_path(const struct capo_log *log);

/** capo_log_rewind() - to the first frame, without opening the file; resets capo_log_health(). */
void capo_log_rewind(struct capo_log *log);

/** capo_log_park() - free the memory of the window. The log stays open and can be read on or
 * rewound. Pointers into it are no longer valid.
 *
 * A command keeps each log of a job open from the moment it is found, so that it is opened once. If
 * there are more logs than the limit on open files, this log's file is closed as well, and the next
 * read opens it again (-ESTALE if the name now belongs to another file). */
void capo_log_park(struct capo_log *log);

/** capo_log_size() - bytes of the file when it was opened. */
uint64_t capo_log_size(const struct capo_log *log);

/** capo_log_in_memory() - does its file have no name? */
bool capo_log_in_memory(const struct capo_log *log);

/** capo_log_begins_with() - does @log begin with, or equal, @other? Moves neither. */
bool capo_log_begins_with(struct capo_log *log, struct capo_log *other);

/** capo_log_position() - bytes read so far: for a progress line. */
uint64_t capo_log_position(const struct capo_log *log);

/** capo_frame_name() - "INFO", ...; "?" for a type this version does not know. */
const char *capo_frame_name(unsigned type);

/** capo_log_next() - the next undamaged frame of a known type. Return: 1 with @frame set; 0 at the
 * end; -EIO or another error of read(2). */
int capo_log_next(struct capo_log *log, struct capo_log_frame *frame);

/** capo_log_frame_at() - a frame that was read before, by its offset; its checksum is not checked
 * again. Does not move capo_log_next(). Return: 0 or negative errno. */
int capo_log_frame_at(struct capo_log *log, uint64_t offset, struct capo_log_frame *frame);

/** capo_log_pad() - parts of a frame begin at multiples of 8 bytes. */
static inline uint64_t capo_log_pad(uint64_t n) { return (n + 7) & ~(uint64_t)7; }

/* The payloads, converted to the newest layout. Each function returns 0, or -EBADMSG if the payload
 * is shorter than its counts say. Pointers point into the frame. */
int capo_log_comm(const struct capo_log_frame *f, struct capo_log_comm *out, const char **name);
int capo_log_site(const struct capo_log_frame *f, struct capo_log_site *out, const char **text);

/** capo_log_site_chosen() - all 0 when the SITE frame has none. */
struct capo_log_site_chosen capo_log_site_chosen(const struct capo_log_frame *f);

int capo_log_end(const struct capo_log_frame *f, struct capo_log_end *out);

/** capo_log_shapes() - Return: the number of shapes at *@out. */
unsigned capo_log_shapes(const struct capo_log_frame *f, const struct capo_log_shape **out);

/** capo_log_wide() - record @i of a WIDE frame, in ns since the epoch. False: there is none. */
bool capo_log_wide(const struct capo_log_frame *f, unsigned i, struct capo_record *out);

/* A histogram of a CELL; head.n pairs. */
struct capo_log_hist_view {
        struct capo_log_hist head; /* all zero when the cell has none */
        const struct capo_log_hist_pair *pairs;
};
int capo_log_cell(const struct capo_log_frame *f, struct capo_log_cell *out,
                  struct capo_log_hist_view *host, struct capo_log_hist_view *gpu);

/** capo_log_cell_waited() - how long the kernels of a CELL's calls waited (capo_record_waited());
 * empty if none reported it. Call capo_log_cell() first. Return: as that. */
int capo_log_cell_waited(const struct capo_log_frame *f, struct capo_log_hist_view *out);

/* A BLOCK by column; `gpu_ns` and `aux` are NULL when the block has none. */
struct capo_log_columns {
        uint64_t base; /* ns since epoch */
        const uint32_t *t_begin, *host_ns, *seq, *gpu_ns, *aux;
        const uint16_t *shape;
        uint32_t n;
        uint16_t thread;
};
int capo_log_block(const struct capo_log_frame *f, struct capo_log_columns *out);

/** capo_log_record() - call @i of a block, in ns since the epoch; @shape: its columns->shape[i]. */
void capo_log_record(const struct capo_log_columns *columns, uint32_t i,
                     const struct capo_log_shape *shape, struct capo_record *out);

/** capo_log_next_line() - walk the lines of a text payload. *@at starts with 0 and moves past the
 * line; *@n_line is its length without the newline. Return: the line, NULL after the last. */
const char *capo_log_next_line(const struct capo_log_frame *f, size_t *at, size_t *n_line);
