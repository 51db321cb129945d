/* SPDX-License-Identifier: Apache-2.0 */
#include "capo/msg.h"
#include "cli/base/cli_inputs.h"
#include "cli/base/cli_progress.h"
#include "core/base/file.h"
#include "core/base/calls.h"
#include "core/base/layout.h"
#include "core/base/xalloc.h"
#include "profiles/store/store.h"
#include "core/base/nccl_release.h"

/* Words that clear a label. */
static bool clears_label(const char *v) { return !strcmp(v, "none") || !strcmp(v, "auto"); }

/* "one of a, b, auto"; @words is a function like capo_algo_words(). */
static const char *one_of(char *(*words)(const char *last, char *text, size_t room))
{
        static char text[120];
        char list[100];

        snprintf(text, sizeof text, "one of %s, auto", words(", ", list, sizeof list));
        return text;
}

static const char *take_algo(void *label, const char *v)
{
        struct capo_label *l = label;

        l->algo = (uint8_t)capo_algo_find(v);
        l->default_choice = !strcmp(v, "auto");
        l->nothing_forced = false;
        return l->algo || clears_label(v) ? NULL : one_of(capo_algo_words);
}

static const char *take_proto(void *label, const char *v)
{
        struct capo_label *l = label;

        l->proto = (uint8_t)capo_proto_find(v);
        l->nothing_forced = false;
        return l->proto || clears_label(v) ? NULL : one_of(capo_proto_words);
}

static const char *take_channels(void *label, const char *v)
{
        struct capo_label *l = label;
        char *end;
        long n = clears_label(v) ? 0 : strtol(v, &end, 10);

        if (!clears_label(v) && (*end || end == v || n < 1 || n > 127))
                return "1 to 127";
        l->channels = (uint8_t)n;
        return NULL;
}

static const char *take_coll(void *label, const char *v)
{
        struct capo_label *l = label;

        l->call = (uint8_t)capo_call_find(v);
        return l->call || clears_label(v) ? NULL : "a collective such as all_reduce";
}

static const char *take_layout(void *label, const char *v)
{
        struct capo_label *l = label;
        struct capo_layout layout;
        char text[CAPO_LAYOUT_TEXT] = "";

        l->n_ranks = l->n_nodes = 0;
        l->layout[0] = 0;
        if (clears_label(v))
                return NULL;
        if (capo_layout_parse(v, &layout, NULL) < 0)
                return "ranks per node such as 8, 3+5 or 10x8";
        capo_layout_print(&layout, text, sizeof text);
        l->n_ranks = (int)layout.n_ranks;
        l->n_nodes = (int)layout.n_nodes;
        if (strlen(text) < sizeof l->layout)
                memcpy(l->layout, text, strlen(text) + 1);
        return NULL;
}

static const char *take_nccl(void *label, const char *v)
{
        struct capo_label *l = label;

        l->nccl = clears_label(v) ? 0 : (uint32_t)capo_nccl_named(v);
        return l->nccl || clears_label(v) ? NULL : "a release such as 2.29.2";
}

static const char *take_gpu(void *label, const char *v)
{
        struct capo_label *l = label;

        if (strlen(v) >= sizeof l->gpu)
                return "a name of less than 48 characters";
        memset(l->gpu, 0, sizeof l->gpu);
        if (!clears_label(v))
                memcpy(l->gpu, v, strlen(v));
        return NULL;
}

const struct cli_option cli_place_options[] = {
        {"coll", CLI_WHOLE("C", take_coll), "the collective, where the file does not say",
         .example = "all_reduce"},
        {"layout", CLI_WHOLE("L", take_layout), "ranks per node: 8, 3+5, 10x8", .example = "3+5"},
        {"nccl", CLI_WHOLE("V", take_nccl), "NCCL's release, such as 2.29.2", .example = "2.29.2"},
        {"gpu", CLI_WHOLE("NAME", take_gpu), "GPU model"},
        {0}};

const struct cli_option cli_label_options[] = {
        {"algo", CLI_WHOLE("A", take_algo),
         "what was forced: tree, ring, nvls, ...; auto: NCCL chose", .example = "auto"},
        {"proto", CLI_WHOLE("P", take_proto), "ll, ll128, simple; auto", .example = "auto"},
        {"default", CLI_FLAG(struct capo_label, nothing_forced),
         "nothing was forced: NCCL's own choice"},
        {"channels", CLI_WHOLE("N", take_channels), "channels that were forced", .example = "8"},
        {NULL, CLI_KIND_TABLE, 0, {.table = cli_place_options}},
        {0}};

int cli_inputs_add(struct cli_inputs *inputs, const char *path)
{
        xarray_room(&inputs->v, inputs->n, sizeof *inputs->v);
        inputs->v[inputs->n] = (struct cli_input){path, inputs->label};
        inputs->last = inputs->label;
        if (inputs->label.nothing_forced) {
                struct capo_label *l = &inputs->v[inputs->n].label;

                l->algo = l->proto = l->channels = 0;
                l->default_choice = true;
        }
        inputs->n++;
        return 0;
}

bool cli_inputs_unused(const struct cli_inputs *inputs)
{
        return inputs->n && memcmp(&inputs->last, &inputs->label, sizeof inputs->last);
}

static const struct capo_store_filter *filter_in_force;

void cli_inputs_filter(const struct capo_store_filter *filter) { filter_in_force = filter; }

/* The imports of a store, with sums over their samples. */
struct imports {
        struct import {
                int64_t id;
                size_t n; /* samples */
                uint64_t sum;
        } * v;
        size_t n;
};

static void add_import(const struct capo_store_import *m, void *user)
{
        struct imports *i = user;

        *xadd(i->v, i->n) = (struct import){.id = m->id};
}

/* Sum over the samples from @first on, independent of their order; runs are numbered from @run. */
static uint64_t sum_of(const struct capo_samples *set, size_t first, uint32_t run)
{
        uint64_t sum = 0;

        for (size_t i = first; i < set->n; i++) {
                struct capo_sample s = set->v[i];
                uint64_t h = 0xcbf29ce484222325u;

                s.run -= run;
                for (size_t k = 0; k < offsetof(struct capo_sample, reserved); k++)
                        h = (h ^ ((unsigned char *)&s)[k]) * 0x100000001b3u;
                sum += h;
        }
        return sum;
}

/* Read one import after the other. An import with the same measurements as an earlier one is
 * skipped, because it is no new evidence. A few samples may be equal by chance. */
static int read_imports(struct capo_store *store, const struct capo_store_filter *filter,
                        struct capo_samples *set, char *error, size_t room)
{
        enum { BY_CHANCE = 4 };
        struct imports all = {0};
        struct capo_store_filter one = *filter;
        int r = capo_store_list(store, add_import, &all, error, room);

        for (size_t i = 0; i < all.n && r >= 0; i++) {
                size_t n = set->n, runs = set->n_runs, k = 0;

                if (filter->import && filter->import != all.v[i].id)
                        continue;
                one.import = all.v[i].id;
                r = capo_store_read(store, &one, set, error, room);
                all.v[i].n = set->n - n;
                all.v[i].sum = sum_of(set, n, (uint32_t)runs);
                while (all.v[k].n != all.v[i].n || all.v[k].sum != all.v[i].sum)
                        k++;
                if (k == i || all.v[i].n < BY_CHANCE)
                        continue;
                capo_samples_note(
                        set, "import %lld has the same measurements as import %lld: counted once",
                        (long long)all.v[i].id, (long long)all.v[k].id);
                while (set->n_runs > runs)
                        free(set->runs[--set->n_runs].source);
                set->n = n;
        }
        return r;
}

static int read_store(const char *path, struct capo_samples *set, char *error, size_t room)
{
        static const struct capo_store_filter everything;
        struct capo_store *store;
        size_t before = set->n;
        int r = capo_store_open(path, false, &store, error, room);

        if (r < 0)
                return r;
        r = read_imports(store, filter_in_force ? filter_in_force : &everything, set, error, room);
        capo_store_close(store);
        set->n_files++;
        if (r >= 0 && set->n == before)
                return capo_why(-ENODATA, error, room,
                                "%s: no sample in the store passes the filter", path);
        return r;
}

void cli_inputs_left_out(const struct capo_samples *set)
{
        enum { SHOWN = 6 };
        size_t n = 0;

        for (size_t i = 0; i < set->n_runs; i++) {
                if (set->runs[i].left_out && n++ < SHOWN)
                        capo_warn("%s:%u: takes no part: %s", set->runs[i].source,
                                  set->runs[i].line, set->runs[i].why);
        }
        if (n > SHOWN)
                capo_warn("%zu more runs take no part; capo fit --runs lists them", n - SHOWN);
}

int cli_inputs_csv(FILE *out, const struct capo_samples *set)
{
        capo_csv_heads(out);
        cli_inputs_left_out(set);
        for (size_t i = 0; i < set->n; i++) {
                if (!set->runs[set->v[i].run].left_out &&
                    capo_csv_sample(out, &set->v[i], &set->runs[set->v[i].run]) < 0)
                        return -EIO;
        }
        return 0;
}

/* Print the error @r of reading something whose notes begin at @before. */
static int report_read_result(int r, const char *error, size_t before, struct capo_samples *set)
{
        cli_progress_end();
        if (r < 0) {
                for (size_t i = before; r == -ENODATA && i < set->n_notes;
                     i++) { /* print the reason once */
                        capo_warn("%s", set->notes[i]);
                        free(set->notes[i]);
                }
                if (r == -ENODATA)
                        set->n_notes = before;
                capo_error("%s", error);
        }
        return r;
}

static int read_one(const char *path, const struct capo_label *label, struct capo_samples *set)
{
        char error[768], what[96];
        size_t before = set->n_notes;
        int r;

        if (capo_file_is_fifo(path))
                return capo_fail(-ESPIPE, "%s: a named pipe, not a regular file", path);
        snprintf(what, sizeof what, "reading %.80s", path);
        cli_progress(what, set->n_files, 0);
        r = !strncmp(path, "store:", 6) ? read_store(path + 6, set, error, sizeof error)
                                        : capo_import_more(path, label, set, error, sizeof error);
        return report_read_result(r, error, before, set);
}

static int read_end(struct capo_samples *set)
{
        char error[768];
        size_t before = set->n_notes;
        int r = capo_import_end(set, error, sizeof error);

        return report_read_result(r, error, before, set);
}

int cli_inputs_read(const struct cli_inputs *inputs, struct capo_samples *set)
{
        int first = 0;

        for (size_t i = 0; i <= inputs->n;
             i++) { /* after the last one, what must be read together */
                int r = i == inputs->n ? read_end(set)
                                       : read_one(inputs->v[i].path, &inputs->v[i].label, set);

                first = first < 0 || r >= 0 ? first : r;
        }
        return first;
}

int cli_input_read(const char *path, const struct capo_label *label, struct capo_samples *set)
{
        int r = read_one(path, label, set), e = read_end(set);

        return r < 0 ? r : e;
}

void cli_inputs_notes(const struct capo_samples *set)
{
        enum { SHOWN = 12 };

        for (size_t i = 0; i < set->n_notes && i < SHOWN; i++)
                capo_warn("%s", set->notes[i]);
        if (set->n_notes > SHOWN)
                capo_warn("%zu more of the kind", set->n_notes - SHOWN);
}
