/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs with trials are listed in a file beside the user's profiles: host, pid, profile, folder of
 * logs, tab-separated. The next capo run with the same profile fits the logs of ended jobs. A lock
 * allows one process at a time, and all files are replaced atomically.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capo/msg.h"
#include "cli/base/cli_output.h"
#include "cli/run/run_trial.h"
#include "core/base/calls.h"
#include "core/base/size.h"
#include "core/base/util.h"
#include "core/profile/profile_find.h"
#include "profiles/fit/fit_trial.h"

enum { MOST_JOBS = 64, LOCK_TRIES = 50, LOCK_WAIT_US = 100000 };

struct tried {
        char host[256], profile[PATH_MAX], dir[PATH_MAX];
        long pid;
        bool gone; /* its results were used, or never will be */
};

char *run_trial_text(const char *mode, double budget, char *text, size_t room)
{
        *text = 0;
        if (*mode)
                snprintf(text, room, "%s,period=%.0f", mode, 100 / budget);
        return text;
}

/* Path of "trials" or its lock, beside the folder of the user's profiles. */
static bool state_file(const char *name, char *path, size_t room)
{
        const char *what;
        char *end;

        if (!capo_profile_folder(0, NULL, path, room, &what) || !*path ||
            !(end = strrchr(path, '/')) || strlen(path) + strlen(name) + 2 > room)
                return false;
        strcpy(end + 1, name);
        return true;
}

/* Make the folder of @path and those above it. */
static void make_folders(const char *path)
{
        _cleanup_free_ char *copy = strdup(path);

        for (char *p = copy ? copy + 1 : NULL; p && (p = strchr(p, '/')); p++) {
                *p = 0;
                mkdir(copy, 0777);
                *p = '/';
        }
}

/* Other holders finish soon. Return: -1: no lock. */
static int lock_state(void)
{
        char path[PATH_MAX];
        int fd;

        if (!state_file("trials.lock", path, sizeof path))
                return -1;
        make_folders(path);
        fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        for (int i = 0; fd >= 0 && flock(fd, LOCK_EX | LOCK_NB); i++) {
                if (i == LOCK_TRIES || (errno != EWOULDBLOCK && errno != EINTR)) {
                        close(fd);
                        return -1;
                }
                usleep(LOCK_WAIT_US);
        }
        return fd;
}

static int read_tried(const char *path, struct tried *v)
{
        _cleanup_fclose_ FILE *in = fopen(path, "re");
        _cleanup_free_ char *line = NULL;
        size_t room = 0;
        int n = 0;

        while (in && n < MOST_JOBS && getline(&line, &room, in) > 0) {
                struct tried *t = &v[n];

                if (sscanf(line, "%255[^\t]\t%ld\t%4095[^\t]\t%4095[^\t\n]", t->host, &t->pid,
                           t->profile, t->dir) == 4) {
                        t->gone = false;
                        n++;
                }
        }
        return n;
}

static bool has_ended(const struct tried *t)
{
        char host[256] = "";

        gethostname(host, sizeof host - 1);
        return strcmp(host, t->host) || t->pid == getpid() ||
               (kill((pid_t)t->pid, 0) && errno == ESRCH);
}

static const char *base_of(const char *path)
{
        const char *slash = strrchr(path, '/');

        return slash ? slash + 1 : path;
}

/* The user's profile with the same name as @path. */
static bool user_profile(const char *path, char *out, size_t room)
{
        const char *what;
        char folder[PATH_MAX];

        return capo_profile_folder(0, NULL, folder, sizeof folder, &what) && *folder &&
               snprintf(out, room, "%s/%s", folder, base_of(path)) < (int)room;
}

static void say_found(const struct capo_profile *p, const struct capo_trial_found *f)
{
        const struct capo_row *row = &p->rows[f->row];
        struct capo_trial_change change = capo_trial_change(f);
        char size[16];

        if (f->verdict == CAPO_TRIAL_OPEN)
                return;
        capo_info(
                "tried in earlier jobs: %s %s on %d ranks by %s %s: %.1f %% %s than NCCL's choice "
                "(%.1f to %.1f, %u calls): %s from now on",
                capo_call_name(f->call), capo_size_print(f->bytes, size, sizeof size), f->n_ranks,
                capo_algo_name(row->algo), capo_proto_name(row->proto), change.percent, change.word,
                change.lo, change.hi, f->n_row,
                f->verdict == CAPO_TRIAL_FASTER ? "used" : "left to NCCL");
}

static bool same_content(const char *path, const char *text, size_t size)
{
        _cleanup_fclose_ FILE *in = fopen(path, "re");
        _cleanup_free_ char *have = malloc(size + 1);

        return in && have && fread(have, 1, size + 1, in) == size && !memcmp(have, text, size);
}

/* Return: 0; negative errno, printed. */
static int write_user_profile(const struct capo_profile *p, const char *path, bool *wrote)
{
        _cleanup_free_ char *text = NULL;
        struct cli_output out;
        size_t size;
        FILE *f = open_memstream(&text, &size);
        int e = f ? capo_profile_write(p, f) : -ENOMEM;

        if (f && fclose(f))
                e = -ENOMEM;
        *wrote = false;
        if (e < 0 || same_content(path, text, size))
                return e;
        make_folders(path);
        e = cli_output_open(&out, path);
        if (e < 0)
                return e;
        e = fwrite(text, 1, size, out.file) == size ? 0 : -EIO;
        e = cli_output_close(&out, e);
        *wrote = e == 0;
        return e;
}

static int is_log(const struct dirent *d)
{
        const char *end = strrchr(d->d_name, '.');

        return end && !strcmp(end, ".capo");
}

/* If nodes do not share their logs, each would learn something else, and the ranks of the next job
 * would have different profiles. So runs with fewer logs than ranks are left out. */
static void leave_parts_out(const char *dir, struct capo_samples *set, size_t first)
{
        struct dirent **names = NULL;
        int n = scandir(dir, &names, is_log, NULL);

        for (size_t i = first; i < set->n_runs; i++)
                set->runs[i].left_out |= set->runs[i].n_ranks > n;
        for (int i = 0; i < n; i++)
                free(names[i]);
        free(names);
}

/* Read the logs of the jobs in @v that tried the profile of this name. */
static int read_logs(struct tried *v, int n, const char *name, struct capo_samples *set)
{
        char error[512];
        int read = 0;

        for (int i = 0; i < n; i++) {
                size_t before = set->n_runs;

                if (strcmp(base_of(v[i].profile), name) || !has_ended(&v[i]))
                        continue;
                if (access(v[i].dir, R_OK)) {
                        v[i].gone = true;
                        continue;
                }
                read += capo_import(v[i].dir, NULL, set, error, sizeof error) == 0;
                leave_parts_out(v[i].dir, set, before);
        }
        return read;
}

static int learn_profile(struct tried *v, int n, const char *from, const char *to)
{
        _cleanup_(capo_profile_freep) struct capo_profile *p = NULL, *next = NULL;
        _cleanup_(capo_fit_freep) struct capo_fit *fit = NULL;
        _cleanup_free_ struct capo_trial_found *found = NULL;
        static const struct capo_fit_options options = {.min_gain = 0.01, .force = true};
        struct capo_samples set = {0};
        struct capo_fault fault;
        int n_found = 0, open = 0, e;
        bool wrote = false;

        if (!read_logs(v, n, base_of(from), &set) || capo_profile_load(from, &p, &fault) < 0 ||
            capo_fit_make(&set, &options, &fit, &fault) < 0) {
                capo_samples_free(&set);
                return 0;
        }
        capo_samples_free(&set);
        n_found = capo_fit_trials(fit, p, &found);
        next = capo_profile_new(p->name);
        e = n_found < 0 || !next ? -ENOMEM : capo_trial_apply(p, found, n_found, next);
        if (e > 0)
                e = write_user_profile(next, to, &wrote);
        for (int i = 0; i < n_found; i++) {
                open += found[i].verdict == CAPO_TRIAL_OPEN;
                if (wrote)
                        say_found(p, &found[i]);
        }
        for (int i = 0; i < n && n_found > 0 && !open && e >= 0; i++)
                v[i].gone |= !strcmp(base_of(v[i].profile), base_of(from)) && has_ended(&v[i]);
        return e < 0 ? e : 0;
}

static void write_tried(const char *path, const struct tried *v, int n)
{
        struct cli_output out;

        if (cli_output_open(&out, path) < 0)
                return;
        for (int i = 0; i < n; i++) {
                if (!v[i].gone)
                        fprintf(out.file, "%s\t%ld\t%s\t%s\n", v[i].host, v[i].pid, v[i].profile,
                                v[i].dir);
        }
        cli_output_close(&out, ferror(out.file) ? -EIO : 0);
}

/* Does each rank have its own capo run? Then they would not all see the same profile. */
static bool is_one_rank(void)
{
        static const char *const names[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK",
                                            "SLURM_PROCID"};

        for (size_t i = 0; i < N_ELEMENTS(names); i++) {
                if (getenv(names[i]))
                        return true;
        }
        return false;
}

void run_trial_learn(const char *asked, char *path, size_t room)
{
        _cleanup_free_ struct tried *v = calloc(MOST_JOBS, sizeof *v);
        char list[PATH_MAX], mine[PATH_MAX];
        int lock, n;

        if (!v || is_one_rank() || !state_file("trials", list, sizeof list) ||
            !user_profile(path, mine, sizeof mine) || access(list, F_OK))
                return;
        lock = lock_state();
        if (lock < 0) {
                capo_warn("earlier trials are not read: %s is not available", list);
                return;
        }
        n = read_tried(list, v);
        if (learn_profile(v, n, access(mine, R_OK) ? path : mine, mine) < 0)
                capo_warn("what earlier jobs tried could not be kept in %s", mine);
        write_tried(list, v, n);
        close(lock);
        if (!access(mine, R_OK) && !strchr(asked, '/') && strlen(mine) < room)
                strcpy(path, mine);
        else if (!access(mine, R_OK) && strcmp(mine, path))
                capo_info("%s has what earlier jobs tried of it; --profile %.*s uses that", mine,
                          (int)strcspn(base_of(mine), "."), base_of(mine));
}

void run_trial_note(const char *dir, const char *path)
{
        char list[PATH_MAX], host[256] = "", line[2 * PATH_MAX + 320];
        int lock, fd, n;

        if (is_one_rank() || gethostname(host, sizeof host - 1) ||
            !state_file("trials", list, sizeof list))
                return;
        lock = lock_state();
        if (lock < 0)
                return;
        n = snprintf(line, sizeof line, "%s\t%ld\t%s\t%s\n", host, (long)getpid(), path, dir);
        fd = open(list, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
        if (fd < 0 || write(fd, line, (size_t)n) != n)
                capo_warn("%s: %s: this job's trials will not be looked at by the next capo run",
                          list, strerror(errno));
        if (fd >= 0)
                close(fd);
        close(lock);
}
