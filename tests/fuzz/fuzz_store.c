/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store that somebody else wrote. SQLite keeps its pages to itself, so what is inside is changed
 * through SQL:
 *
 *      flags u8, then { where u8, what u8, value up to a 0 }     a cell, or one of the head's
 * numbers
 *
 * or, with RAW among the flags, the file itself.
 */
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/util.h"
#include "profiles/fit/fit.h"
#include "profiles/store/store.h"
#include "tests/fuzz/fuzz.h"
#include "tests/log_numbers.h"

enum { RAW = 1, WRITE = 2, FILTER = 4 };

static char path[64];
static sqlite3 *right; /* a store that is right, in memory: a file is made of it with the input's
                          changes in it, which are then undone */

/*
 * SQLite asks for some 2,500 small pieces of memory per input, which AddressSanitizer takes most of
 * the time for: they come from lists of our own. What is larger, a text above all, stays with it
 * where the product asked for it; not where the store is made that the product then reads, whose
 * tables, which stay, libFuzzer would take for a leak and ask the input once more. What the product
 * asked for is counted: all is given back.
 */
enum { STEP = 64, SMALL = 1024, LARGE = 1 << 17, ARENA = 32 << 20 };
#if defined(__clang__)
#define BARE __attribute__((no_sanitize("address", "undefined", "coverage")))
#else
#define BARE
#endif
struct piece {
        uint32_t size, owner;
        struct piece *next[]; /* of a list's only */
};
static _Alignas(8) char arena[ARENA], pages[256 * (4096 + 256)];
static size_t arena_used;
static struct piece *lists[LARGE / STEP + 1];
static uint32_t owner; /* 1: the product */
static size_t held[2];

BARE static bool listed(uint32_t size, uint32_t whose) { return size <= (whose ? SMALL : LARGE); }

BARE static void *piece_new(int size)
{
        unsigned list = ((unsigned)size + STEP - 1) / STEP;
        struct piece *p;

        if (!listed((uint32_t)size, owner)) {
                p = malloc(sizeof *p + (size_t)size);
                must(p);
        } else if (lists[list]) {
                p = lists[list];
                lists[list] = p->next[0];
        } else {
                p = (struct piece *)(void *)(arena + arena_used);
                arena_used += sizeof *p + list * STEP;
                must(arena_used <= ARENA);
        }
        *p = (struct piece){(uint32_t)size, owner};
        held[owner]++;
        return p + 1;
}

BARE static void piece_free(void *at)
{
        struct piece *p = at;

        if (!at)
                return;
        p--;
        held[p->owner]--;
        if (!listed(p->size, p->owner)) {
                free(p);
                return;
        }
        p->next[0] = lists[(p->size + STEP - 1) / STEP];
        lists[(p->size + STEP - 1) / STEP] = p;
}

BARE static int piece_size(void *at) { return (int)((struct piece *)at)[-1].size; }

static void *piece_resize(void *at, int size)
{
        void *more = piece_new(size);

        memcpy(more, at, (size_t)(piece_size(at) < size ? piece_size(at) : size));
        piece_free(at);
        return more;
}

BARE static int round_up(int size)
{
        return size <= SMALL ? (size + STEP - 1) / STEP * STEP : (size + 7) & ~7;
}

static int begin(void *unused) { return SQLITE_OK; }

static void end(void *unused) {}

static void configure(void)
{
        static sqlite3_mem_methods memory = {piece_new, piece_free, piece_resize, piece_size,
                                             round_up,  begin,      end,          NULL};

        must(sqlite3_config(SQLITE_CONFIG_MALLOC, &memory) == SQLITE_OK);
        must(sqlite3_config(SQLITE_CONFIG_SINGLETHREAD) == SQLITE_OK &&
             sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0) == SQLITE_OK);
        must(sqlite3_config(SQLITE_CONFIG_PAGECACHE, pages, 4096 + 256, 256) == SQLITE_OK);
}

static void prepare(void)
{
        struct capo_samples set = {0};
        struct capo_store *store;
        char why[256];
        int64_t id;
        sqlite3_backup *copy;
        sqlite3 *db;

        configure();
        snprintf(path, sizeof path, "%s/store.db", fuzz_folder());
        must(capo_store_open(path, true, &store, why, sizeof why) == 0);
        for (unsigned run = 0; run < 2; run++) {
                const struct capo_trial trial = {.source = (char *)"a.txt",
                                                 .layout = "8",
                                                 .gpu = "H100",
                                                 .nccl = 22809,
                                                 .n_ranks = 8,
                                                 .n_nodes = 1,
                                                 .iterations = 20,
                                                 .settings = "NCCL_X=1"};

                must(capo_samples_run(&set, &trial) == run);
                for (unsigned i = 0; i < 4; i++)
                        capo_samples_add(&set, &(struct capo_sample){.bytes = 1024u << i,
                                                                     .us = 10 + i + run,
                                                                     .run = run,
                                                                     .order = i,
                                                                     .call = CAPO_CALL_ALLREDUCE,
                                                                     .make = CAPO_MAKE_LOOP,
                                                                     .want = run ? 0x21 : 0});
        }
        must(capo_store_add(store, &set, &(struct capo_store_about){"c", "l", "n", "d"}, &id, why,
                            sizeof why) == 0);
        capo_samples_free(&set);
        capo_store_close(store);
        must(sqlite3_open(path, &db) == SQLITE_OK); /* one file, not three, from here on */
        must(sqlite3_exec(db, "PRAGMA journal_mode = DELETE; VACUUM", NULL, NULL, NULL) ==
             SQLITE_OK);
        must(sqlite3_open(":memory:", &right) == SQLITE_OK &&
             (copy = sqlite3_backup_init(right, "main", db, "main")));
        must(sqlite3_backup_step(copy, -1) == SQLITE_DONE &&
             sqlite3_backup_finish(copy) == SQLITE_OK);
        sqlite3_close(db);
}

static void change(unsigned where, unsigned what, const char *value)
{
        static const char *const columns[] = {
                "import.id",        "import.time",          "import.cluster", "import.source",
                "import.link",      "import.nic",           "import.driver",  "trial.id",
                "trial.import",     "trial.source",         "trial.line",     "trial.gpu",
                "trial.nccl",       "trial.layout",         "trial.nodes",    "trial.ranks",
                "trial.iterations", "trial.hosts",          "trial.settings", "trial.tuner",
                "trial.why",        "trial.unknown",        "trial.cuda",     "sample.trial",
                "sample.seq",       "sample.coll",          "sample.bytes",   "sample.us",
                "sample.clock",     "sample.place",         "sample.type",    "sample.op",
                "sample.want",      "sample.want_channels", "sample.ran",     "sample.ran_channels",
                "sample.want_chunk"};
        static const char *const heads[] = {
                "PRAGMA user_version = %d", "PRAGMA application_id = %d",
                "DROP TABLE trial -- %d",   "ALTER TABLE trial DROP COLUMN gpu -- %d",
                "DROP VIEW samples -- %d",  "DELETE FROM sample -- %d"};
        static sqlite3_stmt *made[N_ELEMENTS(
                columns)]; /* SQLite brings them up to date when a table has changed */
        sqlite3_stmt *q;
        char sql[160];

        if (where >= N_ELEMENTS(columns)) {
                snprintf(sql, sizeof sql, heads[where % N_ELEMENTS(heads)], atoi(value));
                sqlite3_exec(right, sql, NULL, NULL, NULL);
                return;
        }
        snprintf(sql, sizeof sql, "UPDATE %.*s SET %s = ? WHERE rowid %% 4 = ?",
                 (int)strcspn(columns[where], "."), columns[where],
                 strchr(columns[where], '.') + 1);
        if (!made[where] && sqlite3_prepare_v2(right, sql, -1, &made[where], NULL) != SQLITE_OK)
                return;
        q = made[where];
        switch (what & 3) {
        case 0: sqlite3_bind_int64(q, 1, atoll(value)); break;
        case 1: sqlite3_bind_double(q, 1, atof(value)); break;
        case 2: sqlite3_bind_text(q, 1, value, -1, SQLITE_STATIC); break;
        default: sqlite3_bind_blob(q, 1, value, (int)strlen(value), SQLITE_STATIC);
        }
        sqlite3_bind_int(q, 2, (int)(what >> 2 & 3));
        sqlite3_step(q);
        sqlite3_reset(q);
        sqlite3_clear_bindings(q); /* the value is not kept */
}

static void run(sqlite3_stmt **q, const char *sql)
{
        must(*q || sqlite3_prepare_v2(right, sql, -1, q, NULL) == SQLITE_OK);
        must(sqlite3_step(*q) == SQLITE_DONE && sqlite3_reset(*q) == SQLITE_OK);
}

static void put(const void *bytes, size_t size)
{
        _cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

        must(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
}

static void write_store(unsigned flags, struct fuzz_bytes *b)
{
        static sqlite3_stmt *begins, *undoes;
        unsigned char *bytes;
        sqlite3_int64 size;

        if (flags & RAW) {
                put(b->at, b->left);
                return;
        }
        run(&begins, "BEGIN");
        for (unsigned i = 0; i < 16 && b->left; i++) {
                unsigned where = (unsigned)fuzz_number(b, 1), what = (unsigned)fuzz_number(b, 1);
                char *value = fuzz_word(b, 0);

                change(where, what, value);
                free(value);
        }
        bytes = sqlite3_serialize(right, "main", &size, 0);
        must(bytes);
        put(bytes, (size_t)size);
        sqlite3_free(bytes);
        run(&undoes, "ROLLBACK");
}

static void each(const struct capo_store_import *import, void *user) { ++*(unsigned *)user; }

static void fit(struct capo_samples *set)
{
        struct capo_fit_options options = {0};
        struct capo_fault fault = {""};
        struct capo_fit *f = NULL;

        capo_fit_guard(set, false);
        if (capo_fit_make(set, &options, &f, &fault) < 0)
                must(*fault.text);
        capo_fit_free(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static const struct capo_store_filter filters[] = {
                {0}, {.gpu = "H%", .layout = "8", .n_ranks = 8}};
        struct fuzz_bytes b = {data, size};
        unsigned flags = (unsigned)fuzz_number(&b, 1), n = 0;
        struct capo_samples set = {0};
        struct capo_store *store;
        char why[512] = "", *csv;
        size_t n_csv;
        FILE *out;

        if (!*path)
                prepare();
        owner = 0;
        write_store(flags, &b);
        owner = 1;
        if (capo_store_open(path, flags & WRITE, &store, why, sizeof why) < 0) {
                must(*why);
        } else {
                if (capo_store_read(store, &filters[flags & FILTER ? 1 : 0], &set, why,
                                    sizeof why) == 0 &&
                    set.n)
                        fit(&set);
                for (size_t i = 0; i < set.n; i++)
                        must(set.v[i].run < set.n_runs && set.v[i].us > 0 &&
                             capo_make_name(set.v[i].make));
                capo_store_list(store, each, &n, why, sizeof why);
                out = open_memstream(&csv, &n_csv);
                must(out);
                capo_store_query(store, "SELECT * FROM samples", out, why, sizeof why);
                fclose(out);
                free(csv);
                capo_samples_free(&set);
                capo_store_close(store);
        }
        must(held[1] == 0);
        return 0;
}
