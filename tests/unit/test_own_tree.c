/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <criterion/criterion.h>

#include "core/base/own_tree.h"

static char top[PATH_MAX] = "/tmp/capo-tree-XXXXXX";

static void make(void)
{
        static const char *const folders[] = {"tuner", "share", "usr", "usr/share", "usr/lib"};

        cr_assert(mkdtemp(top) && !chdir(top) && getcwd(top, sizeof top));
        for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
                cr_assert(!mkdir(folders[i], 0700));
}

static void clear(void)
{
        char command[PATH_MAX + 16];

        snprintf(command, sizeof command, "rm -rf %s", top);
        cr_assert(!system(command));
}

TestSuite(own_tree, .init = make, .fini = clear);

static int find(const char *below, const char *folder, const char *installed, char *path)
{
        char own[2 * PATH_MAX];

        snprintf(own, sizeof own, "%s/%s", top, below);
        return capo_own_tree_find(own, folder, "built", installed, path, PATH_MAX);
}

Test(own_tree, either)
{
        char path[PATH_MAX] = "as it was", expected[PATH_MAX + 16];

        snprintf(expected, sizeof expected, "%s/usr/share", top);
        cr_expect_eq(find("usr/bin/capo", "bin", "share", path), 0);
        cr_expect_str_eq(path, expected);
        cr_expect_eq(
                find("usr/lib/x86_64-linux-gnu/libcapo.so", "lib/x86_64-linux-gnu", "share", path),
                0);
        cr_expect_str_eq(path, expected);
        cr_expect_eq(find("tuner/plugin.so", "lib/x86_64-linux-gnu", "/usr", path), 0);
        cr_expect_str_eq(path, "/usr");
        strcpy(path, "as it was");
        cr_expect_eq(find("tuner/plugin.so", "lib", "no", path), -ENOENT);
        cr_expect_eq(capo_own_tree_find("capo", "bin", "usr", "usr", path, sizeof path), -ENOENT);
        cr_expect_eq(capo_own_tree_find("/x/y", "b", "usr", "usr", path, 4), -ENAMETOOLONG);
        cr_assert(!mkdir("built", 0700));
        snprintf(expected, sizeof expected, "%s/built", top);
        cr_expect_eq(find("tuner/plugin.so", "lib", "share", path), 0);
        cr_expect_str_eq(path, expected);
}
