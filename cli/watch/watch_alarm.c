/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>

#include <jansson.h>

#include "capo/msg.h"
#include "cli/watch/metric_files.h"
#include "cli/watch/watch_alarm.h"
#include "core/base/clock.h"
#include "core/base/among.h"
#include "core/base/others_file.h"
#include "core/base/text.h"
#include "core/base/xalloc.h"

#define VERDICT     "hang.txt"
#define VERDICT_OLD "hang.before.txt"
#define RECORD      "hang.json"
#define CLAIM       "hang.watch" /* made by the elected watch, which touches it in every sample */
#define SECOND      UINT64_C(1000000000)
#define AGAIN_NS    (5 * SECOND)  /* between judgements while there is no culprit */
#define PATIENCE_NS (60 * SECOND) /* after that, "undecided" is reported */
#define GRACE_NS    (2 * SECOND)  /* for what the processes themselves write about a hang of 30 s */
#define STALE_NS    (120 * SECOND) /* an election file not touched for so long is invalid */

/* Delays after the report until its pages are written again: by then the processes, also on other
 * machines, have written their threads' stacks. */
static const uint64_t refresh_after_ns[] = {5 * SECOND, 30 * SECOND};

static char *path_of(const struct watch_job *job, const char *name, char *path, size_t room)
{
        snprintf(path, room, "%s/%s", job->folder, name);
        return path;
}

/* ---- election ---- */

static bool make_claim(struct watch_job *job, const char *path)
{
        int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0600);

        if (fd < 0)
                return false;
        close(fd);
        job->stuck.ours = true;
        return true;
}

/* Is this watch elected? The one that created the file is. Clocks of machines are not compared:
 * only how long the file has not changed counts. */
static bool is_elected(struct watch_job *job)
{
        struct watch_stuck *s = &job->stuck;
        uint64_t now = capo_clock_mono();
        char path[sizeof job->folder + 32];
        struct stat st;

        if (!*job->folder)
                return true;
        path_of(job, CLAIM, path, sizeof path);
        if (s->ours)
                return utimensat(AT_FDCWD, path, NULL, AT_SYMLINK_NOFOLLOW) == 0 ||
                       make_claim(job, path) || errno != EEXIST;
        if (make_claim(job, path))
                return true;
        if (errno != EEXIST) /* the folder is not writable: each watch reports on its stderr */
                return true;
        if (lstat(path, &st) < 0)
                return make_claim(job, path);
        if (!s->claim_seen_ns || st.st_mtim.tv_sec != s->claimed.tv_sec ||
            st.st_mtim.tv_nsec != s->claimed.tv_nsec) {
                s->claimed = st.st_mtim;
                s->claim_seen_ns = now;
        }
        if (now - s->claim_seen_ns < STALE_NS)
                return false;
        unlink(path);
        return make_claim(job, path);
}

/* ---- the verdict ---- */

static void keep_verdict(struct watch_stuck *s, const struct hang_page *page)
{
        const struct capo_hang_verdict *v = &page->verdict;

        s->kind = v->kind;
        s->since_ns = v->since_ns;
        s->n_culprits = 0;
        for (uint32_t i = 0; i < v->n_culprits && i < WATCH_CULPRITS; i++) {
                struct watch_culprit *c = &s->culprit[s->n_culprits++];

                c->rank = capo_hang_culprit_rank(&page->hang, &v->culprits[i]);
                snprintf(c->host, sizeof c->host, "%s",
                         page->job->processes[v->culprits[i].process].host);
                snprintf(c->why, sizeof c->why, "%s", capo_hang_why_name(v->culprits[i].why));
        }
}

/* The page that a watch wrote beside the logs; NULL: none that can be trusted. */
static json_t *load_record(const struct watch_job *job)
{
        char path[sizeof job->folder + 32];
        _cleanup_free_ char *text = NULL;
        size_t n;

        if (capo_others_read(path_of(job, RECORD, path, sizeof path), CAPO_OTHERS_MESSAGE,
                             job->owner.uid, &text, &n, NULL, 0) < 0)
                return NULL;
        return json_loadb(text, n, 0, NULL);
}

static void read_verdict(struct watch_job *job)
{
        struct watch_stuck *s = &job->stuck;
        json_t *page = load_record(job), *culprit;
        const char *verdict = "";
        double since = 0, still = 0;
        size_t i;

        if (page &&
            json_unpack(page, "{s:s, s:F, s:F}", "verdict", &verdict, "since", &since, "still_s",
                        &still) == 0 &&
            (since + still + job->page.after_s) * 1e9 > (double)job->page.verdict.since_ns) {
                for (unsigned k = 0; k < CAPO_HANG_KINDS; k++) {
                        if (!strcmp(capo_hang_kind_name(k), verdict)) {
                                s->kind = k;
                                s->since_ns = (uint64_t)(since * 1e9);
                        }
                }
                s->n_culprits = 0;
                json_array_foreach(json_object_get(page, "culprits"), i, culprit)
                {
                        struct watch_culprit *c = &s->culprit[s->n_culprits];
                        json_t *rank = json_object_get(culprit, "rank");
                        const char *host = json_string_value(json_object_get(culprit, "host")),
                                   *why = json_string_value(json_object_get(culprit, "why"));

                        if (s->n_culprits == WATCH_CULPRITS)
                                break;
                        c->rank = json_is_integer(rank) ? (int)json_integer_value(rank) : -1;
                        snprintf(c->host, sizeof c->host, "%s", host ? host : "");
                        snprintf(c->why, sizeof c->why, "%s", why ? why : "");
                        s->n_culprits++;
                }
        }
        json_decref(page);
}

/* Run sh -c COMMAND without waiting, with @text on its standard input. */
static void run_command(const char *command, const char *text, size_t n)
{
        char *argv[] = {(char *)"sh", (char *)"-c", (char *)(uintptr_t)command, NULL};
        int in = memfd_create("capo-hang", 0), r = in < 0 ? errno : 0;
        posix_spawn_file_actions_t files;
        posix_spawnattr_t how;
        sigset_t none, all;
        pid_t pid;

        signal(SIGCHLD, SIG_IGN);
        sigemptyset(&none);
        sigfillset(&all);
        posix_spawn_file_actions_init(&files);
        posix_spawnattr_init(&how);
        posix_spawnattr_setsigmask(&how, &none);
        posix_spawnattr_setsigdefault(&how, &all);
        posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
        if (r == 0 && (write(in, text, n) != (ssize_t)n || lseek(in, 0, SEEK_SET) < 0))
                r = EIO;
        r = r ?: posix_spawn_file_actions_adddup2(&files, in, STDIN_FILENO);
        r = r ?: posix_spawn_file_actions_addclose(&files, in);
        r = r ?: posix_spawn(&pid, "/bin/sh", &files, &how, argv, environ);
        posix_spawn_file_actions_destroy(&files);
        posix_spawnattr_destroy(&how);
        if (in >= 0)
                close(in);
        if (r)
                capo_warn("watch: --on-hang %s: %s", command, strerror(r));
}

/* Print the second line of the page, which has the verdict, and the first that says why. */
static void say_headline(const struct watch_job *job, const char *text, bool written)
{
        const char *line = strchr(text, '\n'), *why = strstr(text, "\n  machine: ");

        line = line ? line + 1 : text;
        why = why ?: strstr(text, "\n  late: ");
        why = why ? why + strlen("\n  ") : "";
        capo_warn("watch: job %s: %.*s%s%.*s%s%s%s", job->id, (int)strcspn(line, "\n"), line,
                  *why ? "; " : "", (int)strcspn(why, "\n"), why, written ? "; " : "",
                  written ? job->folder : "", written ? "/" VERDICT : "");
}

/* Write the pages beside the logs. @anew: report the verdict, too. */
static void write_pages(const struct watch *w, const struct watch_job *job,
                        const struct hang_page *page, bool anew)
{
        _cleanup_free_ char *text = NULL, *json = NULL;
        const char *old = anew && !job->stuck.reported ? VERDICT_OLD : NULL;
        size_t n_text = 0, n_json = 0;
        FILE *out = xmemstream(&text, &n_text);
        int r = -ENOENT;

        hang_text(page, out);
        xmemclose(out);
        out = xmemstream(&json, &n_json);
        hang_json(page, out);
        xmemclose(out);
        if (*job->folder)
                r = watch_write_file(job->folder, VERDICT, old, false, text, n_text)
                            ?: watch_write_file(job->folder, RECORD, NULL, false, json, n_json);
        if (!anew)
                return;
        if (r < 0 && *job->folder)
                capo_warn("watch: %s: the verdict cannot be written: %s", job->folder,
                          strerror(-r));
        say_headline(job, text, r == 0);
        if (w->options->on_hang) { /* with the rights of the user who started the watch */
                watch_users_leave();
                run_command(w->options->on_hang, json, n_json);
                watch_users_enter(&job->owner);
        }
}

/* The reported hang is over: update the pages beside the logs. */
static void say_goes_on(const struct watch_job *job)
{
        uint64_t now = capo_clock_of(CLOCK_REALTIME);
        char path[sizeof job->folder + 32], at[32];
        _cleanup_free_ char *text = NULL;
        struct stat st;
        json_t *page;
        int fd = -1;

        capo_info("watch: job %s: it goes on", job->id);
        if (*job->folder && job->stuck.ours)
                fd = capo_others_open(path_of(job, VERDICT, path, sizeof path),
                                      O_WRONLY | O_APPEND | O_NOFOLLOW, job->owner.uid, &st, NULL,
                                      0);
        if (fd < 0)
                return;
        dprintf(fd, "WENT ON  seen at %s: ranks make progress again; the above was before\n",
                capo_text_when(now, "%H:%M:%S", at));
        close(fd);
        page = load_record(job);
        if (page && json_object_set_new(page, "went_on", json_real((double)now / 1e9)) == 0)
                text = json_dumps(page, JSON_INDENT(2));
        if (text)
                watch_write_file(job->folder, RECORD, NULL, false, text, strlen(text));
        json_decref(page);
}

/* A job that makes no calls may just compute: do not alarm. */
static bool is_hang(const struct capo_hang_verdict *v)
{
        return capo_hang_kind_exit(v->kind) != 0 && v->kind != CAPO_HANG_ENDED && !v->quiet;
}

/* Judge all visible ranks and report what is new. Return: is the job stuck? */
static bool judge_all(const struct watch *w, struct watch_job *job)
{
        struct watch_stuck *s = &job->stuck;
        struct hang_logs logs = {0};
        struct hang_page page = {.logs = &logs, .after_s = w->options->hang};
        char pid[16] = "",
             *words[] = {job->folder, pid, NULL}; /* selects the job of that process there */
        bool patient = capo_clock_mono() - s->suspected_ns < PATIENCE_NS;
        bool hangs;
        int r;

        page.hang.after_ns = (uint64_t)(w->options->hang * 1e9);
        if (job->logs.paths.n)
                snprintf(pid, sizeof pid, "%d", job->logs.v[0].pid);
        r = *job->folder ? hang_gather(*pid ? 2 : 1, words, &logs)
                         : hang_gather(1, words + 1, &logs);
        r = r ?: hang_page_read(&page);
        if (r == 0)
                hang_page_judge(&page);
        hangs = r == 0 && is_hang(&page.verdict);
        if (hangs) {
                bool decided = page.verdict.kind != CAPO_HANG_UNDECIDED;

                if ((decided && !s->decided) || (!decided && !s->reported && !patient)) {
                        keep_verdict(s, &page);
                        write_pages(w, job, &page, true);
                        s->reported = true;
                        s->decided = decided;
                        s->refresh_ns = capo_clock_mono() + refresh_after_ns[0];
                } else if (decided) {
                        keep_verdict(s, &page);
                        write_pages(w, job, &page, false);
                }
        }
        hang_page_finish(&page);
        hang_logs_finish(&logs);
        return hangs;
}

uint64_t watch_alarm(const struct watch *w, struct watch_job *job)
{
        uint64_t limit = (uint64_t)(w->options->hang * 1e9), still, now;
        const struct capo_hang_process *all = job->page.hang.processes;
        struct watch_stuck *s = &job->stuck;

        if (!limit || !job->readable)
                return UINT64_MAX;
        still = MOST_OF(p, all, job->page.hang.n_processes, watch_age_ns(job, (uint32_t)(p - all)));
        if (is_hang(&job->page.verdict) && job->page.verdict.still_ns > still)
                still = job->page.verdict.still_ns;
        limit += limit / 10 < GRACE_NS ? limit / 10 : GRACE_NS;
        if (still < limit) {
                if (s->reported)
                        say_goes_on(job);
                watch_alarm_end(job);
                return limit - still;
        }
        if (!s->suspected_ns)
                s->suspected_ns = capo_clock_mono();
        if (!is_elected(job)) {
                read_verdict(job);
                return UINT64_MAX;
        }
        now = capo_clock_mono();
        if (s->decided && now < s->refresh_ns)
                return s->refresh_ns == UINT64_MAX ? UINT64_MAX : s->refresh_ns - now;
        if (s->decided) {
                s->refreshed++;
                s->refresh_ns = s->refreshed < N_ELEMENTS(refresh_after_ns)
                                        ? now + refresh_after_ns[s->refreshed]
                                        : UINT64_MAX;
        }
        judge_all(w, job);
        return AGAIN_NS;
}

uint64_t watch_alarm_logs(const struct watch *w, struct watch_job *job, bool news)
{
        uint64_t now = capo_clock_mono();
        struct watch_stuck *s = &job->stuck;

        if (news && !s->suspected_ns)
                s->suspected_ns = now;
        if (!s->suspected_ns || (s->reported && now < s->refresh_ns) || !is_elected(job))
                return UINT64_MAX;
        if (!judge_all(w, job)) {
                if (s->reported)
                        say_goes_on(job);
                watch_alarm_end(job);
                return UINT64_MAX;
        }
        if (s->reported)
                s->refresh_ns = now + PATIENCE_NS;
        return s->reported ? UINT64_MAX : AGAIN_NS;
}

void watch_alarm_gone(struct watch_job *job)
{
        struct hang_logs logs = {0};
        struct hang_page page = {.logs = &logs};
        char *words[] = {job->folder, NULL};

        /* its processes can have gone on and ended by exit(0) between two samples */
        if (job->stuck.reported && *job->folder && hang_gather(1, words, &logs) == 0 &&
            hang_page_read(&page) == 0 && page.hang.over && page.verdict.kind == CAPO_HANG_HEALTHY)
                say_goes_on(job);
        hang_page_finish(&page);
        hang_logs_finish(&logs);
        watch_alarm_end(job);
}

void watch_alarm_end(struct watch_job *job)
{
        char path[sizeof job->folder + 32];

        if (job->stuck.ours)
                unlink(path_of(job, CLAIM, path, sizeof path));
        job->stuck = (struct watch_stuck){0};
}
