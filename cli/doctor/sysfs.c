/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>

#include "capo/env.h"
#include "core/base/util.h"
#include "cli/doctor/sysfs.h"

__attribute__((format(printf, 2, 0))) static const char *make_path(char path[PATH_MAX],
                                                                   const char *format, va_list args)
{
        const char *root = getenv(CAPO_ENV_sysfs);
        int n = snprintf(path, PATH_MAX, "%s/", root && *root ? root : "/sys");

        if (n < 0 || n >= PATH_MAX ||
            vsnprintf(path + n, (size_t)(PATH_MAX - n), format, args) >= PATH_MAX - n)
                *path = 0;
        return path;
}

bool capo_sysfs_text(char *text, size_t room, const char *format, ...)
{
        _cleanup_fclose_ FILE *in = NULL;
        char path[PATH_MAX];
        va_list args;

        va_start(args, format);
        in = fopen(make_path(path, format, args), "re");
        va_end(args);
        *text = 0;
        if (!in || !fgets(text, (int)room, in)) {
                *text = 0;
                return false;
        }
        text[strcspn(text, "\n")] = 0;
        return true;
}

long capo_sysfs_number(long missing, const char *format, ...)
{
        _cleanup_fclose_ FILE *in = NULL;
        char path[PATH_MAX], text[64], *end;
        va_list args;
        long value;

        va_start(args, format);
        in = fopen(make_path(path, format, args), "re");
        va_end(args);
        if (!in || !fgets(text, sizeof text, in))
                return missing;
        value = strtol(text, &end, 0);
        return end == text ? missing : value;
}

bool capo_sysfs_link(char *text, size_t room, const char *format, ...)
{
        char path[PATH_MAX], target[PATH_MAX];
        va_list args;
        ssize_t n;

        va_start(args, format);
        n = readlink(make_path(path, format, args), target, sizeof target - 1);
        va_end(args);
        target[n > 0 ? n : 0] = 0;
        snprintf(text, room, "%s", capo_base_name(target));
        return n > 0;
}

bool capo_sysfs_exists(const char *format, ...)
{
        char path[PATH_MAX];
        va_list args;
        bool there;

        va_start(args, format);
        there = !access(make_path(path, format, args), F_OK);
        va_end(args);
        return there;
}

static int is_name(const struct dirent *e) { return *e->d_name != '.'; }

__attribute__((format(printf, 2, 3))) static const char *name_folder(char path[PATH_MAX],
                                                                     const char *format, ...)
{
        va_list args;

        va_start(args, format);
        make_path(path, format, args);
        va_end(args);
        return path;
}

unsigned capo_sysfs_each(const char *folder, void (*each)(const char *name, void *arg), void *arg)
{
        struct dirent **names = NULL;
        char path[PATH_MAX];
        int n = scandir(name_folder(path, "%s", folder), &names, is_name, alphasort);

        for (int i = 0; i < n; i++) {
                if (each)
                        each(names[i]->d_name, arg);
                free(names[i]);
        }
        free(names);
        return n > 0 ? (unsigned)n : 0;
}
