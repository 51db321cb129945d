/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include "capo/msg.h"
#include "cli/base/cli_output.h"
#include "cli/base/cli_plain.h"
#include "core/base/xalloc.h"

/* ---- a killed process leaves no temporary file ---- */

static const int deaths[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGXFSZ};
static struct sigaction before[N_ELEMENTS(deaths)];
static char *volatile pending; /* temporary file to remove on a signal */

static void handle_fatal_signal(int number)
{
        if (pending)
                unlink(pending);
        raise(number); /* SA_RESETHAND has restored the default action */
}

/* Set the temporary file; NULL: none. */
static void set_pending(char *path)
{
        struct sigaction action = {.sa_handler = handle_fatal_signal,
                                   .sa_flags = (int)SA_RESETHAND | SA_NODEFER};

        if (path && pending)
                return;
        if (path)
                pending = path;
        for (size_t i = 0; i < N_ELEMENTS(deaths); i++) {
                if (!path && before[i].sa_handler == SIG_DFL)
                        sigaction(deaths[i], &before[i], NULL);
                else if (path && sigaction(deaths[i], NULL, &before[i]) == 0 &&
                         before[i].sa_handler == SIG_DFL)
                        sigaction(
                                deaths[i], &action,
                                NULL); /* an ignored or handled signal does not stop the process */
        }
        if (!path)
                pending = NULL;
}

/* Create a temporary file beside @o->target. Return: its descriptor; -1 with errno. */
static int open_beside(struct cli_output *o)
{
        sigset_t all, old;
        int fd = -1;

        sigfillset(&all);
        sigprocmask(SIG_BLOCK, &all, &old);
        if (asprintf(&o->beside, "%s.XXXXXX", o->target) < 0)
                o->beside = NULL;
        else
                fd = mkostemp(o->beside, O_CLOEXEC);
        if (fd >= 0)
                set_pending(o->beside);
        sigprocmask(SIG_SETMASK, &old, NULL);
        return fd;
}

static int report_write_error(const char *path, int error)
{
        return capo_fail(error, "%s: %s", path ? path : "standard output",
                         error == -EISDIR ? "is a folder, and a file is to be written"
                                          : strerror(-error));
}

/* The target with links resolved; NULL: write in place, with *@error 0 or the reason. */
static char *resolve_target(const char *path, mode_t *mode, int *error)
{
        char resolved[PATH_MAX];
        struct stat st;
        mode_t mask = umask(0);

        umask(mask);
        *mode = 0666 & ~mask;
        *error = 0;
        if (!strncmp(path, "/dev/", 5) ||
            !strncmp(path, "/proc/", 6)) /* /dev/stdout is shared with others */
                return NULL;
        if (stat(path, &st) < 0) {
                if (errno == ENOENT && lstat(path, &st) < 0)
                        return xstrdup(path);
                return NULL; /* open() creates the target of a dangling link; other errors are
                                reported there */
        }
        if (S_ISDIR(st.st_mode))
                *error = -EISDIR;
        else if (S_ISREG(st.st_mode) && access(path, W_OK) < 0)
                *error = -errno;
        *mode = st.st_mode & 07777;
        return *error || !S_ISREG(st.st_mode) || !realpath(path, resolved) ? NULL
                                                                           : xstrdup(resolved);
}

static int open_output(struct cli_output *o, const char *path, FILE *(*stream)(int fd))
{
        mode_t mode;
        int error, fd = -1;

        *o = (struct cli_output){.path = path, .file = stdout};
        if (!path)
                return 0;
        o->target = resolve_target(path, &mode, &error);
        if (error)
                return report_write_error(path, error);
        if (o->target)
                fd = open_beside(o);
        if (fd < 0) { /* also if the folder allows no new file, but this one is writable */
                free(o->beside);
                free(o->target);
                o->beside = o->target = NULL;
                fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        } else {
                (void)fchmod(fd, mode);
        }
        o->file = fd < 0 ? NULL : stream(fd);
        if (o->file)
                return 0;
        error = -errno;
        if (o->beside)
                unlink(o->beside);
        if (o->beside && o->beside == pending)
                set_pending(NULL);
        return report_write_error(path, error);
}

static FILE *stream_bytes(int fd) { return fdopen(fd, "w"); }

int cli_output_open(struct cli_output *o, const char *path)
{
        return open_output(o, path, cli_plain_file);
}

int cli_output_open_bytes(struct cli_output *o, const char *path)
{
        return open_output(o, path, stream_bytes);
}

int cli_output_close(struct cli_output *o, int error)
{
        errno = 0;
        if (error == 0 && (fflush(o->file) != 0 || ferror(o->file)))
                error = errno ? -errno : -EIO;
        if (o->path && fclose(o->file) != 0 && error == 0)
                error = -errno;
        if (error == -EIO && cli_plain_why_not()) /* a stream only keeps that something failed */
                error = -cli_plain_why_not();
        if (o->target && error == 0 && rename(o->beside, o->target) < 0)
                error = -errno;
        if (o->beside && error < 0)
                unlink(o->beside);
        if (o->beside && o->beside == pending)
                set_pending(NULL);
        free(o->beside);
        free(o->target);
        return error < 0 && error != -ECANCELED ? report_write_error(o->path, error) : error;
}
