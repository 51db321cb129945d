/* SPDX-License-Identifier: Apache-2.0 */
/* glibc's loader ignores a library that it cannot preload. musl's loader ends the program instead,
 * and so may that of another glibc. ASan's runtime ends its program if another library comes first.
 * A job that works without capo must not end because of it. */
#include <dlfcn.h>
#include <glob.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

#include "capo/env.h"
#include "capo/msg.h"
#include "cli/run/run_loader.h"
#include "core/base/file.h"
#include "core/base/xalloc.h"
#include "profiles/machine/elf_file.h"

enum { ASK_SECONDS = 10 };

static bool read_loader(const char *program, char *loader, size_t room)
{
        _cleanup_(capo_elf_close) struct capo_elf_file elf = {0};

        return access(program, X_OK) == 0 && capo_elf_open(program, &elf) == 0 &&
               capo_elf_loader(&elf, loader, room);
}

/* Can @loader start @program with @library preloaded? True also if that cannot be found out. */
static bool ask_loader(const char *loader, const char *program, const char *library)
{
        int status, null;
        pid_t child;

        if (access(loader, X_OK) < 0)
                return true;
        child = fork();
        if (child == 0) {
                alarm(ASK_SECONDS);
                null = open("/dev/null", O_RDWR);
                dup2(null, STDOUT_FILENO);
                dup2(null, STDERR_FILENO);
                setenv("LD_PRELOAD", library, 1);
                execl(loader, loader, "--list", program, (char *)NULL);
                _exit(0);
        }
        return child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) ||
               WEXITSTATUS(status) == 0;
}

bool run_refused(char *const *command, const char *library, char *program, char *loader,
                 size_t room)
{
        char path[PATH_MAX], its[PATH_MAX], own[PATH_MAX];

        if (!read_loader("/proc/self/exe", own, sizeof own))
                return false;
        for (unsigned i = 0; command[i]; i++) {
                if (i && !strchr(command[i], '/'))
                        continue;
                if (!capo_file_find(getenv("PATH"), command[i], X_OK, path, sizeof path) ||
                    !read_loader(path, its, sizeof its) || !strcmp(its, own) ||
                    ask_loader(its, path, library))
                        continue;
                snprintf(program, room, "%s", path);
                snprintf(loader, room, "%s", its);
                return true;
        }
        return false;
}

/* Does env(1) start its program without LD_PRELOAD or CAPO_DIR? Words after options that are not
 * known here are not judged. @name: the first that is missing. */
static bool env_removes(char *const *command, const char **name)
{
        const char *const names[] = {"LD_PRELOAD", CAPO_ENV_dir};
        bool removed[N_ELEMENTS(names)] = {0};

        for (char *const *word = command + 1; *word; word++) {
                bool all = !strcmp(*word, "-") || !strcmp(*word, "-i") ||
                           !strcmp(*word, "--ignore-environment");
                const char *one = !strncmp(*word, "--unset=", 8) ? *word + 8 : NULL;

                if (!strcmp(*word, "-u") && word[1])
                        one = *++word;
                else if (**word == '-' && !all && !one)
                        return false;
                else if (**word != '-' && !strchr(*word, '='))
                        break;
                for (size_t i = 0; i < N_ELEMENTS(names); i++) {
                        size_t n = strlen(names[i]);

                        if (all || (one && !strcmp(one, names[i])))
                                removed[i] = true;
                        if (!one && !strncmp(*word, names[i], n) && (*word)[n] == '=')
                                removed[i] = false;
                }
        }
        for (size_t i = N_ELEMENTS(names); i-- > 0;)
                *name = removed[i] ? names[i] : *name;
        return removed[0] || removed[1];
}

bool run_unreached(char *const *command, char *why, size_t room)
{
        const char *name = NULL;
        char path[PATH_MAX];
        struct statvfs fs;
        struct stat st;

        if (!strcmp(capo_base_name(command[0]), "env") && env_removes(command, &name)) {
                snprintf(why, room,
                         "env removes %s before it starts the program; put capo run behind it: env "
                         "... capo run -- PROGRAM",
                         name);
                return true;
        }
        if (!capo_file_find(getenv("PATH"), command[0], X_OK, path, sizeof path) ||
            stat(path, &st) < 0 || statvfs(path, &fs) < 0 || fs.f_flag & ST_NOSUID)
                return false;
        if ((st.st_mode & S_ISUID && st.st_uid != getuid()) ||
            (st.st_mode & S_ISGID && st.st_gid != getgid())) {
                snprintf(why, room,
                         "%s is set-user-id or set-group-id, so the loader ignores LD_PRELOAD; put "
                         "capo run behind it: %s ... capo run -- PROGRAM",
                         path, command[0]);
                return true;
        }
        return false;
}

bool run_is_static(const char *command)
{
        _cleanup_(capo_elf_close) struct capo_elf_file elf = {0};
        const char *name = capo_base_name(command);
        char path[PATH_MAX];

        if (!strncmp(name, "ld-", 3) || !strncmp(name, "ld.so", 5)) /* the loader itself */
                return false;
        return capo_file_find(getenv("PATH"), command, X_OK, path, sizeof path) &&
               capo_elf_open(path, &elf) == 0 && capo_elf_is_static(&elf);
}

/* Is it in the loader's list, which is separated by blanks and colons? */
static bool is_preloaded(const char *list, const char *library)
{
        size_t n = strlen(library);

        for (const char *at = list; *at; at += strspn(at, " :")) {
                size_t length = strcspn(at, " :");

                if (length == n && !memcmp(at, library, n))
                        return true;
                at += length;
        }
        return false;
}

char *run_preload_list(const char *library)
{
        glob_t musl = {0};
        void *libc = glob("/lib/ld-musl-*", GLOB_NOSORT, NULL, &musl)
                             ? NULL
                             : dlopen("/$LIB/libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
        const char *before = getenv("LD_PRELOAD");
        _cleanup_free_ char *path = NULL;

        globfree(&musl);
        if (libc)
                dlclose(libc);
        path = xprintf("%s%s", libc ? "/$LIB/../../../../../.." : "", library);
        if (before && is_preloaded(before, path))
                return xstrdup(before);
        return before && *before ? xprintf("%s:%s", path, before) : steal(&path);
}

char *run_asan_options(void)
{
        static const char option[] = "verify_asan_link_order";
        const char *before = getenv("ASAN_OPTIONS") ?: "";

        return strstr(before, option) ? NULL
                                      : xprintf("%s%s%s=0", before, *before ? ":" : "", option);
}

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
