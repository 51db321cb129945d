/* SPDX-License-Identifier: Apache-2.0 */
/* capo watch: the command line and the loop. cli/watch/watch_jobs.h lists the files. */
#include <dirent.h>
#include <fnmatch.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "analysis/log/hang_frame_read.h"
#include "capo/frame_types.h"
#include "capo/msg.h"
#include "cli/base/cli.h"
#include "cli/watch/metric_files.h"
#include "cli/watch/metrics.h"
#include "cli/watch/watch_alarm.h"
#include "cli/watch/watch_serve.h"
#include "core/base/among.h"
#include "core/base/clock.h"
#include "core/base/xalloc.h"

/* Jobs on other machines with logs in a shared folder, as with `capo run -- srun`. Their memory
 * cannot be read, but each process writes to its log when it sees a hang. */
struct watch_logs {
        struct watch_log {
                char *name;
                uint64_t at; /* offset of the first unread frame */
        } * v;
        size_t n;
        struct watch_job job; /* of the folder: its newest job */
};

static struct watch_log *place_log(struct watch_logs *logs, const char *name)
{
        return FIRST_OF(l, logs->v, logs->n, !strcmp(l->name, name))
                       ?: xput(logs->v, logs->n, .name = xstrdup(name));
}

/* Read the new frames. An incomplete frame is read next time. */
static bool read_news(struct watch_log *of, const char *path)
{
        _cleanup_(capo_log_closep) struct capo_log *log = NULL;
        struct capo_log_frame f = {0}; /* unchanged without a complete frame */
        bool news = false;
        char why[512];

        if (capo_log_open(path, &log, why, sizeof why) < 0)
                return false;
        if (!of->at)
                of->at = capo_log_header(log)->header_size;
        while (capo_log_frame_at(log, of->at, &f) == 0 && f.type > 0 && f.type < CAPO_FRAMES) {
                struct capo_hang_text t;

                if (f.type == CAPO_FRAME_HANG && capo_hang_text_read(&f, &t) == 0)
                        news |= t.nth > 0; /* 0: it was only asked */
                of->at += sizeof(struct capo_frame) + ((f.size + 7ull) & ~7ull);
                f.type = 0;
        }
        return news;
}

/* Has a process of @folder written since the last call that it sees a hang? What is there at the
 * first call does not count. */
static bool read_news_of(struct watch_logs *logs, const char *folder)
{
        bool first = !logs->n, news = false;
        DIR *dir = opendir(folder);

        for (struct dirent *e; dir && (e = readdir(dir));) {
                char path[PATH_MAX];

                if (fnmatch("*.capo", e->d_name, 0) ||
                    snprintf(path, sizeof path, "%s/%s", folder, e->d_name) >= (int)sizeof path)
                        continue;
                news |= read_news(place_log(logs, e->d_name), path);
        }
        if (dir)
                closedir(dir);
        return news && !first;
}

#define SECOND      UINT64_C(1000000000)
#define SAMPLE_MOST 300 /* seconds */
#define IDLE_MOST   40  /* samples without a job, then the process for a user ends */
#define USER_BYTES  ((rlim_t)768 << 20)

static void forget_job(struct watch *w, struct watch_job *job)
{
        if (watch_users_enter(&job->owner) == 0) {
                watch_alarm_gone(job);
                watch_users_leave();
        }
        if (w->options->metrics)
                metric_files_remove(w, job);
}

/* Judge a job with the rights of its user. Return: as watch_alarm(). */
static uint64_t judge_job(struct watch *w, struct watch_job *job)
{
        uint64_t in;

        if (watch_users_enter(&job->owner) < 0)
                return UINT64_MAX;
        in = watch_alarm(w, job);
        watch_users_leave();
        return in;
}

/* What the loop waits for besides time. */
struct waiting {
        int signals, until; /* descriptors; -1: none */
        struct watch_serve serve;
        bool ended; /* the process of --until has ended */
};

static int begin_waiting(const struct watch_options *o, struct waiting *on)
{
        sigset_t set;

        sigemptyset(&set);
        sigaddset(&set, SIGINT);
        sigaddset(&set, SIGTERM);
        sigaddset(&set, SIGHUP);
        sigprocmask(SIG_BLOCK, &set, NULL);
        signal(SIGPIPE, SIG_IGN);
        on->signals = signalfd(-1, &set, SFD_CLOEXEC);
        on->until = o->until ? (int)syscall(SYS_pidfd_open, o->until, 0) : -1;
        on->ended = o->until && on->until < 0 && errno == ESRCH;
        return watch_serve_begin(&on->serve, o);
}

static bool has_ended(const struct watch_options *o, const struct waiting *on)
{
        struct pollfd end = {on->until, POLLIN, 0};

        if (on->ended || !o->until)
                return on->ended;
        return on->until >= 0 ? poll(&end, 1, 0) > 0 : kill(o->until, 0) < 0 && errno == ESRCH;
}

/* Wait until @end_ns, a signal, or the end of the process. Return: false: stop. */
static bool wait_until(const struct watch *w, struct waiting *on, uint64_t end_ns)
{
        for (;;) {
                struct pollfd fds[2 + WATCH_SERVE_FDS] = {{on->signals, POLLIN, 0},
                                                          {on->ended ? -1 : on->until, POLLIN, 0}};
                uint64_t now = capo_clock_mono();
                unsigned n = 2 + watch_serve_poll(&on->serve, fds + 2);
                int ms = now >= end_ns ? 0 : (int)((end_ns - now) / 1000000) + 1;

                if (w->options->until && on->until < 0 && !on->ended && ms > 1000)
                        ms = 1000; /* no pidfd_open() */
                if (poll(fds, n, ms) < 0 && errno != EINTR)
                        return false;
                if (fds[0].revents)
                        return false;
                watch_serve_answer(&on->serve, w, fds + 2);
                if (!on->ended && has_ended(w->options, on)) {
                        on->ended = true;
                        /* a reader of the command's standard error must not wait for this process
                         */
                        return freopen("/dev/null", "w", stderr);
                }
                if (capo_clock_mono() >= end_ns)
                        return true;
        }
}

/* Without processes here, check their logs. Return: as watch_alarm(). */
static uint64_t watch_folder(const struct watch *w, struct watch_logs *logs)
{
        const char *dir = w->options->dir;

        if (!dir || w->n_jobs || !(w->options->hang > 0))
                return UINT64_MAX;
        if (!*logs->job.folder) {
                _cleanup_free_ char *real = realpath(dir, NULL);

                logs->job.owner = (struct watch_user){geteuid(), getegid()};
                snprintf(logs->job.folder, sizeof logs->job.folder, "%s", real ? real : "");
                snprintf(logs->job.id, sizeof logs->job.id, "%.100s",
                         capo_base_name(logs->job.folder));
        }
        return watch_alarm_logs(w, &logs->job,
                                *logs->job.folder && read_news_of(logs, logs->job.folder));
}

/* A file system that does not answer must not stop the watch for ever: whoever started it, such as
 * systemd, can start it again. */
static void end_slow_sample(int signal_number)
{
        static const char text[] = "capo: watch: a sample took more than 300 s: the watch ends\n";

        if (write(STDERR_FILENO, text, sizeof text - 1) < 0) {
                /* nobody reads it */
        }
        _exit(CAPO_EXIT_FAIL);
}

static int watch_loop(struct watch *w, struct waiting *on, struct watch_logs *logs)
{
        const struct watch_options *o = w->options;
        unsigned idle = 0;
        uint64_t period = (uint64_t)(o->every * 1e9), next = capo_clock_mono();

        /* a command that has just begun has nothing to sample, and may be short */
        if (o->until && !o->metrics &&
            !wait_until(w, on, next + (uint64_t)(fmin(o->every, o->hang / 2) * 1e9)))
                return 0;
        signal(SIGALRM, end_slow_sample);
        for (;;) {
                uint64_t soon;
                int r;

                alarm(SAMPLE_MOST);
                r = watch_sample(w, forget_job);

                if (r < 0)
                        return capo_fail(r, "watch: %s", strerror(-r));
                if (o->metrics)
                        metric_files_write(w);
                soon = on->ended ? UINT64_MAX : watch_folder(w, logs);
                for (uint32_t i = 0; i < w->n_jobs; i++) {
                        uint64_t in = judge_job(w, &w->job[i]);

                        soon = in < soon ? in : soon;
                }
                idle = w->n_jobs ? 0 : idle + 1;
                if ((on->ended && !w->n_jobs) || (w->only && idle == IDLE_MOST))
                        return 0;
                /* write a command's first metrics as soon as it calls NCCL */
                if (o->until && o->metrics && !w->n_jobs && soon > SECOND)
                        soon = SECOND;
                alarm(0);
                next = capo_clock_mono() + (soon < period ? soon : period);
                if (!wait_until(w, on, next))
                        return 0;
        }
}

static int watch_until_end(struct watch *w)
{
        struct waiting on = {.signals = -1, .until = -1};
        struct watch_logs logs = {0};
        int r = begin_waiting(w->options, &on);
        int status = r == -EDESTADDRREQ                       ? CAPO_EXIT_USAGE
                     : r < 0 || watch_loop(w, &on, &logs) < 0 ? CAPO_EXIT_FAIL
                                                              : CAPO_EXIT_OK;

        watch_alarm_end(&logs.job);
        for (size_t i = 0; i < logs.n; i++)
                free(logs.v[i].name);
        free(logs.v);
        watch_serve_finish(&on.serve);
        if (!w->options->until || on.ended)
                watch_finish_logs(w);
        for (uint32_t i = 0; i < w->n_jobs; i++)
                forget_job(w, &w->job[i]);
        return status;
}

/* ---- a process for each user, so that data which ends one ends no other ---- */

struct user_watch {
        struct watch_user user;
        pid_t pid; /* 0: none */
        uint64_t again_ns;
};

static pid_t start_user(const struct watch *all, const struct watch_user *user)
{
        const struct rlimit memory = {USER_BYTES, USER_BYTES};
        struct watch w = {.options = all->options, .only = user};
        pid_t pid = fork();
        char name[16];

        if (pid)
                return pid < 0 ? 0 : pid;
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        setrlimit(RLIMIT_AS, &memory);
        snprintf(name, sizeof name, "watch-%u", user->uid);
        prctl(PR_SET_NAME, name);
        strcpy(w.node, all->node);
        exit(watch_until_end(&w));
}

static void reap_user(const struct watch *w, struct user_watch *u, uint64_t again_ns)
{
        int status;

        if (!u->pid || waitpid(u->pid, &status, WNOHANG) != u->pid)
                return;
        u->pid = 0;
        if (WIFEXITED(status) && !WEXITSTATUS(status))
                return;
        u->again_ns = again_ns;
        if (w->options->metrics)
                metric_files_clear(w, &u->user);
        capo_warn("watch: the process for user %u ended (%s %d); the next one starts in a while",
                  u->user.uid, WIFSIGNALED(status) ? "signal" : "status",
                  WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

static int watch_users(struct watch *w)
{
        struct waiting on = {.signals = -1, .until = -1};
        uint64_t period = (uint64_t)(w->options->every * 1e9), now;
        struct user_watch *all = NULL;
        uint32_t n_all = 0;
        int r = begin_waiting(w->options, &on);

        do {
                _cleanup_free_ struct watch_user *users = NULL;
                int n = watch_users_find(NULL, true, &users);

                now = capo_clock_mono();
                for (uint32_t i = 0; i < n_all; i++)
                        reap_user(w, &all[i], now + 4 * period);
                for (int i = 0; i < n; i++) {
                        struct user_watch *u =
                                FIRST_OF(known, all, n_all, known->user.uid == users[i].uid);

                        u = u ?: xput(all, n_all, .user = users[i]);
                        if (!u->pid && now >= u->again_ns)
                                u->pid = start_user(w, &u->user);
                }
        } while (r == 0 && wait_until(w, &on, now + period));
        for (uint32_t i = 0; i < n_all; i++) {
                if (all[i].pid && kill(all[i].pid, SIGTERM) == 0)
                        waitpid(all[i].pid, NULL, 0);
        }
        free(all);
        return r < 0 ? CAPO_EXIT_FAIL : CAPO_EXIT_OK;
}

static int print_once(struct watch *w)
{
        const struct watch_options *o = w->options;
        int r = watch_sample(w, forget_job);

        if (r < 0)
                return capo_fail(CAPO_EXIT_FAIL, "watch: %s", strerror(-r));
        if (!w->n_jobs)
                return capo_fail(CAPO_EXIT_FAIL,
                                 "watch: no process of yours here runs under capo%s%s%s",
                                 o->dir ? " with logs in " : "", o->dir ? o->dir : "",
                                 o->dir ? "; try without --dir" : "");
        for (uint32_t i = 0; i < w->n_jobs; i++)
                judge_job(w, &w->job[i]);
        if (o->metrics)
                return metric_files_write(w) < 0 ? CAPO_EXIT_FAIL : CAPO_EXIT_OK;
        metrics_print(w, NULL, o->lines ? METRICS_LINES : METRICS_TEXT, stdout);
        return fflush(stdout) ? CAPO_EXIT_FAIL : CAPO_EXIT_OK;
}

static int run_watch(void *options, int n, char **words)
{
        const struct watch_options *o = options;
        struct watch w = {.options = o};
        struct watch_claim files = {.fd = -1}, folder = {.fd = -1};
        char why[200] = "";
        struct stat st;
        int status = CAPO_EXIT_OK, r;

        gethostname(w.node, sizeof w.node - 1);
        if (o->dir && !o->until && stat(o->dir, &st) < 0)
                return capo_fail(CAPO_EXIT_FAIL, "watch: %s: expected a folder of logs: %s", o->dir,
                                 strerror(errno));
        if (o->metrics && metric_files_begin(&w, &files) < 0)
                return CAPO_EXIT_FAIL;
        /* capo run starts one per process; one per folder and node is enough */
        r = o->until && o->dir ? watch_claim(&folder, "logs", o->dir, why, sizeof why) : 0;
        if (r == -EADDRINUSE) {
                capo_debug("watch: %s: %s watches this folder", o->dir, why);
                watch_claim_drop(&files);
                return CAPO_EXIT_OK;
        }
        if (r < 0)
                capo_warn("watch: %s: several watches may write the verdict of one job", why);
        if (!o->once)
                setpriority(PRIO_PROCESS, 0, 10);
        status = o->once                                       ? print_once(&w)
                 : getuid() || o->dir || o->until || o->listen ? watch_until_end(&w)
                                                               : watch_users(&w);
        watch_finish(&w);
        watch_claim_drop(&files);
        watch_claim_drop(&folder);
        return status;
}

static const char *const style_names[] = {"capo", "inspector", NULL};
static const struct watch_options defaults = {.hang = 30, .every = 15, .below = true};

static const struct cli_option options[] = {
        {"metrics", CLI_FILE(struct watch_options, metrics, "DIR"),
         "write one file per job there, for the node exporter's textfile collector"},
        {"dir", CLI_FILE(struct watch_options, dir, "LOGS"),
         "only jobs whose logs are in this folder; default all of this user on this machine (root: of all users)"},
        {"hang", CLI_SECONDS(struct watch_options, hang, "SECONDS", 0, 86400),
         "a job is stuck when nothing in it has moved for so long (30; 0: no verdict)"},
        {"on-hang", CLI_TEXT(struct watch_options, on_hang, "COMMAND"),
         "run this by sh when a job is stuck, with the verdict in JSON on its standard input"},
        {"listen", CLI_TEXT(struct watch_options, listen, "HOST:PORT"),
         "serve the metrics over HTTP there, at /metrics", .example = "127.0.0.1:9401"},
        {"token", CLI_FILE(struct watch_options, token, "FILE"),
         "with --listen: a request must have the bearer token in this file, which only this user may read",
         .rare = true},
        {"style", CLI_CHOICE(struct watch_options, style, "STYLE", style_names),
         "names of the metrics: capo (default), or inspector as NVIDIA's Inspector has them"},
        {"every", CLI_SECONDS(struct watch_options, every, "SECONDS", 0.1, 3600),
         "seconds between two samples (15)", .rare = true},
        {"until", CLI_COUNT(struct watch_options, until, "PID", 1, INT_MAX),
         "end when this process has ended and no job is left", .rare = true},
        {"once", CLI_FLAG(struct watch_options, once),
         "sample once, write the metrics (to standard output without --metrics), and end"},
        {"json", CLI_FLAG(struct watch_options, lines), "with --once: as JSON lines"},
        {0}};

const struct cli_command watch_command = {
        .usage = "[OPTION...]",
        .about = "Watches this user's recorded jobs on this machine from outside, every 15 "
                 "seconds. Exports metrics for Prometheus, and explains a job as soon as nothing "
                 "in it has moved for 30 seconds: the verdict of capo hang over all ranks that "
                 "can be seen goes to hang.txt and hang.json beside the logs. The job itself "
                 "does nothing for it, because capo watch reads the memory that the recorder "
                 "keeps anyway. capo run starts a watch beside its job.",
        .options = options,
        .after = "  capo watch --metrics /var/lib/prometheus/node-exporter\n"
                 "  capo watch --listen 127.0.0.1:9401 --on-hang 'mail -s \"job stuck\" me'\n"
                 "  capo watch --once",
        .status =
                "0; 1 no job with --once, or a folder or an address cannot be used; 2 wrong command line.",
        .size = sizeof(struct watch_options),
        .defaults = &defaults,
        .run = run_watch,
};
