/* SPDX-License-Identifier: Apache-2.0 */
/* Where profiles are looked for. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct capo_fault;

/** The folders, in order: user ($XDG_CONFIG_HOME/capo/profiles or ~/.config/capo/profiles), site
 * (/etc/capo/profiles), shipped (@shipped, or CAPO_DATADIR of the build). capo_profile_folder()
 * gives the @n-th, its name in *@what; false at the end. A folder that cannot be (no HOME) is "".
 */
bool capo_profile_folder(unsigned n, const char *shipped, char *path, size_t room,
                         const char **what);

/** capo_profile_shipped() - the folder of the profiles that came with a library of capo's, in a
 * build tree or in a prefix that may have been moved. @library: its file. Return: @path; NULL:
 * there is none. */
const char *capo_profile_shipped(const char *library, char *path, size_t room);

/** capo_profile_find() - the file for a value of CAPO_PROFILE or a command line
 * @name:    a path when it has a '/' or such a file exists here; else looked for as NAME, NAME.json
 *           and NAME.csv in the folders
 * @shipped: folder of the shipped profiles when it is not the installed one, or NULL
 * @fault:   may be NULL; names the folders that were looked in
 *
 * Return: 0; -ENOENT. */
int capo_profile_find(const char *name, const char *shipped, char *path, size_t room,
                      struct capo_fault *fault);
