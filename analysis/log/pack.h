/* SPDX-License-Identifier: Apache-2.0 */
/* Several finished logs of a node in one compressed file, NAME.capo.zst. Everything that reads logs
 * also reads these; a log in one is named FILE/NAME.
 *
 *      for each log: | skippable frame of zstd: struct pack_head, name | frame of zstd: the log |
 *
 * `zstd -dc FILE` prints all logs in turn; in a damaged file every undamaged log is found. */
#pragma once

#include "core/base/util.h"

#define CAPO_PACK_SUFFIX ".capo.zst"

struct capo_pack_entry {
        char name[256];
        uint64_t at, packed; /* offset of its zstd frame in the file, and the frame's bytes */
        uint64_t size;       /* of the log */
};

struct capo_pack {
        struct capo_pack_entry *v;
        size_t n;
        uint64_t bytes_lost; /* bytes of the file that belong to no log: damage */
};

/** capo_pack_is_name() - does @name have the suffix of a pack? */
bool capo_pack_is_name(const char *name);

/** capo_pack_is() - do these first bytes of a file belong to a pack? */
bool capo_pack_is(const void *head, size_t n);

/** capo_pack_list() - list the logs in the file @path
 * @out: capo_pack_finish() it in any case
 * @why: on failure, one sentence without the path
 *
 * Return: 0; -EBADMSG: not a pack, or nothing in it can be read; -ENOMEM; -errno. */
int capo_pack_list(const char *path, struct capo_pack *out, char *why, size_t why_size);
void capo_pack_finish(struct capo_pack *pack);

/** capo_pack_unpack() - pass the bytes of a log to @take, piece by piece, at most entry->size
 * @take: a value other than 0 stops it and is returned
 *
 * Return: 0; -EBADMSG: damaged or cut (the bytes passed so far are right); -errno. */
int capo_pack_unpack(const char *path, const struct capo_pack_entry *entry,
                     int (*take)(void *arg, const void *bytes, size_t n), void *arg);

/* For capo_pack_unpack(): into a FILE. */
static inline int capo_pack_to_file(void *file, const void *bytes, size_t n)
{
        return fwrite(bytes, 1, n, file) == n ? 0 : -errno;
}

/* One result of capo_pack_folder() or capo_pack_undo(). */
struct capo_pack_event {
        enum { CAPO_PACK_MADE, CAPO_PACK_LEFT, CAPO_PACK_FAILED } what;
        const char *path;  /* the new file; or the log that was left */
        const char *why;   /* why it was left, or what failed */
        size_t n;          /* logs in it */
        uint64_t from, to; /* bytes before and after */
};

/** capo_pack_folder() - pack the finished logs of @folder, one file per node
 * @all: also logs of other nodes
 * @dry: only report what would be done; `to` is 0 in the events
 * @say: called for each result; may be NULL
 *
 * A log is left as it is if its process still runs, if capo report --recover can still add to it
 * from memory, if it is damaged, or if it belongs to another user. A log is removed only after the
 * new file was synced, has its name, and was read back. A kill at any moment loses no log; a log
 * that then exists twice is read once.
 *
 * Return: 0; -errno: the folder cannot be read, or the first failure. */
int capo_pack_folder(const char *folder, bool all, bool dry,
                     void (*say)(const struct capo_pack_event *event, void *arg), void *arg);

/** capo_pack_undo() - restore the logs of the file @path beside it and remove the file. Return: 0;
 * -errno; -EBADMSG: a log is damaged, and the file stays. */
int capo_pack_undo(const char *path, void (*say)(const struct capo_pack_event *event, void *arg),
                   void *arg);

/* ---- shared by pack_read.c and pack_write.c ---- */

#define PACK_SKIP 0x184D2A5Cu /* a magic number of frames that zstd skips */

struct pack_head {
        uint32_t skip; /* PACK_SKIP and the bytes that follow, as zstd requires */
        uint32_t skip_size;
        char magic[8];
        uint64_t size, packed;
        uint16_t version, n_name;
        uint32_t reserved;
        uint64_t check; /* pack_check() */
};

/** pack_check() - checksum over @head without its check, and @name. */
uint64_t pack_check(const struct pack_head *head, const char *name);

#define PACK_MAGIC   "CAPOPACK"
#define PACK_VERSION 1
#define PACK_RATIO   1000 /* the highest compression ratio that is believed; more is damage */
