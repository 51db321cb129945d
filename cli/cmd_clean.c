/* SPDX-License-Identifier: Apache-2.0 */
/* capo clean: removes old logs and what capo wrote beside them, and nothing else. A file is removed
 * if it has a name that capo gives, is a regular file, and begins as capo writes it. Nothing is
 * reached through a link, because root cleans folders of other users. */
#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <sys/stat.h>
#include <time.h>

#include "analysis/job/figures.h"
#include "analysis/log/pack.h"
#include "analysis/log/recover.h"
#include "capo/log_layout.h"
#include "capo/msg.h"
#include "cli/base/cli.h"
#include "cli/base/cli_screen.h"
#include "core/base/xalloc.h"

enum { HEAD = 64 };

struct clean {
        double older_s; /* < 0: not given */
        bool list;
        unsigned n_logs, n_others, n_folders, n_failed;
        uint64_t bytes;
};

/* What capo writes into a folder of logs. */
static const struct kind {
        const char *pattern;
        bool log, anywhere;
        const char *text; /* at its begin, or anywhere; NULL: of a log a pack, else nothing */
} kinds[] = {
        {"*.capo", true, false, CAPO_LOG_MAGIC},     {"*" CAPO_PACK_SUFFIX, true, false, NULL},
        {"hang.txt", false, false, "capo hang"},     {"hang.before.txt", false, false, "capo hang"},
        {"hang.json", false, true, "\"capo_hang\""}, {"hang.watch", false, false, NULL},
        {"topology-*.xml", false, false, "<"},
};

static bool is_known(const struct kind *k, const char *head, size_t n)
{
        const char *found = k->text ? memmem(head, n, k->text, strlen(k->text)) : NULL;

        return !k->text ? k->log ? capo_pack_is(head, n) : !n
                        : found && (k->anywhere || found == head);
}

/* A file that capo may have written. */
struct file {
        const struct kind *kind;
        struct stat st;
        bool ours;
};

static bool find_kind(int folder, const char *name, struct file *f)
{
        char head[HEAD];
        ssize_t n;

        for (size_t i = 0; i < N_ELEMENTS(kinds); i++) {
                _cleanup_close_ int fd = -1;

                if (fnmatch(kinds[i].pattern, name, FNM_PERIOD) != 0)
                        continue;
                fd = openat(folder, name,
                            O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
                if (fd < 0 || fstat(fd, &f->st) < 0 || !S_ISREG(f->st.st_mode))
                        return false;
                n = pread(fd, head, sizeof head, 0);
                f->kind = &kinds[i];
                f->ours = n >= 0 && is_known(f->kind, head, (size_t)n);
                return true;
        }
        return false;
}

static bool is_old(const struct clean *clean, const struct stat *st)
{
        return difftime(time(NULL), st->st_mtim.tv_sec) > clean->older_s;
}

static int remove_file(struct clean *clean, int folder, const char *path, const char *name,
                       const struct file *f)
{
        if (!f->ours) {
                capo_warn("clean: %s/%s stays: it is no file of capo", path, name);
                return 0;
        }
        if (clean->list) {
                printf("%s/%s\n", path, name);
        } else if (unlinkat(folder, name, 0) < 0) {
                clean->n_failed++;
                return capo_fail(-errno, "clean: %s/%s: %s", path, name, strerror(errno));
        }
        clean->bytes += (uint64_t)f->st.st_size;
        clean->n_logs += f->kind->log;
        clean->n_others += !f->kind->log;
        return 1;
}

struct look {
        unsigned n_logs, n_old;
};

/* The files of the folder that @logs asks for. @look: only count them; NULL: remove those that are
 * old. */
static void go_through(struct clean *clean, DIR *dir, const char *path, bool logs,
                       struct look *look)
{
        rewinddir(dir);
        for (struct dirent *e; (e = readdir(dir));) {
                struct file f;

                if (!find_kind(dirfd(dir), e->d_name, &f) || f.kind->log != logs)
                        continue;
                if (look) {
                        look->n_logs++;
                        look->n_old += is_old(clean, &f.st);
                } else if (is_old(clean, &f.st)) {
                        remove_file(clean, dirfd(dir), path, e->d_name, &f);
                }
        }
}

static int say_one(const struct capo_segment_info *info, void *arg) { return 1; }

/* @job: a folder of one job, which goes as a whole when its newest log is old. */
static void clean_folder(struct clean *clean, DIR *dir, const char *path, bool job)
{
        struct look look = {0};
        unsigned before = clean->n_logs;

        go_through(clean, dir, path, true, &look);
        if (!look.n_old || (job && look.n_old < look.n_logs) ||
            capo_segment_find(NULL, path, true, say_one, NULL) ==
                    1) /* in use, or to be recovered */
                return;
        go_through(clean, dir, path, true, NULL);
        if (look.n_old == look.n_logs && clean->n_logs - before == look.n_logs)
                go_through(clean, dir, path, false, NULL);
}

static DIR *open_folder(int at, const char *name)
{
        int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        DIR *dir = fd < 0 ? NULL : fdopendir(fd);

        if (fd >= 0 && !dir)
                close(fd);
        return dir;
}

/* The logs of @path and those of the jobs that have a folder in it, as capo run makes them. */
static int clean_jobs(struct clean *clean, const char *path)
{
        DIR *dir = open_folder(AT_FDCWD, path);

        if (!dir)
                return capo_fail(CAPO_EXIT_FAIL, "clean: %s: %s", path,
                                 errno == ELOOP || errno == ENOTDIR
                                         ? "expected a folder, found a link or a file"
                                         : strerror(errno));
        clean_folder(clean, dir, path, false);
        rewinddir(dir);
        for (struct dirent *e; (e = readdir(dir));) {
                DIR *job = *e->d_name == '.' ? NULL : open_folder(dirfd(dir), e->d_name);
                _cleanup_free_ char *below = NULL;
                unsigned before = clean->n_logs;

                if (!job)
                        continue;
                below = xprintf("%s/%s", path, e->d_name);
                clean_folder(clean, job, below, true);
                closedir(job);
                if (clean->n_logs > before && !clean->list &&
                    unlinkat(dirfd(dir), e->d_name, AT_REMOVEDIR) == 0)
                        clean->n_folders++;
        }
        closedir(dir);
        return 0;
}

static int run_clean(void *options, int n, char **words)
{
        struct clean *clean = options;
        int r = 0;

        if (clean->older_s < 0)
                return capo_fail(CAPO_EXIT_USAGE, "clean: expected --older AGE, such as 14d");
        cli_screen_begin(stdout);
        for (int i = 0; i < n; i++)
                r = clean_jobs(clean, words[i]) ?: r;
        printf("%s%s", clean->list ? "would remove " : "removed ",
               capo_text_plural(clean->n_logs, "log", NULL));
        printf(", %s", capo_text_plural(clean->n_others, "other file", NULL));
        if (!clean->list)
                printf(", %s", capo_text_plural(clean->n_folders, "folder", NULL));
        printf(": %s\n", TEXT_SIZE(clean->bytes));
        return r ?: clean->n_failed ? CAPO_EXIT_FAIL : CAPO_EXIT_OK;
}

static const char *take_age(void *options, const char *value)
{
        static const char units[] = "hdw";
        static const double seconds[] = {3600, 86400, 7 * 86400};
        struct clean *clean = options;
        char *end;
        double number = strtod(value, &end);
        const char *unit = *end ? strchr(units, *end) : NULL;

        if (end == value || !(number >= 0) || !unit || end[1])
                return "an age such as 14d, 36h or 8w";
        clean->older_s = number * seconds[unit - units];
        return NULL;
}

static const struct clean defaults = {.older_s = -1};

static const struct cli_option options[] = {
        {"older", CLI_WHOLE("AGE", take_age),
         "only what was last written so long ago: hours (36h), days (14d) or weeks (8w)",
         .example = "14d"},
        {"list", CLI_FLAG(struct clean, list), "remove nothing: print what would be removed"},
        {0}};

const struct cli_command clean_command = {
        .usage = "--older AGE [--list] DIR...",
        .about =
                "Removes old logs in DIR and in each job's folder in DIR, with the verdicts and topologies that capo wrote beside them. "
                "The folder of a job goes as a whole, when its newest log is old enough. A file that capo did not write stays, and so does a folder where a process "
                "still records. Links are not followed.",
        .options = options,
        .after = "  capo clean --older 14d --list capo-logs\n"
                 "  capo clean --older 14d capo-logs\n"
                 "  capo clean --older 8w /scratch/*/capo-logs",
        .status =
                "0, also when there was nothing to remove; 1 something failed, 2 wrong command line.",
        .missing = "expected a folder of logs",
        .least = 1,
        .most = UINT_MAX,
        .size = sizeof(struct clean),
        .defaults = &defaults,
        .run = run_clean,
};
