/* SPDX-License-Identifier: Apache-2.0 */
/* The schema is a list of steps, each from one version to the next; a new store runs all of them. A
 * sample is a row of numbers. Common properties are stored once: those of a run in table trial,
 * those of one kind of call at one place in table kind. Codes (collective, algorithm, protocol) are
 * the numbers of the log format, which never change. Table kind also has their names, and indices
 * that make grouping queries need no sort. */
#include "capo/call_ids.h"
#include "core/base/calls.h"
#include "profiles/import/import.h"
#include "profiles/store/store_schema.h"

/* steps[v]: from version v to v + 1. The views of older versions are left out, as the last step makes
 * its own. */
static const char *const steps[CAPO_STORE_VERSION] = {
        "CREATE TABLE import (id INTEGER PRIMARY KEY, time TEXT NOT NULL, cluster TEXT NOT NULL DEFAULT '',"
        " source TEXT NOT NULL);"
        "CREATE TABLE trial (id INTEGER PRIMARY KEY, import INTEGER NOT NULL REFERENCES import(id) ON DELETE CASCADE,"
        " source TEXT NOT NULL, line INTEGER NOT NULL, gpu TEXT NOT NULL, nccl INTEGER NOT NULL, layout TEXT NOT NULL,"
        " nodes INTEGER NOT NULL, ranks INTEGER NOT NULL, iterations INTEGER NOT NULL);"
        "CREATE TABLE sample (trial INTEGER NOT NULL REFERENCES trial(id) ON DELETE CASCADE, seq INTEGER NOT NULL,"
        " coll INTEGER NOT NULL, bytes INTEGER NOT NULL, us REAL NOT NULL, clock INTEGER NOT NULL, place INTEGER NOT "
        "NULL,"
        " type INTEGER NOT NULL, op INTEGER NOT NULL, want INTEGER NOT NULL, want_channels INTEGER NOT NULL,"
        " ran INTEGER NOT NULL, ran_channels INTEGER NOT NULL);"
        "CREATE INDEX trial_import ON trial(import);"
        "CREATE INDEX sample_trial ON sample(trial);",
        /* properties of a platform, and names for the codes */
        "ALTER TABLE import ADD COLUMN link TEXT NOT NULL DEFAULT '';"
        "ALTER TABLE import ADD COLUMN nic TEXT NOT NULL DEFAULT '';"
        "ALTER TABLE import ADD COLUMN driver TEXT NOT NULL DEFAULT '';"
        "CREATE TABLE name (kind TEXT NOT NULL, code INTEGER NOT NULL, name TEXT NOT NULL, PRIMARY KEY (kind, code))"
        " WITHOUT ROWID;",
        /* properties that decide whether runs can be compared, and the run's label */
        "ALTER TABLE trial ADD COLUMN hosts TEXT NOT NULL DEFAULT '';"
        "ALTER TABLE trial ADD COLUMN settings TEXT NOT NULL DEFAULT '';"
        "ALTER TABLE trial ADD COLUMN tuner TEXT NOT NULL DEFAULT '';"
        "ALTER TABLE trial ADD COLUMN why TEXT NOT NULL DEFAULT '';"
        "ALTER TABLE trial ADD COLUMN unknown INTEGER NOT NULL DEFAULT 0;",
        "ALTER TABLE trial ADD COLUMN cuda TEXT NOT NULL DEFAULT '';",
        "",
        "ALTER TABLE sample ADD COLUMN want_chunk INTEGER NOT NULL DEFAULT 0;",
        "",
        /* kinds; samples are indexed by run and by kind */
        "DROP VIEW IF EXISTS samples;"
        "CREATE TABLE kind (id INTEGER PRIMARY KEY, bytes INTEGER NOT NULL, want INTEGER NOT NULL, ran INTEGER NOT NULL,"
        " coll INTEGER NOT NULL, want_channels INTEGER NOT NULL, ran_channels INTEGER NOT NULL, want_chunk INTEGER NOT"
        " NULL, clock INTEGER NOT NULL, place INTEGER NOT NULL, type INTEGER NOT NULL, op INTEGER NOT NULL,"
        " nccl INTEGER NOT NULL, nodes INTEGER NOT NULL, ranks INTEGER NOT NULL, layout TEXT NOT NULL, gpu TEXT NOT NULL,"
        " cluster TEXT NOT NULL, collective TEXT, clock_name TEXT, forced_algo TEXT, forced_proto TEXT, algo TEXT,"
        " proto TEXT, UNIQUE (" CAPO_STORE_KIND "));"
        "INSERT INTO kind (" CAPO_STORE_KIND ") SELECT DISTINCT " CAPO_STORE_KIND
        " FROM (SELECT s.*, t.nccl, t.nodes, t.ranks, t.layout, t.gpu, i.cluster FROM sample s"
        " JOIN trial t ON t.id = s.trial JOIN import i ON i.id = t.import);"
        "DROP INDEX sample_trial;"
        "ALTER TABLE sample RENAME TO old;"
        "CREATE TABLE sample (trial INTEGER NOT NULL REFERENCES trial(id) ON DELETE CASCADE, n INTEGER NOT NULL,"
        " kind INTEGER NOT NULL REFERENCES kind(id), seq INTEGER NOT NULL, us REAL NOT NULL, PRIMARY KEY (trial, n))"
        " WITHOUT ROWID;"
        "INSERT INTO sample SELECT s.trial, s.n, k.id, s.seq, s.us FROM (SELECT o.rowid AS n, o.*, t.nccl, t.nodes,"
        " t.ranks, t.layout, t.gpu, i.cluster FROM old o JOIN trial t ON t.id = o.trial JOIN import i ON i.id = t.import"
        " ORDER BY o.trial, o.rowid) s"
        " JOIN kind k USING (" CAPO_STORE_KIND ");"
        "DROP TABLE old;"
        "CREATE INDEX sample_kind ON sample(kind, trial, n, us, seq);"
        "CREATE INDEX kind_forced ON kind(collective, bytes, forced_algo, forced_proto);"
        "CREATE INDEX kind_ran ON kind(collective, bytes, algo, proto);"
        "CREATE INDEX kind_bytes_forced ON kind(bytes, forced_algo, forced_proto);"
        "CREATE INDEX kind_bytes_ran ON kind(bytes, algo, proto);"
        "CREATE INDEX kind_algo ON kind(algo, proto);"
        "CREATE INDEX kind_forced_algo ON kind(forced_algo, forced_proto);"
        "CREATE INDEX kind_gpu ON kind(gpu, nccl, layout, collective, bytes, forced_algo, forced_proto);"
        "CREATE INDEX kind_cluster ON kind(cluster, gpu, nccl, layout);"
        /* CROSS: outer loop over kinds in index order, inner loop over their samples */
        "CREATE VIEW samples AS SELECT t.import AS import, i.time, k.cluster, i.link, i.nic, i.driver, t.source, k.gpu,"
        " k.nccl, k.layout, k.nodes, k.ranks, k.collective, k.bytes, s.us, k.clock_name AS clock, k.place, k.forced_algo,"
        " k.forced_proto, k.want_channels AS forced_channels, k.want_chunk AS forced_chunk, k.algo, k.proto,"
        " k.ran_channels AS channels, s.seq AS sequence FROM kind k CROSS JOIN sample s ON s.kind = k.id"
        " CROSS JOIN trial t ON t.id = s.trial CROSS JOIN import i ON i.id = t.import;",
};

int capo_schema_name_kinds(sqlite3 *db)
{
        return sqlite3_exec(
                db,
                "UPDATE kind SET collective = (SELECT name FROM name WHERE kind = 'collective' AND code = coll),"
                " clock_name = (SELECT name FROM name WHERE kind = 'clock' AND code = clock),"
                " forced_algo = (SELECT name FROM name WHERE kind = 'algo' AND code = want >> 4),"
                " forced_proto = (SELECT name FROM name WHERE kind = 'proto' AND code = want & 15),"
                " algo = coalesce((SELECT name FROM name WHERE kind = 'kernel' AND code = ran),"
                " (SELECT name FROM name WHERE kind = 'algo' AND code = ran >> 4)),"
                " proto = coalesce((SELECT name FROM name WHERE kind = 'variant' AND code = ran),"
                " (SELECT name FROM name WHERE kind = 'proto' AND code = ran & 15))"
                " WHERE collective IS NULL",
                NULL, NULL, NULL);
}

int capo_schema_head(sqlite3 *db, struct capo_schema_head *head)
{
        static const char *const asks[] = {"PRAGMA user_version", "PRAGMA application_id",
                                           "SELECT count(*) FROM sqlite_master"};
        int64_t *const to[] = {&head->version, &head->application, &head->n_tables};
        int rc = SQLITE_OK;

        for (size_t i = 0; rc == SQLITE_OK && i < N_ELEMENTS(asks); i++) {
                sqlite3_stmt *q = NULL;

                rc = sqlite3_prepare_v2(db, asks[i], -1, &q, NULL);
                if (rc == SQLITE_OK && (rc = sqlite3_step(q)) == SQLITE_ROW) {
                        *to[i] = sqlite3_column_int64(q, 0);
                        rc = SQLITE_OK;
                }
                sqlite3_finalize(q);
        }
        return rc;
}

static int put_name(sqlite3_stmt *q, const char *kind, unsigned code, const char *name)
{
        sqlite3_bind_text(q, 1, kind, -1, SQLITE_STATIC);
        sqlite3_bind_int(q, 2, (int)code);
        sqlite3_bind_text(q, 3, name, -1, SQLITE_STATIC);
        return sqlite3_step(q) != SQLITE_DONE ? SQLITE_ERROR : sqlite3_reset(q);
}

static int put_names(sqlite3 *db)
{
        sqlite3_stmt *q = NULL;
        int rc = sqlite3_prepare_v2(db, "INSERT OR REPLACE INTO name VALUES (?, ?, ?)", -1, &q,
                                    NULL);

        for (unsigned i = 1; rc == SQLITE_OK && i < CAPO_CALLS; i++)
                rc = put_name(q, "collective", i, capo_call_name(i));
        for (unsigned i = 1; rc == SQLITE_OK && i <= CAPO_NCCL_ALGOS; i++)
                rc = put_name(q, "algo", i, capo_algo_name(i));
        for (unsigned i = 1; rc == SQLITE_OK && i <= CAPO_NCCL_PROTOS; i++)
                rc = put_name(q, "proto", i, capo_proto_name(i));
        for (unsigned i = CAPO_KERNELS_FROM; rc == SQLITE_OK && i < 256; i++) {
                if (!strcmp(capo_ran_algo(i), "-"))
                        continue;
                rc = put_name(q, "kernel", i, capo_ran_algo(i));
                if (rc == SQLITE_OK)
                        rc = put_name(q, "variant", i, capo_ran_proto(i));
        }
        for (unsigned i = 0; rc == SQLITE_OK && i < CAPO_MAKES; i++)
                rc = put_name(q, "clock", i, capo_make_name(i));
        sqlite3_finalize(q);
        return rc;
}

int capo_schema_migrate(sqlite3 *db)
{
        struct capo_schema_head head = {0};
        char set[96];
        int rc = sqlite3_exec(db, "BEGIN EXCLUSIVE", NULL, NULL, NULL);

        if (rc == SQLITE_OK)
                rc = capo_schema_head(db, &head);
        for (int64_t v = head.version; rc == SQLITE_OK && v >= 0 && v < CAPO_STORE_VERSION; v++)
                rc = sqlite3_exec(db, steps[v], NULL, NULL, NULL);
        if (rc == SQLITE_OK && head.version < CAPO_STORE_VERSION) {
                snprintf(set, sizeof set, "PRAGMA user_version = %d; PRAGMA application_id = %d",
                         CAPO_STORE_VERSION, CAPO_STORE_APPLICATION);
                rc = put_names(db);
                rc = rc == SQLITE_OK ? capo_schema_name_kinds(db) : rc;
                rc = rc == SQLITE_OK ? sqlite3_exec(db, set, NULL, NULL, NULL) : rc;
        }
        return rc == SQLITE_OK ? sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) : rc;
}
