/* SPDX-License-Identifier: Apache-2.0 */
/* As old_glibc.c, for the programs of a portable build (meson -Dportable=true): functions that only
 * programs and the libraries linked into them call. Such a program runs with glibc 2.28 and later.
 */
#include <math.h>
#include <pthread.h>
#include <sys/random.h>
#include <sys/syscall.h>

#include "core/base/old_glibc.h"
#include "core/base/util.h"

#pragma GCC visibility push(hidden)

OLD(int, pthread_join, (pthread_t thread, void **result), (thread, result))
OLD(int, pthread_mutexattr_init, (pthread_mutexattr_t * attr), (attr))
OLD(int, pthread_mutexattr_destroy, (pthread_mutexattr_t * attr), (attr))
OLD(int, pthread_mutexattr_settype, (pthread_mutexattr_t * attr, int type), (attr, type))

OLD_SINCE(AT_2_3_4, int, pthread_getaffinity_np, (pthread_t thread, size_t size, cpu_set_t *set),
          (thread, size, set))
OLD_SINCE(AT_2_3_4, int, pthread_setaffinity_np,
          (pthread_t thread, size_t size, const cpu_set_t *set), (thread, size, set))

/* Since 2.29 these no longer call a handler of the program's; the numbers are the same. */
OLD(double, exp, (double x), (x))
OLD(double, exp2, (double x), (x))
OLD(double, log, (double x), (x))
OLD(double, log2, (double x), (x))
OLD(double, pow, (double x, double y), (x, y))
OLD(double, hypot, (double x, double y), (x, y))

#undef fstatat
#undef fstatat64
int capo_fstatat(int fd, const char *path, void *out, int flags) __asm__("fstatat");
int capo_fstatat64(int fd, const char *path, void *out, int flags) __asm__("fstatat64");

int capo_fstatat(int fd, const char *path, void *out, int flags)
{
        return (int)syscall(SYS_newfstatat, fd, path, out, flags);
}

int capo_fstatat64(int fd, const char *path, void *out, int flags)
{
        return (int)syscall(SYS_newfstatat, fd, path, out, flags);
}

/* New in 2.36; expat asks it once, for the seed of its hash. */
void capo_arc4random_buf(void *out, size_t bytes) __asm__("arc4random_buf");
void capo_arc4random_buf(void *out, size_t bytes)
{
        char *at = out;

        while (bytes > 0) {
                ssize_t n = getrandom(at, bytes, 0);

                if (n < 0)
                        abort(); /* never with a kernel that has the call: glibc does the same */
                at += n;
                bytes -= (size_t)n;
        }
}

/* Before 2.34 a program brought the loop over its constructors along and passed it here. Today's
 * start files no longer have it, so it is passed again: every release runs what it is given. */
typedef void (*constructor)(int argc, char **argv, char **envp);
extern constructor __preinit_array_start[], __preinit_array_end[], __init_array_start[],
        __init_array_end[];
void _init(void);

static void run_constructors(int argc, char **argv, char **envp)
{
        for (constructor *f = __preinit_array_start; f < __preinit_array_end; f++)
                (*f)(argc, argv, envp);
        _init();
        for (constructor *f = __init_array_start; f < __init_array_end; f++)
                (*f)(argc, argv, envp);
}

int old_start_main(int (*main)(int, char **, char **), int argc, char **argv, constructor init,
                   void (*fini)(void), void (*loader_fini)(void),
                   void *stack_end) __asm__("capo_old_start_main") DEFAULT;
__asm__(".symver capo_old_start_main,__libc_start_main@" FIRST);
int __libc_start_main(int (*main)(int, char **, char **), int argc, char **argv, constructor init,
                      void (*fini)(void), void (*loader_fini)(void), void *stack_end);
int __libc_start_main(int (*main)(int, char **, char **), int argc, char **argv, constructor init,
                      void (*fini)(void), void (*loader_fini)(void), void *stack_end)
{
        return old_start_main(main, argc, argv, init ? init : run_constructors, fini, loader_fini,
                              stack_end);
}

/* hwloc's archive can ask libudev, of which there is no archive. Without a context it reads the
 * kernel's and udev's files itself. */
void *udev_new(void);
void *udev_new(void) { return NULL; }

void *udev_unref(void *udev);
void *udev_unref(void *udev) { return NULL; }

void *udev_device_new_from_subsystem_sysname(void *udev, const char *subsystem, const char *name);
void *udev_device_new_from_subsystem_sysname(void *udev, const char *subsystem, const char *name)
{
        return NULL;
}

const char *udev_device_get_property_value(void *device, const char *key);
const char *udev_device_get_property_value(void *device, const char *key) { return NULL; }

void *udev_device_unref(void *device);
void *udev_device_unref(void *device) { return NULL; }

#pragma GCC visibility pop
