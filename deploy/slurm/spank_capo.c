/* SPDX-License-Identifier: Apache-2.0 */
/*
 * srun --capo[=record|PROFILE]: the tasks of a step run as under capo run. srun, not a compute
 * node, asks capo run for the environment it would give a command, once, so that a profile that is
 * wrong stops the step before it starts and all ranks agree on one digest. slurmstepd loads it as
 * root, but it starts no process there.
 *
 * plugstack.conf:  optional spank_capo.so [capo=/path/of/capo] [dir=FOLDER] [default=record]
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <slurm/spank.h>

SPANK_PLUGIN(capo, 1)

spank_f slurm_spank_init, slurm_spank_init_post_opt, slurm_spank_task_init, slurm_spank_exit;

static const char *program = CAPO_PROGRAM, *folder, *what;
static char chosen[1024];

/* Does capo say that @profile is not one? Not where capo itself cannot be run. */
static bool is_wrong(const char *profile)
{
        int status, null;
        pid_t child;

        fflush(NULL);
        child = fork();
        if (!child) {
                null = open("/dev/null", O_WRONLY);
                dup2(null, STDOUT_FILENO);
                execlp(program, program, "profile", "digest", profile, (char *)NULL);
                _exit(127);
        }
        return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
               WEXITSTATUS(status) == 1;
}

/* An error makes srun refuse the option, and the step, where the plugin is only optional, too. */
static int take_option(int value, const char *text, int remote)
{
        snprintf(chosen, sizeof chosen, "%s", text && *text ? text : "record");
        what = chosen;
        return !remote && strcmp(what, "record") != 0 && strcmp(what, "off") != 0 &&
                               strcmp(what, "auto") != 0 && is_wrong(what)
                       ? -1
                       : 0;
}

static struct spank_option option = {
        .name = "capo",
        .arginfo = "record|PROFILE",
        .usage = "record NCCL and libfabric calls with capo; with a profile, also tune NCCL by it",
        .has_arg = 2, /* optional */
        .cb = take_option,
};

int slurm_spank_init(spank_t spank, int n, char *words[])
{
        for (int i = 0; i < n; i++) {
                if (!strncmp(words[i], "capo=", 5))
                        program = words[i] + 5;
                else if (!strncmp(words[i], "dir=", 4))
                        folder = words[i] + 4;
                else if (!strncmp(words[i], "default=", 8))
                        what = words[i] + 8;
                else
                        slurm_error("spank_capo: expected capo=, dir= or default=, found \"%s\"",
                                    words[i]);
        }
        if (spank_context() != S_CTX_LOCAL && spank_context() != S_CTX_REMOTE)
                return 0; /* sbatch and salloc start no tasks */
        return spank_option_register(spank, &option) == ESPANK_SUCCESS ? 0 : -1;
}

/* What a command under capo run finds changed in its environment, and tasks elsewhere need. */
static bool is_wanted(const char *variable)
{
        static const char *const names[] = {
                "LD_PRELOAD=", "NCCL_TUNER_PLUGIN=", "NCCL_PROFILER_PLUGIN="};

        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
                if (!strncmp(variable, names[i], strlen(names[i])))
                        return true;
        }
        /* the process that capo run became is not there; the layout would be the allocation's */
        return !strncmp(variable, "CAPO_", 5) && strncmp(variable, "CAPO_RUN_PID=", 13) != 0 &&
               strncmp(variable, "CAPO_LAYOUT=", 12) != 0;
}

static void run_capo(int out)
{
        const char *words[12];
        unsigned n = 0;

        words[n++] = program;
        words[n++] = "run";
        words[n++] = "--quiet";
        if (folder) {
                words[n++] = "--dir";
                words[n++] = folder;
        }
        if (strcmp(what, "record") != 0) {
                words[n++] = "--profile";
                words[n++] = what;
        }
        words[n++] = "--";
        words[n++] = "env";
        words[n++] = "-0";
        words[n] = NULL;
        dup2(out, STDOUT_FILENO);
        close(out);
        execvp(program, (char *const *)(size_t)words);
        fprintf(stderr, "spank_capo: %s cannot be run\n", program);
        _exit(127);
}

/* Return: 0; what capo run ended with; -1. */
static int take_environment(void)
{
        char *variable = NULL;
        size_t room = 0;
        int ends[2], status;
        pid_t child;
        FILE *in;

        if (pipe(ends))
                return -1;
        fflush(NULL);
        child = fork();
        if (!child) {
                close(ends[0]);
                run_capo(ends[1]);
        }
        close(ends[1]);
        in = fdopen(ends[0], "r");
        while (in && getdelim(&variable, &room, 0, in) > 0) {
                char *equals = strchr(variable, '=');

                if (equals && is_wanted(variable)) {
                        *equals = 0;
                        setenv(variable, equals + 1, 1);
                }
        }
        free(variable);
        if (in)
                fclose(in);
        if (child < 0 || waitpid(child, &status, 0) != child)
                return -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int slurm_spank_init_post_opt(spank_t spank, int n, char *words[])
{
        int r;

        if (spank_context() != S_CTX_LOCAL || !what || !strcmp(what, "off"))
                return 0;
        r = take_environment();
        if (!r)
                return 0;
        if (!strcmp(what, "record")) { /* a job is worth more than its recording */
                slurm_error("spank_capo: %s run failed (%d); the step runs without capo", program,
                            r);
                return 0;
        }
        slurm_error(
                "spank_capo: %s run --profile %s failed (%d): the step runs without capo, unless "
                "plugstack.conf has this plugin as required",
                program, what, r);
        return -1;
}

/* With --export=NONE or a list, what srun has set does not arrive. */
int slurm_spank_task_init(spank_t spank, int n, char *words[])
{
        char preload[4096] = "";
        int task = -1;

        if (!what || !strcmp(what, "off"))
                return 0;
        spank_getenv(spank, "LD_PRELOAD", preload, sizeof preload);
        spank_get_item(spank, S_TASK_GLOBAL_ID, &task);
        if (!strstr(preload, "libcapo.so") && task == 0)
                slurm_error(
                        "spank_capo: not recorded: the environment of srun did not reach the task "
                        "(--export)");
        return 0;
}

/* srun, when all tasks have ended. */
int slurm_spank_exit(spank_t spank, int n, char *words[])
{
        const char *gather = getenv("CAPO_GATHER"), *dir = getenv("CAPO_DIR");
        pid_t child;

        if (spank_context() != S_CTX_LOCAL || !what || !strcmp(what, "off") || !gather ||
            strcmp(gather, "node") != 0 || !dir || access(dir, X_OK))
                return 0;
        fflush(NULL);
        child = fork();
        if (!child) {
                dup2(STDERR_FILENO, STDOUT_FILENO);
                execlp(program, program, "pack", "--all", dir, (char *)NULL);
                _exit(127);
        }
        if (child < 0 || waitpid(child, NULL, 0) != child)
                slurm_error("spank_capo: %s pack: cannot be run", program);
        return 0;
}
