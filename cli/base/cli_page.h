/* SPDX-License-Identifier: Apache-2.0 */
/* A page: the answer of a verb, built once and printed as text, Markdown or HTML. It has a title,
 * facts, problems and sections. A section has a title, columns and rows:
 *
 *      static const struct cli_column columns[] = {{"call", "l"}, {"calls", "r"}, {"p95", "r/b"}};
 *      struct cli_section *s = cli_page_section(page, "TIME BY CALL", columns, 3);
 *
 *      cli_section_row(s, "%s\t%u\t%s", name, calls, time);     or cell by cell:
 *      cli_section_cell(s, "%s", name);                         row by row, left to right
 *      cli_section_note(page, s, "1 call in %u was timed", n);
 *
 * A section without column heads is printed beside its title, one with heads below it. */
#pragma once

#include <stdio.h>

#include "analysis/job/figures.h"

enum { CLI_COLUMNS_MAX = 64, CLI_NOTES_MAX = 4 };

/* The output format: an int in a verb's options, set by the options below. */
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
        const char *head; /* NULL in all columns: the section is printed beside its title */
        const char *spec; /* alignment, and when a narrow page drops it (cli_table.h) */
        bool groups;    /* the first column: a narrow page prints its text above the rows instead */
        unsigned field; /* of the section's entity */
};

struct cli_texts {
        char **text;
        size_t n;
};

struct cli_section {
        const char *title;
        char *of;        /* its subject, printed beside the title; NULL: none */
        const char *how; /* how its numbers were obtained, for --notes; NULL: nothing */
        bool leads;      /* HTML and Markdown print it before the others */
        const struct cli_column *columns;
        unsigned n_columns;
        const struct cli_entity *entity; /* what its rows are (cli_fields.h); NULL: its cells say */
        struct cli_column *own;          /* the columns of an entity */
        struct cli_texts cells, lines;   /* lines: sentences below the rows */
        unsigned notes[CLI_NOTES_MAX], n_notes;        /* numbers of its notes, from 1 */
        void (*picture)(const void *about, FILE *out); /* HTML: a picture after the rows */
        const void *about;
};

struct cli_page {
        char *title;
        struct cli_texts under; /* lines below the title */
        struct cli_texts labels, values, problems, notes;
        struct cli_section **section;
        unsigned n_sections;
        void (*picture)(const void *about, FILE *out); /* HTML: after the leading sections */
        const void *about;
        unsigned marked; /* bit n: a section carries the number of note n */
        bool all_notes;  /* --notes: print all notes */
};

#define CLI_FORMAT(at) __attribute__((format(printf, at, at + 1)))

struct cli_page *cli_page_new(void);

void cli_page_title(struct cli_page *page, const char *format, ...) CLI_FORMAT(2);

/** cli_texts_add() - add a text at the end of @list. */
void cli_texts_add(struct cli_texts *list, const char *format, ...) CLI_FORMAT(2);
/** cli_page_under() - add a line below the title; cli_page_problem() - a problem. */
#define cli_page_under(page, ...)   cli_texts_add(&(page)->under, __VA_ARGS__)
#define cli_page_problem(page, ...) cli_texts_add(&(page)->problems, __VA_ARGS__)

/** cli_page_fact() - add an important number; a NULL label begins a new line. */
void cli_page_fact(struct cli_page *page, const char *label, const char *format, ...) CLI_FORMAT(3);

/** cli_page_section() - add a section; @title and @columns must live as long as the page. */
struct cli_section *cli_page_section(struct cli_page *page, const char *title,
                                     const struct cli_column *columns, unsigned n_columns);

/** cli_section_of() - set the section's subject, printed beside its title. */
void cli_section_of(struct cli_section *s, const char *format, ...) CLI_FORMAT(2);

/** cli_section_cell() - add the next cell; missing cells of a row are empty. cli_section_line() - a
 * sentence below the rows. */
#define cli_section_cell(s, ...) cli_texts_add(&(s)->cells, __VA_ARGS__)
#define cli_section_line(s, ...) cli_texts_add(&(s)->lines, __VA_ARGS__)
void cli_section_end(struct cli_section *s);

/** cli_section_row() - add the cells of a row up to its end, tab-separated; missing ones are empty.
 */
void cli_section_row(struct cli_section *s, const char *format, ...) CLI_FORMAT(2);

/** cli_section_note() - add a one-line caveat, numbered and printed at the end of the page; beyond
 * CLI_NOTES_MAX only with --notes. @s NULL: for the whole page, and without a number. */
void cli_section_note(struct cli_page *page, struct cli_section *s, const char *format, ...)
        CLI_FORMAT(3);

/** cli_page_text() - to stdout: as wide as the terminal, 80 columns if it is none, any width with
 * --wide. To other streams: any width. */
void cli_page_text(const struct cli_page *page, FILE *out);

/** cli_page_print() - print @page as text or Markdown. Return: 0; -EIO. */
int cli_page_print(struct cli_page *page, enum cli_form form, FILE *out);

/** cli_page_markdown() - Markdown, for issues and wikis. */
void cli_page_markdown(const struct cli_page *page, FILE *out);

/** cli_markdown_text() - print @text so that none of it is markup. */
void cli_markdown_text(FILE *out, const char *text);

/** cli_page_html() - the body of an HTML document without the title: problems and leading sections
 * first. */
void cli_page_html(const struct cli_page *page, FILE *out);

/** cli_html_text() - print @text escaped, between @open and @close. */
void cli_html_text(FILE *out, const char *open, const char *text, const char *close);
