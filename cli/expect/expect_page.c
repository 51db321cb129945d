/* SPDX-License-Identifier: Apache-2.0 */
/* The page: the answer, the numbers it is compared with, likely causes, what is not known. */
#include <jansson.h>
#include <string.h>

#include "analysis/diagnose/recorded_bugs.h"
#include "analysis/job/figures.h"
#include "cli/base/cli_json.h"
#include "cli/base/cli_page.h"
#include "cli/expect/cmd_expect.h"
#include "core/base/calls.h"
#include "core/base/nccl_release.h"
#include "core/base/size.h"
#include "core/base/text.h"
#include "core/base/util.h"

enum { ROWS_SHOWN = 12 };

const struct capo_expected_row *expect_main(const struct expect_page *page)
{
        const struct capo_expected_row *worst = NULL;

        for (size_t i = 0; i < page->n_rows; i++) {
                const struct capo_expected_row *row = &page->rows[i];
                bool largest = i + 1 == page->n_rows || page->rows[i + 1].call != row->call;

                if (largest && (!worst || row->verdict > worst->verdict))
                        worst = row;
        }
        return worst;
}

static char *release_text(uint32_t nccl, char text[16])
{
        return nccl ? capo_nccl_text(nccl, text, 16) : strcpy(text, "not known");
}

static const char *by_words(enum capo_expected_by by)
{
        static const char *const words[] = {"", "public measurements", "NCCL's prediction",
                                            "the ceiling of the links"};

        return words[by];
}

static void add_answer(const struct expect_page *page, struct cli_page *out)
{
        static const char *const heads[] = {"NOT KNOWN whether this is normal", "NORMAL", "LOW",
                                            "NOT NORMAL", "NOT POSSIBLE on this machine"};
        const struct capo_expected_row *row = expect_main(page);
        char size[40], a[32], b[32], share[32], text[256];

        if (!row)
                return;
        capo_size_print(row->bytes, size, sizeof size);
        snprintf(text, sizeof text, "%s: %s %s reaches %s", heads[row->verdict],
                 capo_call_name(row->call), size, capo_text_gbs(row->measured, a));
        if (row->verdict == CAPO_EXPECTED_IMPOSSIBLE)
                capo_append(text, sizeof text, " GB/s, the best possible is %s (%s) by %s",
                            capo_text_gbs(row->ceiling, b),
                            capo_text_percent(row->measured / row->ceiling, share),
                            by_words(CAPO_BY_CEILING));
        else if (row->normal > 0)
                capo_append(
                        text, sizeof text, " of %s GB/s (%s) by %s", capo_text_gbs(row->normal, b),
                        capo_text_percent(row->measured / row->normal, share), by_words(row->by));
        else
                capo_append(text, sizeof text, " GB/s");
        if (row->verdict == CAPO_EXPECTED_NORMAL || row->verdict == CAPO_EXPECTED_UNKNOWN)
                cli_page_under(out, "%s", text);
        else
                cli_page_problem(out, "%s", text);
}

static size_t count_calls(const struct expect_page *page)
{
        size_t n = 0;

        for (size_t i = 0; i < page->n_rows; i++)
                n += !i || page->rows[i].call != page->rows[i - 1].call;
        return n;
}

/* Number of rows of the same call after row @i. */
static size_t count_larger(const struct expect_page *page, size_t i)
{
        size_t n = 0;

        while (i + n + 1 < page->n_rows && page->rows[i + n + 1].call == page->rows[i].call)
                n++;
        return n;
}

static struct cli_section *add_rows(const struct expect_page *page, struct cli_page *out)
{
        static const struct cli_column columns[] = {
                {"call", "l"},          {"size", "r"}, {"measured", "r"},      {"public", "r"},
                {"NCCL predicts", "r"}, {"", "l/b"},   {"best possible", "r"}, {"", "l"}};
        struct cli_section *s =
                cli_page_section(out, "BUS BANDWIDTH", columns, N_ELEMENTS(columns));
        size_t each = count_calls(page) ? ROWS_SHOWN / count_calls(page) : 0, left_out = 0;

        cli_section_of(s, "GB/s");
        s->how =
                "Median of the measured times. public: the least of the matching public "
                "measurements, those of the named platform before others. NCCL predicts: its own model, asked on virtual GPUs. best possible: "
                "no software exceeds it on these links.";
        for (size_t i = 0; i < page->n_rows; i++) {
                const struct capo_expected_row *row = &page->rows[i];
                char text[40];

                if (count_larger(page, i) >= (each > 2 ? each : 2)) {
                        left_out++;
                        continue;
                }
                cli_section_cell(s, "%s", capo_call_name(row->call));
                cli_section_cell(s, "%s", capo_size_print(row->bytes, text, sizeof text));
                cli_section_cell(s, "%s", capo_text_gbs(row->measured, text));
                cli_section_cell(s, "%s",
                                 row->n_rates ? capo_text_gbs(row->rates[0]->busbw_gbs, text)
                                              : "-");
                cli_section_cell(s, "%s",
                                 row->predicted > 0 ? capo_text_gbs(row->predicted, text) : "-");
                cli_section_cell(s, "%s", page->ran[i]);
                cli_section_cell(s, "%s",
                                 row->ceiling > 0 ? capo_text_gbs(row->ceiling, text) : "-");
                cli_section_cell(s, "%s",
                                 row->verdict == CAPO_EXPECTED_UNKNOWN
                                         ? ""
                                         : capo_expected_word(row->verdict));
        }
        if (left_out)
                cli_section_line(s, "%zu smaller sizes: --json", left_out);
        return s;
}

static void add_rates(const struct expect_page *page, struct cli_page *out)
{
        static const struct cli_column columns[] = {{NULL, "r"}, {NULL, "l~"}};
        struct cli_section *s = cli_page_section(out, "PUBLIC", columns, N_ELEMENTS(columns));
        const struct capo_expected_row *row = expect_main(page);

        for (unsigned i = 0; row && i < row->n_rates; i++) {
                const struct capo_public_rate *rate = row->rates[i];
                char text[40], release[16];

                cli_section_cell(s, "%s GB/s", capo_text_gbs(rate->busbw_gbs, text));
                cli_section_cell(s, "%s on %s, %s%s%s%s: %s", rate->layout, rate->platform,
                                 capo_size_print(rate->bytes, text, sizeof text),
                                 rate->nccl ? ", NCCL " : "",
                                 rate->nccl ? release_text((uint32_t)rate->nccl, release) : "",
                                 row->n_rates > 1 && !i ? ", compared with" : "", rate->source);
        }
}

/* A known bug that makes this release slow and whose condition is met. */
static const struct capo_known_bug *find_bug(const struct expect_page *page, size_t *from)
{
        for (size_t i = *from; i < capo_n_known_bugs; i++) {
                const struct capo_known_bug *b = &capo_known_bugs[i];

                if (b->of != CAPO_BUG_NCCL || b->effect != CAPO_BUG_SLOW || !page->nccl ||
                    capo_bug_match(b, (int)page->nccl, expect_has, (void *)(uintptr_t)page) ==
                            CAPO_BUG_NO)
                        continue;
                *from = i + 1;
                return b;
        }
        return NULL;
}

static bool is_low(const struct capo_expected_row *row)
{
        return row &&
               (row->verdict == CAPO_EXPECTED_LOW || row->verdict == CAPO_EXPECTED_NOT_NORMAL);
}

static void add_causes(struct expect_page *page, struct cli_page *out)
{
        static const struct cli_column columns[] = {{NULL, "r"}, {NULL, "l~"}};
        struct cli_section *s = cli_page_section(out, "CAUSES", columns, N_ELEMENTS(columns));
        struct capo_expected_cause causes[CAPO_EXPECTED_CAUSES];
        const struct capo_expected_row *row = expect_main(page);
        const struct capo_known_bug *bug;
        char place[600], text[512];
        size_t from = 0;
        unsigned n =
                is_low(row) ? capo_expected_causes(&page->shape, row, expect_has, page, causes) : 0;

        for (unsigned i = 0; i < n; i++) {
                const struct capo_expected_cause *c = &causes[i];

                cli_section_cell(s, "%u", i + 1);
                if (*c->proof)
                        cli_section_cell(s, "%s (%s: %s): %s", c->text,
                                         expect_found_in(page, c->proof, place), c->proof, c->next);
                else
                        cli_section_cell(s, "%s: %s", c->text, c->next);
        }
        while (is_low(row) && (bug = find_bug(page, &from))) {
                cli_section_cell(s, "%u", ++n);
                cli_section_cell(s, "known bug: %s", capo_bug_text(bug, text, sizeof text));
        }
}

struct cli_page *expect_sheet(struct expect_page *page)
{
        struct cli_page *sheet = cli_page_new();
        struct cli_section *rows;
        char text[16];

        if (!sheet)
                return NULL;
        cli_page_title(sheet, "capo expect   %s", capo_base_name(page->what));
        cli_page_under(
                sheet, "%s ranks per node on %s%s%s%s%s", *page->layout ? page->layout : "unknown",
                *page->shape.platform ? page->shape.platform
                : page->machine       ? page->machine
                                      : "an unknown machine",
                *page->gpu ? ", " : "", page->gpu, page->nccl ? "   measured with NCCL " : "",
                page->nccl ? release_text(page->nccl, text) : "");
        if (page->asked)
                cli_page_under(sheet,
                               "NCCL %s was asked for its prediction: nothing is measured by it",
                               release_text(page->asked, text));
        add_answer(page, sheet);
        rows = add_rows(page, sheet);
        add_rates(page, sheet);
        add_causes(page, sheet);
        for (unsigned i = 0; i < page->n_not_known; i++)
                cli_section_note(sheet, rows, "not known: %s", page->not_known[i]);
        if (page->n_other)
                cli_section_note(sheet, rows, "%zu samples of other layouts are left out",
                                 page->n_other);
        return sheet;
}

/* ---- JSON ---- */

static json_t *pack_rates(const struct capo_expected_row *row)
{
        json_t *list = json_array();

        for (unsigned i = 0; i < row->n_rates; i++) {
                const struct capo_public_rate *r = row->rates[i];

                json_array_append_new(list, json_pack("{s:s, s:s, s:I, s:o, s:i, s:s}", "platform",
                                                      r->platform, "layout", r->layout, "bytes",
                                                      (json_int_t)r->bytes, "busbw_gbs",
                                                      cli_json_number(r->busbw_gbs), "nccl",
                                                      r->nccl, "source", r->source));
        }
        return list;
}

static json_t *number_or_null(double value)
{
        return value > 0 ? cli_json_number(value) : json_null();
}

static json_t *pack_rows(const struct expect_page *page)
{
        json_t *list = json_array();

        for (size_t i = 0; i < page->n_rows; i++) {
                const struct capo_expected_row *r = &page->rows[i];

                json_array_append_new(
                        list,
                        json_pack("{s:s, s:I, s:o, s:o, s:o, s:s?, s:o, s:o, s:s, s:s}", "call",
                                  capo_call_name(r->call), "bytes", (json_int_t)r->bytes,
                                  "busbw_gbs", cli_json_number(r->measured), "normal_gbs",
                                  number_or_null(r->normal), "predicted_gbs",
                                  number_or_null(r->predicted), "predicted_choice",
                                  *page->ran[i] ? page->ran[i] : NULL, "ceiling_gbs",
                                  number_or_null(r->ceiling), "public", pack_rates(r), "by",
                                  capo_expected_by_word(r->by), "verdict",
                                  capo_expected_word(r->verdict)));
        }
        return list;
}

static json_t *pack_causes(struct expect_page *page)
{
        struct capo_expected_cause causes[CAPO_EXPECTED_CAUSES];
        const struct capo_expected_row *row = expect_main(page);
        unsigned n =
                is_low(row) ? capo_expected_causes(&page->shape, row, expect_has, page, causes) : 0;
        json_t *list = json_array();
        char place[600];

        for (unsigned i = 0; i < n; i++)
                json_array_append_new(
                        list, json_pack("{s:s, s:s, s:s, s:s?, s:o}", "name", causes[i].name,
                                        "text", causes[i].text, "next", causes[i].next, "proof",
                                        *causes[i].proof ? causes[i].proof : NULL, "from",
                                        *causes[i].proof ? cli_json_text(expect_found_in(
                                                                   page, causes[i].proof, place))
                                                         : json_null()));
        return list;
}

json_t *expect_json(struct expect_page *page)
{
        json_t *missing = json_array(), *bugs = json_array();
        const struct capo_expected_row *row = expect_main(page);
        const struct capo_known_bug *bug;
        size_t from = 0;

        for (unsigned i = 0; i < page->n_not_known; i++)
                json_array_append_new(missing, cli_json_text(page->not_known[i]));
        while (is_low(row) && (bug = find_bug(page, &from)))
                json_array_append_new(bugs, cli_json_bug(bug, "maybe"));
        return json_pack(
                "{s:i, s:s, s:s?, s:s?, s:s?, s:i, s:i, s:o, s:o, s:o, s:o}", "capo_expect", 1,
                "verdict", capo_expected_word(row ? row->verdict : CAPO_EXPECTED_UNKNOWN),
                "platform", *page->shape.platform ? page->shape.platform : NULL, "layout",
                *page->layout ? page->layout : NULL, "gpu", *page->gpu ? page->gpu : NULL, "nccl",
                (int)page->nccl, "nccl_asked", (int)page->asked, "rows", pack_rows(page), "causes",
                pack_causes(page), "known_bugs", bugs, "not_known", missing);
}
