/* SPDX-License-Identifier: Apache-2.0 */
/* The command of capo run: does it start, and with libcapo.so preloaded? */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/** run_refused() - does @command have a program whose loader fails to start it with @library?
 *
 * A loader other than capo's own (musl's, another glibc's) is asked with --list. Checked are the
 * command and those of its words that are paths of programs, as in `mpirun -n 4 ./prog`.
 *
 * @program: that program; @loader: its loader; @room bytes each. Set only if true is returned. */
bool run_refused(char *const *command, const char *library, char *program, char *loader,
                 size_t room);

/** run_unreached() - why can libcapo.so not reach @command, as capo run would start it?
 *
 * env(1) may remove the settings (`env -i`), and the loader ignores LD_PRELOAD in a set-user-id
 * program.
 *
 * Return: is there a reason? @why is a sentence only then. */
bool run_unreached(char *const *command, char *why, size_t room);

/** run_is_static() - is @command a static program, which has no loader that reads LD_PRELOAD? Then
 * only dynamic programs that it starts are recorded. */
bool run_is_static(const char *command);

/** run_preload_list() - LD_PRELOAD with @library first, in a form that lets scripts start musl
 * programs too
 *
 * musl's loader skips a missing file, and ends the program for a library that it cannot link. It
 * does not expand $LIB, which glibc's loader replaces by an existing folder. So the path begins
 * with that folder and goes back from there. Without musl, or without that folder, the result is
 * @library.
 *
 * Return: to be freed. */
char *run_preload_list(const char *library);

/** run_asan_options() - ASAN_OPTIONS for programs whose ASan runtime insists on being the first
 * library. It need not be, because capo defines none of its symbols. Return: to be freed; NULL:
 * unchanged. */
char *run_asan_options(void);

/** run_find_command() - can @name be run, and the interpreter of a script? Called before capo run
 * prints or creates anything. Return: 0, also where only execvp() can tell; 127 there is no such
 * command, 126 it cannot be run: printed. */
int run_find_command(const char *name);

/** run_become_command() - exec. Returns only on errors, which are printed: 127 or 126. */
int run_become_command(char **command);
