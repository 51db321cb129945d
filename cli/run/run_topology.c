/* SPDX-License-Identifier: Apache-2.0 */
/* Records the machine's topology beside the job's logs, so that capo report knows GPUs, links and
 * the class of the allocation. One file per host, by the first capo run there; hosts with only the
 * launcher's processes have none. */
#include <fcntl.h>

#include "cli/run/cmd_run.h"
#include "profiles/machine/apart.h"
#include "profiles/machine/topology_capture.h"

/* NVML may have to wake GPUs; a stuck driver never answers. */
enum { MOST_SECONDS = 3 };

struct place {
        char path[PATH_MAX], part[PATH_MAX + 32];
};

/* The file appears atomically; @part is its temporary name. */
static int write_capture(const void *arg, void *nothing)
{
        const struct place *to = arg;
        char why[256];
        struct capo_capture found;
        bool whole;
        int fd = open(to->part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        FILE *f = fd < 0 ? NULL : fdopen(fd, "w");

        if (!f)
                return 1;
        whole = capo_topology_capture(f, &found, why, sizeof why) == 0;
        /* without the driver's answer NVLinks are not known */
        return fclose(f) || !whole || !found.n_gpus || !found.nvml || rename(to->part, to->path);
}

void run_record_topology(const char *dir)
{
        char host[256] = "";
        struct place to;

        if (gethostname(host, sizeof host - 1) || !*host ||
            snprintf(to.path, sizeof to.path, "%s/topology-%s.xml", dir, host) >=
                    (int)sizeof to.path ||
            access(to.path, F_OK) == 0)
                return;
        snprintf(to.part, sizeof to.part, "%s.%d", to.path, getpid());
        if (capo_apart(write_capture, &to, &(char){0}, 1, MOST_SECONDS))
                unlink(to.part);
}
