/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/stat.h>

#include "capo/msg.h"
#include "cli/run/run_command.h"
#include "core/base/file.h"

/* 0, or the error that execvp() will have. @found: the file of @name, or "" if not known. */
static int find_command(const char *name, char *found, size_t room)
{
        const char *path = getenv("PATH");
        struct stat st;

        *found = 0;
        if (strchr(name, '/')) {
                if (stat(name, &st) < 0)
                        return errno;
                snprintf(found, room, "%s", name);
                return S_ISDIR(st.st_mode) || access(name, X_OK) < 0 ? EACCES : 0;
        }
        if (!path || !*path || *path == ':' || strstr(path, "::") ||
            path[strlen(path) - 1] == ':') /* the folders of execvp()'s default, or this one */
                return 0;
        if (capo_file_find(path, name, X_OK, found, room))
                return 0;
        return capo_file_find(path, name, F_OK, found, room) ? EACCES : ENOENT;
}

/* The interpreter that a script's first line names. Return: false: it is no such script. */
static bool read_interpreter(const char *path, char *interpreter, size_t room)
{
        _cleanup_close_ int fd = -1;
        char line[256], *save = NULL, *word; /* as many bytes as Linux reads */
        ssize_t n;

        fd = capo_file_open(path);
        n = fd < 0 ? -1 : read(fd, line, sizeof line - 1);
        if (n < 2 || memcmp(line, "#!", 2) != 0)
                return false;
        line[n] = 0;
        line[strcspn(line, "\n")] = 0;
        word = strtok_r(line + 2, " \t", &save);
        return word && snprintf(interpreter, room, "%s", word) < (int)room;
}

static int fail_command(const char *name, int error)
{
        return capo_fail(error == ENOENT ? 127 : 126, "%s: %s", name, strerror(error));
}

int run_find_command(const char *name)
{
        char found[PATH_MAX], interpreter[PATH_MAX];
        int error = find_command(name, found, sizeof found);

        if (error)
                return fail_command(name, error);
        if (*found && read_interpreter(found, interpreter, sizeof interpreter) &&
            access(interpreter, X_OK) < 0)
                return capo_fail(126, "%s: its interpreter %s: %s", name, interpreter,
                                 strerror(errno));
        return 0;
}

int run_become_command(char **command)
{
        execvp(command[0], command);
        return fail_command(command[0], errno);
}
