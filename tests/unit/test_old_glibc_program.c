/* SPDX-License-Identifier: Apache-2.0 */
/* A program that is started and bound as one of a portable build. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/stat.h>

static int constructed;

static __attribute__((constructor)) void count_constructor(void) { constructed++; }

Test(old_glibc_program, constructors_run_once) { cr_assert_eq(constructed, 1); }

static void *say_same(void *arg) { return arg; }

Test(old_glibc_program, threads)
{
        pthread_mutexattr_t attr;
        pthread_mutex_t lock;
        pthread_t thread;
        cpu_set_t cpus;
        void *result;

        cr_assert_eq(pthread_mutexattr_init(&attr), 0);
        cr_assert_eq(pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE), 0);
        cr_assert_eq(pthread_mutex_init(&lock, &attr), 0);
        cr_assert_eq(pthread_mutexattr_destroy(&attr), 0);
        cr_assert_eq(pthread_mutex_lock(&lock) | pthread_mutex_lock(&lock), 0);
        cr_assert_eq(pthread_create(&thread, NULL, say_same, &lock), 0);
        cr_assert_eq(pthread_join(thread, &result), 0);
        cr_assert_eq(result, &lock);
        cr_assert_eq(pthread_getaffinity_np(pthread_self(), sizeof cpus, &cpus), 0);
        cr_assert_gt(CPU_COUNT(&cpus), 0);
        cr_assert_eq(pthread_setaffinity_np(pthread_self(), sizeof cpus, &cpus), 0);
}

Test(old_glibc_program, numbers)
{
        volatile double two = 2, half = 0.5, zero = 0;

        cr_assert_float_eq(exp(log(two)), 2, 1e-15);
        cr_assert_eq(exp2(two), 4);
        cr_assert_eq(log2(half), -1);
        cr_assert_eq(pow(two, -two), 0.25);
        cr_assert_eq(hypot(3 * half, two), 2.5);
        cr_assert(isinf(log(zero)));
}

void *udev_new(void);
void random_bytes(void *out, size_t bytes) __asm__("arc4random_buf");

Test(old_glibc_program, others)
{
        char a[300] = {0}, b[300] = {0};
        struct stat st;

        random_bytes(a, sizeof a);
        random_bytes(b, sizeof b);
        cr_assert_neq(memcmp(a, b, sizeof a), 0);
        cr_assert_eq(fstatat(AT_FDCWD, "/proc/self/exe", &st, AT_SYMLINK_NOFOLLOW), 0);
        cr_assert(S_ISLNK(st.st_mode));
        cr_assert_eq(fstatat(AT_FDCWD, "/proc/self/exe", &st, 0), 0);
        cr_assert(S_ISREG(st.st_mode));
        cr_assert_null(udev_new());
}
