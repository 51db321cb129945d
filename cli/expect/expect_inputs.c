/* SPDX-License-Identifier: Apache-2.0 */
/* Reads measurements: nccl-tests output, other tables, or logs of capo, also of a running job. */
#include "analysis/log/live_logs.h"
#include "analysis/log/log_find.h"
#include "capo/msg.h"
#include "cli/base/cli_job.h"
#include "cli/expect/cmd_expect.h"
#include "analysis/log/pack.h"
#include "core/base/calls.h"
#include "core/base/file.h"
#include "core/base/xalloc.h"
#include "core/log/info.h"

enum { MOST_BYTES = 1 << 26 };

void expect_missing(struct expect_page *page, const char *format, ...)
{
        va_list args;

        if (page->n_not_known == N_ELEMENTS(page->not_known))
                return;
        va_start(args, format);
        vsnprintf(page->not_known[page->n_not_known++], sizeof page->not_known[0], format, args);
        va_end(args);
}

/* ---- evidence ---- */

bool expect_has(const char *text, void *arg)
{
        const struct expect_page *page = arg;

        for (size_t i = 0; i < page->n_evidence; i++) {
                if (strstr(page->evidence[i].text, text))
                        return true;
        }
        return false;
}

char *expect_found_in(const struct expect_page *page, const char *proof, char *text)
{
        *text = 0;
        for (size_t i = 0; i < page->n_evidence && !*text; i++) {
                const struct expect_evidence *e = &page->evidence[i];
                const char *at = strstr(e->text, proof), *line = e->text;
                unsigned number = 1;

                for (const char *end; at && (end = memchr(line, '\n', (size_t)(at - line)));
                     line = end + 1)
                        number++;
                if (at && *e->name)
                        snprintf(text, 600, "%s:%u", e->name, number);
                else if (at)
                        snprintf(text, 600, "recorded settings");
        }
        return text;
}

/* NCCL's log lines may be between the numbers. */
void expect_evidence(struct expect_page *page, const char *path)
{
        char *text;
        size_t size;

        if (capo_file_read(path, MOST_BYTES, &text, &size) < 0)
                return; /* a folder, or too large: use only the numbers */
        for (size_t i = 0; i < size; i++)
                text[i] = text[i] ? text[i] : '?';
        *xadd(page->evidence, page->n_evidence) = (struct expect_evidence){xstrdup(path), text};
}

static void read_settings(struct expect_page *page)
{
        char *text = NULL;
        size_t size;
        FILE *out = xmemstream(&text, &size);

        for (uint32_t i = 0; i < page->job->n_processes && out; i++) {
                const struct capo_job_process *p = &page->job->processes[i];
                const char *set = capo_job_info(p, CAPO_INFO_NCCL_SETTINGS);

                fprintf(out, "%s\n%s\n", set ? set : "", p->fabric ? p->fabric : "");
        }
        xmemclose(out);
        *xadd(page->evidence, page->n_evidence) = (struct expect_evidence){xstrdup(""), text};
}

/* ---- samples ---- */

/* What a live process has not written yet is read from its memory. */
static int read_logs(struct expect_page *page, struct capo_log_paths *paths,
                     const struct capo_label *label, struct capo_samples *set)
{
        struct capo_label place = *label;
        struct capo_job *job;
        char why[1024];
        int r = capo_live_logs_take(paths);

        place.call = 0; /* logs have the kind of each call */
        if (r < 0)
                capo_warn("the memory of living processes cannot be read: %s", strerror(-r));
        job = cli_job_load_paths(page->what, paths);
        if (!job)
                return -EINVAL;
        r = capo_import_job(job, &place, set, why, sizeof why);
        if (r < 0)
                capo_error("expect: %s", why);
        else if (!page->job)
                page->job = steal(&job), read_settings(page);
        return r;
}

static int read_input(struct expect_page *page, const struct cli_input *input,
                      struct capo_samples *set)
{
        _cleanup_(capo_log_paths_finish) struct capo_log_paths paths = {0};
        char *path = (char *)(uintptr_t)input->path, why[512], magic[8] = "";
        FILE *f = capo_file_is_fifo(path) ? NULL : fopen(path, "re");
        size_t n = f ? fread(magic, 1, sizeof magic, f) : 0;
        bool whole = f && feof(f); /* false for a folder */
        int r;

        if (f)
                fclose(f);
        if (!n && whole)
                return capo_fail(-ENODATA, "expect: %s: empty file", path);
        if ((n == sizeof magic || whole) && memcmp(magic, CAPO_LOG_MAGIC, sizeof magic) != 0 &&
            !capo_pack_is(magic, sizeof magic)) {
                r = cli_input_read(path, &input->label, set);
                if (r == 0)
                        expect_evidence(page, path);
                return r;
        }
        if (capo_log_find(&path, 1, &paths, why, sizeof why) == 0 && paths.n)
                return read_logs(page, &paths, &input->label, set);
        return cli_input_read(path, &input->label, set);
}

/* ---- rows ---- */

static bool run_layout(const struct capo_trial *run, struct capo_layout *out)
{
        *out = (struct capo_layout){0};
        if (*run->layout)
                return capo_layout_parse(run->layout, out, NULL) == 0;
        return run->n_ranks > 0 && run->n_nodes > 0 && run->n_ranks % run->n_nodes == 0 &&
               capo_layout_add(out, (uint32_t)(run->n_ranks / run->n_nodes),
                               (uint32_t)run->n_nodes) == 0;
}

static bool is_duration(const struct capo_sample *s)
{
        return s->bytes && s->us > 0 && s->make != CAPO_MAKE_HOST && s->make != CAPO_MAKE_CPU;
}

/* For bandwidths, runs with the same number of ranks are alike if their nodes are not known. */
static bool is_alike(const struct capo_trial *a, const struct capo_trial *b)
{
        struct capo_layout la, lb;
        bool known = run_layout(a, &la), too = run_layout(b, &lb);

        return known == too && (known ? capo_layout_equal(&la, &lb) : a->n_ranks == b->n_ranks);
}

/* The run that has most samples together with those like it. */
static uint32_t find_usual_run(const struct capo_samples *set)
{
        size_t most = 0;
        uint32_t best = UINT32_MAX;

        for (uint32_t i = 0; i < set->n_runs; i++) {
                size_t n = 0;

                for (size_t k = 0; k < set->n; k++)
                        n += is_duration(&set->v[k]) &&
                             is_alike(&set->runs[i], &set->runs[set->v[k].run]);
                if (n > most) {
                        most = n;
                        best = i;
                }
        }
        return best;
}

struct rate {
        uint8_t call;
        uint64_t bytes;
        double busbw;
};

static int by_call(const void *a, const void *b)
{
        const struct rate *x = a, *y = b;

        if (x->call != y->call)
                return x->call < y->call ? -1 : 1;
        if (x->bytes != y->bytes)
                return x->bytes < y->bytes ? -1 : 1;
        return (x->busbw > y->busbw) - (x->busbw < y->busbw);
}

/* One row per call and size: the median of its rates. */
static void make_rows(struct expect_page *page, const struct capo_samples *set, uint32_t usual)
{
        const struct capo_trial *run = &set->runs[usual];
        _cleanup_free_ struct rate *rates = xcalloc(set->n + 1, sizeof *rates);
        size_t n = 0;

        for (size_t i = 0; i < set->n; i++) {
                const struct capo_sample *s = &set->v[i];

                if (!is_duration(s))
                        continue;
                if (!is_alike(run, &set->runs[s->run])) {
                        page->n_other++;
                        continue;
                }
                rates[n++] = (struct rate){
                        s->call, s->bytes,
                        (double)s->bytes / s->us / 1e3 *
                                capo_busbw_factor(capo_call_kind(s->call), (unsigned)run->n_ranks)};
        }
        qsort(rates, n, sizeof *rates, by_call);
        page->rows = xcalloc(n + 1, sizeof *page->rows);
        for (size_t i = 0, end; i < n; i = end) {
                for (end = i; end < n && rates[end].call == rates[i].call &&
                              rates[end].bytes == rates[i].bytes;)
                        end++;
                if (rates[i].busbw > 0)
                        page->rows[page->n_rows++] = (struct capo_expected_row){
                                .call = rates[i].call,
                                .bytes = rates[i].bytes,
                                .measured = rates[i + (end - i - 1) / 2].busbw};
        }
}

int expect_measured(struct expect_page *page, const struct cli_inputs *inputs)
{
        struct capo_samples set = {0};
        uint32_t usual;
        int r = 0;

        for (size_t i = 0; i < inputs->n && r == 0; i++)
                r = read_input(page, &inputs->v[i], &set);
        if (r == 0) {
                cli_inputs_notes(&set);
                usual = find_usual_run(&set);
                if (usual == UINT32_MAX) {
                        r = capo_fail(-ENODATA, "expect: %s has no times of calls on the GPU",
                                      page->what);
                } else {
                        run_layout(&set.runs[usual], &page->shape.layout);
                        page->nccl = set.runs[usual].nccl;
                        snprintf(page->gpu, sizeof page->gpu, "%s", set.runs[usual].gpu);
                        make_rows(page, &set, usual);
                }
        }
        return r;
}
