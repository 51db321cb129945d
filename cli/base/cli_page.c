/* SPDX-License-Identifier: Apache-2.0 */
/* Builds a page and prints it as text, Markdown and HTML. */
#include "cli/base/cli_page.h"
#include "cli/base/cli_screen.h"
#include "cli/base/cli_table.h"
#include "core/base/markup.h"
#include "core/base/plain_text.h"
#include "core/base/xalloc.h"

/* Start column of sections beside their title. */
enum { MARGIN = 11 };

static void append_text(struct cli_texts *list, char *text) { *xadd(list->text, list->n) = text; }

struct cli_page *cli_page_new(void) { return xcalloc(1, sizeof(struct cli_page)); }

/* A name with a newline must not look like one more line of the page. */
static char *on_one_line(char *text, const char *controls)
{
        char *at = text ? strpbrk(text, controls) : NULL;

        for (; at; at = strpbrk(at, controls))
                *at = '?';
        return text;
}

/* Format the remaining arguments with @format into @to. */
#define PRINT_BUT(to, controls)                                       \
        do {                                                          \
                va_list args;                                         \
                va_start(args, format);                               \
                to = on_one_line(capo_print(format, args), controls); \
                va_end(args);                                         \
        } while (0)
#define PRINT(to) PRINT_BUT(to, "\n\t")

void cli_page_title(struct cli_page *page, const char *format, ...)
{
        free(page->title);
        PRINT(page->title);
}

void cli_texts_add(struct cli_texts *list, const char *format, ...)
{
        char *text;

        PRINT(text);
        append_text(list, text);
}

void cli_page_fact(struct cli_page *page, const char *label, const char *format, ...)
{
        char *value;

        PRINT(value);
        append_text(&page->labels, label ? xstrdup(label) : NULL);
        append_text(&page->values, value);
}

struct cli_section *cli_page_section(struct cli_page *page, const char *title,
                                     const struct cli_column *columns, unsigned n_columns)
{
        struct cli_section *s = xcalloc(1, sizeof *s);

        *xadd(page->section, page->n_sections) = s;
        s->title = title;
        s->columns = columns;
        s->n_columns = n_columns;
        return s;
}

void cli_section_of(struct cli_section *s, const char *format, ...)
{
        free(s->of);
        PRINT(s->of);
}

void cli_section_end(struct cli_section *s)
{
        while (s->cells.n % s->n_columns)
                append_text(&s->cells, xstrdup(""));
}

void cli_section_row(struct cli_section *s, const char *format, ...)
{
        _cleanup_free_ char *text = NULL;
        char *rest, *cell;

        PRINT_BUT(text, "\n"); /* a tab ends a cell */
        for (rest = text; (cell = strsep(&rest, "\t"));)
                append_text(&s->cells, xstrdup(cell));
        cli_section_end(s);
}

void cli_section_note(struct cli_page *page, struct cli_section *s, const char *format, ...)
{
        char *text;

        PRINT(text);
        append_text(&page->notes, text);
        if (!s || page->notes.n > CLI_NOTES_MAX)
                return;
        s->notes[s->n_notes++] = (unsigned)page->notes.n;
        page->marked |= 1u << (page->notes.n - 1);
}

/* Then it is not printed. */
static bool is_empty(const struct cli_section *s) { return !s->cells.n && !s->lines.n; }

/* ---- text ---- */

struct style {
        const char *bold, *warn, *plain;
};

/* "TITLE [1]", as wide as the margin if the rows stand beside it. */
static char *format_title(const struct cli_section *s, const struct style *style, char *text,
                          size_t room)
{
        int pad;

        snprintf(text, room, "%s%s%s", style->bold, s->title, style->plain);
        for (unsigned i = 0; i < s->n_notes; i++)
                capo_append(text, room, " [%u]", s->notes[i]);
        pad = s->columns[0].head ? 0 : MARGIN - (int)cli_screen_width(text);
        return capo_append(text, room, "%*s", pad > 0 ? pad : 0, "");
}

static const char *cell_text(const struct cli_section *s, size_t i)
{
        return s->cells.text[i] ? s->cells.text[i] : "";
}

/* Is it the first row with this text in its first cell? */
static bool is_group_begin(const struct cli_section *s, size_t row)
{
        for (size_t i = 0; i < row; i += s->n_columns) {
                if (!strcmp(cell_text(s, i), cell_text(s, row)))
                        return false;
        }
        return true;
}

/* Group the rows by the text of their first cell, which is printed above them. */
static struct capo_table *group_rows(const struct cli_section *s, const char *spec)
{
        struct capo_table *t = capo_table_new(spec);

        for (unsigned c = 1; c < s->n_columns; c++)
                capo_table_cell(t, "%s", s->columns[c].head);
        for (size_t begin = 0; begin < s->cells.n; begin += s->n_columns) {
                if (!is_group_begin(s, begin))
                        continue;
                capo_table_row(t, "%s", cell_text(s, begin));
                for (size_t row = begin; row < s->cells.n; row += s->n_columns) {
                        if (strcmp(cell_text(s, row), cell_text(s, begin)))
                                continue;
                        capo_table_cell(t, "  %s", cell_text(s, row + 1));
                        for (unsigned c = 2; c < s->n_columns; c++)
                                capo_table_cell(t, "%s", cell_text(s, row + c));
                }
        }
        return t;
}

/* Print rows under their heads, or beside the title. @left_out: names of dropped columns. */
static void print_rows(const struct cli_section *s, const char *title, FILE *out, FILE *left_out)
{
        char spec[CLI_COLUMNS_MAX * 8] = "";
        bool beside = !s->columns[0].head;
        _cleanup_(capo_table_freep) struct capo_table *t = NULL;

        if (beside)
                capo_append(spec, sizeof spec, "l");
        for (unsigned c = 0; c < s->n_columns; c++)
                capo_append(spec, sizeof spec, "%s", s->columns[c].spec);
        t = capo_table_new(spec);
        for (unsigned c = 0; c < s->n_columns && !beside; c++)
                capo_table_cell(t, "%s", s->columns[c].head);
        for (size_t i = 0; i < s->cells.n; i++) {
                if (beside && i % s->n_columns == 0)
                        capo_table_cell(t, "%s", i ? "" : title);
                capo_table_cell(t, "%s", cell_text(s, i));
        }
        if (s->columns[0].groups && !capo_table_fits(t, out)) {
                capo_table_free(t);
                t = group_rows(s, spec + strlen(s->columns[0].spec));
        }
        capo_table_fit(t, out, left_out);
}

static void print_section(const struct cli_section *s, FILE *out, const struct style *style,
                          FILE *left_out)
{
        bool beside = !s->columns[0].head;
        char title[256];

        if (is_empty(s))
                return;
        format_title(s, style, title, sizeof title);
        fputc('\n', out);
        if (!beside)
                fprintf(out, "%s%s%s\n", title, s->of ? "   " : "", s->of ?: "");
        if (s->cells.n)
                print_rows(s, title, out, left_out);
        for (size_t i = 0; i < s->lines.n; i++) {
                if (beside && !i && !s->cells.n)
                        fprintf(out, "%s  %s\n", title, s->lines.text[i]);
                else
                        fprintf(out, "%*s%s\n", beside ? MARGIN + 2 : 0, "", s->lines.text[i]);
        }
}

/* Print as many facts per line as fit. */
static void print_facts(const struct cli_page *page, FILE *out)
{
        unsigned columns = cli_screen_columns(out), at = 0;

        if (page->labels.n)
                fputc('\n', out);
        for (size_t i = 0; i < page->labels.n; i++) {
                const char *label = page->labels.text[i], *value = page->values.text[i];
                unsigned width = label ? cli_screen_width(label) + 1 + cli_screen_width(value) : 0;

                if (at && (!label || (columns && at + 3 + width > columns))) {
                        fputc('\n', out);
                        at = 0;
                }
                if (!label)
                        continue;
                fprintf(out, "%s%s %s", at ? "   " : "", label, value ? value : "");
                at += width + (at ? 3 : 0);
        }
        fputs(at ? "\n" : "", out);
}

/* Print @text after @mark, with its further lines indented to its first word. */
static void print_hanging(FILE *out, const char *mark, const char *text)
{
        unsigned columns = cli_screen_columns(out), indent = (unsigned)strlen(mark);

        for (bool first = true; first || *text; first = false) {
                size_t n = columns ? cli_screen_fold(text, columns - indent, NULL) : strlen(text);

                fprintf(out, "%*s%.*s\n", (int)indent, first ? mark : "", (int)n, text);
                text += n;
                text += strspn(text, " ");
        }
}

static void print_notes(const struct cli_page *page, FILE *out, const struct style *style)
{
        _cleanup_(capo_table_freep) struct capo_table *t = NULL;
        size_t shown =
                page->all_notes || page->notes.n <= CLI_NOTES_MAX ? page->notes.n : CLI_NOTES_MAX;

        if (shown)
                fputc('\n', out);
        for (size_t i = 0; i < shown; i++) {
                char mark[32] = "";

                if (i < CLI_NOTES_MAX && page->marked >> i & 1)
                        snprintf(mark, sizeof mark, "[%zu] ", i + 1);
                print_hanging(out, mark, page->notes.text[i]);
        }
        t = page->all_notes ? capo_table_new("ll~") : NULL;
        if (!t)
                return;
        fprintf(out, "\n%sHOW THE NUMBERS WERE OBTAINED%s\n", style->bold, style->plain);
        for (unsigned i = 0; i < page->n_sections; i++) {
                const struct cli_section *s = page->section[i];

                if (!s->how || is_empty(s))
                        continue;
                capo_table_cell(t, "%s", s->title);
                capo_table_cell(t, "%s", s->how);
        }
        capo_table_print(t, out, 0);
}

/* Print all sections, then the dropped columns. */
static void print_sections(const struct cli_page *page, FILE *out, const struct style *style)
{
        struct cli_texts names = {0};
        char said[512] = "--wide shows all columns: also ";
        bool any = false;

        for (unsigned i = 0; i < page->n_sections; i++) {
                _cleanup_free_ char *text = NULL;
                size_t size, known = 0;
                FILE *left_out = xmemstream(&text, &size);

                print_section(page->section[i], out, style, left_out);
                xmemclose(left_out);
                if (!*text)
                        continue;
                while (known < names.n && strcmp(names.text[known], text))
                        known++;
                if (known < names.n) /* for sections of the same kind */
                        continue;
                capo_append(said, sizeof said, "%s%s (%s)", any ? "; " : "", text,
                            page->section[i]->title);
                any = true;
                append_text(&names, text);
                text = NULL;
        }
        print_notes(page, out, style);
        if (any) {
                fputc('\n', out);
                print_hanging(out, "", said);
        }
}

void cli_page_text(const struct cli_page *page, FILE *out)
{
        bool terminal = cli_screen_is_terminal(out) && !getenv("NO_COLOR");
        struct style style =
                terminal ? (struct style){CAPO_STYLE_BOLD, CAPO_STYLE_YELLOW, CAPO_STYLE_NORMAL}
                         : (struct style){"", "", ""};

        out = cli_screen_page(out);
        if (page->title)
                fprintf(out, "%s%s%s\n", style.bold, page->title, style.plain);
        for (size_t i = 0; i < page->under.n; i++)
                fprintf(out, "%s\n", page->under.text[i]);
        print_facts(page, out);
        fputs(page->problems.n ? "\n" : "", out);
        for (size_t i = 0; i < page->problems.n; i++) {
                fputs(style.warn, out);
                print_hanging(out, "! ", page->problems.text[i]);
                fputs(style.plain, out);
        }
        print_sections(page, out, &style);
}

/* ---- Markdown, HTML ---- */

static bool is_right(const struct cli_column *c)
{
        return strchr(c->spec, 'r') && !strchr(c->spec, 'l');
}

/* "TIME BY CALL" in lower case with a capital first letter; "AllReduce" is kept. */
static const char *quiet_title(const struct cli_section *s, char text[64])
{
        char *nccl;

        snprintf(text, 64, "%s", s->title);
        for (char *at = text; *at; at++) {
                if (islower((unsigned char)*at))
                        return text;
        }
        for (char *at = text; *at && at[1]; at++)
                at[1] = (char)tolower((unsigned char)at[1]);
        nccl = strcasestr(text, "nccl");
        if (nccl)
                memcpy(nccl, "NCCL", strlen("NCCL"));
        return text;
}

/* ---- Markdown ---- */

void cli_markdown_text(FILE *out, const char *text)
{
        for (; text && *text; text++) {
                if (strchr("\\`*_[]<>|#", *text))
                        fputc('\\', out);
                fputc(*text == '\n' ? ' ' : *text, out);
        }
}

static void markdown_line(FILE *out, const char *before, const char *text, const char *after)
{
        fputs(before, out);
        cli_markdown_text(out, text);
        fputs(after, out);
}

static void markdown_cells(const struct cli_section *s, const char *first, const char *next,
                           const char *last, FILE *out)
{
        for (size_t i = 0; i < s->cells.n; i++)
                markdown_line(out, i % s->n_columns ? next : first, s->cells.text[i],
                              (i + 1) % s->n_columns ? "" : last);
}

static void markdown_rows(const struct cli_section *s, FILE *out)
{
        for (unsigned c = 0; c < s->n_columns; c++)
                markdown_line(out, c ? " | " : "| ", s->columns[c].head, "");
        fputs(" |\n", out);
        for (unsigned c = 0; c < s->n_columns; c++)
                fputs(is_right(&s->columns[c]) ? "|--:" : "|:--", out);
        fputs("|\n", out);
        markdown_cells(s, "| ", " | ", " |\n", out);
}

static void markdown_section(const struct cli_section *s, FILE *out)
{
        char title[64];

        if (is_empty(s))
                return;
        markdown_line(out, "\n### ", quiet_title(s, title), "");
        for (unsigned i = 0; i < s->n_notes; i++)
                fprintf(out, " <sup>%u</sup>", s->notes[i]);
        markdown_line(out, s->of ? ": " : "", s->of, "\n\n");
        if (s->cells.n && s->columns[0].head)
                markdown_rows(s, out);
        else /* rows without heads are list items */
                markdown_cells(s, "* ", " ", "\n", out);
        for (size_t i = 0; i < s->lines.n; i++)
                markdown_line(out, i || s->cells.n ? "\n" : "", s->lines.text[i], "\n");
}

void cli_page_markdown(const struct cli_page *page, FILE *out)
{
        markdown_line(out, "## ", page->title, "\n");
        for (size_t i = 0; i < page->under.n; i++)
                markdown_line(out, "\n", page->under.text[i], "\n");
        for (size_t i = 0, line = 0; i < page->labels.n; i++) {
                fputs(line ? "" : "\n", out);
                line = page->labels.text[i] ? 1 : line;
                if (page->labels.text[i]) {
                        markdown_line(out, "* ", page->labels.text[i], ": ");
                        markdown_line(out, "**", page->values.text[i], "**\n");
                }
        }
        for (size_t i = 0; i < page->problems.n; i++)
                markdown_line(out, "\n> **problem:** ", page->problems.text[i], "\n");
        for (unsigned leads = 0; leads < 2; leads++) {
                for (unsigned i = 0; i < page->n_sections; i++) {
                        if (page->section[i]->leads != leads)
                                markdown_section(page->section[i], out);
                }
        }
        for (size_t i = 0; i < page->notes.n; i++) {
                fprintf(out, "%s%zu. ", i ? "" : "\n", i + 1);
                markdown_line(out, "", page->notes.text[i], "\n");
        }
}

/* ---- HTML ---- */

void cli_html_text(FILE *out, const char *open, const char *text, const char *close)
{
        fputs(open, out);
        capo_markup_text(out, text ? text : "");
        fputs(close, out);
}

static void html_rows(const struct cli_section *s, FILE *out)
{
        fputs("<div class=\"scroll\"><table>", out);
        if (s->columns[0].head)
                fputs("<thead><tr>", out);
        for (unsigned c = 0; c < s->n_columns && s->columns[0].head; c++)
                cli_html_text(out, is_right(&s->columns[c]) ? "<th class=\"r\">" : "<th>",
                              s->columns[c].head, "</th>");
        fputs(s->columns[0].head ? "</tr></thead>\n<tbody>" : "<tbody>", out);
        for (size_t i = 0; i < s->cells.n; i++) {
                unsigned c = (unsigned)(i % s->n_columns);

                fputs(c ? "" : "<tr>", out);
                cli_html_text(out, is_right(&s->columns[c]) ? "<td class=\"r\">" : "<td>",
                              s->cells.text[i], "</td>");
                fputs(c + 1 < s->n_columns ? "" : "</tr>\n", out);
        }
        fputs("</tbody></table></div>\n", out);
}

static void html_section(const struct cli_section *s, FILE *out)
{
        char title[64];

        if (is_empty(s))
                return;
        cli_html_text(out, "<section><h2>", quiet_title(s, title), "");
        for (unsigned i = 0; i < s->n_notes; i++)
                fprintf(out, " <sup>%u</sup>", s->notes[i]);
        cli_html_text(out, s->of ? " <small>" : "", s->of, s->of ? "</small></h2>\n" : "</h2>\n");
        if (s->cells.n)
                html_rows(s, out);
        for (size_t i = 0; i < s->lines.n; i++)
                cli_html_text(out, "<p>", s->lines.text[i], "</p>\n");
        if (s->picture)
                s->picture(s->about, out);
        if (s->how)
                cli_html_text(out, "<p class=\"note\">", s->how, "</p>\n");
        fputs("</section>\n", out);
}

static void html_sections(const struct cli_page *page, bool leads, FILE *out)
{
        for (unsigned i = 0; i < page->n_sections; i++) {
                if (page->section[i]->leads == leads)
                        html_section(page->section[i], out);
        }
}

void cli_page_html(const struct cli_page *page, FILE *out)
{
        for (size_t i = 0; i < page->under.n; i++)
                cli_html_text(out, "<p class=\"note under\">", page->under.text[i], "</p>\n");
        for (size_t i = 0; i < page->problems.n; i++)
                cli_html_text(out, "<p class=\"problem\">", page->problems.text[i], "</p>\n");
        html_sections(page, true, out);
        fputs("<dl>", out);
        for (size_t i = 0; i < page->labels.n; i++) {
                if (!page->labels.text[i])
                        continue;
                cli_html_text(out, "<div><dt>", page->labels.text[i], "</dt>");
                cli_html_text(out, "<dd>", page->values.text[i], "</dd></div>");
        }
        fputs("</dl>\n", out);
        if (page->picture)
                page->picture(page->about, out);
        html_sections(page, false, out);
        if (page->notes.n)
                fputs("<ol class=\"note\">", out);
        for (size_t i = 0; i < page->notes.n; i++)
                cli_html_text(out, "<li>", page->notes.text[i], "</li>\n");
        fputs(page->notes.n ? "</ol>\n" : "", out);
}

/* ---- all ---- */

int cli_page_print(struct cli_page *page, enum cli_form form, FILE *out)
{
        (form == CLI_FORM_MARKDOWN ? cli_page_markdown : cli_page_text)(page, out);
        return fflush(out) || ferror(out) ? -EIO : 0;
}
