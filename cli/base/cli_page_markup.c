/* SPDX-License-Identifier: Apache-2.0 */
/* Prints a page as Markdown and as HTML. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "cli/base/cli_page.h"
#include "core/base/markup.h"

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

/* Rows without heads become list items. */
static void markdown_items(const struct cli_section *s, FILE *out)
{
        for (size_t i = 0; i < s->cells.n; i++) {
                bool last = (i + 1) % s->n_columns == 0;

                markdown_line(out, i % s->n_columns ? " " : "* ", s->cells.text[i],
                              last ? "\n" : "");
        }
}

static void markdown_rows(const struct cli_section *s, FILE *out)
{
        for (unsigned c = 0; c < s->n_columns; c++)
                markdown_line(out, c ? " | " : "| ", s->columns[c].head, "");
        fputs(" |\n", out);
        for (unsigned c = 0; c < s->n_columns; c++)
                fputs(is_right(&s->columns[c]) ? "|--:" : "|:--", out);
        fputs("|\n", out);
        for (size_t i = 0; i < s->cells.n; i++) {
                markdown_line(out, i % s->n_columns ? " | " : "| ", s->cells.text[i],
                              (i + 1) % s->n_columns ? "" : " |\n");
        }
}

static void markdown_section(const struct cli_section *s, FILE *out)
{
        char title[64];

        if (cli_section_empty(s))
                return;
        markdown_line(out, "\n### ", quiet_title(s, title), "");
        for (unsigned i = 0; i < s->n_notes; i++)
                fprintf(out, " <sup>%u</sup>", s->notes[i]);
        markdown_line(out, s->of ? ": " : "", s->of, "\n\n");
        if (s->cells.n)
                (s->columns[0].head ? markdown_rows : markdown_items)(s, out);
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

static void html_line(FILE *out, const char *open, const char *text, const char *close)
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
                html_line(out, is_right(&s->columns[c]) ? "<th class=\"r\">" : "<th>",
                          s->columns[c].head, "</th>");
        fputs(s->columns[0].head ? "</tr></thead>\n<tbody>" : "<tbody>", out);
        for (size_t i = 0; i < s->cells.n; i++) {
                unsigned c = (unsigned)(i % s->n_columns);

                fputs(c ? "" : "<tr>", out);
                html_line(out, is_right(&s->columns[c]) ? "<td class=\"r\">" : "<td>",
                          s->cells.text[i], "</td>");
                fputs(c + 1 < s->n_columns ? "" : "</tr>\n", out);
        }
        fputs("</tbody></table></div>\n", out);
}

static void html_section(const struct cli_section *s, FILE *out)
{
        char title[64];

        if (cli_section_empty(s))
                return;
        html_line(out, "<section><h2>", quiet_title(s, title), "");
        for (unsigned i = 0; i < s->n_notes; i++)
                fprintf(out, " <sup>%u</sup>", s->notes[i]);
        html_line(out, s->of ? " <small>" : "", s->of, s->of ? "</small></h2>\n" : "</h2>\n");
        if (s->cells.n)
                html_rows(s, out);
        for (size_t i = 0; i < s->lines.n; i++)
                html_line(out, "<p>", s->lines.text[i], "</p>\n");
        if (s->picture)
                s->picture(s->about, out);
        if (s->how)
                html_line(out, "<p class=\"note\">", s->how, "</p>\n");
        fputs("</section>\n", out);
}

static void html_facts(const struct cli_page *page, FILE *out)
{
        fputs("<dl>", out);
        for (size_t i = 0; i < page->labels.n; i++) {
                if (!page->labels.text[i])
                        continue;
                html_line(out, "<div><dt>", page->labels.text[i], "</dt>");
                html_line(out, "<dd>", page->values.text[i], "</dd></div>");
        }
        fputs("</dl>\n", out);
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
                html_line(out, "<p class=\"note under\">", page->under.text[i], "</p>\n");
        for (size_t i = 0; i < page->problems.n; i++)
                html_line(out, "<p class=\"problem\">", page->problems.text[i], "</p>\n");
        html_sections(page, true, out);
        html_facts(page, out);
        if (page->picture)
                page->picture(page->about, out);
        html_sections(page, false, out);
        if (page->notes.n)
                fputs("<ol class=\"note\">", out);
        for (size_t i = 0; i < page->notes.n; i++)
                html_line(out, "<li>", page->notes.text[i], "</li>\n");
        fputs(page->notes.n ? "</ol>\n" : "", out);
}
