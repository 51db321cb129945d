/* SPDX-License-Identifier: Apache-2.0 */
/* See the header. The layout itself is drawn in include/capo/log.h. */
#include <sys/stat.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "capo/msg.h"
#include "core/base/file.h"
#include "core/base/write_signals.h"
#include "core/log/log_write.h"

/* Takes *@fd over where it succeeds. */
static int keep_file(struct capo_log_writer *w, int *fd)
{
        struct stat st;

        if (fstat(*fd, &st))
                return -errno;
        w->fd = capo_file_high(fd);
        w->dev = st.st_dev;
        w->ino = st.st_ino;
        return 0;
}

int capo_log_write_all(int fd, const void *bytes, size_t n, uint64_t offset)
{
        const char *p = bytes;

        while (n > 0) {
                ssize_t k = pwrite(fd, p, n, (off_t)offset);

                if (k < 0 && errno == EINTR)
                        continue;
                if (k <= 0)
                        return k < 0 ? -errno : -EIO;
                p += k;
                n -= (size_t)k;
                offset += (uint64_t)k;
        }
        return 0;
}

int capo_log_create(struct capo_log_writer *w, const struct capo_log_header *header)
{
        _cleanup_close_ int fd =
                w->nameless
                        ? -1
                        : open(w->path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        CAPO_NO_WRITE_SIGNALS;
        int r;

        if (w->nameless) {
                w->file_bytes = sizeof *header;
                return capo_log_write_all(w->fd, header, sizeof *header, 0);
        }
        if (fd < 0)
                return -errno;
        r = capo_log_write_all(fd, header, sizeof *header, 0);
        if (r == 0)
                r = keep_file(w, &fd);
        if (r < 0) {
                unlink(w->path);
                return r;
        }
        w->file_bytes = sizeof *header;
        return 0;
}

int capo_log_append(struct capo_log_writer *w, const struct capo_log_header *header,
                    uint64_t good_bytes)
{
        _cleanup_close_ int fd = open(w->path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
        struct capo_log_header found;
        struct stat st;

        if (fd < 0)
                return -errno;
        if (fstat(fd, &st) || !S_ISREG(st.st_mode) ||
            pread(fd, &found, sizeof found, 0) != sizeof found ||
            memcmp(found.magic, header->magic, sizeof found.magic) || found.pid != header->pid ||
            found.t0_ticks != header->t0_ticks || (uint64_t)st.st_size < good_bytes)
                return -EBADMSG;
        if ((uint64_t)st.st_size > good_bytes && ftruncate(fd, (off_t)good_bytes))
                return -errno;
        w->file_bytes = good_bytes;
        return keep_file(w, &fd);
}

int capo_log_frame(struct capo_log_writer *w, unsigned type, const struct iovec *iov, int n_iov)
{
        struct capo_frame frame = {.type = (uint16_t)type};
        uint32_t whole;
        char *p;
        int r = 0;

        for (int i = 0; i < n_iov; i++)
                frame.size += (uint32_t)iov[i].iov_len;
        if (frame.size > CAPO_LOG_BUFFER - 64)
                return -EMSGSIZE;
        whole = (uint32_t)sizeof frame + ((frame.size + 7) & ~7u);
        if (w->n + whole > CAPO_LOG_BUFFER)
                r = capo_log_flush(w);
        p = w->buffer + w->n + sizeof frame;
        for (int i = 0; i < n_iov; i++) {
                if (iov[i].iov_len) /* a part may be absent: NULL, 0 */
                        memcpy(p, iov[i].iov_base, iov[i].iov_len);
                p += iov[i].iov_len;
        }
        memset(p, 0, whole - sizeof frame - frame.size);
        frame.check = XXH3_64bits_withSeed(w->buffer + w->n + sizeof frame, frame.size,
                                           frame.type | (uint64_t)frame.flags << 16 |
                                                   (uint64_t)frame.size << 32);
        memcpy(w->buffer + w->n, &frame, sizeof frame);
        w->n += whole;
        return r;
}

/* 0; -ESTALE when the descriptor is no longer our file; -ENOENT when the file has been deleted. */
static int check_file(const struct capo_log_writer *w)
{
        struct stat st;

        if (w->nameless)
                return 0;
        if (w->fd < 0)
                return -EBADF;
        if (fstat(w->fd, &st) || st.st_dev != w->dev || st.st_ino != w->ino)
                return -ESTALE;
        return st.st_nlink == 0 ? -ENOENT : 0;
}

/* The file by its name again, if that is still the same file. */
static int reopen_file(struct capo_log_writer *w)
{
        _cleanup_close_ int fd = open(w->path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
        struct stat st;

        if (fd < 0)
                return -errno;
        if (fstat(fd, &st) || st.st_dev != w->dev || st.st_ino != w->ino)
                return -ESTALE;
        return keep_file(w, &fd);
}

int capo_log_flush(struct capo_log_writer *w)
{
        CAPO_NO_WRITE_SIGNALS;
        int r;

        if (w->n == 0)
                return 0;
        r = check_file(w);
        if (r == -ESTALE)
                r = reopen_file(w);
        if (r == 0) {
                r = capo_log_write_all(w->fd, w->buffer, w->n, w->file_bytes);
                if (r < 0 && ftruncate(w->fd, (off_t)w->file_bytes)) {
                        /* the reader steps over the torn frame; the next flush overwrites it */
                }
        }
        if (r == 0) {
                w->file_bytes += w->n;
                w->failed = false;
        } else {
                w->lost_bytes += w->n;
                if (!w->failed && w->fd >= 0)
                        capo_warn("%s: cannot be written: %s", w->path, strerror(-r));
                w->failed = true;
        }
        w->n = 0;
        return r;
}

void capo_log_cut(struct capo_log_writer *w, uint64_t bytes)
{
        w->n = 0;
        if (bytes >= w->file_bytes)
                return;
        w->file_bytes = bytes;
        if (check_file(w) == 0 && ftruncate(w->fd, (off_t)bytes)) {
                /* frames written next go over what stands there */
        }
}

void capo_log_forget(struct capo_log_writer *w)
{
        if (w->fd >= 0 && !w->nameless && check_file(w) != -ESTALE)
                close(w->fd);
        w->fd = -1;
}

int capo_log_finish(struct capo_log_writer *w, bool sync)
{
        int r = capo_log_flush(w);

        if (w->fd >= 0) {
                if (r == 0 && sync && fsync(w->fd))
                        r = -errno;
                capo_log_forget(w);
        }
        return r;
}
