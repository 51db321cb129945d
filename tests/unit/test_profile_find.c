/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <criterion/criterion.h>

#include "capo/profile.h"
#include "core/profile/profile_find.h"

static char top[] = "/tmp/capo-find-XXXXXX";
static char user[PATH_MAX], shipped[PATH_MAX];

static void file(const char *folder, const char *name)
{
        char path[2 * PATH_MAX];
        FILE *f;

        snprintf(path, sizeof path, "%s/%s", folder, name);
        f = fopen(path, "w");
        cr_assert(f);
        fclose(f);
}

static void make(void)
{
        char path[PATH_MAX];

        cr_assert(mkdtemp(top));
        snprintf(path, sizeof path, "%s/capo", top);
        cr_assert(!mkdir(path, 0700));
        snprintf(user, sizeof user, "%s/capo/profiles", top);
        snprintf(shipped, sizeof shipped, "%s/shipped", top);
        cr_assert(!mkdir(user, 0700) && !mkdir(shipped, 0700));
        setenv("XDG_CONFIG_HOME", top, 1);
        cr_assert(!chdir(top));
}

static void clear(void)
{
        char command[64];

        snprintf(command, sizeof command, "rm -rf %s", top);
        cr_assert(!system(command));
}

TestSuite(find, .init = make, .fini = clear);

static void is_at(const char *name, const char *folder, const char *file_name)
{
        char path[PATH_MAX], expected[2 * PATH_MAX];

        snprintf(expected, sizeof expected, "%s%s%s", folder, *folder ? "/" : "", file_name);
        cr_assert_eq(capo_profile_find(name, shipped, path, sizeof path, NULL), 0, "%s", name);
        cr_assert_str_eq(path, expected);
}

Test(find, names)
{
        struct capo_fault fault = {0};
        char path[PATH_MAX];

        is_at("-", "", "-");
        is_at("./nowhere.json", "", "./nowhere.json");
        file(shipped, "a.csv");
        is_at("a", shipped, "a.csv");
        file(shipped, "a.json");
        is_at("a", shipped, "a.json");
        file(user, "a.csv"); /* the user's folder is asked first, whatever the ending */
        is_at("a", user, "a.csv");
        file(user, "a");
        is_at("a", user, "a");
        file(top, "a");
        is_at("a", "", "a");
        cr_assert_eq(capo_profile_find("b", shipped, path, sizeof path, &fault), -ENOENT);
        cr_assert(strstr(fault.text, "not a file here, not in /"), "%s", fault.text);
        cr_assert(strstr(fault.text, "\"b\"") && strstr(fault.text, user) &&
                          strstr(fault.text, "/etc/capo/profiles") && strstr(fault.text, shipped),
                  "%s", fault.text);
}

Test(find, folders)
{
        char path[PATH_MAX];
        const char *what;

        setenv("HOME", "/home/of", 1);
        unsetenv("XDG_CONFIG_HOME");
        cr_assert(capo_profile_folder(0, NULL, path, sizeof path, &what));
        cr_assert_str_eq(path, "/home/of/.config/capo/profiles");
        cr_assert_str_eq(what, "user");
        setenv("HOME", "", 1);
        cr_assert(capo_profile_folder(0, NULL, path, sizeof path, &what));
        cr_assert_str_eq(path, "");
        cr_assert(capo_profile_folder(2, NULL, path, sizeof path, &what));
        cr_assert_str_eq(what, "shipped");
        cr_assert(strstr(path, "/capo/profiles"));
        cr_assert(!capo_profile_folder(3, NULL, path, sizeof path, &what));
}

Test(find, a_path_that_does_not_fit)
{
        char path[PATH_MAX];
        size_t length = strlen(shipped) + strlen("/a.csv");

        file(shipped, "a.csv");
        cr_expect_eq(capo_profile_find("a", shipped, path, length + 1, NULL), 0);
        cr_expect_eq(capo_profile_find("a", shipped, path, length, NULL), -ENOENT,
                     "cut it would be another");
}
