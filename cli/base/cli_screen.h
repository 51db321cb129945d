/* SPDX-License-Identifier: Apache-2.0 */
/* Pages on a terminal use its width: tables drop their least important columns (cli_table.h), other
 * lines are folded at blanks. A pipe or a file uses COLUMNS if it is set; otherwise any width,
 * except for pages of cli_screen_page(). --wide: any width.
 *
 *      FILE *out = cli_screen_begin(stdout);      everything printed to it is a page for people */
#pragma once

#include <stdbool.h>
#include <stdio.h>

/** cli_screen_page() - fit all later output to the terminal; 80 columns (or COLUMNS) if stdout is
 * none; any width with --wide. Return: as cli_screen_begin(). */
FILE *cli_screen_page(FILE *out);

/** cli_screen_begin() - the same on a terminal or with COLUMNS; otherwise any width. Return: the
 * stream to print to: @out itself if it is not stdout. stdout becomes that stream too. */
FILE *cli_screen_begin(FILE *out);

/** cli_screen_columns() - the line width of @out; 0: any width. */
unsigned cli_screen_columns(FILE *out);

/** cli_screen_is_terminal() - is @out a terminal? Also true for what cli_screen_begin() returned.
 */
bool cli_screen_is_terminal(FILE *out);

/** cli_screen_wide() - --wide was given. */
void cli_screen_wide(void);

/** cli_screen_width() - columns that @text takes; escape sequences of colours take none. */
unsigned cli_screen_width(const char *text);

/** cli_screen_fold() - length of the part of @text that fits into @columns, up to a blank if
 * possible. A long https:// address is never broken.
 * @used: set to the columns it takes; may be NULL. Return: bytes, without trailing blanks. */
size_t cli_screen_fold(const char *text, unsigned columns, unsigned *used);
