/* SPDX-License-Identifier: Apache-2.0 */
/* Tables, opening, adding, reading, removing. SQLite's errors are converted in one place. */
#include <search.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <time.h>

#include "capo/call_ids.h"
#include "capo/msg.h"
#include "core/base/calls.h"
#include "core/base/markup.h"
#include "core/base/nccl_release.h"
#include "core/base/xalloc.h"
#include "profiles/import/import.h"
#include "profiles/store/store.h"

/* The schema is a list of steps, each from one version to the next; a new store runs all of them. A
 * sample is a row of numbers. Common properties are stored once: those of a run in table trial,
 * those of one kind of call at one place in table kind. Codes (collective, algorithm, protocol) are
 * the numbers of the log format, which never change. Table kind also has their names, and indices
 * that make grouping queries need no sort. */

#define CAPO_STORE_VERSION 8

/* The columns that identify a kind; statements to find and to insert one take their values in this
 * order. */
#define CAPO_STORE_KIND                                                                                         \
        "bytes, want, ran, coll, want_channels, ran_channels, want_chunk, clock, place, type, op, nccl, nodes," \
        " ranks, layout, gpu, cluster"
#define CAPO_STORE_ASKED "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"

enum { CAPO_STORE_APPLICATION = 0x6361706f /* "capo" */ };

/* The header of a database file. */
struct capo_schema_head {
        int64_t version, application, n_tables;
};

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

/* Fill in names of kinds that have none yet. Return: SQLITE_OK or an
 * SQLite error. */
static int capo_schema_name_kinds(sqlite3 *db)
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

/* Inside a transaction the three values are consistent. Return: SQLITE_OK or an SQLite error. */
static int capo_schema_head(sqlite3 *db, struct capo_schema_head *head)
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

/* Set the parameters of @q (i: int, l: int64_t, d: double, s: text), and run it. Return: SQLITE_OK;
 * SQLITE_ROW: the first row is there; an SQLite error. */
static int run_with(sqlite3_stmt *q, const char *types, ...)
{
        va_list ap;
        int rc;

        va_start(ap, types);
        for (int at = 1; types[at - 1]; at++) {
                switch (types[at - 1]) {
                case 'i': sqlite3_bind_int(q, at, va_arg(ap, int)); break;
                case 'l': sqlite3_bind_int64(q, at, va_arg(ap, int64_t)); break;
                case 'd': sqlite3_bind_double(q, at, va_arg(ap, double)); break;
                default: sqlite3_bind_text(q, at, va_arg(ap, const char *), -1, SQLITE_STATIC);
                }
        }
        va_end(ap);
        rc = sqlite3_step(q);
        return rc == SQLITE_DONE ? sqlite3_reset(q) : rc;
}

static int put_name(sqlite3_stmt *q, const char *kind, unsigned code, const char *name)
{
        return run_with(q, "sis", kind, (int)code, name);
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

/* Bring a new or older store to CAPO_STORE_VERSION. Must run inside an
 * exclusive transaction, because another process may do the same. Return: SQLITE_OK; or an SQLite
 * error: the caller reads SQLite's message, then rolls back. */
static int capo_schema_migrate(sqlite3 *db)
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

static int insert_import(sqlite3 *db, const struct capo_samples *set,
                         const struct capo_store_about *about, int64_t *id)
{
        sqlite3_stmt *q = NULL;
        int rc =
                sqlite3_prepare_v2(db,
                                   "INSERT INTO import (time, cluster, link, nic, driver, source)"
                                   " VALUES (strftime('%Y-%m-%dT%H:%M:%SZ', 'now'), ?, ?, ?, ?, ?)",
                                   -1, &q, NULL);

        if (rc == SQLITE_OK)
                rc = run_with(q, "sssss", about->cluster, about->link, about->nic, about->driver,
                              set->n_runs ? set->runs[0].source : "");
        sqlite3_finalize(q);
        *id = sqlite3_last_insert_rowid(db);
        return rc;
}

static int insert_trials(sqlite3 *db, const struct capo_samples *set, int64_t import, int64_t *ids)
{
        sqlite3_stmt *q = NULL;
        int rc = sqlite3_prepare_v2(
                db,
                "INSERT INTO trial (import, source, line, gpu, nccl, layout, nodes, ranks, iterations, hosts, "
                "settings, tuner, why, unknown, cuda) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                -1, &q, NULL);

        for (size_t i = 0; rc == SQLITE_OK && i < set->n_runs; i++) {
                const struct capo_trial *t = &set->runs[i];

                rc = run_with(q, "lslslsiilssssis", import, t->source, (int64_t)t->line, t->gpu,
                              (int64_t)t->nccl, t->layout, t->n_nodes, t->n_ranks,
                              (int64_t)t->iterations, t->hosts, t->settings, t->tuner, t->why,
                              t->left_out, t->driver);
                ids[i] = sqlite3_last_insert_rowid(db);
        }
        sqlite3_finalize(q);
        return rc;
}

/* Samples of one run that differ only in their time. */
struct kind {
        struct capo_sample like; /* without time and order */
        int64_t id;
};

struct inserting {
        sqlite3_stmt *put, *get, *sample;
        void *kinds; /* of this import: a tsearch() tree by `like` */
};

/* The number of the kind in the store, inserted if new. */
static int store_kind(const struct inserting *in, struct kind *k, const struct capo_trial *t,
                      const char *cluster)
{
        const struct capo_sample *v = &k->like;

        for (int find = 0; find < 2; find++) { /* in the order of CAPO_STORE_KIND */
                int rc = run_with(find ? in->get : in->put, "liiiiiliiiiliisss", (int64_t)v->bytes,
                                  v->want, v->ran, v->call, v->want_channels, v->ran_channels,
                                  (int64_t)v->want_chunk, v->make, v->place, v->type, v->op,
                                  (int64_t)t->nccl, t->n_nodes, t->n_ranks, t->layout, t->gpu,
                                  cluster);

                if (rc != (find ? SQLITE_ROW : SQLITE_OK))
                        return rc == SQLITE_OK ? SQLITE_ERROR : rc;
        }
        k->id = sqlite3_column_int64(in->get, 0);
        return sqlite3_reset(in->get);
}

static int compare_kinds(const void *a, const void *b)
{
        return memcmp(a, b, sizeof(struct capo_sample));
}

static int insert_sample(struct inserting *in, const struct capo_samples *set, size_t i,
                         const char *cluster, int64_t trial)
{
        const struct capo_sample *v = &set->v[i];
        struct capo_sample like = *v;
        struct kind **found, *k;
        int rc = SQLITE_OK;

        like.us = 0;
        like.order = 0;
        found = tsearch(&like, &in->kinds, compare_kinds);
        if (!found)
                return SQLITE_NOMEM;
        k = *found;
        if (&k->like == &like) { /* it is new */
                *found = k = xcalloc(1, sizeof *k);
                k->like = like;
                rc = store_kind(in, k, &set->runs[v->run], cluster);
        }
        return rc == SQLITE_OK ? run_with(in->sample, "lllld", trial, (int64_t)i, k->id,
                                          (int64_t)v->order, v->us)
                               : rc;
}

/* Insert @set as one import; @id: its number. Must run inside the caller's
 * transaction. Return: SQLITE_OK or an SQLite error, on which the caller rolls back. */
static int insert_set(sqlite3 *db, const struct capo_samples *set,
                      const struct capo_store_about *about, int64_t *id)
{
        _cleanup_free_ int64_t *ids = xmalloc((set->n_runs + 1) * sizeof *ids);
        struct inserting in = {0};
        int rc = insert_import(db, set, about, id);

        if (rc == SQLITE_OK)
                rc = insert_trials(db, set, *id, ids);
        if (rc == SQLITE_OK)
                rc = sqlite3_prepare_v2(db,
                                        "INSERT OR IGNORE INTO kind (" CAPO_STORE_KIND
                                        ") VALUES " CAPO_STORE_ASKED,
                                        -1, &in.put, NULL);
        if (rc == SQLITE_OK)
                rc = sqlite3_prepare_v2(
                        db, "SELECT id FROM kind WHERE (" CAPO_STORE_KIND ") = " CAPO_STORE_ASKED,
                        -1, &in.get, NULL);
        if (rc == SQLITE_OK)
                rc = sqlite3_prepare_v2(db, "INSERT INTO sample VALUES (?, ?, ?, ?, ?)", -1,
                                        &in.sample, NULL);
        for (size_t i = 0; rc == SQLITE_OK && i < set->n; i++)
                rc = insert_sample(&in, set, i, about->cluster, ids[set->v[i].run]);
        tdestroy(in.kinds, free);
        sqlite3_finalize(in.put);
        sqlite3_finalize(in.get);
        sqlite3_finalize(in.sample);
        return rc == SQLITE_OK ? capo_schema_name_kinds(db) : rc;
}

static unsigned wait_s = 30;

void capo_store_wait(unsigned seconds) { wait_s = seconds; }

struct capo_store {
        sqlite3 *db;
        struct stat still; /* state at opening of a file that SQLite must not lock; st_ino 0: SQLite
                              locks it */
};

static int sqlite_error(sqlite3 *db, int rc, const char *path, char *why, size_t room)
{
        const char *said = db ? sqlite3_errmsg(db) : sqlite3_errstr(rc);

        switch (rc & 0xff) {
        case SQLITE_OK:
        case SQLITE_ROW:
        case SQLITE_DONE: return 0;
        case SQLITE_BUSY:
        case SQLITE_LOCKED:
                return capo_why(
                        -EBUSY, why, room,
                        "%s: locked by another process for more than %u s; try again when it is done",
                        path, wait_s);
        case SQLITE_NOTADB: return capo_why(-EBADMSG, why, room, "%s: is not a store", path);
        case SQLITE_CORRUPT:
                return capo_why(
                        -EBADMSG, why, room,
                        "%s: the store is damaged (%s); sqlite3 FILE .recover may save what is left",
                        path, said);
        case SQLITE_CANTOPEN:
                return capo_why(-ENOENT, why, room, "%s: cannot be opened: %s", path,
                                strerror(errno));
        case SQLITE_READONLY:
        case SQLITE_PERM: return capo_why(-EACCES, why, room, "%s: cannot be written", path);
        case SQLITE_FULL:
                return capo_why(-ENOSPC, why, room, "%s: no room left on the device", path);
        default: return capo_why(-EIO, why, room, "%s: %s", path, said);
        }
}

static const char *file_of(const struct capo_store *s)
{
        const char *name = sqlite3_db_filename(s->db, "main");

        return name && *name ? name : "store";
}

/* In one transaction, for a consistent result: another process may be creating the store. */
static int check_store_head(sqlite3 *db, const char *path, bool *old, char *why, size_t room)
{
        struct capo_schema_head head = {0};
        int rc = sqlite3_exec(db, "BEGIN", NULL, NULL, NULL);

        if (rc == SQLITE_OK)
                rc = capo_schema_head(db, &head);
        if (rc != SQLITE_OK) { /* read the message before another statement replaces it */
                rc = sqlite_error(db, rc, path, why, room);
                sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
                return rc;
        }
        sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
        if (head.n_tables > 0 && head.application != CAPO_STORE_APPLICATION)
                return capo_why(-EBADMSG, why, room,
                                "%s: an SQLite file, but not a store of capo's", path);
        if (head.version < 0 || (head.version == 0 && head.n_tables > 0))
                return capo_why(-EBADMSG, why, room,
                                "%s: the store is damaged: there is no version %lld", path,
                                (long long)head.version);
        if (head.version > CAPO_STORE_VERSION)
                return capo_why(
                        -EPROTO, why, room,
                        "%s: the store has version %lld, this capo knows %d: a newer capo wrote it",
                        path, (long long)head.version, CAPO_STORE_VERSION);
        *old = head.version < CAPO_STORE_VERSION;
        return 0;
}

static int log_of(const char *path, struct stat *st)
{
        _cleanup_free_ char *log = NULL;

        return asprintf(&log, "%s-wal", path) < 0 ? -1 : stat(log, st);
}

/* For a store of another user in a folder without write permission. SQLite wants to create its lock
 * file there, which the last writer removed, and would not read. So it is opened without locks; if
 * another process begins to write, the result is discarded (still_same()). */
static int open_unlocked(struct capo_store *s, const char *path)
{
        _cleanup_free_ char *uri = NULL;
        size_t n = 0;
        FILE *f = xmemstream(&uri, &n);

        fputs(*path == '/' ? "file://" : "file:", f);
        for (const char *c = path; *c; c++) /* as in RFC 3986, except for slashes */
                fprintf(f, strchr("%?#", *c) ? "%%%02x" : "%c", (unsigned char)*c);
        fputs("?immutable=1", f);
        xmemclose(f);
        sqlite3_close(s->db);
        s->db = NULL;
        if (stat(path, &s->still) < 0)
                return SQLITE_CANTOPEN;
        return sqlite3_open_v2(uri, &s->db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL);
}

/* After reading: @rc, or an error if the file changed meanwhile. */
static int still_same(struct capo_store *s, int rc, char *why, size_t room)
{
        struct stat now, log;
        int e = sqlite_error(s->db, rc, file_of(s), why, room);

        if (e < 0 || !s->still.st_ino)
                return e;
        if (stat(file_of(s), &now) == 0 && now.st_ino == s->still.st_ino &&
            now.st_size == s->still.st_size && now.st_mtim.tv_sec == s->still.st_mtim.tv_sec &&
            now.st_mtim.tv_nsec == s->still.st_mtim.tv_nsec &&
            !(log_of(file_of(s), &log) == 0 && log.st_size > 0))
                return 0;
        return capo_why(-EBUSY, why, room, "%s: was written while it was read; try again",
                        file_of(s));
}

/* A store of an older version is migrated in a copy that is deleted with this process: its reader
 * may not be allowed to write it. */
static int open_copy(struct capo_store *s, const char *path, char *why, size_t room)
{
        sqlite3 *copy = NULL;
        sqlite3_backup *backup = NULL;
        int rc = sqlite3_open_v2("", &copy, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL), e;

        if (rc == SQLITE_OK)
                backup = sqlite3_backup_init(copy, "main", s->db, "main");
        if (backup) {
                sqlite3_backup_step(backup, -1);
                rc = sqlite3_backup_finish(backup);
        } else if (rc == SQLITE_OK) {
                rc = sqlite3_errcode(copy);
        }
        if (rc == SQLITE_OK)
                rc = capo_schema_migrate(copy);
        e = sqlite_error(copy, rc, path, why, room);
        if (e == 0)
                e = still_same(s, SQLITE_OK, why, room);
        if (e < 0) {
                sqlite3_close(copy);
                return e;
        }
        sqlite3_close(s->db);
        s->db = copy;
        s->still = (struct stat){0};
        return 0;
}

int capo_store_open(const char *path, bool write, struct capo_store **out, char *why, size_t room)
{
        struct capo_store *s = xcalloc(1, sizeof *s);
        struct stat st, log;
        bool old = false;
        int rc, e;

        e = stat(path, &st) < 0 ? -errno : 0;
        if (e < 0 ? !write
                  : S_ISDIR(st.st_mode) || (!write && S_ISREG(st.st_mode) && !st.st_size)) {
                free(s);
                return capo_why(e < 0 ? -ENOENT : -EBADMSG, why, room, "%s: %s", path,
                                e < 0 ? strerror(-e)
                                : S_ISDIR(st.st_mode)
                                        ? "is a folder, expected a store"
                                        : "is empty, not a store; capo store add makes one");
        }
        rc = sqlite3_open_v2(
                path, &s->db,
                write ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READWRITE, NULL);
        if (rc != SQLITE_OK && !write) { /* a store on a read-only file system */
                sqlite3_close(s->db);
                rc = sqlite3_open_v2(path, &s->db, SQLITE_OPEN_READONLY, NULL);
        }
        if (rc == SQLITE_OK) {
                sqlite3_busy_timeout(s->db, (int)wait_s * 1000);
                sqlite3_extended_result_codes(s->db, 0);
        }
        e = sqlite_error(s->db, rc, path, why, room);
        if (e == 0)
                e = check_store_head(s->db, path, &old, why, room);
        if (!write && (e == -EACCES || e == -ENOENT)) {
                if (log_of(path, &log) == 0 && log.st_size > 0) {
                        e = capo_why(
                                -EACCES, why, room,
                                "%s: left by a writer that was killed, and may not be written: capo store list by somebody who may write it "
                                "brings it in order",
                                path);
                } else {
                        e = sqlite_error(s->db, open_unlocked(s, path), path, why, room);
                        e = e < 0 ? e : check_store_head(s->db, path, &old, why, room);
                }
        }
        if (e == 0 && write) {
                /* on a shared file system of a cluster, nodes do not share memory: there WAL fails
                 * and stays off */
                sqlite3_exec(
                        s->db,
                        "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON;"
                        "PRAGMA cache_size = -65536;" /* a page of each kind stays in memory */,
                        NULL, NULL, NULL);
                if (old) {
                        e = sqlite_error(s->db, capo_schema_migrate(s->db), path, why, room);
                        sqlite3_exec(
                                s->db, "ROLLBACK", NULL, NULL,
                                NULL); /* rolls back after an error, which was reported above */
                }
        } else if (e == 0 && old) {
                e = open_copy(s, path, why, room);
        }
        if (e == 0 && !write)
                sqlite3_exec(s->db, "PRAGMA query_only = ON", NULL, NULL, NULL);
        if (e < 0) {
                capo_store_close(s);
                return e;
        }
        *out = s;
        return 0;
}

void capo_store_close(struct capo_store *s)
{
        if (!s)
                return;
        sqlite3_close(s->db);
        free(s);
}

int capo_store_add(struct capo_store *s, const struct capo_samples *set,
                   const struct capo_store_about *about, int64_t *id, char *why, size_t room)
{
        int rc, e;

        /* IMMEDIATE: wait for the write lock now, instead of failing half way */
        rc = sqlite3_exec(s->db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
        if (rc == SQLITE_OK)
                rc = insert_set(s->db, set, about, id);
        if (rc == SQLITE_OK)
                rc = sqlite3_exec(s->db, "COMMIT", NULL, NULL, NULL);
        if (rc == SQLITE_OK)
                return 0;
        e = sqlite_error(s->db, rc, file_of(s), why, room);
        sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
        return e;
}

/* Take columns of the row of @q from @at on: b uint8_t, i int or uint32_t, l 64 bits, d double; s the
 * room and the place of a text. */
static void take_columns(sqlite3_stmt *q, int at, const char *types, ...)
{
        va_list ap;

        va_start(ap, types);
        for (; *types; types++, at++) {
                size_t room = *types == 's' ? va_arg(ap, size_t) : 0;
                void *to = va_arg(ap, void *);

                switch (*types) {
                case 'b': *(uint8_t *)to = (uint8_t)sqlite3_column_int(q, at); break;
                case 'i': *(uint32_t *)to = (uint32_t)sqlite3_column_int64(q, at); break;
                case 'l': *(int64_t *)to = sqlite3_column_int64(q, at); break;
                case 'd': *(double *)to = sqlite3_column_double(q, at); break;
                default: snprintf(to, room, "%s", (const char *)sqlite3_column_text(q, at));
                }
        }
        va_end(ap);
}
#define ROOM_OF(text) sizeof(text), text

int capo_store_read(struct capo_store *s, const struct capo_store_filter *f,
                    struct capo_samples *set, char *why, size_t room)
{
        _cleanup_free_ char *sql = xprintf(
                "SELECT t.id, k.bytes, s.us, s.seq, k.coll, k.clock, k.place, k.type, k.op, k.want, k.want_channels,"
                " k.ran, k.ran_channels, k.want_chunk, t.source, t.unknown, t.line, t.nccl, t.nodes, t.ranks,"
                " t.iterations, t.gpu, t.layout, t.hosts, t.settings, t.tuner, t.why,"
                " CASE i.driver WHEN '' THEN t.cuda ELSE i.driver END"
                " FROM trial t CROSS JOIN import i ON i.id = t.import CROSS JOIN sample s ON s.trial = t.id"
                " CROSS JOIN kind k ON k.id = s.kind"
                " WHERE %s AND (?2 = 0 OR k.coll = ?2) AND (?3 = 0 OR t.nccl = ?3)"
                " AND (?4 = '' OR t.gpu LIKE ?4) AND (?5 = '' OR t.layout = ?5) AND (?6 = '' OR i.cluster LIKE ?6)"
                " AND (?7 = 0 OR t.ranks = ?7) ORDER BY t.id, s.n",
                f->import ? "t.import = ?1"
                          : "?1 = 0"); /* of one import only its own trials, by their index */
        sqlite3_stmt *q = NULL;
        int64_t last = -1, id;
        uint32_t run = 0;
        int rc = sqlite3_prepare_v2(s->db, sql, -1, &q, NULL);

        if (rc != SQLITE_OK)
                return sqlite_error(s->db, rc, file_of(s), why, room);
        rc = run_with(q, "lilsssi", f->import, f->call, (int64_t)f->nccl, f->gpu ? f->gpu : "",
                      f->layout ? f->layout : "", f->cluster ? f->cluster : "", f->n_ranks);
        for (; rc == SQLITE_ROW; rc = sqlite3_step(q)) {
                struct capo_sample v = {0};

                take_columns(q, 0, "lldibbbbbbbbbi", &id, &v.bytes, &v.us, &v.order, &v.call,
                             &v.make, &v.place, &v.type, &v.op, &v.want, &v.want_channels, &v.ran,
                             &v.ran_channels, &v.want_chunk);
                if (id != last) {
                        struct capo_trial t = {.source = (char *)sqlite3_column_text(q, 14),
                                               .left_out = sqlite3_column_int(q, 15)};

                        take_columns(q, 16, "iiiiisssssss", &t.line, &t.nccl, &t.n_nodes,
                                     &t.n_ranks, &t.iterations, ROOM_OF(t.gpu), ROOM_OF(t.layout),
                                     ROOM_OF(t.hosts), ROOM_OF(t.settings), ROOM_OF(t.tuner),
                                     ROOM_OF(t.why), ROOM_OF(t.driver));
                        last = id;
                        run = capo_samples_run(set, &t);
                }
                v.run = run;
                if (!(v.us > 0) || v.call >= CAPO_CALLS)
                        break;
                capo_samples_add(set, &v);
        }
        sqlite3_finalize(q);
        if (rc == SQLITE_ROW)
                return capo_why(-EBADMSG, why, room, "%s: a sample that no capo wrote", file_of(s));
        return still_same(s, rc, why, room);
}

int capo_store_list(struct capo_store *s, void (*each)(const struct capo_store_import *, void *),
                    void *user, char *why, size_t room)
{
        sqlite3_stmt *q = NULL;
        int rc = sqlite3_prepare_v2(
                s->db,
                "SELECT i.id, i.time, i.cluster, i.link, i.nic, i.driver, i.source,"
                " (SELECT count(*) FROM trial t WHERE t.import = i.id),"
                " (SELECT count(*) FROM trial t JOIN sample s ON s.trial = t.id WHERE t.import = i.id)"
                " FROM import i ORDER BY i.id",
                -1, &q, NULL);

        while (rc == SQLITE_OK && (rc = sqlite3_step(q)) == SQLITE_ROW) {
                rc = SQLITE_OK;
                each(&(struct capo_store_import){sqlite3_column_int64(q, 0),
                                                 (const char *)sqlite3_column_text(q, 1),
                                                 (const char *)sqlite3_column_text(q, 2),
                                                 (const char *)sqlite3_column_text(q, 3),
                                                 (const char *)sqlite3_column_text(q, 4),
                                                 (const char *)sqlite3_column_text(q, 5),
                                                 (const char *)sqlite3_column_text(q, 6),
                                                 sqlite3_column_int64(q, 7),
                                                 sqlite3_column_int64(q, 8)},
                     user);
        }
        sqlite3_finalize(q);
        return still_same(s, rc, why, room);
}

int capo_store_query(struct capo_store *s, const char *sql, FILE *out, char *why, size_t room)
{
        sqlite3_stmt *q = NULL;
        int rc = sqlite3_prepare_v2(s->db, sql, -1, &q, NULL), n;

        if (rc == SQLITE_ERROR || (rc == SQLITE_OK && (!q || !sqlite3_stmt_readonly(q)))) {
                capo_why(-EINVAL, why, room, "%s",
                         rc == SQLITE_ERROR ? sqlite3_errmsg(s->db)
                                            : "expected a SELECT: a query only reads");
                sqlite3_finalize(q);
                return -EINVAL;
        }
        n = rc == SQLITE_OK ? sqlite3_column_count(q) : 0;
        for (int i = 0; i < n; i++) {
                fputs(i ? "," : "", out);
                capo_markup_csv(out, sqlite3_column_name(q, i));
        }
        if (n)
                putc('\n', out);
        while (rc == SQLITE_OK && (rc = sqlite3_step(q)) == SQLITE_ROW) {
                rc = SQLITE_OK;
                for (int i = 0; i < n; i++) {
                        bool words = sqlite3_column_type(q, i) ==
                                     SQLITE_TEXT; /* before it is converted to text */
                        const char *t = (const char *)sqlite3_column_text(q, i);

                        fputs(i ? "," : "", out);
                        if (t && words)
                                capo_markup_csv(out, t);
                        else
                                fputs(t ? t : "", out);
                }
                putc('\n', out);
        }
        sqlite3_finalize(q);
        return still_same(s, rc, why, room);
}

int capo_store_remove(struct capo_store *s, int64_t id, char *why, size_t room)
{
        sqlite3_stmt *q = NULL;
        int rc = sqlite3_prepare_v2(s->db, "DELETE FROM import WHERE id = ?", -1, &q, NULL);

        if (rc == SQLITE_OK)
                rc = run_with(q, "l", id);
        sqlite3_finalize(q);
        if (rc == SQLITE_OK && sqlite3_changes(s->db) == 0)
                return capo_why(-ENOENT, why, room, "%s: no import %lld", file_of(s),
                                (long long)id);
        return sqlite_error(s->db, rc, file_of(s), why, room);
}

void capo_csv_heads(FILE *out)
{
        fputs("source,line,nccl,gpu,layout,nodes,ranks,collective,bytes,type,op,place,forced_algo,forced_proto,"
              "forced_channels,algo,proto,channels,clock,iterations,sequence,us,forced_chunk,began,job_id,uid\n",
              out);
}

int capo_csv_sample(FILE *out, const struct capo_sample *s, const struct capo_trial *r)
{
        static const char *const places[] = {"", "out", "in"};
        const time_t at = (time_t)r->began.at;
        char nccl[16], began[32] = ""; /* in UTC, without the Z where the zone is not known */
        struct tm tm;

        if (at && gmtime_r(&at, &tm))
                strftime(began, sizeof began,
                         r->began.local ? "%Y-%m-%dT%H:%M:%S" : "%Y-%m-%dT%H:%M:%SZ", &tm);
        capo_markup_csv(out, r->source);
        fprintf(out, ",%u,%s,", r->line, r->nccl ? capo_nccl_text(r->nccl, nccl, sizeof nccl) : "");
        capo_markup_csv(out, r->gpu);
        putc(',', out);
        capo_markup_csv(out, r->layout);
        fprintf(out, ",%d,%d,%s,%llu,%s,%s,%s,%s,%s,%u,%s,%s,%u,%s,%u,%u,%.9g,%u,%s,", r->n_nodes,
                r->n_ranks, capo_call_name(s->call), (unsigned long long)s->bytes,
                s->type == 255 ? "" : capo_type_name(s->type),
                s->op == 255 ? "" : capo_op_name(s->op), places[s->place < 3 ? s->place : 0],
                CAPO_ALGO_OF(s->want) ? capo_ran_algo(s->want) : "",
                CAPO_PROTO_OF(s->want) ? capo_ran_proto(s->want) : "", s->want_channels,
                CAPO_ALGO_OF(s->ran) ? capo_ran_algo(s->ran) : "",
                CAPO_PROTO_OF(s->ran) ? capo_ran_proto(s->ran) : "", s->ran_channels,
                capo_make_name(s->make), r->iterations, s->order, s->us, s->want_chunk, began);
        capo_markup_csv(out, r->job);
        fprintf(out, ",%s\n", r->uid);
        return ferror(out) ? -EIO : 0;
}
