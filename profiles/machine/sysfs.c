/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>

#include "capo/env.h"
#include "profiles/machine/sysfs.h"

const char *capo_sysfs_path(char path[PATH_MAX], const char *format, ...)
{
        const char *root = getenv(CAPO_ENV_sysfs);
        int n = snprintf(path, PATH_MAX, "%s/", root && *root ? root : "/sys");
        va_list args;

        va_start(args, format);
        if (n >= PATH_MAX ||
            vsnprintf(path + n, (size_t)(PATH_MAX - n), format, args) >= PATH_MAX - n)
                *path = 0;
        va_end(args);
        return path;
}

bool capo_sysfs_read(char *text, size_t room, const char *path)
{
        _cleanup_fclose_ FILE *in = fopen(path, "re");
        bool there = in && fgets(text, (int)room, in);

        text[there ? strcspn(text, "\n") : 0] = 0;
        return there;
}

long capo_sysfs_read_number(long missing, const char *path)
{
        char text[64], *end;
        long value;

        capo_sysfs_read(text, sizeof text, path);
        value = strtol(text, &end, 0);
        return end == text ? missing : value;
}

bool capo_sysfs_read_link(char *text, size_t room, const char *path)
{
        char target[PATH_MAX];
        ssize_t n = readlink(path, target, sizeof target - 1);

        target[n > 0 ? n : 0] = 0;
        snprintf(text, room, "%s", capo_base_name(target));
        return n > 0;
}

static int is_name(const struct dirent *e) { return *e->d_name != '.'; }

unsigned capo_sysfs_each(const char *folder, void (*each)(const char *name, void *arg), void *arg)
{
        struct dirent **names = NULL;
        int n = scandir(SYSFS("%s", folder), &names, is_name, alphasort);

        for (int i = 0; i < n; i++) {
                if (each)
                        each(names[i]->d_name, arg);
                free(names[i]);
        }
        free(names);
        return n > 0 ? (unsigned)n : 0;
}
