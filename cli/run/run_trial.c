/* SPDX-License-Identifier: Apache-2.0 */
/* What a profile's rows were tried for is kept beside the user's profiles, by the path and the
 * digest of the profile that was named: another file of the same name, and a new version of it,
 * begin anew. "trials" lists the jobs whose logs were not read yet: host, pid, key, folder,
 * tab-separated. In "tried", KEY.tsv has what each ended job found, and KEY.json the profile with
 * the verdicts of all of them, which the next job uses. A lock allows one process at a time, and
 * all files are replaced atomically. */
#include <dirent.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/base/among.h"
#include "analysis/job/figures.h"
#include "analysis/steps/job_steps.h"
#include "capo/msg.h"
#include "cli/base/cli_job.h"
#include "cli/base/cli_output.h"
#include "cli/run/run_trial.h"
#include "core/base/calls.h"
#include "core/base/xalloc.h"
#include "core/profile/profile_find.h"
#include "profiles/fit/fit_trial.h"

enum {
        MOST_JOBS = 256,
        LOCK_TRIES = 50,
        LOCK_WAIT_US = 100000,
        KEY = RUN_TRIAL_KEY,
        SETTLED_S = 300
};

struct tried {
        char host[256], key[KEY], dir[PATH_MAX];
        long pid;
        bool gone; /* its results were used, or never will be */
};

/* ---- what earlier jobs found: a line for a row at a size in one job ---- */

enum { EVIDENCE_JOBS = 64 }; /* the newest are kept */

struct evidence {
        struct capo_trial_found *found; /* the oldest job first */
        uint64_t *job;                  /* of each */
        int n;
};

static void append_found(struct evidence *e, uint64_t job, const struct capo_trial_found *f)
{
        xarray_room(&e->found, (size_t)e->n, sizeof *e->found);
        e->found[e->n] = *f;
        *xadd(e->job, e->n) = job;
}

/* A line that makes sense: the file is the user's, who may edit it. */
static bool is_possible(const struct capo_trial_found *f)
{
        return f->bytes && f->n_ranks > 0 && f->own_us > 0 && f->row_us > 0 && f->se > 0 &&
               isfinite(f->own_us) && isfinite(f->row_us) && isfinite(f->change) &&
               isfinite(f->se) && isfinite(f->step_change) && isfinite(f->step_se) &&
               isfinite(f->doubt);
}

static void evidence_read(const char *path, struct evidence *out)
{
        _cleanup_fclose_ FILE *in = fopen(path, "re");
        _cleanup_free_ char *line = NULL;
        size_t room = 0;

        *out = (struct evidence){0};
        while (in && getline(&line, &room, in) > 0) {
                struct capo_trial_found f = {.n_jobs = 1};
                uint64_t job;
                unsigned call;

                if (sscanf(line,
                           "%" SCNx64 " %u %u %d %" SCNu64 " %u %u %lf %lf %lf %lf %lf %lf %lf",
                           &job, &f.row, &call, &f.n_ranks, &f.bytes, &f.n_row, &f.n_own, &f.row_us,
                           &f.own_us, &f.change, &f.se, &f.step_change, &f.step_se,
                           &f.doubt) < 11 ||
                    call > UINT8_MAX || !is_possible(&f))
                        continue;
                f.call = (uint8_t)call;
                append_found(out, job, &f);
        }
}

static int evidence_write(const struct evidence *e, const char *path)
{
        struct cli_output out;
        int first = e->n, jobs = 0, r;

        while (first > 0) {
                jobs += first == e->n || e->job[first - 1] != e->job[first];
                if (jobs > EVIDENCE_JOBS)
                        break;
                first--;
        }
        r = cli_output_open(&out, path);
        if (r < 0)
                return r;
        for (int i = first; i < e->n; i++) {
                const struct capo_trial_found *f = &e->found[i];

                fprintf(out.file,
                        "%" PRIx64 " %u %u %d %" PRIu64
                        " %u %u %.9g %.9g %.9g %.9g %.9g %.9g %.9g\n",
                        e->job[i], f->row, f->call, f->n_ranks, f->bytes, f->n_row, f->n_own,
                        f->row_us, f->own_us, f->change, f->se, f->step_change, f->step_se,
                        f->doubt);
        }
        return cli_output_close(&out, ferror(out.file) ? -EIO : 0);
}

/* ---- the list of jobs ---- */

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
        _cleanup_free_ char *copy = xstrdup(path);

        for (char *p = copy + 1; (p = strchr(p, '/')); p++) {
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

/* The newest MOST_JOBS lines. */
static int read_tried(const char *path, struct tried *v)
{
        _cleanup_fclose_ FILE *in = fopen(path, "re");
        _cleanup_free_ char *line = NULL;
        size_t room = 0;
        int n = 0;

        while (in && getline(&line, &room, in) > 0) {
                struct tried t = {0};

                if (sscanf(line, "%255[^\t]\t%ld\t%127[^\t]\t%4095[^\t\n]", t.host, &t.pid, t.key,
                           t.dir) != 4)
                        continue;
                if (n == MOST_JOBS)
                        memmove(v, v + 1, (size_t)--n * sizeof *v);
                v[n++] = t;
        }
        return n;
}

/* A process of another host cannot be asked: its folder must have been quiet for a while. */
static bool is_settled(const struct tried *t)
{
        struct stat st;

        return stat(t->dir, &st) < 0 || time(NULL) - st.st_mtime > SETTLED_S;
}

static bool has_ended(const struct tried *t)
{
        char host[256] = "";

        gethostname(host, sizeof host - 1);
        if (strcmp(host, t->host))
                return is_settled(t);
        return t->pid == getpid() || (kill((pid_t)t->pid, 0) && errno == ESRCH);
}

static bool tried_file(const char *key, const char *end, char *path, size_t room)
{
        char name[KEY + 16];

        snprintf(name, sizeof name, "tried/%s.%s", key, end);
        return state_file(name, path, room);
}

static void say_found(const struct capo_profile *p, const struct capo_trial_found *f)
{
        const struct capo_row *row = &p->rows[f->row];
        struct capo_trial_change change = capo_trial_change(f);
        char size[16], by[160];

        if (f->verdict == CAPO_TRIAL_OPEN)
                return;
        capo_info("tried: %s %s on %d ranks by %s %s: %.1f %% %s than NCCL's choice "
                  "(%.1f to %.1f, %u calls in %s): %s from now on, %s",
                  capo_call_name(f->call), capo_size_print(f->bytes, size, sizeof size), f->n_ranks,
                  capo_algo_name(row->algo), capo_proto_name(row->proto), change.percent,
                  change.word, change.lo, change.hi, f->n_row,
                  capo_text_plural((uint64_t)f->n_jobs, "job", NULL),
                  f->verdict == CAPO_TRIAL_FASTER ? "used" : "left to NCCL",
                  capo_trial_by_text(f, by, sizeof by));
}

static bool same_content(const char *path, const char *text, size_t size)
{
        _cleanup_fclose_ FILE *in = fopen(path, "re");
        _cleanup_free_ char *have = xmalloc(size + 1);

        return in && fread(have, 1, size + 1, in) == size && !memcmp(have, text, size);
}

/* Return: 0; negative errno, printed. */
static int write_user_profile(const struct capo_profile *p, const char *path, bool *wrote)
{
        _cleanup_free_ char *text = NULL;
        struct cli_output out;
        size_t size;
        FILE *f = xmemstream(&text, &size);
        int e = capo_profile_write(p, f);

        xmemclose(f);
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

/* What the job that logged to @dir found of @p. Return: how many; 0 also of logs that
 * cannot be used. */
static int read_job(const char *dir, const struct capo_profile *p, struct capo_trial_found **found)
{
        _cleanup_(capo_fit_freep) struct capo_fit *fit = NULL;
        static const struct capo_fit_options options = {.min_gain = 0.01, .force = true};
        struct capo_samples set = {0};
        struct capo_job_steps steps;
        struct capo_job *job;
        struct capo_fault fault;
        char error[512];
        int e = capo_import(dir, NULL, &set, error, sizeof error);

        *found = NULL;
        if (e == 0) {
                leave_parts_out(dir, &set, 0);
                e = capo_fit_make(&set, &options, &fit, &fault);
        }
        if (e == 0)
                e = capo_fit_trials(&set, fit, p, found);
        capo_samples_free(&set);
        if (e > 0 && (job = cli_job_load(dir))) {
                capo_job_steps(job, &steps);
                capo_trial_steps(job, &steps, *found, e);
                capo_job_steps_finish(&steps);
                capo_job_free(job);
        }
        return e > 0 ? e : 0;
}

/* The profile with all verdicts, in @to. */
static int learn_profile(struct tried *v, int n, const char *key, const struct capo_profile *p,
                         const char *to)
{
        _cleanup_(capo_profile_freep) struct capo_profile *next = capo_profile_new(p->name);
        struct evidence evidence;
        char path[PATH_MAX];
        int e = 0, before, n_found;
        bool wrote = false;

        if (!next || !tried_file(key, "tsv", path, sizeof path))
                return next ? -ENAMETOOLONG : -ENOMEM;
        evidence_read(path, &evidence);
        before = evidence.n;
        for (struct tried *t = v; t < v + n; t++) {
                _cleanup_free_ struct capo_trial_found *found = NULL;
                int r;

                if (strcmp(t->key, key) || !has_ended(t))
                        continue;
                r = read_job(t->dir, p, &found);
                t->gone = r > 0 || is_settled(t); /* another node's log may be late */
                for (int k = 0; k < r; k++)
                        append_found(&evidence, XXH3_64bits(t->dir, strlen(t->dir)), &found[k]);
        }
        if (evidence.n > before) {
                make_folders(path);
                e = evidence_write(&evidence, path);
                n_found = e < 0 ? e : capo_trial_pool(evidence.found, evidence.n);
                e = n_found < 0 ? n_found : capo_trial_apply(p, evidence.found, n_found, next);
                if (e > 0)
                        e = write_user_profile(next, to, &wrote);
                else if (e == 0)
                        unlink(to); /* a verdict of earlier jobs stands no more */
                for (int i = 0; wrote && i < n_found; i++)
                        say_found(p, &evidence.found[i]);
        }
        xfree(evidence.found, evidence.job);
        return e < 0 ? e : 0;
}

static void write_tried(const char *path, const struct tried *v, int n)
{
        struct cli_output out;

        if (cli_output_open(&out, path) < 0)
                return;
        for (int i = 0; i < n; i++) {
                if (!v[i].gone)
                        fprintf(out.file, "%s\t%ld\t%s\t%s\n", v[i].host, v[i].pid, v[i].key,
                                v[i].dir);
        }
        cli_output_close(&out, ferror(out.file) ? -EIO : 0);
}

bool run_trial_one_rank(void)
{
        static const char *const names[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK",
                                            "SLURM_PROCID"};

        return ANY_OF(name, names, N_ELEMENTS(names), getenv(*name));
}

bool run_trial_empty(const char *key, bool now)
{
        char path[PATH_MAX];
        struct stat st;
        int fd;

        if (!*key || !tried_file(key, "tsv", path, sizeof path))
                return false;
        fd = now ? open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) : -1;
        if (fd >= 0)
                close(fd);
        return stat(path, &st) == 0 && !st.st_size;
}

int run_trial_store(const struct capo_profile *profile, const char *name, char *path, size_t room)
{
        bool wrote;

        return run_trial_one_rank() || !tried_file(name, "json", path, room)
                       ? -ENOENT
                       : write_user_profile(profile, path, &wrote);
}

/* The key of the profile at @path, "mycluster-0123456789abcdef" of its path and digest, and that
 * profile. Return: false: nothing can be kept of it. */
static bool open_profile(const char *path, char key[KEY], struct capo_profile **p)
{
        char absolute[PATH_MAX];
        const char *base;
        size_t n;

        if (run_trial_one_rank() || !realpath(path, absolute) ||
            capo_profile_load(absolute, p, NULL) < 0)
                return false;
        base = capo_base_name(absolute);
        n = strcspn(base, ".");
        snprintf(key, KEY, "%.*s-%016llx", n < 64 ? (int)n : 64, base,
                 (unsigned long long)XXH3_64bits_withSeed(
                         absolute, strlen(absolute),
                         XXH3_64bits((*p)->digest, strlen((*p)->digest))));
        return true;
}

void run_trial_learn(char *path, size_t room, char key[RUN_TRIAL_KEY])
{
        _cleanup_free_ struct tried *v = xcalloc(MOST_JOBS, sizeof *v);
        _cleanup_(capo_profile_freep) struct capo_profile *p = NULL;
        char list[PATH_MAX], learned[PATH_MAX];
        int lock, n;

        *key = 0;
        if (!open_profile(path, key, &p) || !state_file("trials", list, sizeof list) ||
            !tried_file(key, "json", learned, sizeof learned))
                return;
        lock = access(list, F_OK) ? -1 : lock_state();
        if (lock >= 0) {
                n = read_tried(list, v);
                if (learn_profile(v, n, key, p, learned) < 0)
                        capo_warn("what earlier jobs tried could not be kept in %s", learned);
                write_tried(list, v, n);
                close(lock);
        } else if (!access(list, F_OK)) {
                capo_warn("earlier trials are not read: %s is not available", list);
        }
        if (access(learned, R_OK) || strlen(learned) >= room)
                return;
        strcpy(path, learned);
}

void run_trial_note(const char *dir, const char *key)
{
        char list[PATH_MAX], host[256] = "", line[PATH_MAX + 640];
        int lock, fd, n;

        if (!*key || gethostname(host, sizeof host - 1) || !state_file("trials", list, sizeof list))
                return;
        lock = lock_state();
        if (lock < 0)
                return;
        n = snprintf(line, sizeof line, "%s\t%ld\t%s\t%s\n", host, (long)getpid(), key, dir);
        fd = open(list, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
        if (fd < 0 || write(fd, line, (size_t)n) != n)
                capo_warn("%s: %s: this job's trials will not be looked at by the next capo run",
                          list, strerror(errno));
        if (fd >= 0)
                close(fd);
        close(lock);
}
