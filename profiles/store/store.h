/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measurements of many runs, clusters and NCCL releases in one SQLite file. docs/store.md has the
 * schema; anything that reads SQLite may read it, only this file writes it.
 *
 * Writers may be many processes at once: the file is in write-ahead mode, a writer waits up to 30 s
 * for another. A file of an older version is brought up to date when it is opened for writing, in
 * one transaction; a reader does so in a copy. One of a newer version is refused.
 */
#ifndef CAPO_STORE_H
#define CAPO_STORE_H

#include <stdio.h>

#include "profiles/import/import.h"
#include "profiles/store/store_about.h"

struct capo_store; /* an open store */

/* Which samples: parts that are 0, NULL or "" say nothing. */
struct capo_store_filter {
        int64_t import; /* number of an import, as list prints it */
        uint8_t call;
        uint32_t nccl;
        const char *gpu, *layout, *cluster; /* layout exactly; gpu and cluster by SQL LIKE */
        int n_ranks;
};

struct capo_store_import {
        int64_t id;
        const char *when, *cluster, *link, *nic, *driver, *source;
        int64_t n_trials, n_samples;
};

/** capo_store_wait() - seconds to wait for another writer, for stores opened from now on; 30 until
 * told. */
void capo_store_wait(unsigned seconds);

/**
 * capo_store_open() - open @path; with @write it is made when it does not exist
 * @why: one line on failure: locked, corrupt, not a store, newer than this capo, ...
 *
 * Return: 0; -ENOENT; -EBUSY locked; -EBADMSG corrupt or no store; -EPROTO newer; -EIO.
 */
int capo_store_open(const char *path, bool write, struct capo_store **out, char *why, size_t room);
void capo_store_close(struct capo_store *store);

/** capo_store_add() - all of @set as one import, or nothing of it. *@id: its number. Return: as
 * open. */
int capo_store_add(struct capo_store *store, const struct capo_samples *set,
                   const struct capo_store_about *about, int64_t *id, char *why, size_t room);

/** capo_store_read() - append the samples that @filter admits to @set, runs named by their source.
 * Return: as open. */
int capo_store_read(struct capo_store *store, const struct capo_store_filter *filter,
                    struct capo_samples *set, char *why, size_t room);

/** capo_store_list() - each import in order. Return: as open. */
int capo_store_list(struct capo_store *store,
                    void (*each)(const struct capo_store_import *import, void *user), void *user,
                    char *why, size_t room);

/** capo_store_query() - print the answer to a SELECT as CSV. The file is open for reading only.
 * Return: as open; -EINVAL what SQLite says is wrong with it. */
int capo_store_query(struct capo_store *store, const char *sql, FILE *out, char *why, size_t room);

/** capo_store_remove() - an import and its samples. Return: as open; -ENOENT no such import. */
int capo_store_remove(struct capo_store *store, int64_t id, char *why, size_t room);

#endif
