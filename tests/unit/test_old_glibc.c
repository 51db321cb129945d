/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-ins for what older releases of glibc lack say what the real ones say. */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static bool same(const struct stat *a, const struct statx *b)
{
        return a->st_dev == makedev(b->stx_dev_major, b->stx_dev_minor) &&
               a->st_ino == b->stx_ino && a->st_mode == b->stx_mode &&
               a->st_nlink == b->stx_nlink && a->st_uid == b->stx_uid && a->st_gid == b->stx_gid &&
               a->st_size == (off_t)b->stx_size && a->st_blksize == (blksize_t)b->stx_blksize &&
               a->st_blocks == (blkcnt_t)b->stx_blocks &&
               a->st_atim.tv_sec == b->stx_atime.tv_sec &&
               a->st_atim.tv_nsec == b->stx_atime.tv_nsec &&
               a->st_mtim.tv_sec == b->stx_mtime.tv_sec &&
               a->st_mtim.tv_nsec == b->stx_mtime.tv_nsec &&
               a->st_ctim.tv_sec == b->stx_ctime.tv_sec &&
               a->st_ctim.tv_nsec == b->stx_ctime.tv_nsec;
}

/* Its own file and link: an emulator opens another /proc/self/exe than it describes. */
Test(old_glibc, stat)
{
        char dir[] = "/tmp/capo-old-glibc-XXXXXX", file[64], link[64];
        struct stat st;
        struct statx sx;
        int fd;

        cr_assert_not_null(mkdtemp(dir));
        snprintf(file, sizeof file, "%s/file", dir);
        snprintf(link, sizeof link, "%s/link", dir);
        fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0640);
        cr_assert_eq(write(fd, dir, sizeof dir), (ssize_t)sizeof dir);
        cr_assert_eq(symlink(file, link), 0);
        cr_assert_eq(statx(AT_FDCWD, file, 0, STATX_BASIC_STATS, &sx), 0);
        cr_assert_eq(stat(file, &st), 0);
        cr_assert(same(&st, &sx));
        cr_assert_eq(stat(link, &st), 0);
        cr_assert(same(&st, &sx));
        cr_assert_eq(fstat(fd, &st), 0);
        cr_assert(same(&st, &sx));
        cr_assert_eq(statx(AT_FDCWD, link, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, &sx), 0);
        cr_assert_eq(lstat(link, &st), 0);
        cr_assert(S_ISLNK(st.st_mode));
        cr_assert(same(&st, &sx));
        cr_assert_eq(stat("/dev/zero", &st), 0);
        cr_assert_eq(st.st_rdev, makedev(1, 5));
        cr_assert_eq(stat("/nonexistent", &st), -1);
        cr_assert_eq(errno, ENOENT);
        cr_assert_eq(fstat(-1, &st), -1);
        cr_assert_eq(errno, EBADF);
        close(fd);
        unlink(link);
        unlink(file);
        rmdir(dir);
}

#ifdef DLFO_STRUCT_HAS_EH_DBASE
int capo_find_object(void *pc, struct dl_find_object *out);

Test(old_glibc, find_object)
{
        int (*real)(void *, struct dl_find_object *) =
                (int (*)(void *, struct dl_find_object *))dlvsym(RTLD_DEFAULT, "_dl_find_object",
                                                                 "GLIBC_2.35");
        static char in_data = 1;
        void *inside[] = {(void *)capo_find_object, (void *)cr_asprintf,
                          dlsym(RTLD_DEFAULT, "qsort"), (char *)dlsym(RTLD_DEFAULT, "qsort") + 1,
                          &in_data};
        char on_the_stack;
        void *outside[] = {NULL, (void *)1, &on_the_stack};
        struct dl_find_object ours, theirs;

        if (!real)
                cr_skip_test("this glibc has none to compare with");
        for (size_t i = 0; i < sizeof inside / sizeof *inside; i++) {
                cr_assert_eq(real(inside[i], &theirs), 0);
                cr_assert_eq(capo_find_object(inside[i], &ours), 0);
                cr_assert_eq(ours.dlfo_eh_frame, theirs.dlfo_eh_frame);
                cr_assert_eq(ours.dlfo_map_start, theirs.dlfo_map_start);
                cr_assert_eq(ours.dlfo_map_end, theirs.dlfo_map_end);
        }
        for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
                cr_assert_eq(real(outside[i], &theirs), -1);
                cr_assert_eq(capo_find_object(outside[i], &ours), -1);
        }
}
#endif
