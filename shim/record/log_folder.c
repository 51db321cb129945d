/* SPDX-License-Identifier: Apache-2.0 */
/* Where the log goes: the folder, the file's name in it, and what is said where it cannot go there.
 * The name is there from the start; the folder may be made later. */
#include <fcntl.h>
#include <sys/stat.h>

#include "capo/env.h"
#include "capo/msg.h"
#include "shim/record/log_folder.h"
#include "shim/record/state.h"

/* Where logs go, from the root on; and room for a path while it is looked for. Not on the stack:
 * the job's may be as small as it likes. Under start_lock; afterwards the drain thread's. */
static char folder[PATH_MAX], scratch[PATH_MAX];
static bool folder_waits; /* the folder could not be made or looked at yet */

/* mkdir -p of `folder`. 0 or -errno. */
static int make_folder(void)
{
        struct stat st;
        int above = 0;

        strcpy(scratch, folder);
        for (char *p = scratch + 1; *p; p++) {
                if (*p == '/') {
                        *p = 0;
                        if (mkdir(scratch, 0700) && errno != EEXIST)
                                above = -errno;
                        *p = '/';
                }
        }
        if (mkdir(scratch, 0700) && errno != EEXIST)
                return errno == ENOENT && above ? above : -errno;
        return stat(scratch, &st) ? -errno : S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
}

/* realpath() of a folder that is there, into @out: without its 8 KB of stack. 0 or -errno. */
static int whole_path(const char *dir, char *out, size_t room)
{
        _cleanup_close_ int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
        char link[32];
        ssize_t n;

        if (fd < 0)
                return -errno;
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        n = readlink(link, out, room);
        if (n >= (ssize_t)room)
                return -ENAMETOOLONG;
        if (n > 0 && *out == '/') {
                out[n] = 0;
                return 0;
        }
        return realpath(dir, out) ? 0 : -errno; /* no /proc; `out` has PATH_MAX bytes */
}

/* @dir as it is written, from the root on: the job may go to another folder meanwhile. */
static int set_folder(const char *dir)
{
        size_t n = 0;

        if (*dir != '/') {
                if (!getcwd(folder, sizeof folder))
                        return -errno;
                if (*folder != '/')
                        return -ENOENT; /* "(unreachable)" */
                n = strlen(folder);
        }
        return snprintf(folder + n, sizeof folder - n, "%s%s", n > 1 ? "/" : "", dir) >=
                               (int)(sizeof folder - n)
                       ? -ENAMETOOLONG
                       : 0;
}

static int name_log(const char *in)
{
        struct capo_segment_header *h = capo_seg.header;

        return snprintf(h->log_path, sizeof h->log_path, "%s/%s.%d.capo", in, h->host, h->pid) >=
                               (int)sizeof h->log_path - 8
                       ? -ENAMETOOLONG
                       : 0;
}

int capo_folder_make(void)
{
        int r;

        if (!folder_waits)
                return 0;
        r = make_folder();
        if (r == 0)
                r = whole_path(folder, scratch, sizeof scratch);
        if (r == 0)
                r = name_log(scratch);
        folder_waits = r < 0;
        return r;
}

/* Errors that time does not mend, unlike a lack of descriptors or a server's restart. */
bool capo_is_lasting(int error)
{
        static const int lasting[] = {EACCES,  EPERM,        EROFS, ENOENT,
                                      ENOTDIR, ENAMETOOLONG, ELOOP, EEXIST};

        for (size_t i = 0; i < N_ELEMENTS(lasting); i++) {
                if (error == -lasting[i])
                        return true;
        }
        return false;
}

/* The log has a name from the start, so that a killed process's calls have a place to go to, also
 * where the folder is to be made later. */
void capo_folder_choose(void)
{
        int r = set_folder(capo_settings.dir);

        if (r == 0)
                r = name_log(folder);
        if (r == 0) {
                folder_waits = true;
                r = capo_folder_make();
        }
        if (r < 0 && (!folder_waits || capo_is_lasting(r))) {
                capo_seg.header->log_path[0] = 0;
                capo_warn("%s: no logs there, calls are counted but not kept: %s",
                          capo_settings.dir, strerror(-r));
        }
}

void capo_folder_fork(void) { folder_waits = false; }

const char *capo_rest_goes(void)
{
        return !capo_seg.path[0]               ? "those calls are lost"
               : capo_seg.header->went_private ? "capo report --recover will save most of it"
                                               : "capo report --recover will do it";
}
