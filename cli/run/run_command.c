/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capo/msg.h"
#include "cli/run/run_command.h"
#include "core/base/file.h"

/* 0, or the error that execvp() will have. */
static int find_command(const char *name)
{
        const char *path = getenv("PATH");
        char found[PATH_MAX];
        struct stat st;

        if (strchr(name, '/')) {
                if (stat(name, &st) < 0)
                        return errno;
                return S_ISDIR(st.st_mode) || access(name, X_OK) < 0 ? EACCES : 0;
        }
        if (!path || !*path || *path == ':' || strstr(path, "::") ||
            path[strlen(path) - 1] == ':') /* places that only execvp() knows */
                return 0;
        if (capo_file_find(path, name, X_OK, found, sizeof found))
                return 0;
        return capo_file_find(path, name, F_OK, found, sizeof found) ? EACCES : ENOENT;
}

static int fail_command(const char *name, int error)
{
        return capo_fail(error == ENOENT ? 127 : 126, "%s: %s", name, strerror(error));
}

int run_find_command(const char *name)
{
        int error = find_command(name);

        return error ? fail_command(name, error) : 0;
}

int run_become_command(char **command)
{
        execvp(command[0], command);
        return fail_command(command[0], errno);
}
