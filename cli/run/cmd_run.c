/* SPDX-License-Identifier: Apache-2.0 */
/* capo run sets the environment (the preload library, the settings) and then becomes the command by
 * exec, so the exit status, the signals and the terminal are the command's own. The command may be
 * the program itself, or a launcher that starts it on many nodes. srun, torchrun and MPICH's
 * mpiexec pass the environment on. Open MPI's mpirun does not, so the variables are named to it
 * with -x. */
#include <sys/stat.h>
#include <time.h>

#include "core/base/among.h"
#include "capo/env.h"
#include "capo/msg.h"
#include "cli/base/cli.h"
#include "cli/base/cli_machine.h"
#include "cli/base/install_paths.h"
#include "cli/doctor/doctor.h"
#include "cli/doctor/doctor_own.h"
#include "cli/run/cmd_run.h"
#include "cli/run/profile_auto.h"
#include "cli/run/run_loader.h"
#include "cli/run/run_trial.h"
#include "cli/run/run_tune.h"
#include "core/base/nccl_facts.h"
#include "core/base/nccl_release.h"
#include "core/base/plugin_file.h"
#include "core/base/site_conf.h"
#include "core/base/xalloc.h"
#include "core/profile/match.h"
#include "core/profile/profile_find.h"
#include "profiles/fragment/fragment.h"

/* Export the class of the given allocation, which rules of a profile can name, and its layout. Both
 * come from the command line, so they are the same on every machine that runs the same command.
 * Return: 0; an exit status, and the error was printed. */
static int name_allocation(const struct run *run)
{
        _cleanup_(capo_topology_freep) struct capo_topology *t = NULL;
        struct cli_machine_words o = {.topo = run->topo, .platform = run->platform};
        char why[512], class[1024], layout_text[CAPO_LAYOUT_TEXT];
        struct cli_machine_source s;
        struct capo_layout layout;
        struct capo_alloc a;
        const char *gpus = run->gpus ? run->gpus : run->alloc;

        if (!run->topo && !run->platform && !gpus)
                return 0;
        if (!(run->topo || run->platform) || !gpus || (run->gpus && run->alloc))
                return capo_fail(
                        CAPO_EXIT_USAGE,
                        "run: --gpus or --alloc and --topo or --platform go together: which GPUs of which machine");
        if (cli_machine_load("run", &o, &t, &s) < 0)
                return CAPO_EXIT_FAIL;
        if (capo_alloc_parse(t, gpus, !run->gpus, &a, why, sizeof why) < 0)
                return capo_fail(CAPO_EXIT_FAIL, "run: %s", why);
        capo_class_name(t, &a, class, sizeof class);
        run_setenv(CAPO_ENV_class_name, class);
        capo_alloc_layout(&a, &layout);
        if (!run->layout && !getenv(CAPO_ENV_layout))
                run_setenv(CAPO_ENV_layout,
                           capo_layout_print(&layout, layout_text, sizeof layout_text));
        capo_alloc_free(&a);
        return 0;
}

static const char *forwarded[64];
static unsigned n_forwarded;

void run_setenv(const char *name, const char *value)
{
        setenv(name, value, 1);
        if (n_forwarded < N_ELEMENTS(forwarded) &&
            !ANY_OF(known, forwarded, n_forwarded, !strcmp(*known, name)))
                forwarded[n_forwarded++] = name;
}

/* The folder for this job: in CAPO_DIR or capo-logs, named by the job's id, or by the time if it
 * has none. A CAPO_DIR that another capo run has set is not used: it is that one's folder of its
 * job. */
static void default_dir(char *dir, size_t room)
{
        const char *base = getenv(CAPO_ENV_run_pid) ? NULL : getenv(CAPO_ENV_dir);
        static const char *const job_ids[] = {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID"};
        const char *id = NULL, *step = NULL;
        time_t now = time(NULL);
        struct tm tm;
        char when[32];

        for (size_t i = 0; i < N_ELEMENTS(job_ids) && !id; i++)
                id = getenv(job_ids[i]);
        base = base && *base ? base : "capo-logs";
        if (id && *id) {
                step = getenv("SLURM_STEP_ID");
                snprintf(dir, room, "%s/%s%s%s", base, id, step ? "." : "", step ? step : "");
                return;
        }
        localtime_r(&now, &tm);
        strftime(when, sizeof when, "%Y%m%d-%H%M%S", &tm);
        snprintf(dir, room, "%s/%s.%d", base, when, (int)getpid());
}

/* Make @dir and the folders above it. @path is set to its absolute path, because the command may
 * change its working directory. *@before: length of the part of @path that existed already. Tried
 * again when it fails, because another rank's capo run may remove an empty folder meanwhile. */
static int make_dir(const char *dir, char *path, size_t room, size_t *before)
{
        char cwd[PATH_MAX];
        struct stat st;
        int r = -ENOENT;

        if (*dir == '/')
                *cwd = 0;
        else if (!getcwd(cwd, sizeof cwd))
                return -errno;
        if (snprintf(path, room, "%s%s%s", cwd, *dir == '/' ? "" : "/", dir) >= (int)room)
                return -ENAMETOOLONG;
        *before = strlen(path);
        for (int tries = 0; tries < 100 && r == -ENOENT; tries++) {
                char *p = path;

                r = 0;
                while (p && r == 0) {
                        p = strchr(p + 1, '/');
                        if (p)
                                *p = 0;
                        if (mkdir(path, 0700) == 0)
                                *before = *before < strlen(path) ? *before : strlen(path) - 1;
                        else if (errno != EEXIST)
                                r = -errno;
                        if (p)
                                *p = '/';
                }
                if (r == 0 && stat(path, &st) == 0 && !S_ISDIR(st.st_mode))
                        r = -ENOTDIR;
                else if (r == 0 && access(path, W_OK | X_OK) < 0)
                        r = -errno;
        }
        return r;
}

/* Remove the folders that make_dir() made, if they are empty: the recorder makes them again when it
 * writes a log. */
static void remove_empty(const char *path, size_t before)
{
        _cleanup_free_ char *copy = xstrdup(path);
        char *end;

        while (copy && strlen(copy) > before && rmdir(copy) == 0 && (end = strrchr(copy, '/')))
                *end = 0;
}

/* Is it Open MPI's launcher? Other MPIs use the same names, so it is asked for its version. */
static bool is_open_mpi(const char *command)
{
        static const char *const names[] = {"mpirun",  "mpiexec",        "orterun",
                                            "prterun", "mpirun.openmpi", "mpiexec.openmpi"};
        const char *base = capo_base_name(command);
        char line[PATH_MAX + 64];
        bool open_mpi = false;
        FILE *pipe;

        if (!ANY_OF(name, names, N_ELEMENTS(names), !strcmp(base, *name)) || strchr(command, '\''))
                return false;
        snprintf(line, sizeof line, "'%s' --version 2>/dev/null", command);
        pipe = popen(line, "r");
        while (pipe && fgets(line, sizeof line, pipe))
                open_mpi |= strstr(line, "Open MPI") || strstr(line, "OpenRTE") ||
                            strstr(line, "PRRTE");
        if (pipe)
                pclose(pipe);
        return open_mpi;
}

/* srun sets variables for the ranks of the step that it starts. Those of the allocation, which this
 * process has, may differ. */
static bool is_srun(const char *command) { return !strcmp(capo_base_name(command), "srun"); }

/* @command with `-x NAME` after its first word for every variable to forward. */
static char **with_forwarding(char **command)
{
        unsigned n = 0;
        char **line, **at;

        while (command[n])
                n++;
        line = xcalloc(n + 2 * n_forwarded + 1, sizeof *line);
        at = line;
        *at++ = command[0];
        for (unsigned i = 0; i < n_forwarded; i++) {
                *at++ = xstrdup("-x");
                *at++ = xstrdup(forwarded[i]);
        }
        for (unsigned i = 1; i < n; i++)
                *at++ = command[i];
        return line;
}

void run_take_plugin(const char *variable, const char *chain, const char *library)
{
        const char *before = getenv(variable);

        if (before && *before && !capo_plugin_own(before))
                run_setenv(chain, before);
        run_setenv(variable, library);
}

/* Rules for a class of allocation match only there. Warn if no rule can match here, because the job
 * itself would not report it. */
static void say_class(const struct capo_profile *profile, const char *here)
{
        const char *first = NULL;

        for (uint32_t i = 0; i < profile->n_rules; i++) {
                const char *of = profile->rules[i].when.class_name;

                if (!of || !strcmp(of, here))
                        return;
                first = first ? first : of;
        }
        if (first)
                capo_warn(
                        "no rule of %s can hold: all are for other classes of allocation (%s), and this one %s%s",
                        profile->file, first,
                        *here ? "is " : "is not known; --platform or --topo with --gpus says it",
                        here);
}

static void say_misspelt(const char *name, const char *meant)
{
        capo_warn("%s is set: capo has no such setting; did you mean %s?", name, meant);
}

/* One line: what tunes this job, or why nothing does. */
static void say_tuning(const struct capo_profile *profile, const struct run_expected *x)
{
        char nearest[CAPO_NEAREST_TEXT] = "";

        if (x->launch.layout.n_nodes && x->reach.version)
                capo_match_nearest(profile, &x->shape, nearest, sizeof nearest);
        capo_info(profile->n_rules ? "tuning by %s, digest %s"
                                   : "%s has no rules, so NCCL chooses all; digest %s",
                  profile->file, profile->digest);
        if (*nearest)
                capo_info("none of its rules holds for all %d ranks, layout %s, with NCCL %s: %s",
                          x->shape.n_ranks, x->layout, x->nccl, nearest);
}

/* Resolve the profile once, here, and export what every rank must agree on: its path, its digest,
 * the layout, and whether modelled rules are used. That last one is always set, because a shell on
 * another node may set it otherwise. An invalid profile stops the job before it starts. */
static int set_profile(const struct run *run, char **command, const struct run_expected *x,
                       const char *library, const char *dir)
{
        char path[PATH_MAX], absolute[PATH_MAX];
        _cleanup_(capo_profile_freep) struct capo_profile *profile = NULL;
        char agreed[CAPO_AGREEMENT], trial[64], key[RUN_TRIAL_KEY] = "";
        bool allow_modelled = x->shape.allow_modelled;
        struct capo_fault fault;
        uint32_t n;

        if (!strcmp(run->profile, "-"))
                return capo_fail(-EINVAL, "run: --profile - is no file that every rank could read");
        if (strcmp(run->profile, "auto")
                    ? capo_profile_find(run->profile, cli_shipped_profiles(), path, sizeof path,
                                        &fault)
                    : capo_profile_auto(cli_shipped_profiles(), NULL, run->platform, path,
                                        sizeof path, &fault))
                return capo_fail(-EINVAL, "%s", fault.text);
        if (*run_trial_text(run->tune              ? "tune"
                            : run->guard           ? "guard"
                            : run->allow_predicted ? "predicted"
                                                   : "",
                            run->budget, trial, sizeof trial)) {
                snprintf(absolute, sizeof absolute, "%s", path);
                run_trial_learn(path, sizeof path, key);
                if (strcmp(path, absolute) && !run->quiet)
                        capo_info("what earlier jobs tried of %s is in %s", absolute, path);
        }
        if (!realpath(path, absolute))
                return capo_fail(-EINVAL, "%s: %s", path, strerror(errno));
        if (capo_profile_load(absolute, &profile, &fault))
                return capo_fail(-EINVAL, "%s", fault.text);
        if (*x->launch.said)
                capo_warn("%s", x->launch.said);
        n = allow_modelled || run->quiet ? 0 : capo_profile_modelled(profile);
        if (n)
                capo_info(
                        "modelled rules of the profile that are not used: %u; --allow-predicted tries them, --allow-modelled uses them",
                        n);
        say_class(profile, x->shape.class_name ? x->shape.class_name : "");
        if (x->reach.version && !capo_nccl_has(x->reach.version, CAPO_NCCL_TUNER)) {
                capo_warn(
                        "NCCL %s has no tuner interface, 2.19 and later have: the profile is not used",
                        x->nccl);
                return 0;
        }
        run_setenv(CAPO_ENV_profile, absolute);
        run_setenv(CAPO_ENV_profile_digest,
                   capo_profile_agreement(profile, allow_modelled, trial, agreed));
        run_setenv(CAPO_ENV_allow_modelled, allow_modelled ? "1" : "0");
        run_setenv(CAPO_ENV_trial, trial);
        if (*trial)
                run_trial_note(dir, key);
        if (capo_profile_turned(profile))
                run_setenv(CAPO_ENV_steer, "1");
        if (x->launch.layout.n_nodes && !x->by_command &&
            !(is_srun(command[0]) && !strcmp(x->launch.source, "SLURM_TASKS_PER_NODE")))
                run_setenv(CAPO_ENV_layout, x->layout);
        run_take_plugin("NCCL_TUNER_PLUGIN", CAPO_ENV_chain_tuner, library);
        if (!run->quiet)
                say_tuning(profile, x);
        return 0;
}

/* Return: 0; negative errno, printed. */
static int tune_job(struct run *run, char **command, const char *library, const char *dir)
{
        _cleanup_free_ struct run_expected *x = xcalloc(1, sizeof *x);
        const struct run_tune asked = {run->profile, run->platform, run->budget, run->quiet};
        static char path[PATH_MAX];

        if (run_expect(command, run->layout,
                       run->allow_modelled || run->allow_predicted || run->tune, x) < 0)
                return capo_fail(-EINVAL, "%s", x->launch.said);
        if (run->tune) {
                run->tune = run_tune_profile(&asked, x, path, sizeof path) == 0 && *path;
                run->profile = *path ? path : NULL;
        }
        return run->profile ? set_profile(run, command, x, library, dir) : 0;
}

int run_library(char *path, size_t room)
{
        if (cli_where("shim/libcapo.so", CAPO_LIBDIR "/libcapo.so", path, room))
                return capo_fail(
                        -ENOENT,
                        "libcapo.so is neither in the build tree nor in the prefix of this capo; reinstall");
        return !strpbrk(path, " :")
                       ? 0
                       : capo_fail(
                                 -EINVAL,
                                 "%s: the loader takes blanks and colons in LD_PRELOAD for the end of a name; "
                                 "install where the path has none",
                                 path);
}

int run_exec(const struct run *asked, char **command)
{
        struct run with_env = *asked, *run = &with_env;
        struct capo_env env;
        char library[PATH_MAX], dir[PATH_MAX], path[PATH_MAX], sample[16], pid[32];
        char site[CAPO_SITE_ROOM], fault[CAPO_SITE_FAULT], why[PATH_MAX + 256];
        _cleanup_free_ char *asan = run_asan_options(), *preload = NULL;
        size_t before = 0;
        int r = run_find_command(command[0]);

        if (r)
                return r;
        if (run_library(library, sizeof library) < 0)
                return CAPO_EXIT_FAIL;
        capo_env_read(&env);
        run->quiet |= env.quiet;
        capo_doctor_misspelt(say_misspelt);
        if (run_refused(command, library, path, dir, sizeof path)) {
                capo_warn(
                        "not recording: %s does not start with libcapo.so, which needs glibc, and "
                        "its loader is %s; the command starts without capo",
                        path, dir);
                return run_become_command(command);
        }
        if (run_unreached(command, why, sizeof why)) {
                capo_warn("not recording: %s", why);
                return run_become_command(command);
        }
        if (run->dir)
                snprintf(dir, sizeof dir, "%s", run->dir);
        else
                default_dir(dir, sizeof dir);
        r = make_dir(dir, path, sizeof path, &before);
        if (r < 0)
                return capo_fail(CAPO_EXIT_FAIL, "%s: cannot be used for logs: %s", dir,
                                 r == -ENOTDIR ? "a file is there, and a folder is expected"
                                               : strerror(-r));
        run_setenv(CAPO_ENV_dir, path);
        r = name_allocation(run);
        if (r) {
                remove_empty(path, before);
                return r;
        }
        if (run->trace)
                run_setenv(CAPO_ENV_trace, run->trace);
        if (run->sample >= 0 || run->allow_predicted || run->guard ||
            run->tune) { /* a trial is timed */
                snprintf(sample, sizeof sample, "%d", run->sample >= 0 ? run->sample : 1);
                run_setenv(CAPO_ENV_gpu_sample, sample);
        }
        if (run->names)
                run_setenv(CAPO_ENV_comm_names, run->names);
        if (run->layout)
                run_setenv(CAPO_ENV_layout, run->layout);
        if (run->allow_modelled)
                run_setenv(CAPO_ENV_allow_modelled, "1");
        if (run->quiet)
                run_setenv(CAPO_ENV_quiet, "1");
        if ((run->tune || run->profile) && tune_job(run, command, library, path)) {
                remove_empty(path, before);
                return CAPO_EXIT_FAIL;
        }
        /* NCCL may not find a plugin by the name "capo": 2.19 and 2.20 open the value as a file. */
        if (getenv("NCCL_TUNER_PLUGIN") && capo_plugin_own(getenv("NCCL_TUNER_PLUGIN")))
                run_take_plugin("NCCL_TUNER_PLUGIN", CAPO_ENV_chain_tuner, library);
        /* NCCL's profiler interface (from 2.23 on) shows which algorithm ran. The plugin disables
         * itself on releases where that is expensive. */
        if (!getenv(CAPO_ENV_profiler) || strcmp(getenv(CAPO_ENV_profiler), "off"))
                run_take_plugin("NCCL_PROFILER_PLUGIN", CAPO_ENV_chain_profiler, library);
        run_start_watch(run, path);
        preload = run_preload_list(library);
        run_setenv("LD_PRELOAD", preload);
        if (asan)
                run_setenv("ASAN_OPTIONS", asan);
        if (env.off)
                capo_warn("CAPO_OFF is set: nothing is recorded");
        else if (!run->quiet)
                capo_info("recording to %s; afterwards: capo report %s", dir, dir);
        if (!env.off && !run->quiet && run_is_static(command[0]))
                capo_info(
                        "%s is statically linked: LD_PRELOAD has no effect on it, and only dynamic "
                        "programs that it starts are recorded",
                        command[0]);
        if (is_open_mpi(command[0]))
                command = with_forwarding(command);
        run_record_topology(path);
        remove_empty(path, before);
        capo_site_read(site, fault);
        snprintf(pid, sizeof pid, "%d@%08x", (int)getpid(), capo_site_hash(site, fault));
        run_setenv(CAPO_ENV_run_pid, pid);
        return run->tune && getenv(CAPO_ENV_profile)
                       ? run_tune_wait(command, path, run->profile, run->quiet)
                       : run_become_command(command);
}

static const char *take_layout(void *layout, const char *value)
{
        struct capo_layout known;

        *(const char **)layout = value;
        return *value && capo_layout_parse(value, &known, NULL) < 0
                       ? "ranks per node, such as 3+5 or 4x8"
                       : NULL;
}

const struct cli_option run_options[] = {
        {"dir", CLI_FILE(struct run, dir, "DIR"),
         "where the logs go; default CAPO_DIR or capo-logs, and there <job id, or the time>"},
        {"names", CLI_FILE(struct run, names, "FILE"),
         "names for communicators: lines \"<uid or number> <name>\"", .rare = true},
        {"layout", CLI_TAKE(struct run, layout, "L", take_layout),
         "ranks per node, such as 3+5, when the launcher does not tell", .example = "3+5"},
        {"topo", CLI_FILE(struct run, topo, "FILE"),
         "with --gpus: which GPUs of which machine (capo topo). Tells profile rules the class of the allocation "
         "(CAPO_CLASS) and its layout; give the same on every machine",
         .rare = true},
        {"platform", CLI_TEXT(struct run, platform, "NAME"), "the same machine by its name",
         .rare = true},
        {"gpus", CLI_TEXT(struct run, gpus, "LIST"), "the GPUs, as in capo topo: 1,2,3+0-4",
         .rare = true},
        {"alloc", CLI_TEXT(struct run, alloc, "SIZES"), "or the first ones: 3+5", .rare = true},
        {"quiet", CLI_FLAG(struct run, quiet), "say nothing unless something is wrong"},
        {"metrics", CLI_FILE(struct run, metrics, "DIR"),
         "export metrics of the job there while it runs, as capo watch --metrics does",
         .rare = true},
        {"no-watch", CLI_FLAG(struct run, no_watch),
         "start no capo watch beside COMMAND: a job that is stuck gets no hang.txt", .rare = true},
        {0}};

static const char *take_trace(void *trace, const char *value)
{
        *(const char **)trace = value;
        return strcmp(value, "all") ? "\"all\"" : NULL;
}

static int exec_words(void *options, int n, char **words)
{
        const struct run *run = options;

        if (((run->allow_predicted || run->guard) && !run->profile) ||
            run->allow_predicted + run->guard + run->allow_modelled + run->tune > 1)
                return capo_fail(
                        CAPO_EXIT_USAGE,
                        "run: expected --tune, or --profile with one of --allow-predicted, "
                        "--guard, --allow-modelled");
        return run_exec(options, words);
}

static const struct run defaults = {.sample = -1, .budget = 1};

static const struct cli_option options[] = {
        {"trace", CLI_TAKE(struct run, trace, "all", take_trace),
         "keep every call, not only summaries and the last calls of each process",
         .example = "all"},
        {"sample", CLI_COUNT(struct run, sample, "N", 0, INT_MAX),
         "time one in N calls on the GPU with an event pair (default 8; 0: host times only)"},
        {"tune", CLI_FLAG(struct run, tune),
         "tune by itself: find the rules of this machine, compare them with NCCL's choice in one call in 100, keep what was faster for the next job, and say at the end what was gained"},
        {"profile", CLI_FILE(struct run, profile, "P"),
         "tune by this profile: a file, a stored profile's name, or auto"},
        {"allow-modelled", CLI_FLAG(struct run, allow_modelled),
         "also use the profile's modelled rules: computed for an allocation nobody measured"},
        {"allow-predicted", CLI_FLAG(struct run, allow_predicted),
         "try the profile's predicted rows: NCCL's choice decides, and one call in 100 measures a row; the next capo run uses what was faster"},
        {"guard", CLI_FLAG(struct run, guard),
         "check the profile's rows: they decide, and one call in 100 measures NCCL's choice; the next capo run with --guard leaves out what lost"},
        {"budget", CLI_NUMBER(struct run, budget, "P", 0.01, 50),
         "percent of the calls that --tune, --allow-predicted and --guard spend (default 1)",
         .rare = true},
        {NULL, CLI_KIND_TABLE, 0, {.table = run_options}},
        {0}};

const struct cli_command run_command = {
        .usage = "[OPTIONS] -- COMMAND [ARG...]",
        .about =
                "Runs COMMAND with capo's library preloaded. COMMAND is the training program or what starts it "
                "(torchrun, srun, mpirun, a shell script); nothing in it needs to change. Processes that never call "
                "NCCL or libfabric are left alone: no thread, no file, no output. A PyTorch job on CPUs (Gloo) is one of these.",
        .options = options,
        .after =
                "The same by environment alone: LD_PRELOAD=.../libcapo.so CAPO_DIR=DIR COMMAND\n"
                "All settings: capo env\n"
                "\n"
                "  capo run -- torchrun --nproc-per-node 8 train.py\n"
                "  capo run --trace all --dir /scratch/me/logs -- mpirun -n 16 ./all_reduce_perf -b 8 -e 1G -f 2\n"
                "  capo run --profile mycluster.json -- srun python train.py\n"
                "  capo run --tune -- torchrun --nproc-per-node 8 train.py",
        .status =
                "COMMAND's; 127 there is no such command, 126 it cannot be run; 1 capo failed, 2 wrong command line.",
        .missing = "no command given, expected -- COMMAND [ARG...]",
        .least = 1,
        .most = UINT_MAX,
        .command = true,
        .size = sizeof(struct run),
        .defaults = &defaults,
        .run = exec_words,
};
