/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A page: what a verb answers, built once and printed as text, Markdown or HTML. It has a title,
 * facts, problems, and sections. A section is a title, columns and rows:
 *
 *      static const struct cli_column columns[] = {{"call", "l"}, {"calls", "r"}, {"p95", "r/b"}};
 *      struct cli_section *s = cli_page_section(page, "TIME BY CALL", columns, 3);
 *
 *      cli_section_row(s, "%s\t%u\t%s", name, calls, time);     or cell by cell:
 *      cli_section_cell(s, "%s", name);                        row by row, left to right
 *      cli_section_note(page, s, "1 call in %u was timed", n);
 *
 * A section without heads stands beside its title, one with heads below it. No function fails:
 * without memory a page is shorter.
 */
#ifndef CAPO_CLI_PAGE_H
#define CAPO_CLI_PAGE_H

#include <stdbool.h>
#include <stdio.h>

#include "analysis/job/figures.h"

enum { CLI_COLUMNS_MAX = 64, CLI_NOTES_MAX = 4 };

/* What is printed: an int in a verb's options, set by CLI_FORMS. */
enum cli_form { CLI_FORM_TEXT, CLI_FORM_MARKDOWN, CLI_FORM_JSON, CLI_FORM_CSV };

#define CLI_FORM_MARKDOWN_OPTION(S, m)                                 \
        {                                                              \
                "markdown", CLI_SET(S, m, CLI_FORM_MARKDOWN),          \
                        "the page as Markdown, to paste into an issue" \
        }
#define CLI_FORM_JSON_OPTION(S, m)                                       \
        {                                                                \
                "json", CLI_SET(S, m, CLI_FORM_JSON), "the page as JSON" \
        }
#define CLI_FORM_CSV_OPTION(S, m)                                                 \
        {                                                                         \
                "csv", CLI_SET(S, m, CLI_FORM_CSV), "the rows, for a spreadsheet" \
        }

struct cli_column {
        const char *head; /* NULL in all columns: a section beside its title */
        const char *spec; /* alignment, and when it leaves a narrow page (cli_table.h) */
        bool groups;      /* the first column: a narrow page has its text above the rows instead */
};

struct cli_texts {
        char **text;
        size_t n;
};

struct cli_section {
        const char *title;
        char *of;        /* what it is about, beside the title; NULL none */
        const char *how; /* how its numbers were obtained, for --notes; NULL nothing to say */
        bool leads;      /* HTML and Markdown have it before the others */
        const struct cli_column *columns;
        unsigned n_columns;
        struct cli_texts cells, lines;                 /* lines: sentences below the rows */
        unsigned notes[CLI_NOTES_MAX], n_notes;        /* numbers of its notes, from 1 */
        void (*picture)(const void *about, FILE *out); /* HTML draws it behind the rows */
        void (*chart)(const void *about, unsigned columns, FILE *out); /* a terminal: below it */
        const void *about;
};

struct cli_page {
        char *title;
        struct cli_texts under; /* lines below it */
        struct cli_texts labels, values, problems, notes;
        struct cli_section **section;
        unsigned n_sections;
        struct cli_section spare; /* without memory: the one that is not printed */
        void (*picture)(const void *about, FILE *out); /* HTML draws it behind what leads */
        const void *about;
        bool all_notes; /* --notes: also how the numbers were obtained */
};

#define CLI_FORMAT(at) __attribute__((format(printf, at, at + 1)))

struct cli_page *cli_page_new(void);
void cli_page_free(struct cli_page *page);
static inline void cli_page_freep(struct cli_page **page)
{
        cli_page_free(*page);
}

void cli_page_title(struct cli_page *page, const char *format, ...) CLI_FORMAT(2);

/** cli_page_under() - one more line below the title. */
void cli_page_under(struct cli_page *page, const char *format, ...) CLI_FORMAT(2);

/** cli_page_fact() - one number that answers; a NULL label begins a new line of them. */
void cli_page_fact(struct cli_page *page, const char *label, const char *format, ...) CLI_FORMAT(3);

void cli_page_problem(struct cli_page *page, const char *format, ...) CLI_FORMAT(2);

/** cli_page_section() - one more section; @title and @columns live as long as the page. */
struct cli_section *cli_page_section(struct cli_page *page, const char *title,
                                     const struct cli_column *columns, unsigned n_columns);

/** cli_section_of() - what the section is about, beside its title. */
void cli_section_of(struct cli_section *s, const char *format, ...) CLI_FORMAT(2);

/** cli_section_cell() - the next cell; cells of a row that are not given are empty. */
void cli_section_cell(struct cli_section *s, const char *format, ...) CLI_FORMAT(2);
void cli_section_end(struct cli_section *s);

/** cli_section_row() - cells up to the end of a row, with tabs between them; those not given are
 * empty. */
void cli_section_row(struct cli_section *s, const char *format, ...) CLI_FORMAT(2);

/** cli_section_line() - a sentence below the rows. */
void cli_section_line(struct cli_section *s, const char *format, ...) CLI_FORMAT(2);

/** cli_section_note() - a caveat of one line, numbered, at the end of the page; of more than
 * CLI_NOTES_MAX the later ones are printed with --notes only. @s: NULL: of the whole page. */
void cli_section_note(struct cli_page *page, struct cli_section *s, const char *format, ...)
        CLI_FORMAT(3);

/** cli_section_empty() - neither rows nor lines: it is not printed. */
bool cli_section_empty(const struct cli_section *s);

/** cli_page_text() - to stdout: as wide as the terminal, 80 columns into anything else, any width
 * with --wide. Other streams get any width. */
void cli_page_text(const struct cli_page *page, FILE *out);

/** cli_page_print() - @page, which is freed, as text or Markdown. Return: 0; -ENOMEM: no page;
 * -EIO. */
int cli_page_print(struct cli_page *page, enum cli_form form, FILE *out);

/** cli_page_markdown() - to paste into an issue or a wiki. */
void cli_page_markdown(const struct cli_page *page, FILE *out);

/** cli_markdown_text() - @text where it can be no markup: what others named stays what it is. */
void cli_markdown_text(FILE *out, const char *text);

/** cli_page_html() - everything behind the title, as the body of a document: problems and what
 * leads first. */
void cli_page_html(const struct cli_page *page, FILE *out);

#endif
