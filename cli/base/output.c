/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capo/msg.h"
#include "cli/base/output.h"
#include "cli/base/plain.h"

static int said(const char *path, int error)
{
        return capo_fail(error, "%s: %s", path ? path : "standard output",
                         error == -EISDIR ? "is a folder, and a file is to be written" : strerror(-error));
}

/* The file to appear in the end, links followed; NULL where it is to be written in place, with *@error 0 or why not. */
static char *regular(const char *path, mode_t *mode, int *error)
{
        char resolved[PATH_MAX];
        struct stat st;
        mode_t mask = umask(0);

        umask(mask);
        *mode = 0666 & ~mask;
        *error = 0;
        if (!strncmp(path, "/dev/", 5) || !strncmp(path, "/proc/", 6)) /* /dev/stdout is in use by others */
                return NULL;
        if (stat(path, &st) < 0) {
                if (errno == ENOENT && lstat(path, &st) < 0)
                        return strdup(path);
                return NULL; /* a link to nowhere is filled by open(), everything else is its error */
        }
        if (S_ISDIR(st.st_mode))
                *error = -EISDIR;
        else if (S_ISREG(st.st_mode) && access(path, W_OK) < 0)
                *error = -errno;
        *mode = st.st_mode & 07777;
        return *error || !S_ISREG(st.st_mode) || !realpath(path, resolved) ? NULL : strdup(resolved);
}

int cli_output_open(struct cli_output *o, const char *path)
{
        mode_t mode;
        int error, fd = -1;

        *o = (struct cli_output){.path = path, .file = stdout};
        if (!path)
                return 0;
        o->target = regular(path, &mode, &error);
        if (error)
                return said(path, error);
        if (o->target && asprintf(&o->beside, "%s.XXXXXX", o->target) > 0)
                fd = mkostemp(o->beside, O_CLOEXEC);
        if (fd < 0) { /* also where the folder takes no new file but this one may be written */
                free(o->beside);
                free(o->target);
                o->beside = o->target = NULL;
                fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        } else {
                (void)fchmod(fd, mode);
        }
        o->file = fd < 0 ? NULL : cli_plain_file(fd);
        return o->file ? 0 : said(path, -errno);
}

int cli_output_close(struct cli_output *o, int error)
{
        errno = 0;
        if (error == 0 && (fflush(o->file) != 0 || ferror(o->file)))
                error = errno ? -errno : -EIO;
        if (o->path && fclose(o->file) != 0 && error == 0)
                error = -errno;
        if (o->target && error == 0 && rename(o->beside, o->target) < 0)
                error = -errno;
        if (o->beside && error < 0)
                unlink(o->beside);
        free(o->beside);
        free(o->target);
        return error < 0 && error != -ECANCELED ? said(o->path, error) : error;
}
