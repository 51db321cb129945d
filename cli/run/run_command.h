/* SPDX-License-Identifier: Apache-2.0 */
/* The command of capo run as execvp() finds it. */
#pragma once

/** run_find_command() - can @name be run, and the interpreter of a script? Called before capo run
 * prints or creates anything. Return: 0, also where only execvp() can tell; 127 there is no such
 * command, 126 it cannot be run: printed. */
int run_find_command(const char *name);

/** run_become_command() - exec. Returns only on errors, which are printed: 127 or 126. */
int run_become_command(char **command);
