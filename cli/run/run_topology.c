/* SPDX-License-Identifier: Apache-2.0 */
/* Records the machine's topology beside the job's logs, so that capo report knows GPUs, links and
 * the class of the allocation. One file per host, by the first capo run there; hosts with only the
 * launcher's processes have none. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include "cli/run/cmd_run.h"
#include "profiles/plan/plan_capture.h"

/* NVML may have to wake GPUs; a stuck driver never answers. */
enum { MOST_MS = 3000 };

/* In a process of its own. The file appears atomically; @part is its temporary name. */
static void write_capture(const char *path, const char *part)
{
        char why[256];
        struct capo_capture found;
        bool whole;
        FILE *f;
        int fd;

        fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        f = fd < 0 ? NULL : fdopen(fd, "w");
        if (!f)
                return;
        whole = capo_topology_capture(f, &found, why, sizeof why) == 0;
        if (fclose(f) || !whole || !found.n_gpus || !found.nvml || rename(part, path))
                unlink(part); /* without the driver's answer NVLinks are not known */
}

void run_record_topology(const char *dir)
{
        char host[256] = "", path[PATH_MAX], part[PATH_MAX + 32];
        int ends[2], quiet;
        pid_t child;

        if (gethostname(host, sizeof host - 1) || !*host ||
            snprintf(path, sizeof path, "%s/topology-%s.xml", dir, host) >= (int)sizeof path ||
            access(path, F_OK) == 0 || pipe2(ends, O_CLOEXEC))
                return;
        snprintf(part, sizeof part, "%s.%d", path, getpid());
        child = fork();
        if (child == 0) {
                quiet = open("/dev/null", O_RDWR | O_CLOEXEC);
                dup2(quiet, STDOUT_FILENO); /* output of the driver's library must not be mixed with
                                               the job's */
                dup2(quiet, STDERR_FILENO);
                write_capture(path, part);
                _exit(0);
        }
        close(ends[1]);
        if (child > 0) { /* the pipe closes when the child ends */
                poll(&(struct pollfd){.fd = ends[0], .events = POLLIN}, 1, MOST_MS);
                kill(child, SIGKILL);
                while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
                        ;
                unlink(part); /* in case it was killed */
        }
        close(ends[0]);
}
