/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a command starts with libcapo.so preloaded. */
#ifndef CAPO_RUN_LOADER_H
#define CAPO_RUN_LOADER_H

#include <stdbool.h>
#include <stddef.h>

/**
 * run_refused() - is there a program in @command whose loader does not start it with @library?
 *
 * A loader other than capo's own (musl's, another glibc's) is asked by its --list. Looked at are
 * the command and those of its words that are paths of programs, as in `mpirun -n 4 ./prog`.
 *
 * @program: that program; @loader: its loader; @room bytes each. Set only where true is returned.
 */
bool run_refused(char *const *command, const char *library, char *program, char *loader,
                 size_t room);

/**
 * run_preload_list() - LD_PRELOAD with @library as the first, so that a script may start programs
 * of musl, too
 *
 * The loader of musl passes over a file that is not there, and ends the program for one that it
 * cannot link. It does not know $LIB, for which glibc's loader takes a folder that exists: the path
 * begins with that, and goes back from there. On a machine without musl, or where the folder is
 * missing, it is @library. Return: to be freed; NULL: no memory.
 */
char *run_preload_list(const char *library);

/** run_asan_options() - ASAN_OPTIONS with which a program starts whose ASan runtime wants to be the
 * first library. It need not be: capo takes none of its names. Return: to be freed; NULL: as it is.
 */
char *run_asan_options(void);

#endif
