/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages on a terminal: as wide as it is. Tables leave out their least important columns
 * (cli_table.h), all other lines are folded at blanks. A pipe or a file gets the width of COLUMNS
 * where that is set; else every page as it is, but those of cli_screen_page(). --wide: any width.
 *
 *      FILE *out = cli_screen_begin(stdout);      whatever is printed to it from here on is a page
 *                                                 for people
 */
#ifndef CAPO_CLI_SCREEN_H
#define CAPO_CLI_SCREEN_H

#include <stdbool.h>
#include <stdio.h>

/** cli_screen_page() - what is printed to stdout from here on fits the terminal, 80 columns (or
 * COLUMNS) where stdout is none; any width with --wide. Return: as cli_screen_begin(). */
FILE *cli_screen_page(FILE *out);

/** cli_screen_begin() - the same on a terminal or with COLUMNS; anything else gets any width.
 * Return: the stream to print to: @out itself if it is not stdout. stdout is that stream, too. */
FILE *cli_screen_begin(FILE *out);

/** cli_screen_columns() - what a line of @out may take. 0: any width. */
unsigned cli_screen_columns(FILE *out);

/** cli_screen_is_terminal() - does a person look at @out? Also true for what cli_screen_begin()
 * returned. */
bool cli_screen_is_terminal(FILE *out);

/** cli_screen_wide() - --wide was given. */
void cli_screen_wide(void);

/** cli_screen_width() - letters that @text takes on the screen: escape sequences of colours take
 * none. */
unsigned cli_screen_width(const char *text);

/** cli_screen_fold() - the part of @text that fits into @columns, up to a blank where there is one;
 * an https:// address that does not fit is whole all the same.
 * @used: the columns it takes, or NULL. Return: its bytes; blanks behind it are not part of it. */
size_t cli_screen_fold(const char *text, unsigned columns, unsigned *used);

#endif
