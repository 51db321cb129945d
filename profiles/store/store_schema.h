/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of a store, and how an older store comes to have them. */
#ifndef CAPO_STORE_SCHEMA_H
#define CAPO_STORE_SCHEMA_H

#include <sqlite3.h>
#include <stdint.h>

#define CAPO_STORE_VERSION 8

/* What decides a kind; and the question for one, and a new one, with their values in this order. */
#define CAPO_STORE_KIND                                                                                         \
        "bytes, want, ran, coll, want_channels, ran_channels, want_chunk, clock, place, type, op, nccl, nodes," \
        " ranks, layout, gpu, cluster"
#define CAPO_STORE_KIND_INSERT                         \
        "INSERT OR IGNORE INTO kind (" CAPO_STORE_KIND \
        ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
#define CAPO_STORE_KIND_FIND                          \
        "SELECT id FROM kind WHERE (" CAPO_STORE_KIND \
        ") = (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"

enum { CAPO_STORE_APPLICATION = 0x6361706f /* "capo" */ };

/* What a database file says it is. */
struct capo_schema_head {
        int64_t version, application, n_tables;
};

/** capo_schema_head() - read it; inside a transaction the three are of one moment. Return:
 * SQLITE_OK or its error. */
int capo_schema_head(sqlite3 *db, struct capo_schema_head *head);

/** capo_schema_migrate() - bring a new or older store to CAPO_STORE_VERSION: inside an exclusive
 * transaction, because another process may be doing the same at this moment. Return: SQLITE_OK; or
 * its error, then the caller, who has asked for SQLite's words, rolls back. */
int capo_schema_migrate(sqlite3 *db);

/** capo_schema_name_kinds() - names for kinds that have none yet. Return: SQLITE_OK or its error.
 */
int capo_schema_name_kinds(sqlite3 *db);

#endif
