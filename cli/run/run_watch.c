/* SPDX-License-Identifier: Apache-2.0 */
/* Starts `capo watch` beside the command: a process that is not its child, in its own session, with
 * the command's standard error. It ends with the command. */
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "capo/env.h"
#include "capo/msg.h"
#include "cli/run/cmd_run.h"
#include "profiles/machine/apart.h"
#include "profiles/machine/topology_capture.h"

static void become_watch(const char *const *argv)
{
        pid_t child = fork();
        int null;

        if (child) /* its parent exits, so init adopts the watch */
                _exit(child < 0);
        setsid();
        /* keep only standard error: readers of other files would wait for the watch to end */
        null = open("/dev/null", O_RDWR);
        if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0)
                _exit(127);
        if (syscall(SYS_close_range, 3, ~0u, 0)) { /* before Linux 5.9 */
                for (int fd = 3; fd < 1024; fd++)
                        close(fd);
        }
        execv("/proc/self/exe", (char **)(uintptr_t)argv);
        _exit(127);
}

void run_start_watch(const struct run *run, const char *dir)
{
        char until[16], hang[24];
        const char *limit = getenv("NCCL_EP_TIMEOUT_MS");
        long long hang_s = 30;
        const char *argv[16] = {"capo", "watch", "--dir", dir, "--until", until, "--hang", hang};
        const char *metrics;
        unsigned n = 8;
        struct capo_env env;
        pid_t child;

        capo_env_read(&env);
        if (*env.gather && strcmp(env.gather, "node") != 0)
                capo_warn(
                        "run: CAPO_GATHER=%s is not understood (node, or empty): logs stay as they are",
                        env.gather);
        metrics = run->metrics ? run->metrics : *env.metrics ? env.metrics : NULL;
        if (run->no_watch || (env.hang <= 0 && !metrics && !*env.gather))
                return;
        snprintf(until, sizeof until, "%d", (int)getpid());
        if (limit && atoll(limit) >= 2000 && atoll(limit) / 2000 < hang_s)
                hang_s = atoll(limit) / 2000; /* before the kernels of NCCL EP end the process */
        snprintf(hang, sizeof hang, "%lld", env.hang < hang_s ? (long long)env.hang : hang_s);
        if (metrics) {
                argv[n++] = "--metrics";
                argv[n++] = metrics;
        }
        child = fork();
        if (child == 0)
                become_watch(argv);
        if (child < 0)
                capo_warn("run: no capo watch beside the command: %s", strerror(errno));
        while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
                ;
}

/* The machine's topology beside the job's logs tells capo report GPUs, links and the class of the
 * allocation. One file per host, by the first capo run there; hosts with only the launcher's
 * processes have none. NVML may have to wake GPUs; a stuck driver never answers. */
enum { MOST_SECONDS = 3 };

struct place {
        char path[PATH_MAX], part[PATH_MAX + 32];
};

/* The file appears whole: until then it has the name `part`. */
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
