/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <sys/stat.h>

#include "capo/env.h"
#include "capo/msg.h"
#include "core/base/among.h"
#include "core/base/order.h"
#include "core/base/text.h"
#include "core/base/xalloc.h"
#include "analysis/log/log_find.h"
#include "analysis/log/live_jobs.h"
#include "analysis/log/pack.h"

static int is_log(const struct dirent *e)
{
        size_t n = strlen(e->d_name);

        return e->d_name[0] != '.' &&
               ((n > 5 && !strcmp(e->d_name + n - 5, ".capo")) || capo_pack_is_name(e->d_name));
}

static int is_visible(const struct dirent *e) { return e->d_name[0] != '.'; }

static void free_names(struct dirent **names, int n)
{
        while (n-- > 0)
                free(names[n]);
        free(names);
}

static char *join_path(const char *folder, const char *name)
{
        size_t n = strlen(folder);

        return xprintf("%s%s%s", folder, n && folder[n - 1] == '/' ? "" : "/", name);
}

/* Time of the newest log in @folder, ns since 1970; -1: no logs. */
static int64_t newest_in(const char *folder)
{
        struct dirent **names = NULL;
        int n = scandir(folder, &names, is_log, NULL);
        int64_t newest = -1;

        for (int i = 0; i < n; i++) {
                _cleanup_free_ char *path = join_path(folder, names[i]->d_name);
                struct stat st;
                int64_t t = stat(path, &st)
                                    ? -1
                                    : (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;

                newest = t > newest ? t : newest;
        }
        free_names(names, n);
        return newest;
}

/* A subfolder of the folder that was named. */
struct sub {
        char *path;
        int64_t newest_ns; /* when its newest log was written */
};

struct subs {
        struct sub *v;
        size_t n;
};

static void subs_finish(struct subs *subs)
{
        for (size_t i = 0; i < subs->n; i++)
                free(subs->v[i].path);
        free(subs->v);
}

CAPO_ORDERED(newest_first, struct sub, CAPO_ORDER(b->newest_ns, a->newest_ns),
             -strcmp(a->path, b->path));

/* The subfolders of @parent that have logs, newest first. */
static void find_subs(const char *parent, struct subs *subs)
{
        struct dirent **names = NULL;
        int n = scandir(parent, &names, is_visible, alphasort);

        for (int i = 0; i < n; i++) {
                char *path = join_path(parent, names[i]->d_name);
                int64_t t = newest_in(path);

                if (t >= 0)
                        *xadd(subs->v, subs->n) = (struct sub){steal(&path), t};
                free(path);
        }
        free_names(names, n);
        CAPO_SORT(subs->v, subs->n, newest_first);
}

/* All logs directly in @folder. */
static int list_logs(const char *folder, struct capo_log_paths *out)
{
        struct dirent **names = NULL;
        int n = scandir(folder, &names, is_log, alphasort);

        if (n < 0)
                return -errno;
        for (int i = 0; i < n; i++) {
                _cleanup_free_ char *path = join_path(folder, names[i]->d_name);

                if (capo_pack_is_name(names[i]->d_name))
                        capo_log_paths_add_pack(out, path);
                else
                        capo_log_paths_add(out, path, NULL);
        }
        free_names(names, n);
        return 0;
}

/* The logs under one folder that was named, and their jobs. */
struct found {
        struct capo_log_paths all;
        uint32_t *job;
        struct capo_log_job *jobs;
        int n_jobs;
        size_t n_older; /* subfolders that were skipped: last written before the newest job began */
        bool below;     /* in subfolders */
};

static void found_finish(struct found *f)
{
        capo_log_paths_finish(&f->all);
        free(f->job);
        free(f->jobs);
}

static void who_is_who(struct found *f)
{
        xfree(f->job, f->jobs);
        f->job = xmalloc((f->all.n + 1) * sizeof *f->job);
        f->n_jobs = capo_log_jobs(&f->all, f->job, &f->jobs);
}

/* @every: also jobs that ended before the newest began. */
static int scan_once(const char *folder, bool every, struct found *f)
{
        _cleanup_(subs_finish) struct subs subs = {0};
        int r = list_logs(folder, &f->all);

        if (r < 0)
                return r;
        if (f->all.n)
                who_is_who(f);
        if (f->n_jobs)
                return 0;
        find_subs(folder, &subs); /* files that are no logs may be beside them */
        f->below = subs.n || !f->all.n;
        for (size_t i = 0; i < subs.n && r == 0; i++) {
                /* a subfolder last written before the newest job began has nothing of it */
                if (i == 1 && !every)
                        who_is_who(f);
                if (i && !every &&
                    (!f->n_jobs ||
                     subs.v[i].newest_ns < (int64_t)f->jobs[f->n_jobs - 1].begin_ns)) {
                        f->n_older = subs.n - i;
                        break;
                }
                r = list_logs(subs.v[i].path, &f->all);
        }
        if (r == 0)
                who_is_who(f);
        return r;
}

/* Has a log vanished since the folder was listed? Then it is being packed. */
static bool has_vanished(const struct found *f)
{
        return ANY_OF(path, f->all.path, f->all.n,
                      !f->all.log[path - f->all.path] && access(*path, F_OK) < 0 &&
                              errno == ENOENT);
}

static int scan_folder(const char *folder, bool every, struct found *f)
{
        int r = scan_once(folder, every, f);

        for (int again = 0; r == 0 && again < 3 && has_vanished(f); again++) {
                found_finish(f);
                *f = (struct found){0};
                r = scan_once(folder, every, f);
        }
        return r;
}

/* Print one line about what is not shown. */
static void say_others(const char *name, const struct found *f, uint32_t job)
{
        const struct capo_log_job *j = &f->jobs[job];
        size_t older = f->n_older + (size_t)f->n_jobs - 1;
        char text[32];

        if (f->n_jobs > 1 && !f->n_older)
                capo_info(
                        "%s holds %d jobs; this is job %u, the newest (%u log%s, from %s); %s@1 asks for the oldest",
                        name, f->n_jobs, job + 1, j->n_logs, j->n_logs == 1 ? "" : "s",
                        capo_text_when(j->begin_ns, "%Y-%m-%d %H:%M:%S", text), name);
        else if (f->n_older)
                capo_info(
                        "%s holds older jobs too (%zu folder%s); this is the newest (%u log%s, from %s); "
                        "%s@1: the oldest",
                        name, older, older == 1 ? "" : "s", j->n_logs, j->n_logs == 1 ? "" : "s",
                        capo_text_when(j->begin_ns, "%Y-%m-%d %H:%M:%S", text), name);
}

/* Is log @i in a folder of @job, or is there no job at all? */
static bool is_beside_job(const struct found *f, size_t i, uint32_t job)
{
        const char *path = f->all.path[i];
        size_t n = capo_log_folder_size(path);

        return !f->n_jobs ||
               ANY_OF(other, f->all.path, f->all.n,
                      f->job[other - f->all.path] == job && capo_log_folder_size(*other) == n &&
                              !memcmp(*other, path, n));
}

/* Take the logs of @job, and the unreadable ones: their job is unknown, the page mentions them. */
static void take_job(struct found *f, const char *folder, uint32_t job, struct capo_log_paths *out)
{
        if (!f->below)
                *xadd(out->folder, out->n_folders) = xstrdup(folder);
        for (size_t i = 0; i < f->all.n; i++) {
                if (f->job[i] != job && (f->job[i] != CAPO_LOG_NO_JOB || !is_beside_job(f, i, job)))
                        continue;
                if (f->below) {
                        const char *path = f->all.path[i];
                        size_t n = capo_log_folder_size(path);
                        char *of = n || *path == '/' ? xstrndup(path, n ?: 1) : xstrdup(".");

                        if (!out->n_folders || strcmp(out->folder[out->n_folders - 1], of))
                                *xadd(out->folder, out->n_folders) = steal(&of);
                        free(of);
                }
                capo_log_paths_add(out, f->all.path[i], steal(&f->all.log[i]));
        }
}

/* @number: 0: the newest job; else the Nth, the oldest first. */
static int add_folder(const char *folder, unsigned long number, struct capo_log_paths *out)
{
        _cleanup_(found_finish) struct found f = {0};
        int r = scan_folder(folder, number != 0, &f);
        uint32_t job;

        if (r < 0)
                return r;
        if (number > (unsigned long)f.n_jobs)
                return -ENOENT;
        if (!f.all.n) {
                *xadd(out->folder, out->n_folders) = xstrdup(folder);
                return 0;
        }
        job = number ? (uint32_t)number - 1 : f.n_jobs ? (uint32_t)f.n_jobs - 1 : 0;
        if (!number && f.n_jobs)
                say_others(folder, &f, job);
        take_job(&f, folder, job, out);
        return 0;
}

/* Identifies a log: its first bytes contain the start time of its process in ns. */
struct face {
        struct capo_log *log;
        size_t at; /* index in the list of paths */
};

static int compare_headers(const struct face *x, const struct face *y)
{
        return memcmp(capo_log_header(x->log), capo_log_header(y->log),
                      sizeof(struct capo_log_header));
}

CAPO_ORDERED(by_face, struct face, compare_headers(a, b),
             CAPO_ORDER(capo_log_size(a->log), capo_log_size(b->log)), CAPO_ORDER(a->at, b->at));

/* A packer makes the copy before it removes the log. */
static bool is_packed(const char *path)
{
        const char *slash = strrchr(path, '/');

        return slash && (size_t)(slash - path) != capo_log_folder_size(path);
}

/* [@first, @end) are of one process. Keep the longest log, and each that is no prefix of it. */
static void drop_copies_of(struct capo_log_paths *out, const struct face *face, size_t first,
                           size_t end)
{
        uint64_t size = capo_log_size(face[end - 1].log);
        size_t longest = end - 1;

        while (longest > first && capo_log_size(face[longest - 1].log) == size)
                longest--;
        for (size_t i = first; i < end; i++) {
                if (i == longest || !capo_log_begins_with(face[longest].log, face[i].log))
                        continue;
                if (!is_packed(out->path[face[i].at]) && !is_packed(out->path[face[longest].at]))
                        capo_warn("%s is %s %s: counted once", out->path[face[i].at],
                                  capo_log_size(face[i].log) == size ? "the same log as"
                                                                     : "an earlier copy of",
                                  out->path[face[longest].at]);
                free(steal(&out->path[face[i].at]));
                capo_log_close(steal(&out->log[face[i].at]));
        }
        for (size_t i = first; i < end; i++) {
                if (out->log[face[i].at])
                        capo_log_park(out->log[face[i].at]);
        }
}

/* Drop duplicates: the same log under two names, a copy of it, or a copy made while it grew. */
static void drop_copies(struct capo_log_paths *out)
{
        _cleanup_free_ struct face *face = xcalloc(out->n + 1, sizeof *face);
        size_t n = 0, kept = 0;
        char why[256];

        for (size_t i = 0; i < out->n; i++) {
                if (capo_log_paths_open(out, i, &face[n].log, why, sizeof why) < 0)
                        continue;
                capo_log_park(face[n].log);
                face[n++].at = i;
        }
        CAPO_SORT(face, n, by_face);
        for (size_t first = 0, end; first < n; first = end) {
                end = first + 1;
                while (end < n && compare_headers(&face[end], &face[first]) == 0)
                        end++;
                if (end - first > 1)
                        drop_copies_of(out, face, first, end);
        }
        for (size_t i = 0; i < out->n; i++) {
                if (out->path[i]) {
                        out->path[kept] = out->path[i];
                        out->log[kept++] = out->log[i];
                }
        }
        out->n = kept;
}

/* Parse "DIR@N": sets *number and returns DIR, to be freed; NULL: not of that form. */
static char *parse_job_number(const char *arg, unsigned long *number)
{
        const char *at = strrchr(arg, '@');
        struct stat st;
        char *folder, *end;

        if (!at || at == arg || at[1] < '0' || at[1] > '9')
                return NULL;
        *number = strtoul(at + 1, &end, 10);
        folder = *end ? NULL : strndup(arg, (size_t)(at - arg));
        if (folder && (stat(folder, &st) < 0 || !S_ISDIR(st.st_mode))) {
                free(folder);
                return NULL;
        }
        return folder;
}

int capo_log_find(char *const *args, size_t n_args, struct capo_log_paths *out, char *why,
                  size_t why_size)
{
        for (size_t i = 0; i < n_args; i++) {
                _cleanup_free_ char *folder = NULL;
                unsigned long number = 0;
                struct stat st;
                int r = 0;

                if (stat(args[i], &st) < 0 && errno == ENOTDIR) { /* may be PACK/NAME */
                        capo_log_paths_add(out, args[i], NULL);
                } else if (stat(args[i], &st) < 0) {
                        r = -errno;
                        folder = parse_job_number(args[i], &number);
                        if (folder && (!number || (r = add_folder(folder, number, out)) == -ENOENT))
                                return capo_why(-ENOENT, why, why_size,
                                                "%s: there is no job %lu in that folder", args[i],
                                                number);
                } else if (S_ISDIR(st.st_mode)) {
                        r = add_folder(args[i], 0, out);
                } else if (capo_pack_is_name(args[i])) {
                        capo_log_paths_add_pack(out, args[i]);
                } else {
                        capo_log_paths_add(out, args[i], NULL);
                }
                if (r == -ENOENT)
                        return capo_why(
                                r, why, why_size,
                                "%s: no such folder or log. If capo run was to record "
                                "there, no process called NCCL or libfabric, or LD_PRELOAD "
                                "did not reach it (setuid, container, ssh); " CAPO_TRY_VERBOSE,
                                args[i]);
                if (r < 0)
                        return capo_why(r, why, why_size, "%s: %s", args[i], strerror(-r));
        }
        drop_copies(out);
        return 0;
}

int capo_log_find_jobs(const char *folder, struct capo_log_paths **jobs, size_t *n_jobs)
{
        _cleanup_(found_finish) struct found f = {0};
        struct stat st;
        int r;

        *n_jobs = 0;
        *jobs = NULL;
        if (stat(folder, &st) < 0 || !S_ISDIR(st.st_mode))
                return 0;
        r = scan_folder(folder, true, &f);
        if (r < 0 || !f.n_jobs)
                return r;
        *jobs = xcalloc((size_t)f.n_jobs, sizeof **jobs);
        *n_jobs = (size_t)f.n_jobs;
        for (size_t i = 0; i < *n_jobs && r == 0; i++) {
                take_job(&f, folder, (uint32_t)i, &(*jobs)[i]);
                drop_copies(&(*jobs)[i]);
        }
        return r;
}
