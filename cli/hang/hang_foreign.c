/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs without capo: reads flight recorder dumps or RAS, and reports errors. */
#include <dirent.h>
#include <time.h>

#include "capo/msg.h"
#include "cli/hang/cmd_hang.h"
#include "core/base/xalloc.h"
#include "analysis/hang/ras.h"

static int is_json(const struct dirent *e)
{
        const char *dot = strrchr(e->d_name, '.');

        return dot && !strcmp(dot, ".json");
}

/* A folder stands for its *.json files. */
static int list_files(char ***files, size_t *n_files, int n, char **words)
{
        for (int i = 0; i < n; i++) {
                struct dirent **names = NULL;
                int n_names = scandir(words[i], &names, is_json, alphasort);

                if (n_names < 0)
                        *xadd(*files, *n_files) = words[i];
                else if (n_names == 0)
                        return capo_fail(-ENOENT, "%s: no file there ends in .json", words[i]);
                for (int k = 0; k < n_names; k++)
                        *xadd(*files, *n_files) = xprintf("%s/%s", words[i], names[k]->d_name);
        }
        return 0;
}

int hang_flight(struct hang_page *page, int n, char **words)
{
        char **files = NULL, why[1024];
        size_t n_files = 0;
        int r = list_files(&files, &n_files, n, words);

        if (r == 0) {
                r = capo_hang_flight(files, n_files, page->job, &page->hang, why, sizeof why);
                if (r < 0)
                        capo_error("%s", why);
        }
        return r;
}

static int query_ras(const char *where, double timeout_s, struct ras_snapshot *out)
{
        _cleanup_free_ char *text = NULL;
        char why[512];
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
        int r = query_ras(where, timeout_s, &first);

        if (r == 0 && page->after_s > 0) {
                while (nanosleep(&between, &between) < 0 && errno == EINTR)
                        continue;
                r = query_ras(where, timeout_s, &second);
        }
        if (r == 0)
                ras_job(&first, second.at_ns ? &second : &first, page->job, &page->hang);
        ras_snapshot_finish(&first);
        ras_snapshot_finish(&second);
        return r;
}
