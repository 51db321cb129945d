/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-ins for what older releases of glibc lack say what the real ones say. */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool same(const struct stat *a, const struct statx *b)
{
        return a->st_ino == b->stx_ino && a->st_size == (off_t)b->stx_size &&
               a->st_mode == b->stx_mode && a->st_nlink == b->stx_nlink &&
               a->st_mtim.tv_sec == b->stx_mtime.tv_sec &&
               a->st_mtim.tv_nsec == b->stx_mtime.tv_nsec;
}

Test(old_glibc, stat)
{
        struct stat st;
        struct statx sx;
        int fd = open("/proc/self/exe", O_RDONLY);

        cr_assert_eq(stat("/proc/self/exe", &st), 0);
        cr_assert_eq(statx(AT_FDCWD, "/proc/self/exe", 0, STATX_BASIC_STATS, &sx), 0);
        cr_assert(same(&st, &sx));
        cr_assert_eq(fstat(fd, &st), 0);
        cr_assert(same(&st, &sx));
        cr_assert_eq(lstat("/proc/self/exe", &st), 0);
        cr_assert(S_ISLNK(st.st_mode));
        cr_assert_eq(stat("/nonexistent", &st), -1);
        cr_assert_eq(errno, ENOENT);
        cr_assert_eq(fstat(-1, &st), -1);
        cr_assert_eq(errno, EBADF);
        close(fd);
}

#ifdef DLFO_STRUCT_HAS_EH_DBASE
int capo_find_object(void *pc, struct dl_find_object *out);

Test(old_glibc, find_object)
{
        int (*real)(void *, struct dl_find_object *) =
                (int (*)(void *, struct dl_find_object *))dlvsym(RTLD_DEFAULT, "_dl_find_object",
                                                                 "GLIBC_2.35");
        void *inside[] = {(void *)capo_find_object, (void *)cr_asprintf,
                          dlsym(RTLD_DEFAULT, "qsort"), (char *)dlsym(RTLD_DEFAULT, "qsort") + 1};
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
