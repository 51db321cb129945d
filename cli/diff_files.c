/* SPDX-License-Identifier: Apache-2.0 */
/* Compares two files of measurements, size by size, as a fit with two candidates. Neither is NCCL's
 * own choice, because a fit uses the faster run of that. Runs with different labels (Ring, Tree) are
 * compared separately. */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "analysis/job/figures.h"
#include "analysis/job/spread.h"
#include "capo/algorithms.h"
#include "capo/msg.h"
#include "cli/base/cli.h"
#include "cli/base/cli_json.h"
#include "cli/base/cli_page.h"
#include "cli/diff_files.h"
#include "analysis/log/pack.h"
#include "core/base/calls.h"
#include "core/base/size.h"
#include "core/base/util.h"
#include "profiles/fit/fit.h"
#include "core/base/nccl_release.h"

/* Two candidates that each collective has. */
static const uint8_t stand_ins[] = {CAPO_ALGO_PROTO(CAPO_ALGO_RING, CAPO_PROTO_SIMPLE),
                                    CAPO_ALGO_PROTO(CAPO_ALGO_RING, CAPO_PROTO_LL)};

/* Results over all labels. */
struct found {
        struct cli_page *page;
        struct cli_section *table;
        json_t *rows;
        size_t n_rows, n_slower, n_faster;
};

bool diff_files_are(const char *path)
{
        size_t n = strlen(path);
        struct stat st;

        return stat(path, &st) == 0 && !S_ISDIR(st.st_mode) &&
               !(n > 5 && !strcmp(path + n - 5, ".capo")) && !capo_pack_is_name(path);
}

static int read_file(const char *path, struct capo_samples *set)
{
        char error[512];
        int e = capo_import(path, NULL, set, error, sizeof error);

        for (size_t i = 0; i < set->n_notes; i++)
                capo_warn("%s", set->notes[i]);
        if (e < 0)
                capo_error("diff: %s", error);
        return e;
}

/* Copy the samples of @from that were forced to @want to @to; @after: as the second candidate. Of
 * where they ran only the number of ranks is kept, because the rest may be what changed. */
static int copy_samples(const struct capo_samples *from, uint8_t want, bool after,
                        struct capo_samples *to)
{
        size_t first = to->n_runs;

        for (size_t i = 0; i < from->n_runs; i++) {
                struct capo_trial t = {.source = from->runs[i].source,
                                       .line = from->runs[i].line,
                                       .n_ranks = from->runs[i].n_ranks,
                                       .iterations = from->runs[i].iterations};

                if (capo_samples_run(to, &t) == UINT32_MAX)
                        return -ENOMEM;
        }
        for (size_t i = 0; i < from->n; i++) {
                struct capo_sample s = from->v[i];

                if (s.want != want)
                        continue;
                s.run += (uint32_t)first;
                s.want = stand_ins[after];
                s.ran = s.want_channels = s.ran_channels = 0;
                s.want_chunk = 0;
                if (capo_samples_add(to, &s) < 0)
                        return -ENOMEM;
        }
        return 0;
}

/* The candidate of a file; -1: none in this series. */
static int side_of(const struct capo_fit_series *s, bool after)
{
        for (int c = 1; c < s->n_candidates; c++) {
                if (CAPO_ALGO_PROTO(s->candidates[c].algo, s->candidates[c].proto) ==
                    stand_ins[after])
                        return c;
        }
        return -1;
}

static void add_row(struct found *f, const char *label, const struct capo_fit_series *s, int p,
                    const struct capo_fit_cell *a, const struct capo_fit_cell *b, double min_change)
{
        const struct capo_fit_point *q = &s->points[p];
        double change = log(b->us / a->us),
               half = capo_quantile_t(0.05 / s->n_points, q->freedom) * hypot(a->se, b->se);
        bool sure = fabs(change) > half, large = fabs(expm1(change)) >= min_change;
        const char *verdict = !sure ? "noise" : !large ? "small" : change > 0 ? "slower" : "faster";
        char size[16];

        f->n_rows++;
        f->n_slower += sure && large && change > 0;
        f->n_faster += sure && large && change < 0;
        cli_section_cell(f->table, "%s", capo_call_name(s->call));
        cli_section_cell(f->table, "%d", s->like.n_ranks);
        cli_section_cell(f->table, "%s", label);
        cli_section_cell(f->table, "%s", capo_size_print(q->bytes, size, sizeof size));
        cli_section_cell(f->table, "%.1f us", a->us);
        cli_section_cell(f->table, "%.1f us", b->us);
        cli_section_cell(f->table, "%+.1f %% (%+.1f to %+.1f)%s", 100 * expm1(change),
                         100 * expm1(change - half), 100 * expm1(change + half),
                         !sure    ? ", within noise"
                         : !large ? ", below --min-change"
                                  : "");
        json_array_append_new(
                f->rows,
                json_pack("{s:s, s:i, s:s, s:I, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:s}", "call",
                          capo_call_name(s->call), "ranks", s->like.n_ranks, "label", label,
                          "bytes", (json_int_t)q->bytes, "runs_before", (int)a->n_runs,
                          "runs_after", (int)b->n_runs, "before_us", a->us, "after_us", b->us,
                          "change", expm1(change), "low", expm1(change - half), "high",
                          expm1(change + half), "verdict", verdict));
}

static const char *label_text(uint8_t want, char text[32])
{
        if (!want)
                return "-";
        snprintf(text, 32, "%s %s", CAPO_ALGO_OF(want) ? capo_algo_name(CAPO_ALGO_OF(want)) : "any",
                 CAPO_PROTO_OF(want) ? capo_proto_name(CAPO_PROTO_OF(want)) : "any");
        return text;
}

/* Compare all samples that were forced to @want before, and to @then after. */
static int compare_label(const struct capo_samples *before, const struct capo_samples *after,
                         uint8_t want, uint8_t then, double min_change, struct found *f)
{
        const struct capo_fit_options options = {.force = true};
        struct capo_samples both = {0};
        struct capo_fit *fit = NULL;
        struct capo_fault fault;
        char a_text[32], b_text[32], label[80];
        int e = copy_samples(before, want, false, &both);

        snprintf(label, sizeof label, want == then ? "%s" : "%s -> %s", label_text(want, a_text),
                 label_text(then, b_text));
        if (e == 0)
                e = copy_samples(after, then, true, &both);
        if (e == 0)
                e = capo_fit_make(&both, &options, &fit, &fault);
        if (e == -EINVAL)
                capo_warn("diff: %s", fault.text);
        for (int i = 0; e == 0 && i < fit->n_series; i++) {
                const struct capo_fit_series *s = &fit->series[i];
                int ca = side_of(s, false), cb = side_of(s, true);

                for (int p = 0; ca > 0 && cb > 0 && p < s->n_points; p++) {
                        const struct capo_fit_cell *a = capo_fit_cell_of(s, p, ca),
                                                   *b = capo_fit_cell_of(s, p, cb);

                        if (!isnan(a->us) && !isnan(b->us))
                                add_row(f, label, s, p, a, b, min_change);
                }
        }
        capo_fit_free(fit);
        capo_samples_free(&both);
        return e == -ENOMEM ? e : 0;
}

static void add_side(struct cli_page *page, const char *what, const char *path,
                     const struct capo_samples *set)
{
        const struct capo_trial *t = &set->runs[0];
        char nccl[16];

        cli_page_under(page, "%-7s %s: %s, NCCL %s%s%s", what, path,
                       capo_text_plural((unsigned)set->n_runs, "run", NULL),
                       t->nccl ? capo_nccl_text(t->nccl, nccl, sizeof nccl) : "not recorded",
                       *t->gpu ? ", " : "", t->gpu);
}

/* What was forced in all samples of a file; -1: not the same in all. */
static int only_label(const struct capo_samples *set)
{
        for (size_t i = 1; i < set->n; i++) {
                if (set->v[i].want != set->v[0].want)
                        return -1;
        }
        return set->n ? set->v[0].want : -1;
}

static int say_nothing_common(const char *before, const char *after, const struct capo_samples *a,
                              const struct capo_samples *b)
{
        if (a->runs[0].n_ranks != b->runs[0].n_ranks)
                return capo_fail(CAPO_EXIT_USAGE,
                                 "diff: %s ran on %d ranks, %s on %d: the time of a collective "
                                 "depends on their number",
                                 before, a->runs[0].n_ranks, after, b->runs[0].n_ranks);
        return capo_fail(CAPO_EXIT_USAGE,
                         "diff: %s and %s have no size of a collective in common that was measured "
                         "the same way",
                         before, after);
}

int diff_files(const char *before, const char *after, double min_change, enum cli_form form)
{
        static const struct cli_column columns[] = {
                {"call", "l"},   {"ranks", "r"}, {"forced", "l"},        {"size", "r"},
                {"before", "r"}, {"after", "r"}, {"change (95 %)", "l~"}};
        struct capo_samples a = {0}, b = {0};
        struct found f = {.page = cli_page_new(), .rows = json_array()};
        bool seen[256] = {false};
        int one_a, one_b, status = CAPO_EXIT_USAGE, e = f.page && f.rows ? 0 : -ENOMEM;

        if (e < 0 || read_file(before, &a) < 0 || read_file(after, &b) < 0)
                goto end;
        cli_page_title(f.page, "capo diff");
        add_side(f.page, "before", before, &a);
        add_side(f.page, "after", after, &b);
        f.table = cli_page_section(f.page, "CHANGES", columns, N_ELEMENTS(columns));
        one_a = only_label(&a);
        one_b = only_label(&b);
        for (size_t i = 0; i < a.n && e == 0; i++) {
                uint8_t want = a.v[i].want;

                /* What is forced is all that differs: that is what is compared. */
                if (!seen[want])
                        e = compare_label(&a, &b, want,
                                          one_a >= 0 && one_b >= 0 ? (uint8_t)one_b : want,
                                          min_change, &f);
                seen[want] = true;
        }
        if (e < 0) {
                capo_error("diff: no memory");
        } else if (!f.n_rows) {
                status = say_nothing_common(before, after, &a, &b);
        } else {
                status = f.n_slower ? CAPO_EXIT_FAIL : CAPO_EXIT_OK;
                cli_section_line(f.table, "%zu slower, %zu faster, of %zu", f.n_slower, f.n_faster,
                                 f.n_rows);
                CLI_FORM_PRINT(form, steal(&f.page),
                               json_pack("{s:i, s:i, s:O}", "faster", (int)f.n_faster, "slower",
                                         (int)f.n_slower, "rows", f.rows),
                               JSON_INDENT(1) | JSON_REAL_PRECISION(9), "rows");
        }
end:
        cli_page_free(f.page);
        json_decref(f.rows);
        capo_samples_free(&a);
        capo_samples_free(&b);
        return status;
}
