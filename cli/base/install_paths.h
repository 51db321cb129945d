/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAPO_WHERE_H
#define CAPO_WHERE_H

#include <stddef.h>

/**
 * cli_where() - a file that belongs to capo, in the build tree or in the prefix it was installed to
 * @build_path:   below the build tree, such as "shim/libcapo.so"
 * @install_path: below the prefix, such as CAPO_LIBDIR "/libcapo.so"
 * @path:         set to the absolute path of the first that exists; untouched otherwise
 *
 * Both are found relative to the running executable, so a moved prefix works.
 *
 * Return: 0; -ENOENT when there is neither; -ENAMETOOLONG.
 */
int cli_where(const char *build_path, const char *install_path, char *path, size_t room);

/** cli_shipped_profiles() - the folder of the profiles that come with capo, for
 * capo_profile_find(); NULL when there is none. */
const char *cli_shipped_profiles(void);

#endif
