/* SPDX-License-Identifier: Apache-2.0 */
/* The page: the answer, the numbers it is compared with, what to check, what is not known. */

#include "analysis/diagnose/recorded_bugs.h"
#include "analysis/job/figures.h"
#include "cli/base/cli_fields.h"
#include "cli/base/cli_json.h"
#include "cli/expect/cmd_expect.h"
#include "core/base/calls.h"
#include "core/base/nccl_release.h"
#include "core/base/size.h"
#include "core/base/text.h"

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

#define RATE_FIELDS(F)                      \
        F("platform", TEXT, of->platform)   \
        F("layout", TEXT, of->layout)       \
        F("bytes", BYTES, of->bytes)        \
        F("busbw_gbs", RATE, of->busbw_gbs) \
        F("nccl", COUNT, of->nccl)          \
        F("source", TEXT, of->source)
CLI_ENTITY(public_rate, struct capo_public_rate, void, RATE_FIELDS);

/* 0: not known. */
#define POSITIVE(gbs) ((gbs) > 0 ? (gbs) : -1)
/* The choice that NCCL predicts for an item of in->rows. */
#define RAN in->ran[of - in->rows]

#define ROW_FIELDS(F)                                                                              \
        F("call", WORD, capo_call_name(of->call), "call", "l")                                     \
        F("bytes", BYTES, of->bytes, "size", "r")                                                  \
        F("busbw_gbs", RATE, of->measured, "measured", "r")                                        \
        F(NULL, RATE, of->n_rates ? of->rates[0]->busbw_gbs : -1, "public", "r")                   \
        F("normal_gbs", RATE, POSITIVE(of->normal))                                                \
        F("predicted_gbs", RATE, POSITIVE(of->predicted), "NCCL predicts", "r")                    \
        F(NULL, TEXT, RAN, "", "l/b")                                                              \
        F("predicted_choice", TEXT, *RAN ? RAN : NULL)                                             \
        F("ceiling_gbs", RATE, POSITIVE(of->ceiling), "best possible", "r")                        \
        F("public", JSON,                                                                          \
          CLI_EACH(unsigned k = 0; k < of->n_rates;                                                \
                   k++, cli_entity_json(&public_rate, NULL, of->rates[k])))                        \
        F("by", TEXT, capo_expected_by_word(of->by))                                               \
        F("verdict", TEXT, capo_expected_word(of->verdict))                                        \
        F(NULL, TEXT, of->verdict == CAPO_EXPECTED_UNKNOWN ? "" : capo_expected_word(of->verdict), \
          "", "l")
CLI_ENTITY(expected_row, struct capo_expected_row, struct expect_page, ROW_FIELDS);

static struct cli_section *add_rows(const struct expect_page *page, struct cli_page *out)
{
        struct cli_section *s = cli_page_entity(out, "BUS BANDWIDTH", &expected_row);
        size_t each = count_calls(page) ? ROWS_SHOWN / count_calls(page) : 0, left_out = 0;

        cli_section_of(s, "GB/s");
        s->how =
                "Median of the measured times. public: the least of the matching public "
                "measurements, those of the named platform before others. NCCL predicts: its own model, asked on virtual GPUs. best possible: "
                "no software exceeds it on these links.";
        for (size_t i = 0; i < page->n_rows; i++) {
                if (count_larger(page, i) >= (each > 2 ? each : 2))
                        left_out++;
                else
                        cli_section_entity(s, page, &page->rows[i]);
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
        struct cli_section *s = cli_page_section(out, "TO CHECK", columns, N_ELEMENTS(columns));
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
                        cli_section_cell(s, "%s? %s", c->text, c->next);
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

#define CAUSE_FIELDS(F)                                 \
        F("name", TEXT, of->name)                       \
        F("text", TEXT, of->text)                       \
        F("next", TEXT, of->next)                       \
        F("proof", TEXT, *of->proof ? of->proof : NULL) \
        F("from", TEXT, *of->proof ? expect_found_in(in, of->proof, room) : NULL)
CLI_ENTITY(cause, struct capo_expected_cause, struct expect_page, CAUSE_FIELDS);

static json_t *causes_json(struct expect_page *page, const struct capo_expected_row *row)
{
        struct capo_expected_cause causes[CAPO_EXPECTED_CAUSES];

        return CLI_ENTITIES(
                cause, page, causes,
                is_low(row) ? capo_expected_causes(&page->shape, row, expect_has, page, causes)
                            : 0);
}

static json_t *bugs_json(const struct expect_page *page, const struct capo_expected_row *row)
{
        const struct capo_known_bug *bug;
        json_t *bugs = json_array();
        size_t from = 0;

        while (is_low(row) && (bug = find_bug(page, &from)))
                json_array_append_new(bugs, cli_json_bug(bug, "maybe"));
        return bugs;
}

#define PAGE_FIELDS(F)                                                                   \
        F("capo_expect", COUNT, 1)                                                       \
        F("verdict", TEXT, capo_expected_word(in ? in->verdict : CAPO_EXPECTED_UNKNOWN)) \
        F("platform", TEXT, *of->shape.platform ? of->shape.platform : NULL)             \
        F("layout", TEXT, *of->layout ? of->layout : NULL)                               \
        F("gpu", TEXT, *of->gpu ? of->gpu : NULL)                                        \
        F("nccl", COUNT, of->nccl)                                                       \
        F("nccl_asked", COUNT, of->asked)                                                \
        F("rows", JSON, CLI_ENTITIES(expected_row, of, of->rows, of->n_rows))            \
        F("causes", JSON, causes_json((struct expect_page *)(uintptr_t)of, in))          \
        F("known_bugs", JSON, bugs_json(of, in))                                         \
        F("not_known", JSON,                                                             \
          CLI_EACH(unsigned k = 0; k < of->n_not_known; k++, cli_json_text(of->not_known[k])))
CLI_ENTITY(expectation, struct expect_page, struct capo_expected_row, PAGE_FIELDS);

json_t *expect_json(struct expect_page *page)
{
        return cli_entity_json(&expectation, expect_main(page), page);
}
