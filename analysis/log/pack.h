/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several finished logs of a node in one compressed file, NAME.capo.zst. Whoever reads logs reads
 * these too: a log in one is called FILE/NAME.
 *
 *      for each log: | skippable frame of zstd: struct pack_head, name | frame of zstd: the log |
 *
 * So `zstd -dc FILE` prints all logs behind one another, and of a damaged file every log but the
 * damaged ones is found. A log that somebody compressed by `zstd` alone is read as well.
 */
#ifndef CAPO_PACK_H
#define CAPO_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CAPO_PACK_SUFFIX ".capo.zst"

struct capo_pack_entry {
        char name[256];
        uint64_t at, packed; /* where its frame of zstd lies in the file, and its bytes */
        uint64_t size;       /* of the log */
};

struct capo_pack {
        struct capo_pack_entry *v;
        size_t n;
        uint64_t bytes_lost; /* of the file that belong to no log that was found: damage */
};

/** capo_pack_is_name() - does @name end as the name of a pack? */
bool capo_pack_is_name(const char *name);

/** capo_pack_is() - is the file that begins with these bytes one? */
bool capo_pack_is(const void *head, size_t n);

/**
 * capo_pack_list() - the logs in the file @path
 * @out: capo_pack_finish() it in any case
 * @why: one sentence without the path on failure
 *
 * Return: 0; -EBADMSG: not such a file, or nothing in it can be read; -ENOMEM; -errno.
 */
int capo_pack_list(const char *path, struct capo_pack *out, char *why, size_t why_size);
void capo_pack_finish(struct capo_pack *pack);

/**
 * capo_pack_unpack() - hand the bytes of a log to @take, piece by piece, at most entry->size
 * @take: another value than 0 ends it, and is returned
 *
 * Return: 0; -EBADMSG: it is damaged or cut, what came before is right; -errno.
 */
int capo_pack_unpack(const char *path, const struct capo_pack_entry *entry,
                     int (*take)(void *arg, const void *bytes, size_t n), void *arg);

/* What capo_pack_folder() and capo_pack_undo() did, a call for each. */
struct capo_pack_event {
        enum { CAPO_PACK_MADE, CAPO_PACK_LEFT, CAPO_PACK_FAILED } what;
        const char *path;  /* the new file; or the log that stays as it is */
        const char *why;   /* it stays, or what failed */
        size_t n;          /* logs in it */
        uint64_t from, to; /* bytes before and after */
};

/**
 * capo_pack_folder() - put the finished logs of @folder into one file for each node
 * @all: also those of other nodes
 * @say: may be NULL
 *
 * Logs stay as they are when their process has not come to its end, when memory of it is left that
 * capo report --recover will bring into the log, when they are damaged, and when they are another
 * user's. A log is removed only when the new file is on its way to disk, has its name, and was read
 * back. A kill at any moment leaves all logs there; one that is there twice is read once.
 *
 * Return: 0; -errno: the folder cannot be read, or the first thing that failed.
 */
int capo_pack_folder(const char *folder, bool all,
                     void (*say)(const struct capo_pack_event *event, void *arg), void *arg);

/** capo_pack_preview() - say what capo_pack_folder() would do, and do nothing: to is 0 in events.
 */
int capo_pack_preview(const char *folder, bool all,
                      void (*say)(const struct capo_pack_event *event, void *arg), void *arg);

/** capo_pack_undo() - the logs of the file @path beside it, and the file away. Return: 0; -errno,
 * -EBADMSG where one is damaged: the file stays. */
int capo_pack_undo(const char *path, void (*say)(const struct capo_pack_event *event, void *arg),
                   void *arg);

/* ---- between pack_read.c and pack_write.c ---- */

#define PACK_SKIP 0x184D2A5Cu /* one of the magic numbers that zstd steps over */

struct pack_head {
        uint32_t skip; /* PACK_SKIP, then how many bytes follow: as zstd wants it */
        uint32_t skip_size;
        char magic[8];
        uint64_t size, packed;
        uint16_t version, n_name;
        uint32_t reserved;
        uint64_t check; /* pack_check() */
};

/** pack_check() - over @head but for its check, and @name. */
uint64_t pack_check(const struct pack_head *head, const char *name);

#define PACK_MAGIC   "CAPOPACK"
#define PACK_VERSION 1
#define PACK_RATIO   1000 /* no log is packed tighter: what claims it is damaged */

#endif
