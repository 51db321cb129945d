/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/own_tree.h"
#include "core/base/util.h"

/* @relative in the folder that is @up names above the file @own. */
static int try_above(const char *own, unsigned up, const char *relative, char *path, size_t room)
{
        char joined[PATH_MAX], resolved[PATH_MAX];
        size_t n = strlen(own);

        if (*relative == '/') { /* an absolute folder was configured */
                n = 0;
                up = 0;
        }
        for (; up && n; up--) {
                while (n && own[--n] != '/')
                        ;
        }
        if (up)
                return -ENOENT;
        if (snprintf(joined, sizeof joined, "%.*s/%s", (int)n, own, relative) >= (int)sizeof joined)
                return -ENAMETOOLONG;
        if (!realpath(joined, resolved))
                return -ENOENT;
        if (strlen(resolved) >= room)
                return -ENAMETOOLONG;
        strcpy(path, resolved);
        return 0;
}

int capo_own_tree_find(const char *own, const char *own_folder, const char *build_path,
                       const char *install_path, char *path, size_t room)
{
        unsigned up = 2; /* <prefix>/bin/capo: two names up */
        int r;

        for (const char *p = own_folder; (p = strchr(p, '/')); p++)
                up++;
        r = try_above(own, 2, build_path, path, room);
        return r == -ENOENT ? try_above(own, up, install_path, path, room) : r;
}
