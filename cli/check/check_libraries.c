/* SPDX-License-Identifier: Apache-2.0 */
/* Do the libraries load here? Each is tried in a child process. Also: does the loader accept a
 * preload? */
#include <dlfcn.h>
#include <sys/wait.h>

#include "capo/msg.h"
#include "cli/base/install_paths.h"
#include "cli/check/check.h"
#include "core/base/xalloc.h"

enum { MOST_SECONDS = 5, LEAST_SECONDS = 1 /* doctor has already waited for it */ };

/* The loader's error for @path; "": none. */
static void load_library(const char *path, unsigned seconds, char *why, size_t room)
{
        int ends[2], status = 0;
        pid_t child;
        ssize_t n;

        *why = 0;
        if (pipe(ends))
                return;
        child = fork();
        if (!child) {
                const char *error = "";

                alarm(seconds);
                if (!dlopen(path, RTLD_NOW | RTLD_LOCAL))
                        error = dlerror();
                _exit(write(ends[1], error, strlen(error)) < 0);
        }
        close(ends[1]);
        n = child > 0 ? read(ends[0], why, room - 1) : 0;
        why[n > 0 ? n : 0] = 0;
        close(ends[0]);
        if (child < 0 || waitpid(child, &status, 0) != child || *why || !status)
                return;
        if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
                capo_why(-ETIMEDOUT, why, room, "not within %u s", seconds);
        else
                capo_why(-ECHILD, why, room, "loading it ends the process (status %d)", status);
}

static bool check_one(struct capo_findings *f, const char *path, unsigned seconds)
{
        char why[512];

        load_library(path, seconds, why, sizeof why);
        if (*why)
                capo_finding_add(f, CAPO_FINDING_FAIL, "libraries", "%s does not load: %s", path,
                                 why);
        return !*why;
}

/* Starts a small program with the preload and checks its /proc/self/maps. */
static bool is_preloaded(const char *library)
{
        _cleanup_fclose_ FILE *maps = NULL;
        char line[4600];
        bool found = false;
        int ends[2];
        pid_t child;

        if (pipe(ends))
                return false;
        child = fork();
        if (!child) {
                dup2(ends[1], STDOUT_FILENO);
                close(ends[0]);
                setenv("LD_PRELOAD", library, 1);
                alarm(MOST_SECONDS);
                execlp("cat", "cat", "/proc/self/maps", (char *)NULL);
                _exit(127);
        }
        close(ends[1]);
        maps = fdopen(ends[0], "r");
        while (maps && fgets(line, sizeof line, maps))
                found |= strstr(line, "libcapo.so") != NULL;
        if (child > 0)
                waitpid(child, NULL, 0);
        return found;
}

void check_libraries(struct capo_findings *f, const struct capo_reach *reach)
{
        char preload[4096], tuner[4096];
        bool good = true;

        if (cli_where("shim/libcapo.so", CAPO_LIBDIR "/libcapo.so", preload, sizeof preload) ||
            cli_where("tuner/libnccl-tuner-capo.so", CAPO_LIBDIR "/libnccl-tuner-capo.so", tuner,
                      sizeof tuner)) {
                capo_finding_add(f, CAPO_FINDING_FAIL, "libraries",
                                 "libcapo.so and libnccl-tuner-capo.so are not beside this capo");
                return;
        }
        good &= check_one(f, preload, MOST_SECONDS);
        good &= check_one(f, tuner, MOST_SECONDS);
        if (*reach->library)
                good &= check_one(f, reach->library, reach->version ? MOST_SECONDS : LEAST_SECONDS);
        if (good && !is_preloaded(preload)) {
                capo_finding_add(
                        f, CAPO_FINDING_FAIL, "libraries",
                        "LD_PRELOAD=%s has no effect here: a program that was started with it did not "
                        "load it",
                        preload);
                good = false;
        }
        if (good)
                capo_finding_add(f, CAPO_FINDING_OK, "libraries",
                                 "libcapo.so, the tuner plugin%s load; a preload works",
                                 *reach->library ? " and libnccl" : "");
}
