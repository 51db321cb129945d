/* SPDX-License-Identifier: Apache-2.0 */
/* A page as text, Markdown and HTML: rows, notes and their numbers, texts of others. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "cli/base/cli_page.h"

static const struct cli_column table[] = {{"call", "l"}, {"calls", "r"}};
static const struct cli_column beside[] = {{NULL, "r"}, {NULL, "l~"}};
static char *printed;

static struct cli_page *sample_page(void)
{
        struct cli_page *page = cli_page_new();
        struct cli_section *s;

        cli_page_title(page, "capo test   %s", "a_job");
        cli_page_under(page, "4 ranks");
        cli_page_fact(page, "data", "%d MiB", 3);
        cli_page_fact(page, "dropped", "0");
        cli_page_problem(page, "rank %d <killed>", 2);
        s = cli_page_section(page, "TIME BY CALL", table, 2);
        s->how = "By the GPU.";
        cli_section_of(s, "dp (4)");
        cli_section_cell(s, "All|Reduce");
        cli_section_cell(s, "720");
        cli_section_cell(s, "Send");
        cli_section_end(s);
        cli_section_line(s, "1 more row: --all");
        cli_section_note(page, s, "1 call in 8");
        cli_page_section(page, "NOTHING", table, 2);
        s = cli_page_section(page, "NEXT", beside, 2);
        s->leads = true;
        cli_section_cell(s, "1");
        cli_section_cell(s, "look at rank 2");
        return page;
}

static void print_with(void (*print)(const struct cli_page *, FILE *), struct cli_page *page)
{
        size_t size;
        FILE *out = open_memstream(&printed, &size);

        print(page, out);
        fclose(out);
}

static void finish(void) { free(printed); }

TestSuite(cli_page, .fini = finish);

Test(cli_page, text)
{
        print_with(cli_page_text, sample_page());
        cr_assert_str_eq(printed, "capo test   a_job\n"
                                  "4 ranks\n"
                                  "\n"
                                  "data 3 MiB   dropped 0\n"
                                  "\n"
                                  "! rank 2 <killed>\n"
                                  "\n"
                                  "TIME BY CALL [1]   dp (4)\n"
                                  "call        calls\n"
                                  "All|Reduce    720\n"
                                  "Send\n"
                                  "1 more row: --all\n"
                                  "\n"
                                  "NEXT         1  look at rank 2\n"
                                  "\n"
                                  "[1] 1 call in 8\n");
}

Test(cli_page, markdown_escapes_and_puts_next_first)
{
        const char *next, *time;

        print_with(cli_page_markdown, sample_page());
        next = strstr(printed, "### Next\n\n* 1 look at rank 2\n");
        time = strstr(printed, "### Time by call <sup>1</sup>: dp (4)\n\n"
                               "| call | calls |\n|:--|--:|\n"
                               "| All\\|Reduce | 720 |\n| Send |  |\n");
        cr_assert(next && time && next < time, "%s", printed);
        cr_assert(strstr(printed, "## capo test   a\\_job\n") == printed, "%s", printed);
        cr_assert(strstr(printed, "> **problem:** rank 2 \\<killed\\>\n"), "%s", printed);
        cr_assert(strstr(printed, "\n1. 1 call in 8\n"), "%s", printed);
}

Test(cli_page, html_escapes_and_says_how)
{
        print_with(cli_page_html, sample_page());
        cr_assert(strstr(printed, "<p class=\"problem\">rank 2 &lt;killed&gt;</p>"), "%s", printed);
        cr_assert(strstr(printed, "<td>All|Reduce</td><td class=\"r\">720</td></tr>"), "%s",
                  printed);
        cr_assert(strstr(printed, "<p class=\"note\">By the GPU.</p>"), "%s", printed);
        cr_assert(!strstr(printed, "Nothing"), "a section without rows is not printed");
}

Test(cli_page, of_more_than_four_notes_the_others_are_for_notes)
{
        for (int all = 0; all < 2; all++) {
                struct cli_page *page = cli_page_new();

                page->all_notes = all;
                for (int i = 1; i <= 6; i++)
                        cli_section_note(page, NULL, "note %d", i);
                print_with(cli_page_text, page);
                cr_assert_eq(strstr(printed, "\nnote 4\n") != NULL, true, "%s", printed);
                cr_assert_eq(strstr(printed, "\nnote 5\n") != NULL, all, "%s", printed);
                if (!all)
                        free(printed);
        }
}
