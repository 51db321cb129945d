/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/** cli_where() - find a file of capo, in the build tree or in the installed prefix
 * @build_path: below the build tree, such as "shim/libcapo.so"
 * @install_path: below the prefix, such as CAPO_LIBDIR "/libcapo.so"
 * @path: set to the absolute path of the first that exists; else unchanged
 *
 * Both are searched relative to the running executable, so a moved prefix works.
 *
 * Return: 0; -ENOENT: neither exists; -ENAMETOOLONG. */
int cli_where(const char *build_path, const char *install_path, char *path, size_t room);

/** cli_shipped_profiles() - the folder of capo's own profiles, for capo_profile_find(); NULL: none.
 */
const char *cli_shipped_profiles(void);
