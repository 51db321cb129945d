/* SPDX-License-Identifier: Apache-2.0 */
/* Do the libraries load here? Each is tried in a child process. Also: does the loader accept a
 * preload? */
#include <dlfcn.h>

#include "cli/base/install_paths.h"
#include "cli/check/check.h"
#include "profiles/machine/apart.h"

enum { WHY = 512, MOST_SECONDS = 5, LEAST_SECONDS = 1 /* doctor has already waited for it */ };

/* The loader's error for @path; "": none. */
static int load_library(const void *path, void *why)
{
        if (!dlopen(path, RTLD_NOW | RTLD_LOCAL))
                snprintf(why, WHY, "%s", dlerror());
        return 0;
}

static bool check_one(struct capo_findings *f, const char *path, unsigned seconds)
{
        char why[WHY] = "";
        int r = capo_apart(load_library, path, why, sizeof why, seconds);

        if (r == -ETIMEDOUT)
                snprintf(why, sizeof why, "not within %u s", seconds);
        else if (r && r != -EAGAIN)
                snprintf(why, sizeof why, "loading it ends the process (%s%.0d)",
                         r > 0 ? "exit status " : "by a signal", r > 0 ? r : 0);
        if (*why)
                capo_finding_add(f, CAPO_FINDING_FAIL, "libraries", "%s does not load: %s", path,
                                 why);
        return !*why;
}

static int find_preload(const void *library, void *unused)
{
        setenv("LD_PRELOAD", library, 1);
        execlp("grep", "grep", "-q", "libcapo\\.so", "/proc/self/maps", (char *)NULL);
        return 127;
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
        if (good && capo_apart(find_preload, preload, &(char){0}, 1, MOST_SECONDS)) {
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
