/* SPDX-License-Identifier: Apache-2.0 */
/* capo store: measurements kept across runs, clusters and releases. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capo/msg.h"
#include "cli/base/cli.h"
#include "cli/base/inputs.h"
#include "core/base/calls.h"
#include "core/base/util.h"
#include "profiles/store/store.h"

static void help(void)
{
        puts("usage: capo store add FILE [ABOUT] [LABELS] INPUT...   keep measurements\n"
             "       capo store list FILE                            what is kept, an import a line\n"
             "       capo store query FILE [FILTER | --sql SELECT]   samples, or any question, as CSV\n"
             "       capo store fit FILE [FILTER] [-- FIT-OPTIONS]   capo fit from what is kept\n"
             "       capo store rm FILE NUMBER                       forget an import\n\n"
             "FILE is an SQLite file (docs/store.md has its tables; any SQLite client reads it). It is made by the "
             "first add.\n"
             "Several processes may add at once. An add is kept whole or not at all.\n\n"
             "about, what measurements themselves do not say:\n"
             "  --cluster NAME  --link TEXT  --nic TEXT  --driver VERSION\n"
             "  --wait SECONDS   how long to wait for another writer (default 30)\n"
             "filter:\n"
             "  --import N  --coll C  --nccl V  --gpu PATTERN  --layout L  --ranks N  --cluster PATTERN   (% in a "
             "pattern is any text)");
        fputs(capo_inputs_help(), stdout);
        puts("\nexamples:\n"
             "  capo store add site.db --cluster alps --nic slingshot capo-logs/\n"
             "  capo store query site.db --sql \"select gpu, nccl, count(*) from samples group by 1, 2\"\n"
             "  capo store fit site.db --gpu 'H100%' -- -o h100.json\n\n"
             "Exit status: 0; 1 it could not be done (nothing is half done), 2 wrong command line.");
}

struct job {
        struct capo_store_about about;
        struct capo_store_filter filter;
        struct capo_label label; /* filter options share its words */
        const char *sql;
        int first_input, first_rest;
};

static int about_option(struct job *j, int argc, char **argv, int *i)
{
        const struct {
                const char *name, **value;
        } texts[] = {{"--cluster", &j->about.cluster},
                     {"--link", &j->about.link},
                     {"--nic", &j->about.nic},
                     {"--driver", &j->about.driver},
                     {"--sql", &j->sql},
                     {"--import", NULL},
                     {"--ranks", NULL},
                     {"--wait", NULL}};

        for (size_t k = 0; k < N_ELEMENTS(texts); k++) {
                long v;
                char *end;

                if (strcmp(argv[*i], texts[k].name))
                        continue;
                if (++*i >= argc) {
                        capo_error("store: %s needs a value", texts[k].name);
                        return -EINVAL;
                }
                if (texts[k].value) {
                        *texts[k].value = argv[*i];
                        return 1;
                }
                v = strtol(argv[*i], &end, 10);
                if (*end || end == argv[*i] || v < (texts[k].name[2] == 'w' ? 0 : 1)) {
                        capo_error("store: %s: expected a number from 1 on, found \"%s\"", texts[k].name, argv[*i]);
                        return -EINVAL;
                }
                if (texts[k].name[2] == 'w')
                        capo_store_wait((unsigned)v);
                else if (texts[k].name[2] == 'i')
                        j->filter.import = v;
                else
                        j->filter.n_ranks = (int)v;
                return 1;
        }
        return 0;
}

static int add(struct job *j, const char *path, int argc, char **argv)
{
        struct capo_samples set = {0};
        struct capo_store *store = NULL;
        char why[512];
        int64_t id;
        int inputs = 0, r = 0;

        for (int i = 3; i < argc && r >= 0; i++) {
                r = about_option(j, argc, argv, &i);
                if (r == 0)
                        r = capo_inputs_option(&j->label, argc, argv, &i);
                if (r == 0 && argv[i][0] == '-') {
                        capo_error("store: unknown option \"%s\"; capo store --help", argv[i]);
                        r = -EINVAL;
                }
                if (r < 0) {
                        capo_samples_free(&set);
                        return CAPO_EXIT_USAGE;
                }
                if (r > 0)
                        continue;
                inputs++;
                r = capo_inputs_read(argv[i], &j->label, &set);
        }
        if (r >= 0 && !inputs) {
                capo_error("store: add: no input; capo store --help");
                return CAPO_EXIT_USAGE;
        }
        if (r >= 0) {
                capo_inputs_notes(&set);
                r = capo_store_open(path, true, &store, why, sizeof why);
                if (r >= 0)
                        r = capo_store_add(store, &set, &j->about, &id, why, sizeof why);
                if (r < 0)
                        capo_error("%s", why);
                else
                        printf("import %lld: %zu samples of %zu trials\n", (long long)id, set.n, set.n_runs);
        }
        capo_store_close(store);
        capo_samples_free(&set);
        return r < 0 ? CAPO_EXIT_FAIL : CAPO_EXIT_OK;
}

static void print_import(const struct capo_store_import *m, void *user)
{
        printf("%6lld  %-20s  %10lld  %7lld  %-12s  %-12s  %-10s  %-12s  %s\n", (long long)m->id, m->when,
               (long long)m->n_samples, (long long)m->n_trials, m->cluster, m->link, m->nic, m->driver, m->source);
}

static int list(const char *path)
{
        struct capo_store *store = NULL;
        char why[512];
        int r = capo_store_open(path, false, &store, why, sizeof why);

        if (r >= 0) {
                printf("%6s  %-20s  %10s  %7s  %-12s  %-12s  %-10s  %-12s  %s\n", "import", "time", "samples", "trials",
                       "cluster", "link", "nic", "driver", "first source");
                r = capo_store_list(store, print_import, NULL, why, sizeof why);
        }
        if (r < 0)
                capo_error("%s", why);
        capo_store_close(store);
        return r < 0 ? CAPO_EXIT_FAIL : CAPO_EXIT_OK;
}

/* Filters are labels and numbers; everything behind "--" is for capo fit. Return: index of the rest, or -EINVAL. */
static int filters(struct job *j, int argc, char **argv)
{
        int i;

        for (i = 3; i < argc; i++) {
                int r;

                if (!strcmp(argv[i], "--"))
                        return i + 1;
                r = about_option(j, argc, argv, &i);
                if (r == 0)
                        r = capo_inputs_option(&j->label, argc, argv, &i);
                if (r < 0)
                        return r;
                if (r == 0) {
                        capo_error("store: unknown filter \"%s\"; capo store --help", argv[i]);
                        return -EINVAL;
                }
        }
        j->filter.call = j->label.call;
        j->filter.nccl = j->label.nccl;
        j->filter.gpu = j->label.gpu;
        j->filter.layout = j->label.layout;
        j->filter.cluster = j->about.cluster;
        return i;
}

static int query(struct job *j, const char *path)
{
        struct capo_samples set = {0};
        struct capo_store *store = NULL;
        char why[512];
        int r = capo_store_open(path, false, &store, why, sizeof why);

        if (r >= 0 && j->sql)
                r = capo_store_query(store, j->sql, stdout, why, sizeof why);
        else if (r >= 0)
                r = capo_store_read(store, &j->filter, &set, why, sizeof why);
        if (r < 0)
                capo_error("%s", why);
        if (r >= 0 && !j->sql)
                capo_inputs_csv(stdout, &set);
        capo_store_close(store);
        capo_samples_free(&set);
        return r < 0 ? CAPO_EXIT_FAIL : CAPO_EXIT_OK;
}

static int remove_import(const char *path, const char *number)
{
        struct capo_store *store = NULL;
        char why[512], *end;
        long long id = strtoll(number, &end, 10);
        int r;

        if (*end || end == number) {
                capo_error("store: rm: expected the number of an import (capo store list), found \"%s\"", number);
                return CAPO_EXIT_USAGE;
        }
        r = capo_store_open(path, true, &store, why, sizeof why);
        if (r >= 0)
                r = capo_store_remove(store, id, why, sizeof why);
        if (r < 0)
                capo_error("%s", why);
        capo_store_close(store);
        return r < 0 ? CAPO_EXIT_FAIL : CAPO_EXIT_OK;
}

/* The same as capo fit with this store as its only input. */
static int fit(struct job *j, const char *path, int rest, int argc, char **argv)
{
        static char verb[] = "fit";
        char *words[64] = {verb};
        char input[4200];
        int n = 1;

        snprintf(input, sizeof input, "store:%s", path);
        words[n++] = input;
        for (int i = rest; i < argc && n < (int)N_ELEMENTS(words) - 1; i++)
                words[n++] = argv[i];
        capo_inputs_filter(&j->filter);
        return capo_verb_fit(n, words);
}

int capo_verb_store(int argc, char **argv)
{
        struct job j = {.about = {"", "", "", ""}};
        const char *verb = argc > 1 ? argv[1] : "", *path = argc > 2 ? argv[2] : NULL;
        int rest;

        if (!strcmp(verb, "--help")) {
                help();
                return CAPO_EXIT_OK;
        }
        if (!path || path[0] == '-' || strchr("-", verb[0])) {
                capo_error("store: expected add, list, query, fit or rm, and a file; capo store --help");
                return CAPO_EXIT_USAGE;
        }
        if (!strcmp(verb, "add"))
                return add(&j, path, argc, argv);
        if (!strcmp(verb, "list") && argc == 3)
                return list(path);
        if (!strcmp(verb, "rm") && argc == 4)
                return remove_import(path, argv[3]);
        if (!strcmp(verb, "query") || !strcmp(verb, "fit")) {
                rest = filters(&j, argc, argv);
                if (rest < 0)
                        return CAPO_EXIT_USAGE;
                if (!strcmp(verb, "fit"))
                        return fit(&j, path, rest, argc, argv);
                if (rest == argc)
                        return query(&j, path);
        }
        capo_error("store: expected add, list, query, fit or rm, and what it needs; capo store --help");
        return CAPO_EXIT_USAGE;
}
