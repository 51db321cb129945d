/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/base/install_paths.h"
#include "core/base/own_tree.h"
#include "core/base/util.h"

int cli_where(const char *build_path, const char *install_path, char *path, size_t room)
{
        char exe[PATH_MAX];
        ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);

        if (n < 0)
                return -ENOENT;
        exe[n] = 0;
        return capo_own_tree_find(exe, "bin", build_path, install_path, path, room);
}

const char *cli_shipped_profiles(void)
{
        static char path[PATH_MAX];

        if (!*path &&
            cli_where(CAPO_BUILD_PROFILES, CAPO_DATADIR "/capo/profiles", path, sizeof path))
                return NULL;
        return path;
}
