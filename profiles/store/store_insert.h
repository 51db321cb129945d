/* SPDX-License-Identifier: Apache-2.0 */
/* Inserts the rows of one import. */
#pragma once

#include <sqlite3.h>

#include "profiles/import/import.h"
#include "profiles/store/store_about.h"

/** capo_store_insert() - insert @set as one import; @id: its number. Must run inside the caller's
 * transaction. Return: SQLITE_OK or an SQLite error, on which the caller rolls back. */
int capo_store_insert(sqlite3 *db, const struct capo_samples *set,
                      const struct capo_store_about *about, int64_t *id);
