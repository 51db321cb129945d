/* SPDX-License-Identifier: Apache-2.0 */
/* Compares two files of measurements, size by size, as a fit with two candidates. Neither is NCCL's
 * own choice, because a fit uses the faster run of that. Runs with different labels (Ring, Tree) are
 * compared separately. */
#include <sys/stat.h>

#include "analysis/job/spread.h"
#include "capo/algorithms.h"
#include "capo/msg.h"
#include "cli/base/cli.h"
#include "cli/base/cli_fields.h"
#include "cli/base/cli_json.h"
#include "cli/diff_files.h"
#include "analysis/log/pack.h"
#include "core/base/among.h"
#include "core/base/calls.h"
#include "profiles/fit/fit.h"
#include "core/base/nccl_release.h"

/* Two candidates that each collective has. */
static const uint8_t stand_ins[] = {CAPO_ALGO_PROTO(CAPO_ALGO_RING, CAPO_PROTO_SIMPLE),
                                    CAPO_ALGO_PROTO(CAPO_ALGO_RING, CAPO_PROTO_LL)};

enum verdict { NOISE, SMALL, FASTER, SLOWER };
static const char *const verdicts[] = {"noise", "small", "faster", "slower"};

/* Results over all labels. */
struct found {
        struct cli_page *page;
        struct cli_section *table;
        json_t *rows;
        size_t n[SLOWER + 1];
        bool all; /* the page lists rows within noise, too */
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
static void copy_samples(const struct capo_samples *from, uint8_t want, bool after,
                         struct capo_samples *to)
{
        size_t first = to->n_runs;

        for (size_t i = 0; i < from->n_runs; i++) {
                struct capo_trial t = {.source = from->runs[i].source,
                                       .line = from->runs[i].line,
                                       .n_ranks = from->runs[i].n_ranks,
                                       .iterations = from->runs[i].iterations};

                capo_samples_run(to, &t);
        }
        for (size_t i = 0; i < from->n; i++) {
                struct capo_sample s = from->v[i];

                if (s.want != want)
                        continue;
                s.run += (uint32_t)first;
                s.want = stand_ins[after];
                s.ran = s.want_channels = s.ran_channels = 0;
                s.want_chunk = 0;
                capo_samples_add(to, &s);
        }
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

/* A size, and what was forced at it. */
struct file_row {
        const char *label;
        enum verdict verdict;
        const struct capo_fit_series *series;
        const struct capo_fit_cell *a, *b;
        uint64_t bytes;
        double change, half; /* of the logarithm */
};

static const char *change_text(const struct file_row *r, char *room)
{
        snprintf(room, CLI_ROOM, "%+.1f %% (%+.1f to %+.1f)", 100 * expm1(r->change),
                 100 * expm1(r->change - r->half), 100 * expm1(r->change + r->half));
        return room;
}

#define ROW_FIELDS(F)                                                  \
        F("call", WORD, capo_call_name(of->series->call), "call", "l") \
        F("ranks", RANK, of->series->like.n_ranks, "ranks", "r")       \
        F("label", TEXT, of->label, "forced", "l")                     \
        F("bytes", BYTES, of->bytes, "size", "r")                      \
        F("runs_before", COUNT, of->a->n_runs)                         \
        F("runs_after", COUNT, of->b->n_runs)                          \
        F("before_us", EXACT, of->a->us)                               \
        F(NULL, DURATION, 1e3 * of->a->us, "before", "r")              \
        F("after_us", EXACT, of->b->us)                                \
        F(NULL, DURATION, 1e3 * of->b->us, "after", "r")               \
        F("change", EXACT, expm1(of->change))                          \
        F("low", EXACT, expm1(of->change - of->half))                  \
        F("high", EXACT, expm1(of->change + of->half))                 \
        F(NULL, TEXT, change_text(of, room), "change (95 %)", "r~")    \
        F("verdict", WORD, verdicts[of->verdict], "", "l")
CLI_ENTITY(file_row, struct file_row, void, ROW_FIELDS);

static void add_row(struct found *f, const char *label, const struct capo_fit_series *s, int p,
                    const struct capo_fit_cell *a, const struct capo_fit_cell *b, double min_change)
{
        const struct capo_fit_point *q = &s->points[p];
        struct file_row row = {.label = label,
                               .series = s,
                               .a = a,
                               .b = b,
                               .bytes = q->bytes,
                               .change = log(b->us / a->us),
                               .half = hypot(a->se, b->se)};
        bool sure, large = fabs(expm1(row.change)) >= min_change;

        row.half *= capo_quantile_t(0.05 / s->n_points, q->freedom);
        sure = fabs(row.change) > row.half;
        row.verdict = !sure ? NOISE : !large ? SMALL : row.change > 0 ? SLOWER : FASTER;
        f->n[row.verdict]++;
        if (sure || f->all)
                cli_section_entity(f->table, NULL, &row);
        json_array_append_new(f->rows, cli_entity_json(&file_row, NULL, &row));
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
static void compare_label(const struct capo_samples *before, const struct capo_samples *after,
                          uint8_t want, uint8_t then, double min_change, struct found *f)
{
        const struct capo_fit_options options = {.force = true};
        struct capo_samples both = {0};
        struct capo_fit *fit = NULL;
        struct capo_fault fault;
        char a_text[32], b_text[32], label[80];
        int e;

        snprintf(label, sizeof label, want == then ? "%s" : "%s -> %s", label_text(want, a_text),
                 label_text(then, b_text));
        copy_samples(before, want, false, &both);
        copy_samples(after, then, true, &both);
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
}

/* What was forced in all samples of a file; -1: not the same in all. */
static int only_label(const struct capo_samples *set)
{
        return set->n && ALL_OF(s, set->v, set->n, s->want == set->v->want) ? set->v->want : -1;
}

/* Return: as only_label(). */
static int add_side(struct cli_page *page, const char *what, const char *path,
                    const struct capo_samples *set)
{
        const struct capo_trial *t = &set->runs[0];
        int only = only_label(set);
        uint8_t algo = only > 0 ? CAPO_ALGO_OF(only) : 0,
                proto = only > 0 ? CAPO_PROTO_OF(only) : 0;
        char nccl[16];

        cli_page_under(page, "%-7s %s: %s, NCCL %s%s%s%s%s%s%s", what, path,
                       capo_text_plural((unsigned)set->n_runs, "run", NULL),
                       t->nccl ? capo_nccl_text(t->nccl, nccl, sizeof nccl) : "not recorded",
                       *t->gpu ? ", " : "", t->gpu, algo ? ", NCCL_ALGO=" : "",
                       algo ? capo_algo_name(algo) : "", proto ? ", NCCL_PROTO=" : "",
                       proto ? capo_proto_name(proto) : "");
        return only;
}

int diff_files(const char *before, const char *after, double min_change, bool all,
               enum cli_form form)
{
        struct capo_samples a = {0}, b = {0};
        struct found f = {.page = cli_page_new(), .rows = json_array(), .all = all};
        bool seen[256] = {false};
        int one_a, one_b;

        if (read_file(before, &a) < 0 || read_file(after, &b) < 0)
                return CAPO_EXIT_UNKNOWN;
        cli_page_title(f.page, "capo diff");
        one_a = add_side(f.page, "before", before, &a);
        one_b = add_side(f.page, "after", after, &b);
        f.table = cli_page_entity(f.page, "CHANGES", &file_row);
        if (one_a >= 0 && one_b >= 0) /* the head has it */
                cli_section_hide(f.table, "forced");
        for (size_t i = 0; i < a.n; i++) {
                uint8_t want = a.v[i].want;

                /* What is forced is all that differs: that is what is compared. */
                if (!seen[want])
                        compare_label(&a, &b, want,
                                      one_a >= 0 && one_b >= 0 ? (uint8_t)one_b : want, min_change,
                                      &f);
                seen[want] = true;
        }
        if (!json_array_size(f.rows) && a.runs[0].n_ranks != b.runs[0].n_ranks)
                return capo_fail(CAPO_EXIT_UNKNOWN,
                                 "diff: %s ran on %d ranks, %s on %d: the time of a collective "
                                 "depends on their number",
                                 before, a.runs[0].n_ranks, after, b.runs[0].n_ranks);
        if (!json_array_size(f.rows))
                return capo_fail(CAPO_EXIT_UNKNOWN,
                                 "diff: %s and %s have no size of a collective in common that was "
                                 "measured the same way",
                                 before, after);
        if (f.n[NOISE] && !all)
                cli_section_line(f.table, "%s within noise: --all",
                                 capo_text_plural((unsigned)f.n[NOISE], "row", NULL));
        cli_section_line(f.table, "%zu slower, %zu faster, of %zu", f.n[SLOWER], f.n[FASTER],
                         json_array_size(f.rows));
        CLI_FORM_PRINT(form, f.page,
                       json_pack("{s:i, s:i, s:O}", "faster", (int)f.n[FASTER], "slower",
                                 (int)f.n[SLOWER], "rows", f.rows),
                       JSON_INDENT(1) | JSON_REAL_PRECISION(9), "rows");
        return f.n[SLOWER] ? CAPO_EXIT_FAIL : CAPO_EXIT_OK;
}
