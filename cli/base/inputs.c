/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capo/msg.h"
#include "cli/base/inputs.h"
#include "cli/base/progress.h"
#include "core/base/calls.h"
#include "core/base/layout.h"
#include "core/base/util.h"
#include "profiles/store/store.h"
#include "profiles/store/csv.h"

const char *capo_inputs_help(void)
{
        return "labels, for the inputs that follow them (auto or none takes a label back):\n"
               "  --algo A        what was forced: tree, ring, nvls, ...; auto: NCCL chose\n"
               "  --proto P       ll, ll128, simple; auto\n"
               "  --channels N    channels that were forced\n"
               "  --coll C        the collective, where the file does not say\n"
               "  --layout L      ranks per node: 8, 3+5, 10x8\n"
               "  --nccl V        NCCL's release, such as 2.29.2\n"
               "  --gpu NAME      GPU model\n";
}

static int wrong(const char *name, const char *expected, const char *found)
{
        capo_error("%s: expected %s, found \"%s\"", name, expected, found);
        return -EINVAL;
}

static int set_label(struct capo_label *l, const char *name, const char *v)
{
        bool none = !strcmp(v, "none") || !strcmp(v, "auto");

        if (!strcmp(name, "--algo")) {
                l->algo = (uint8_t)capo_algo_find(v);
                l->default_choice = !strcmp(v, "auto");
                if (!l->algo && !none)
                        return wrong(name,
                                     "one of tree, ring, collnet_direct, collnet_chain, nvls, nvls_tree, pat, auto", v);
        } else if (!strcmp(name, "--proto")) {
                l->proto = (uint8_t)capo_proto_find(v);
                if (!l->proto && !none)
                        return wrong(name, "one of ll, ll128, simple, auto", v);
        } else if (!strcmp(name, "--channels")) {
                char *end;
                long n = none ? 0 : strtol(v, &end, 10);

                if (!none && (*end || end == v || n < 1 || n > 127))
                        return wrong(name, "1 to 127", v);
                l->channels = (uint8_t)n;
        } else if (!strcmp(name, "--coll")) {
                l->call = (uint8_t)capo_call_find(v);
                if (!l->call && !none)
                        return wrong(name, "a collective such as all_reduce", v);
        } else if (!strcmp(name, "--layout")) {
                struct capo_layout layout;
                char text[CAPO_LAYOUT_TEXT] = "";

                l->n_ranks = l->n_nodes = 0;
                l->layout[0] = 0;
                if (none)
                        return 0;
                if (capo_layout_parse(v, &layout, NULL) < 0)
                        return wrong(name, "ranks per node such as 8, 3+5 or 10x8", v);
                capo_layout_print(&layout, text, sizeof text);
                l->n_ranks = (int)layout.n_ranks;
                l->n_nodes = (int)layout.n_nodes;
                if (strlen(text) < sizeof l->layout)
                        memcpy(l->layout, text, strlen(text) + 1);
        } else if (!strcmp(name, "--nccl")) {
                l->nccl = none ? 0 : capo_nccl_parse(v);
                if (!l->nccl && !none)
                        return wrong(name, "a release such as 2.29.2", v);
        } else {
                if (strlen(v) >= sizeof l->gpu)
                        return wrong(name, "a name of less than 48 characters", v);
                memset(l->gpu, 0, sizeof l->gpu);
                if (!none)
                        memcpy(l->gpu, v, strlen(v));
        }
        return 0;
}

int capo_inputs_option(struct capo_label *label, int argc, char **argv, int *i)
{
        static const char *const names[] = {"--algo", "--proto", "--channels", "--coll", "--layout", "--nccl", "--gpu"};

        for (size_t k = 0; k < N_ELEMENTS(names); k++) {
                size_t n = strlen(names[k]);
                const char *value;
                int r;

                if (strncmp(argv[*i], names[k], n) || (argv[*i][n] && argv[*i][n] != '='))
                        continue;
                if (argv[*i][n] == '=') {
                        value = argv[*i] + n + 1;
                } else if (*i + 1 < argc) {
                        value = argv[++*i];
                } else {
                        capo_error("%s needs a value", names[k]);
                        return -EINVAL;
                }
                r = set_label(label, names[k], value);
                return r < 0 ? r : 1;
        }
        return 0;
}

static const struct capo_store_filter *filter_in_force;

void capo_inputs_filter(const struct capo_store_filter *filter)
{
        filter_in_force = filter;
}

static int read_store(const char *path, struct capo_samples *set, char *error, size_t room)
{
        static const struct capo_store_filter everything;
        struct capo_store *store;
        size_t before = set->n;
        int r = capo_store_open(path, false, &store, error, room);

        if (r < 0)
                return r;
        r = capo_store_read(store, filter_in_force ? filter_in_force : &everything, set, error, room);
        capo_store_close(store);
        set->n_files++;
        if (r >= 0 && set->n == before) {
                snprintf(error, room, "%s: no sample in the store passes the filter", path);
                return -ENODATA;
        }
        return r;
}

int capo_inputs_csv(FILE *out, const struct capo_samples *set)
{
        capo_csv_heads(out);
        for (size_t i = 0; i < set->n; i++) {
                if (capo_csv_sample(out, &set->v[i], &set->runs[set->v[i].run]) < 0)
                        return -EIO;
        }
        return 0;
}

int capo_inputs_read(const char *path, const struct capo_label *label, struct capo_samples *set)
{
        char error[768], what[96];
        int r;

        snprintf(what, sizeof what, "reading %.80s", path);
        capo_progress(what, set->n_files, 0);
        r = !strncmp(path, "store:", 6) ? read_store(path + 6, set, error, sizeof error)
                                        : capo_import(path, label, set, error, sizeof error);
        capo_progress_end();
        if (r < 0) {
                for (size_t i = 0; r == -ENODATA && i < set->n_notes; i++)
                        capo_warn("%s", set->notes[i]);
                capo_error("%s", error);
        }
        return r;
}

void capo_inputs_notes(const struct capo_samples *set)
{
        enum { SHOWN = 12 };

        for (size_t i = 0; i < set->n_notes && i < SHOWN; i++)
                capo_warn("%s", set->notes[i]);
        if (set->n_notes > SHOWN)
                capo_warn("%zu more of the kind", set->n_notes - SHOWN);
}
