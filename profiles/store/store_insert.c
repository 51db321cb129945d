/* SPDX-License-Identifier: Apache-2.0 */
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/xalloc.h"
#include "profiles/store/store_insert.h"
#include "profiles/store/store_schema.h"

/* Samples of one run that differ only in their time. */
struct kind {
        struct kind_key {
                uint64_t bytes;
                uint32_t run, want_chunk;
                uint8_t call, make, place, type, op, want, want_channels, ran, ran_channels;
                uint8_t zero[7];
        } key;
        int64_t id;
};

static int insert_import(sqlite3 *db, const struct capo_samples *set,
                         const struct capo_store_about *about, int64_t *id)
{
        sqlite3_stmt *q = NULL;
        time_t now = time(NULL);
        struct tm tm;
        char when[32] = "";
        int rc = sqlite3_prepare_v2(
                db,
                "INSERT INTO import (time, cluster, link, nic, driver, source) VALUES (?, ?, ?, ?, ?, ?)",
                -1, &q, NULL);

        if (rc != SQLITE_OK)
                return rc;
        gmtime_r(&now, &tm);
        strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &tm);
        sqlite3_bind_text(q, 1, when, -1, SQLITE_STATIC);
        sqlite3_bind_text(q, 2, about->cluster, -1, SQLITE_STATIC);
        sqlite3_bind_text(q, 3, about->link, -1, SQLITE_STATIC);
        sqlite3_bind_text(q, 4, about->nic, -1, SQLITE_STATIC);
        sqlite3_bind_text(q, 5, about->driver, -1, SQLITE_STATIC);
        sqlite3_bind_text(q, 6, set->n_runs ? set->runs[0].source : "", -1, SQLITE_STATIC);
        rc = sqlite3_step(q);
        sqlite3_finalize(q);
        *id = sqlite3_last_insert_rowid(db);
        return rc == SQLITE_DONE ? SQLITE_OK : rc;
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

                sqlite3_bind_int64(q, 1, import);
                sqlite3_bind_text(q, 2, t->source, -1, SQLITE_STATIC);
                sqlite3_bind_int64(q, 3, t->line);
                sqlite3_bind_text(q, 4, t->gpu, -1, SQLITE_STATIC);
                sqlite3_bind_int64(q, 5, t->nccl);
                sqlite3_bind_text(q, 6, t->layout, -1, SQLITE_STATIC);
                sqlite3_bind_int(q, 7, t->n_nodes);
                sqlite3_bind_int(q, 8, t->n_ranks);
                sqlite3_bind_int64(q, 9, t->iterations);
                sqlite3_bind_text(q, 10, t->hosts, -1, SQLITE_STATIC);
                sqlite3_bind_text(q, 11, t->settings, -1, SQLITE_STATIC);
                sqlite3_bind_text(q, 12, t->tuner, -1, SQLITE_STATIC);
                sqlite3_bind_text(q, 13, t->why, -1, SQLITE_STATIC);
                sqlite3_bind_int(q, 14, t->left_out);
                sqlite3_bind_text(q, 15, t->driver, -1, SQLITE_STATIC);
                rc = sqlite3_step(q);
                rc = rc == SQLITE_DONE ? sqlite3_reset(q) : rc;
                ids[i] = sqlite3_last_insert_rowid(db);
        }
        sqlite3_finalize(q);
        return rc;
}

/* In the order of CAPO_STORE_KIND. */
static void bind_kind(sqlite3_stmt *q, const struct kind_key *k, const struct capo_trial *t,
                      const char *cluster)
{
        sqlite3_bind_int64(q, 1, (sqlite3_int64)k->bytes);
        sqlite3_bind_int(q, 2, k->want);
        sqlite3_bind_int(q, 3, k->ran);
        sqlite3_bind_int(q, 4, k->call);
        sqlite3_bind_int(q, 5, k->want_channels);
        sqlite3_bind_int(q, 6, k->ran_channels);
        sqlite3_bind_int64(q, 7, k->want_chunk);
        sqlite3_bind_int(q, 8, k->make);
        sqlite3_bind_int(q, 9, k->place);
        sqlite3_bind_int(q, 10, k->type);
        sqlite3_bind_int(q, 11, k->op);
        sqlite3_bind_int64(q, 12, t->nccl);
        sqlite3_bind_int(q, 13, t->n_nodes);
        sqlite3_bind_int(q, 14, t->n_ranks);
        sqlite3_bind_text(q, 15, t->layout, -1, SQLITE_STATIC);
        sqlite3_bind_text(q, 16, t->gpu, -1, SQLITE_STATIC);
        sqlite3_bind_text(q, 17, cluster, -1, SQLITE_STATIC);
}

/* The number of the kind in the store, inserted if new. */
static int store_kind(sqlite3_stmt *put, sqlite3_stmt *get, struct kind *k,
                      const struct capo_trial *t, const char *cluster)
{
        int rc;

        bind_kind(put, &k->key, t, cluster);
        rc = sqlite3_step(put);
        if (rc != SQLITE_DONE)
                return rc;
        sqlite3_reset(put);
        bind_kind(get, &k->key, t, cluster);
        rc = sqlite3_step(get);
        if (rc != SQLITE_ROW)
                return rc == SQLITE_DONE ? SQLITE_ERROR : rc;
        k->id = sqlite3_column_int64(get, 0);
        return sqlite3_reset(get);
}

struct inserting {
        sqlite3_stmt *put, *get, *sample;
        void *kinds; /* of this import: a tsearch() tree by key */
};

static int compare_keys(const void *a, const void *b)
{
        return memcmp(a, b, sizeof(struct kind_key));
}

static int insert_sample(struct inserting *in, const struct capo_samples *set, size_t i,
                         const char *cluster, int64_t trial)
{
        const struct capo_sample *v = &set->v[i];
        struct kind_key key = {.bytes = v->bytes,
                               .run = v->run,
                               .want_chunk = v->want_chunk,
                               .call = v->call,
                               .make = v->make,
                               .place = v->place,
                               .type = v->type,
                               .op = v->op,
                               .want = v->want,
                               .want_channels = v->want_channels,
                               .ran = v->ran,
                               .ran_channels = v->ran_channels};
        struct kind **found = tsearch(&key, &in->kinds, compare_keys), *k = NULL;
        int rc = found ? SQLITE_OK : SQLITE_NOMEM;

        if (found && (struct kind_key *)*found == &key) { /* it is new */
                k = xcalloc(1, sizeof *k);
                k->key = key;
                *found = k;
                rc = store_kind(in->put, in->get, k, &set->runs[v->run], cluster);
        } else if (found) {
                k = *found;
        }
        if (rc != SQLITE_OK)
                return rc;
        sqlite3_bind_int64(in->sample, 1, trial);
        sqlite3_bind_int64(in->sample, 2, (sqlite3_int64)i);
        sqlite3_bind_int64(in->sample, 3, k->id);
        sqlite3_bind_int64(in->sample, 4, v->order);
        sqlite3_bind_double(in->sample, 5, v->us);
        rc = sqlite3_step(in->sample);
        return rc == SQLITE_DONE ? sqlite3_reset(in->sample) : rc;
}

static int insert_samples(sqlite3 *db, const struct capo_samples *set, const char *cluster,
                          const int64_t *ids)
{
        struct inserting in = {0};
        int rc = sqlite3_prepare_v2(db, CAPO_STORE_KIND_INSERT, -1, &in.put, NULL);

        if (rc == SQLITE_OK)
                rc = sqlite3_prepare_v2(db, CAPO_STORE_KIND_FIND, -1, &in.get, NULL);
        if (rc == SQLITE_OK)
                rc = sqlite3_prepare_v2(db, "INSERT INTO sample VALUES (?, ?, ?, ?, ?)", -1,
                                        &in.sample, NULL);
        for (size_t i = 0; rc == SQLITE_OK && i < set->n; i++)
                rc = insert_sample(&in, set, i, cluster, ids[set->v[i].run]);
        tdestroy(in.kinds, free);
        sqlite3_finalize(in.put);
        sqlite3_finalize(in.get);
        sqlite3_finalize(in.sample);
        return rc == SQLITE_OK ? capo_schema_name_kinds(db) : rc;
}

int capo_store_insert(sqlite3 *db, const struct capo_samples *set,
                      const struct capo_store_about *about, int64_t *id)
{
        int64_t *ids = xmalloc((set->n_runs + 1) * sizeof *ids);
        int rc = insert_import(db, set, about, id);

        if (rc == SQLITE_OK)
                rc = insert_trials(db, set, *id, ids);
        if (rc == SQLITE_OK)
                rc = insert_samples(db, set, about->cluster, ids);
        free(ids);
        return rc;
}
