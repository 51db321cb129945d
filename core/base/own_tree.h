/* SPDX-License-Identifier: Apache-2.0 */
/* The tree of one of capo's files: the build's, or where it was installed, or moved to. */
#pragma once

#include <stddef.h>

/** capo_own_tree_find() - another file of the tree that @own is in
 * @own:          the program's or library's own file
 * @own_folder:   where it is installed below the prefix: "bin", "lib/x86_64-linux-gnu". In the
 *                build tree it is one folder deep.
 * @build_path:   the file wanted, below the build tree
 * @install_path: below the prefix, or absolute
 * @path:         set to the absolute path of the first that exists; untouched otherwise
 *
 * Return: 0; -ENOENT when there is neither; -ENAMETOOLONG. */
int capo_own_tree_find(const char *own, const char *own_folder, const char *build_path,
                       const char *install_path, char *path, size_t room);
