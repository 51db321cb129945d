/* SPDX-License-Identifier: Apache-2.0 */
/* The command of capo run as execvp() finds it. */
#ifndef CAPO_RUN_COMMAND_H
#define CAPO_RUN_COMMAND_H

/**
 * run_find_command() - can @name be run? Asked before anything is said or made for it.
 *
 * Return: 0, also where only execvp() can tell; 127 there is no such command, 126 it cannot be run:
 * said.
 */
int run_find_command(const char *name);

/** run_become_command() - returns only where that failed: 127 or 126, and said. */
int run_become_command(char **command);

#endif
