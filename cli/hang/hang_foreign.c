/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs without capo: reads flight recorder dumps or RAS, and reports errors. */
#include <dirent.h>
#include <time.h>

#include "capo/msg.h"
#include "cli/hang/cmd_hang.h"
#include "core/base/xalloc.h"
#include "analysis/hang/ras.h"

struct files {
        char **v;
        size_t n;
};

static void files_finish(struct files *files)
{
        for (size_t i = 0; i < files->n; i++)
                free(files->v[i]);
        free(files->v);
}

static void add_file(struct files *files, const char *folder, const char *name)
{
        char *path = NULL;

        path = xprintf("%s%s%s", folder, *folder ? "/" : "", name);
        xarray_room(&files->v, files->n, sizeof *files->v);
        files->v[files->n++] = path;
}

static int is_json(const struct dirent *e)
{
        const char *dot = strrchr(e->d_name, '.');

        return dot && !strcmp(dot, ".json");
}

/* A folder stands for its *.json files. */
static int list_files(struct files *files, int n, char **words)
{
        int r = 0;

        for (int i = 0; i < n && r == 0; i++) {
                struct dirent **names = NULL;
                int n_names = scandir(words[i], &names, is_json, alphasort);

                if (n_names < 0)
                        add_file(files, "", words[i]);
                else if (n_names == 0)
                        r = capo_fail(-ENOENT, "%s: no file there ends in .json", words[i]);
                for (int k = 0; k < n_names; k++) {
                        if (r >= 0)
                                add_file(files, words[i], names[k]->d_name);
                        free(names[k]);
                }
                free(names);
        }
        return r;
}

int hang_flight(struct hang_page *page, int n, char **words)
{
        _cleanup_(files_finish) struct files files = {0};
        char why[1024] = "no memory";
        int r = list_files(&files, n, words);

        page->job = capo_job_new();
        if (r == 0) {
                r = capo_hang_flight(files.v, files.n, page->job, &page->hang, why, sizeof why);
                if (r < 0)
                        capo_error("%s", why);
                else
                        capo_hang_judge(&page->hang, &page->verdict);
        }
        page->known = xcalloc(page->job->n_processes + 1, sizeof *page->known);
        return r;
}

static int query_ras(const char *where, double timeout_s, struct ras_snapshot *out)
{
        _cleanup_free_ char *text = NULL;
        char why[512] = "no memory";
        int r = ras_ask(where, timeout_s, &text, why, sizeof why);

        if (r == 0)
                r = ras_read(text, out, why, sizeof why);
        return r < 0 ? capo_fail(r, "%s", why) : 0;
}

int hang_ras(struct hang_page *page, const char *where, double timeout_s)
{
        struct ras_snapshot first = {0}, second = {0};
        struct timespec between = {
                .tv_sec = (time_t)page->after_s,
                .tv_nsec = (long)((page->after_s - (double)(time_t)page->after_s) * 1e9)};
        int r;

        page->job = capo_job_new();
        r = query_ras(where, timeout_s, &first);
        if (r == 0 && page->after_s > 0) {
                while (nanosleep(&between, &between) < 0 && errno == EINTR)
                        continue;
                r = query_ras(where, timeout_s, &second);
        }
        if (r == 0) {
                ras_job(&first, second.at_ns ? &second : &first, page->job, &page->hang);
                capo_hang_judge(&page->hang, &page->verdict);
        }
        ras_snapshot_finish(&first);
        ras_snapshot_finish(&second);
        page->known = xcalloc(page->job->n_processes + 1, sizeof *page->known);
        return r;
}
