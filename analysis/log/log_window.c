/* SPDX-License-Identifier: Apache-2.0 */
/* The file is read through a window that moves forward with read(2). Mapping it would save the
 * copy, but if a log on a network file system vanishes, a mapping kills the reader with SIGBUS. */
#include <sys/resource.h>

#include "analysis/log/log_window.h"
#include "capo/msg.h"
#include "core/base/others_file.h"
#include "core/base/xalloc.h"

#define WINDOW ((size_t)1 << 20)
enum { OTHER_FILES = 64 };
#define KEPT_MOST ((uint64_t)256 << 20) /* limit for parked, unpacked logs */

static uint64_t opened;
static rlim_t n_open; /* open descriptors of logs */
static uint64_t kept; /* bytes in windows that hold whole logs */

/* How many logs may stay open: the limit on descriptors minus those needed for other files. */
static rlim_t open_most(void)
{
        static rlim_t most;
        struct rlimit files;

        if (!most && getrlimit(RLIMIT_NOFILE, &files) == 0) {
                files.rlim_cur = files.rlim_max;
                if (setrlimit(RLIMIT_NOFILE, &files) < 0)
                        getrlimit(RLIMIT_NOFILE, &files);
                most = files.rlim_cur > 2 * OTHER_FILES ? files.rlim_cur - OTHER_FILES
                                                        : files.rlim_cur / 2;
        }
        return most;
}

int capo_log_window_open(struct capo_log_window *w, const char *path, struct stat *st, char *why,
                         size_t room)
{
        int fd;

        opened++;
        fd = capo_others_open(path, O_RDONLY, CAPO_ANY_OWNER, st, why, room);
        if (fd < 0)
                return fd;
        w->fd = fd;
        n_open++;
        return 0;
}

void capo_log_window_give(struct capo_log_window *w, int fd)
{
        w->fd = fd;
        n_open++;
}

void capo_log_window_close(struct capo_log_window *w)
{
        if (w->fd < 0)
                return;
        close(w->fd);
        w->fd = -1;
        n_open--;
}

static int take_window(void *arg, const void *bytes, size_t n)
{
        struct capo_log_window *w = arg;

        memcpy(w->bytes + w->held, bytes, n);
        w->held += n;
        return 0;
}

int capo_log_window_unpack(struct capo_log_window *w)
{
        int r;

        w->room = (w->entry->size + 4096) & ~(size_t)4095;
        w->bytes = malloc(w->room);
        if (!w->bytes)
                return -ENOMEM;
        kept += w->room;
        r = capo_pack_unpack(w->pack, w->entry, take_window, w);
        return r == -EBADMSG ? 0 : r;
}

void capo_log_window_free(struct capo_log_window *w)
{
        if (w->pack && w->bytes)
                kept -= w->room;
        free(steal(&w->bytes));
        w->room = w->held = 0;
}

/* Undo capo_log_window_park(). */
static int unpark_window(struct capo_log_window *w)
{
        struct stat st = {0};
        int r;

        if (w->pack)
                return w->bytes ? 0 : capo_log_window_unpack(w);
        if (!w->bytes) {
                w->room = w->size < WINDOW ? (w->size + 4095) & ~(size_t)4095 : WINDOW;
                w->bytes = xmalloc(w->room);
        }
        if (w->fd >= 0)
                return 0;
        r = capo_log_window_open(w, w->path, &st, NULL, 0);
        if (r == 0 && (st.st_dev != w->dev || st.st_ino != w->ino))
                r = -ESTALE;
        if (r < 0)
                capo_log_window_close(w);
        return r;
}

void capo_log_window_park(struct capo_log_window *w)
{
        if (!w->pack || kept > KEPT_MOST)
                capo_log_window_free(w);
        if (n_open > open_most() && !w->in_memory)
                capo_log_window_close(w);
}

const unsigned char *capo_log_window_read(struct capo_log_window *w, uint64_t offset, size_t n,
                                          int *error)
{
        size_t keep = 0;

        if (offset >= w->start && offset + n <= w->start + w->held)
                return w->bytes + (offset - w->start);
        *error = unpark_window(w);
        if (*error < 0)
                return NULL;
        if (w->pack) { /* the window has all of it; the file may have been replaced meanwhile */
                *error = offset + n <= w->held ? 0 : -ESTALE;
                return *error ? NULL : w->bytes + offset;
        }
        if (n > w->room) {
                size_t room = (n + WINDOW) & ~(size_t)4095;
                void *larger = malloc(room);

                if (!larger) {
                        capo_warn("%s: no memory for a frame of %zu bytes", w->path ?: "a log", n);
                        *error = -ENOMEM;
                        return NULL;
                }
                memcpy(larger, w->bytes, w->held);
                free(w->bytes);
                w->bytes = larger;
                w->room = room;
        }
        if (offset >= w->start && offset < w->start + w->held) {
                keep = w->start + w->held - offset;
                memmove(w->bytes, w->bytes + (offset - w->start), keep);
        }
        w->start = offset;
        w->held = keep;
        while (w->held < n) {
                ssize_t got = pread(w->fd, w->bytes + w->held, w->room - w->held,
                                    (off_t)(w->start + w->held));

                if (got < 0 && errno == EINTR)
                        continue;
                if (got <= 0) { /* the file was truncated while it is read */
                        *error = got < 0 ? -errno : -EIO;
                        return NULL;
                }
                w->held += (size_t)got;
        }
        return w->bytes;
}

uint64_t capo_log_window_opened(void) { return opened; }
