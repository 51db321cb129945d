/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/base/install_paths.h"

static int try_one(const char *base, const char *relative, char *path, size_t room)
{
        char joined[PATH_MAX], resolved[PATH_MAX];

        if (*relative == '/') /* the configured libdir is absolute */
                base = "";
        if (snprintf(joined, sizeof joined, "%s/%s", base, relative) >= (int)sizeof joined)
                return -ENAMETOOLONG;
        if (!realpath(joined, resolved))
                return -ENOENT;
        if (strlen(resolved) >= room)
                return -ENAMETOOLONG;
        strcpy(path, resolved);
        return 0;
}

int cli_where(const char *build_path, const char *install_path, char *path, size_t room)
{
        char exe[PATH_MAX];
        ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
        char *slash;
        int r;

        if (n < 0)
                return -ENOENT;
        exe[n] = 0;
        for (int up = 0; up < 2;
             up++) { /* from <tree>/cli/capo or <prefix>/bin/capo: two levels up */
                slash = strrchr(exe, '/');
                if (!slash)
                        return -ENOENT;
                *slash = 0;
        }
        r = try_one(exe, build_path, path, room);
        return r == -ENOENT ? try_one(exe, install_path, path, room) : r;
}

const char *cli_shipped_profiles(void)
{
        static char path[PATH_MAX];

        if (!*path &&
            cli_where(CAPO_BUILD_PROFILES, CAPO_DATADIR "/capo/profiles", path, sizeof path))
                return NULL;
        return path;
}
