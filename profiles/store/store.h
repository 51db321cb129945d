/* SPDX-License-Identifier: Apache-2.0 */
/* Measurements of many runs, clusters and NCCL releases in one SQLite file. docs/store.md has the
 * schema. Any SQLite program may read it; only this module writes it.
 *
 * Several processes may write at once: the file is in write-ahead mode, and a writer waits up to 30
 * s for another. A file of an older version is migrated in one transaction when it is opened for
 * writing; for reading it is migrated in a copy. One of a newer version is rejected. */
#pragma once

#include "profiles/import/import.h"

struct capo_store; /* an open store */

/* Properties of an import that are not in the measurements; "" not known. */
struct capo_store_about {
        const char *cluster, *link, *nic, *driver;
};

/* Selects samples; a field that is 0, NULL or "" selects all. */
struct capo_store_filter {
        int64_t import; /* number of an import, as `list` prints it */
        uint8_t call;
        uint32_t nccl;
        const char *gpu, *layout, *cluster; /* layout: exact match; gpu and cluster: SQL LIKE */
        int n_ranks;
};

struct capo_store_import {
        int64_t id;
        const char *when, *cluster, *link, *nic, *driver, *source;
        int64_t n_trials, n_samples;
};

/** capo_store_wait() - how long stores opened from now on wait for another writer; 30 seconds by
 * default. */
void capo_store_wait(unsigned seconds);

/** capo_store_open() - open @path; with @write it is created if missing
 * @why: on failure one line: locked, corrupt, not a store, newer than this capo, ...
 *
 * Return: 0; -ENOENT; -EBUSY: locked; -EBADMSG: corrupt or not a store; -EPROTO: newer; -EIO. */
int capo_store_open(const char *path, bool write, struct capo_store **out, char *why, size_t room);
void capo_store_close(struct capo_store *store);

/** capo_store_add() - add all of @set as one import, or nothing. *@id: its number. Return: as open.
 */
int capo_store_add(struct capo_store *store, const struct capo_samples *set,
                   const struct capo_store_about *about, int64_t *id, char *why, size_t room);

/** capo_store_read() - append the samples selected by @filter to @set; runs are named by their
 * source. Return: as open. */
int capo_store_read(struct capo_store *store, const struct capo_store_filter *filter,
                    struct capo_samples *set, char *why, size_t room);

/** capo_store_list() - call @each for every import, in order. Return: as open. */
int capo_store_list(struct capo_store *store,
                    void (*each)(const struct capo_store_import *import, void *user), void *user,
                    char *why, size_t room);

/** capo_store_query() - print the result of a SELECT as CSV; the file is opened read-only. Return:
 * as open; -EINVAL: SQL error, with SQLite's text. */
int capo_store_query(struct capo_store *store, const char *sql, FILE *out, char *why, size_t room);

/** capo_store_remove() - remove an import and its samples. Return: as open; -ENOENT: no such
 * import. */
int capo_store_remove(struct capo_store *store, int64_t id, char *why, size_t room);

/* Samples as one flat table, the exchange format of docs/store.md: a line for each, no join is needed, and
 * column names include units. Text with a comma, a quote or a newline is quoted as in RFC 4180. */

/** capo_csv_heads() - the first line. */
void capo_csv_heads(FILE *out);

/** capo_csv_sample() - one line. Return: 0 or -EIO. */
int capo_csv_sample(FILE *out, const struct capo_sample *s, const struct capo_trial *r);
