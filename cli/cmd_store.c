/* SPDX-License-Identifier: Apache-2.0 */
/* capo store: keeps measurements across runs, clusters and releases. */
#include "capo/msg.h"
#include "cli/base/cli_inputs.h"
#include "cli/base/cli_screen.h"
#include "cli/base/cli_table.h"
#include "core/base/xalloc.h"
#include "profiles/store/store.h"

struct options {
        struct capo_store_about about;
        unsigned wait;
        const char *path; /* of the store */
        struct cli_inputs inputs;
        struct capo_store_filter filter;
        struct capo_label label; /* label; filter options use the same words */
        int import;
        const char *sql;
};

/* The first word is the store, the others are inputs. */
static int take_store_word(void *options, char *word)
{
        struct options *o = options;

        if (o->path)
                return cli_inputs_add(&o->inputs, word);
        o->path = word;
        return 0;
}

static void close_store(struct capo_store **store) { capo_store_close(*store); }

static int add_samples(void *options, int n, char **words)
{
        struct options *o = options;
        struct capo_samples set = {0};
        _cleanup_(close_store) struct capo_store *store = NULL;
        char why[512];
        int64_t id;

        if (cli_inputs_read(&o->inputs, &set) < 0)
                return CAPO_EXIT_FAIL;
        cli_inputs_notes(&set);
        capo_store_wait(o->wait);
        if (capo_store_open(o->path, true, &store, why, sizeof why) < 0 ||
            capo_store_add(store, &set, &o->about, &id, why, sizeof why) < 0)
                return capo_fail(CAPO_EXIT_FAIL, "%s", why);
        printf("import %lld: %s of %s\n", (long long)id, capo_text_plural(set.n, "sample", NULL),
               capo_text_plural(set.n_runs, "trial", NULL));
        cli_inputs_left_out(&set);
        return CAPO_EXIT_OK;
}

static void print_import(const struct capo_store_import *m, void *table)
{
        capo_table_row(table, "%lld\t%s\t%lld\t%lld\t%s\t%s\t%s\t%s\t%s", (long long)m->id, m->when,
                       (long long)m->n_samples, (long long)m->n_trials, m->cluster, m->link, m->nic,
                       m->driver, m->source);
}

static int list_imports(void *options, int n, char **words)
{
        _cleanup_(capo_table_freep) struct capo_table *t =
                capo_table_new("r6,l20/d,r10,r7/e,l12,l12/c,l10/a,l12/b,l");
        _cleanup_(close_store) struct capo_store *store = NULL;
        char why[512];

        capo_table_row(t,
                       "import\ttime\tsamples\ttrials\tcluster\tlink\tnic\tdriver\tfirst source");
        if (capo_store_open(words[0], false, &store, why, sizeof why) < 0 ||
            capo_store_list(store, print_import, t, why, sizeof why) < 0)
                return capo_fail(CAPO_EXIT_FAIL, "%s", why);
        capo_table_print(t, cli_screen_begin(stdout), 1);
        return CAPO_EXIT_OK;
}

static const struct capo_store_filter *filter_of(struct options *o)
{
        o->filter.import = o->import;
        o->filter.call = o->label.call;
        o->filter.nccl = o->label.nccl;
        o->filter.gpu = o->label.gpu;
        o->filter.layout = o->label.layout;
        return &o->filter;
}

static int query_store(void *options, int n, char **words)
{
        struct options *o = options;
        struct capo_samples set = {0};
        _cleanup_(close_store) struct capo_store *store = NULL;
        char why[512];
        int r = capo_store_open(words[0], false, &store, why, sizeof why);

        if (r >= 0)
                r = o->sql ? capo_store_query(store, o->sql, stdout, why, sizeof why)
                           : capo_store_read(store, filter_of(o), &set, why, sizeof why);
        if (r < 0)
                return capo_fail(CAPO_EXIT_FAIL, "%s", why);
        if (!o->sql)
                cli_inputs_csv(stdout, &set);
        return CAPO_EXIT_OK;
}

static int remove_import(void *options, int n, char **words)
{
        _cleanup_(close_store) struct capo_store *store = NULL;
        char why[512], *end;
        long long id = strtoll(words[1], &end, 10);

        if (*end || end == words[1])
                return capo_fail(
                        CAPO_EXIT_USAGE,
                        "store rm: expected the number of an import (capo store list), found \"%s\"",
                        words[1]);
        if (access(words[0], F_OK) < 0) /* opened for writing, it would be made */
                return capo_fail(CAPO_EXIT_FAIL, "%s: %s", words[0], strerror(errno));
        if (capo_store_open(words[0], true, &store, why, sizeof why) < 0 ||
            capo_store_remove(store, id, why, sizeof why) < 0)
                return capo_fail(CAPO_EXIT_FAIL, "%s", why);
        return CAPO_EXIT_OK;
}

/* The same as capo fit with this store as its only input. */
static int fit_store(void *options, int n, char **words)
{
        static char verb[] = "fit";
        _cleanup_free_ char *input = NULL;
        _cleanup_free_ char **line = xcalloc((size_t)n + 2, sizeof *line);

        input = xprintf("store:%s", words[0]);
        line[0] = verb;
        line[1] = input;
        memcpy(line + 2, words + 1, (size_t)(n - 1) * sizeof *line);
        cli_inputs_filter(filter_of(options));
        return cli_run(cli_verb_find(verb, NULL), n + 1, line);
}

#define STATUS "0; 1 it could not be done (nothing is half done), 2 wrong command line."

const struct cli_command store_command = {
        .about =
                "FILE is an SQLite file (docs/store.md has its tables; any SQLite client reads it). It is made by the "
                "first add. Several processes may add at once. An add is kept whole or not at all.",
        .after =
                "examples:\n"
                "  capo store add site.db --cluster alps --nic slingshot capo-logs/\n"
                "  capo store query site.db --sql \"select gpu, nccl, count(*) from samples group by 1, 2\"\n"
                "  capo store fit site.db --gpu 'H100%' -- -o h100.json",
        .status = STATUS,
};

static const struct options defaults = {.about = {"", "", "", ""}, .wait = 30};

static const struct cli_option add_options[] = {
        {CLI_HEADING, "about, what measurements themselves do not say:"},
        {"cluster", CLI_TEXT(struct options, about.cluster, "NAME"), "of the machines"},
        {"link", CLI_TEXT(struct options, about.link, "TEXT"), "between them"},
        {"nic", CLI_TEXT(struct options, about.nic, "TEXT"), "their NICs"},
        {"driver", CLI_TEXT(struct options, about.driver, "VERSION"), "of the GPUs"},
        {"wait", CLI_COUNT(struct options, wait, "SECONDS", 0, INT_MAX),
         "how long to wait for another writer (default 30)"},
        {CLI_TABLE(struct options, inputs.label, cli_label_options), CLI_LABELS_HELP},
        {0}};

const struct cli_command store_add_command = {
        .usage = "FILE [ABOUT] [LABELS] INPUT...",
        .about =
                "Keeps measurements: all of these inputs as one import, or nothing of them. FILE is made when it is not "
                "there.",
        .options = add_options,
        .after = "  capo store add site.db --cluster alps --nic slingshot capo-logs/",
        .status = STATUS,
        .missing = "add: no input, expected a store and what to add",
        .least = 2,
        .most = UINT_MAX,
        .size = sizeof(struct options),
        .defaults = &defaults,
        .take = take_store_word,
        .run = add_samples,
};

const struct cli_command store_list_command = {
        .usage = "FILE",
        .about = "Prints what is kept, an import a line.",
        .status = STATUS,
        .missing = "expected a store",
        .least = 1,
        .most = 1,
        .run = list_imports,
        .options = cli_wide_options,
};

static const struct cli_option filter_options[] = {
        {"import", CLI_COUNT(struct options, import, "N", 1, INT_MAX),
         "samples of this import only"},
        {"ranks", CLI_COUNT(struct options, filter.n_ranks, "N", 1, INT_MAX), "of so many ranks"},
        {"cluster", CLI_TEXT(struct options, filter.cluster, "PATTERN"),
         "of these clusters; % is any text"},
        {CLI_TABLE(struct options, label, cli_place_options), "and (% in --gpu is any text)"},
        {0}};

static const struct cli_option query_options[] = {
        {"sql", CLI_TEXT(struct options, sql, "SELECT"),
         "any question instead, to the tables of docs/store.md"},
        {CLI_HEADING, "filter:"},
        {NULL, CLI_KIND_TABLE, 0, {.table = filter_options}},
        {0}};

const struct cli_command store_query_command = {
        .usage = "FILE [FILTER]\nFILE --sql SELECT",
        .about = "Prints samples, or the answer to any question, as CSV.",
        .options = query_options,
        .after =
                "  capo store query site.db --sql \"select gpu, nccl, count(*) from samples group by 1, 2\"",
        .status = STATUS,
        .missing = "expected a store",
        .least = 1,
        .most = 1,
        .size = sizeof(struct options),
        .run = query_store,
};

const struct cli_command store_fit_command = {
        .usage = "FILE [FILTER] [-- FIT-OPTIONS]",
        .about =
                "Is capo fit with what is kept as its only input; what follows -- are options of capo fit.",
        .options = filter_options,
        .after = "  capo store fit site.db --gpu 'H100%' -- -o h100.json",
        .status = STATUS,
        .missing = "expected a store",
        .least = 1,
        .most = UINT_MAX,
        .size = sizeof(struct options),
        .run = fit_store,
};

const struct cli_command store_rm_command = {
        .usage = "FILE NUMBER",
        .about = "Forgets an import; capo store list has their numbers.",
        .status = STATUS,
        .missing = "expected a store and the number of an import",
        .least = 2,
        .most = 2,
        .run = remove_import,
};
