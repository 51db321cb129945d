/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <sys/stat.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "capo/msg.h"
#include "cli/watch/metric_files.h"
#include "cli/watch/metrics.h"
#include "core/base/xalloc.h"

enum { NAME = 400 };

/* In @text, '_' for what a file's name should not have. Return: was there any? */
static bool make_plain(char *text)
{
        bool changed = false;

        for (char *c = text; *c; c++) {
                if (isalnum((unsigned char)*c) || strchr("._-", *c))
                        continue;
                *c = '_';
                changed = true;
        }
        return changed;
}

/* "capo-1000-48213-node-a.prom": the user and the name of the job. Two jobs whose names differ only
 * in letters that are replaced have different hashes. */
static void name_file(const struct watch *w, const struct watch_job *job, char name[NAME])
{
        char id[sizeof job->id], hash[16] = "";

        strcpy(id, job->id);
        if (make_plain(id))
                snprintf(hash, sizeof hash, ".%08x",
                         (unsigned)XXH3_64bits(job->id, strlen(job->id)));
        snprintf(name, NAME, "capo-%u-%s%s-%s.prom", job->owner.uid, id, hash, w->node);
        make_plain(name);
}

void metric_files_clear(const struct watch *w, const struct watch_user *user)
{
        char pattern[NAME], end[NAME];
        DIR *dir = opendir(w->options->metrics);
        struct stat st;

        snprintf(end, sizeof end, "-%.80s.prom", w->node);
        make_plain(end);
        if (user)
                snprintf(pattern, sizeof pattern, "capo-%u-*%.100s", user->uid, end);
        else
                snprintf(pattern, sizeof pattern, "capo-*%.100s", end);
        for (struct dirent *e; dir && (e = readdir(dir));) {
                if (fnmatch(pattern, e->d_name, 0) == 0 &&
                    fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
                    st.st_uid == geteuid())
                        unlinkat(dirfd(dir), e->d_name, 0);
        }
        if (dir)
                closedir(dir);
}

int metric_files_begin(const struct watch *w, struct watch_claim *claim)
{
        const char *dir = w->options->metrics;
        char why[200] = "";
        struct stat st;
        int r;

        if (stat(dir, &st) < 0)
                return capo_fail(-errno, "watch: %s: expected a folder for metrics: %s", dir,
                                 strerror(errno));
        if (!S_ISDIR(st.st_mode))
                return capo_fail(-ENOTDIR, "watch: %s: expected a folder, found a file", dir);
        if (access(dir, W_OK | X_OK) < 0)
                return capo_fail(-errno, "watch: %s: cannot be written: %s", dir, strerror(errno));
        if (st.st_mode & S_IWOTH)
                capo_warn(
                        "watch: %s: all users can write there, and can stop the node exporter: use "
                        "chmod 755, and one watch of root for all users",
                        dir);
        r = watch_claim(claim, "metrics", dir, why, sizeof why);
        if (r == -EADDRINUSE)
                return capo_fail(r, "watch: %s: another capo watch of this user writes there: %s",
                                 dir, why);
        if (r < 0)
                capo_warn("watch: %s", why);
        metric_files_clear(w, NULL);
        return 0;
}

int watch_write_file(const char *dir, const char *name, const char *old, bool shown,
                     const char *text, size_t n)
{
        _cleanup_close_ int folder = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
        char beside[NAME + 8];
        FILE *out;
        int fd, r;

        if (folder < 0)
                return -errno;
        snprintf(beside, sizeof beside, ".%s.tmp", name);
        unlinkat(folder, beside, 0);
        fd = openat(folder, beside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        out = fd < 0 ? NULL : fdopen(fd, "w");
        if (!out) {
                r = -errno;
                if (fd >= 0)
                        close(fd);
                return r;
        }
        if (shown) /* the exporter is another user, whatever the umask */
                fchmod(fd, 0644);
        r = fwrite(text, 1, n, out) < n || fflush(out) || (!shown && fsync(fd)) ? -errno : 0;
        if (fclose(out) && r == 0)
                r = -errno;
        if (r == 0 && old)
                (void)renameat(folder, name, folder, old); /* or it is replaced */
        if (r == 0 && renameat(folder, beside, folder, name) < 0)
                r = -errno;
        if (r < 0)
                unlinkat(folder, beside, 0);
        return r;
}

/* Printed when an error begins and when it ends. */
static void say_state(const char *dir, int error)
{
        static int before;

        if (error < 0 && error != before)
                capo_warn("watch: %s: metrics cannot be written: %s", dir, strerror(-error));
        else if (error == 0 && before < 0)
                capo_info("watch: %s: metrics are written again", dir);
        before = error;
}

int metric_files_write(const struct watch *w)
{
        int error = 0;

        for (uint32_t i = 0; i < w->n_jobs; i++) {
                _cleanup_free_ char *text = NULL;
                char name[NAME];
                size_t n;
                FILE *out = xmemstream(&text, &n);
                int r;

                metrics_print(w, &w->job[i], METRICS_TEXT, out);
                xmemclose(out);
                name_file(w, &w->job[i], name);
                r = watch_write_file(w->options->metrics, name, NULL, true, text, n);
                error = error ?: r;
        }
        say_state(w->options->metrics, error);
        return error;
}

void metric_files_remove(const struct watch *w, const struct watch_job *job)
{
        char name[NAME], path[NAME + 4096];

        name_file(w, job, name);
        if (snprintf(path, sizeof path, "%s/%s", w->options->metrics, name) < (int)sizeof path)
                unlink(path);
}
