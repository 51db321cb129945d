/* SPDX-License-Identifier: Apache-2.0 */
/* The writer: whole frames or none, never through a link, never over a file, and only into the file
 * it made. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <criterion/criterion.h>

#include "capo/msg.h"
#include "core/base/util.h"
#include "analysis/log/log_read.h"
#include "core/log/log_write.h"
#include "tests/log_numbers.h"

static char folder[] = "/tmp/capo-test-write-XXXXXX", path[64], other[64], why[128];
static char buffer[CAPO_LOG_BUFFER], payload[CAPO_LOG_BUFFER];
static struct capo_log_writer w;
static const struct capo_log_header header = {.magic = CAPO_LOG_MAGIC,
                                              .order = CAPO_LOG_ORDER,
                                              .version = CAPO_LOG_VERSION,
                                              .min_reader = CAPO_LOG_MIN_READER,
                                              .header_size = sizeof(struct capo_log_header),
                                              .pid = 42,
                                              .t0_ticks = 7};

/* A file system with moods: it takes a few bytes of what it is given, is interrupted, or takes
 * nothing more. */
static enum { WHOLE, PIECES, NOTHING } mood;
static unsigned n_writes;

ssize_t pwrite(int fd, const void *from, size_t n, off_t offset)
{
        n_writes++;
        if (mood == NOTHING)
                return 0;
        if (mood == PIECES && n_writes % 2) {
                errno = EINTR;
                return -1;
        }
        if (mood == PIECES && n > n_writes / 2 % 3 + 1)
                n = n_writes / 2 % 3 + 1;
        return syscall(SYS_pwrite64, fd, from, n, offset);
}

static unsigned n_syncs;
static int sync_error;

int fsync(int fd)
{
        n_syncs++;
        errno = sync_error;
        return sync_error ? -1 : 0;
}

static void start(void)
{
        close(STDIN_FILENO); /* as daemons do: 0 is a descriptor like any other */
        capo_msg_set_level(CAPO_ERROR);
        cr_assert(mkdtemp(folder));
        snprintf(path, sizeof path, "%s/a.capo", folder);
        snprintf(other, sizeof other, "%s/b.capo", folder);
        w = (struct capo_log_writer){.path = path, .fd = -1, .buffer = buffer};
}

static void stop(void)
{
        unlink(path);
        unlink(other);
        rmdir(folder);
}

TestSuite(log_write, .init = start, .fini = stop);

static int put(unsigned type, uint32_t size, int fill)
{
        memset(payload, fill, size);
        return capo_log_frame(&w, type, &(struct iovec){payload, size}, 1);
}

static off_t size_of(const char *file)
{
        struct stat st;

        cr_assert_eq(stat(file, &st), 0);
        return st.st_size;
}

/* Sizes of the frames of the file, in order; the file must be without fault. */
static unsigned frames(uint32_t *size, unsigned room)
{
        _cleanup_(capo_log_closep) struct capo_log *log = NULL;
        struct capo_log_frame f;
        unsigned n = 0;

        cr_assert_eq(capo_log_open(path, &log, why, sizeof why), 0, "%s", why);
        while (capo_log_next(log, &f) > 0 && n < room)
                size[n++] = f.size;
        cr_assert(!capo_log_health(log)->n_damages && !capo_log_health(log)->cut_bytes);
        return n;
}

Test(log_write, what_is_written_is_read)
{
        const struct iovec parts[] = {{(char *)"host\t", 5}, {NULL, 0}, {(char *)"node-a\n", 7}};
        _cleanup_(capo_log_closep) struct capo_log *log = NULL;
        struct capo_log_frame f;
        struct stat st;

        cr_assert_eq(capo_log_create(&w, &header), 0);
        cr_assert_eq(capo_log_frame(&w, CAPO_FRAME_INFO, parts, 3), 0);
        for (uint32_t size = 0; size < 20; size++)
                cr_assert_eq(put(CAPO_FRAME_RULES, size, 'x'), 0);
        cr_assert_eq(size_of(path), (off_t)sizeof header, "frames wait in memory");
        cr_assert_eq(capo_log_finish(&w, true), 0);
        cr_assert_eq(w.fd, -1);
        cr_assert_eq(stat(path, &st), 0);
        cr_assert_eq(st.st_mode & 0777, 0600);
        cr_assert_eq((uint64_t)st.st_size, w.file_bytes);
        cr_assert_eq(st.st_size % 8, 0);
        cr_assert_eq(capo_log_open(path, &log, why, sizeof why), 0);
        cr_assert_eq(capo_log_next(log, &f), 1);
        cr_assert(f.size == 12 && !memcmp(f.payload, "host\tnode-a\n", 12));
        for (uint32_t size = 0; size < 20; size++)
                cr_assert(capo_log_next(log, &f) == 1 && f.size == size &&
                          f.type == CAPO_FRAME_RULES);
        cr_assert_eq(capo_log_next(log, &f), 0);
}

Test(log_write, never_over_a_file_nor_through_a_link)
{
        close(open(other, O_CREAT | O_WRONLY, 0600));
        cr_assert_eq(symlink(other, path), 0);
        cr_assert_eq(capo_log_create(&w, &header), -EEXIST);
        cr_assert_neq(capo_log_append(&w, &header, 0), 0);
        cr_assert_eq(size_of(other), 0);
        unlink(path);
        cr_assert_eq(capo_log_append(&w, &header, 0), -ENOENT);
        w.path = other;
        cr_assert_eq(capo_log_create(&w, &header), -EEXIST);
        cr_assert_eq(w.fd, -1);
}

Test(log_write, a_full_buffer_goes_out_by_itself_and_a_payload_that_never_fits_is_refused)
{
        uint32_t size[64];
        unsigned n;

        cr_assert_eq(capo_log_create(&w, &header), 0);
        for (unsigned i = 0; i < 40; i++)
                cr_assert_eq(put(CAPO_FRAME_RULES, 100000 + i, 'a'), 0);
        cr_assert_gt(size_of(path), 1000000);
        cr_assert_eq(put(CAPO_FRAME_RULES, CAPO_LOG_BUFFER - 64, 'b'), 0);
        cr_assert_eq(put(CAPO_FRAME_RULES, CAPO_LOG_BUFFER - 63, 'c'), -EMSGSIZE);
        cr_assert_eq(capo_log_finish(&w, false), 0);
        n = frames(size, 64);
        cr_assert_eq(n, 41);
        for (unsigned i = 0; i < 40; i++)
                cr_assert_eq(size[i], 100000 + i);
        cr_assert_eq(w.lost_bytes, 0);
}

Test(log_write, appending_cuts_off_what_was_not_whole)
{
        struct capo_log_header foreign = header;
        uint32_t size[8];
        uint64_t good;

        cr_assert_eq(capo_log_create(&w, &header), 0);
        put(CAPO_FRAME_RULES, 11, 'a');
        capo_log_flush(&w);
        good = w.file_bytes;
        put(CAPO_FRAME_RULES, 22, 'b');
        capo_log_finish(&w, false);
        foreign.pid = 43;
        cr_assert_eq(capo_log_append(&w, &foreign, good), -EBADMSG);
        cr_assert_eq(capo_log_append(&w, &header, w.file_bytes + 1), -EBADMSG,
                     "more than there is");
        cr_assert_eq(capo_log_append(&w, &header, good), 0);
        put(CAPO_FRAME_RULES, 33, 'c');
        cr_assert_eq(capo_log_finish(&w, false), 0);
        cr_assert_eq(frames(size, 8), 2);
        cr_assert(size[0] == 11 && size[1] == 33);
}

Test(log_write, written_in_pieces_and_interrupted)
{
        uint32_t size[8];

        mood = PIECES;
        cr_assert_eq(capo_log_create(&w, &header), 0);
        put(CAPO_FRAME_RULES, 11, 'a');
        cr_assert_eq(capo_log_flush(&w), 0);
        put(CAPO_FRAME_RULES, 33, 'b');
        cr_assert_eq(capo_log_finish(&w, true), 0);
        cr_assert_gt(n_writes, 100);
        cr_assert_eq(frames(size, 8), 2);
        cr_assert(size[0] == 11 && size[1] == 33);
}

Test(log_write, a_file_that_takes_nothing_is_an_error)
{
        uint32_t size[8];

        mood = NOTHING;
        cr_assert_eq(capo_log_create(&w, &header), -EIO);
        cr_assert(access(path, F_OK) && w.fd < 0);
        mood = WHOLE;
        cr_assert_eq(capo_log_create(&w, &header), 0);
        put(CAPO_FRAME_RULES, 11, 'a');
        mood = NOTHING;
        cr_assert_eq(capo_log_flush(&w), -EIO);
        cr_assert(w.failed && w.lost_bytes == 32);
        mood = WHOLE;
        put(CAPO_FRAME_RULES, 33, 'b');
        cr_assert_eq(capo_log_finish(&w, false), 0);
        cr_assert(frames(size, 8) == 1 && size[0] == 33);
}

Test(log_write, on_a_full_disk_frames_are_lost_whole_and_counted)
{
        struct rlimit limit = {16384, RLIM_INFINITY};
        uint32_t size[8];
        uint64_t good;

        capo_msg_set_level(CAPO_ERROR);
        cr_assert_eq(capo_log_create(&w, &header), 0);
        put(CAPO_FRAME_RULES, 1000, 'a');
        cr_assert_eq(capo_log_flush(&w), 0);
        good = w.file_bytes;
        cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
        put(CAPO_FRAME_RULES, 20000, 'b');
        cr_assert_lt(capo_log_flush(&w), 0);
        cr_assert(w.failed && w.lost_bytes == 20000 + 16);
        cr_assert_eq((uint64_t)size_of(path), good, "the part that was written is cut off again");
        limit.rlim_cur = RLIM_INFINITY;
        cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
        put(CAPO_FRAME_RULES, 3000, 'c');
        cr_assert_eq(capo_log_finish(&w, false), 0);
        cr_assert_not(w.failed);
        cr_assert_eq(frames(size, 8), 2);
        cr_assert(size[0] == 1000 && size[1] == 3000);
}

/* A program that closes all descriptors it knows, and opens files of its own under their numbers.
 */
Test(log_write, a_descriptor_that_became_anothers_is_not_written_to)
{
        uint32_t size[8];
        int fd;

        cr_assert_eq(capo_log_create(&w, &header), 0);
        put(CAPO_FRAME_RULES, 10, 'a');
        fd = open(other, O_CREAT | O_RDWR, 0600);
        cr_assert_eq(dup2(fd, w.fd), w.fd);
        cr_assert_eq(capo_log_flush(&w), 0);
        cr_assert_eq(size_of(other), 0);
        cr_assert_eq(capo_log_finish(&w, false), 0);
        cr_assert_eq(frames(size, 8), 1);
}

Test(log_write, a_deleted_log_is_not_made_again)
{
        cr_assert_eq(capo_log_create(&w, &header), 0);
        unlink(path);
        put(CAPO_FRAME_RULES, 10, 'a');
        cr_assert_eq(capo_log_finish(&w, false), -ENOENT);
        cr_assert_eq(access(path, F_OK), -1);
        cr_assert_eq(w.lost_bytes, 32);
}

Test(log_write, without_a_file_frames_are_counted_as_lost)
{
        put(CAPO_FRAME_RULES, 8, 'a');
        cr_assert_eq(capo_log_flush(&w), -EBADF);
        cr_assert_eq(w.lost_bytes, 24);
        cr_assert_eq(capo_log_flush(&w), 0, "nothing waits");
}

Test(log_write, on_its_way_to_disk_when_that_is_asked_for)
{
        for (int i = 0; i < 3; i++) {
                int fd;

                sync_error = i == 2 ? EIO : 0;
                n_syncs = 0;
                w.fd = -1;
                cr_assert_eq(capo_log_create(&w, &header), 0);
                fd = w.fd;
                put(CAPO_FRAME_RULES, 8, 'a');
                cr_expect_eq(capo_log_finish(&w, i > 0), i == 2 ? -EIO : 0);
                cr_expect_eq(n_syncs, i > 0);
                cr_expect(w.fd == -1 && fcntl(fd, F_GETFD) == -1, "closed");
                cr_expect_eq(capo_log_finish(&w, true), 0, "nothing is open");
                cr_expect_eq(n_syncs, i > 0);
                unlink(path);
        }
}

Test(log_write, what_fills_a_frame_is_zero)
{
        static const char zeros[8];

        memset(buffer, 0xff, sizeof buffer);
        cr_assert_eq(capo_log_create(&w, &header), 0);
        put(CAPO_FRAME_RULES, 11, 'a');
        cr_expect_eq(w.n, sizeof(struct capo_frame) + 16);
        cr_expect_eq(memcmp(buffer + sizeof(struct capo_frame) + 11, zeros, 5), 0);
        cr_expect_eq((unsigned char)buffer[sizeof(struct capo_frame) + 16], 0xff,
                     "and no more than that");
        cr_assert_eq(capo_log_finish(&w, false), 0);
}
