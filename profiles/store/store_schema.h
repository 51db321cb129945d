/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of a store, and the migration of older stores. */
#pragma once

#include <sqlite3.h>
#include <stdint.h>

#define CAPO_STORE_VERSION 8

/* The columns that identify a kind; statements to find and to insert one take their values in this
 * order. */
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

/* The header of a database file. */
struct capo_schema_head {
        int64_t version, application, n_tables;
};

/** capo_schema_head() - read it; inside a transaction the three values are consistent. Return:
 * SQLITE_OK or an SQLite error. */
int capo_schema_head(sqlite3 *db, struct capo_schema_head *head);

/** capo_schema_migrate() - bring a new or older store to CAPO_STORE_VERSION. Must run inside an
 * exclusive transaction, because another process may do the same. Return: SQLITE_OK; or an SQLite
 * error: the caller reads SQLite's message, then rolls back. */
int capo_schema_migrate(sqlite3 *db);

/** capo_schema_name_kinds() - fill in names of kinds that have none yet. Return: SQLITE_OK or an
 * SQLite error. */
int capo_schema_name_kinds(sqlite3 *db);
