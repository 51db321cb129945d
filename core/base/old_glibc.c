/* SPDX-License-Identifier: Apache-2.0 */
/* Lets the built libraries load with an older glibc, down to 2.28 (RHEL 8, Ubuntu 20.04 and images
 * built on them).
 *
 * glibc 2.34 gave most functions of libpthread and libdl a new version. The linker binds to it, and
 * an older loader then refuses the whole library in every process that preloads it. The old
 * version's code is the same. So each such name is defined here, hidden, and calls the oldest
 * version. Our objects and libgcc's unwinder, which is linked in, find these definitions first.
 * Before 2.34 the old versions are in libpthread.so.0 and libdl.so.2, which the plugin and programs
 * therefore name as needed (of newer releases they are empty). libcapo.so looks for them instead
 * (old_glibc.h).
 *
 * tests/exports/loadable.sh checks the built libraries, so it finds a name that a new compiler or
 * glibc adds. Compiled into the two libraries that go into a job, and with old_glibc_program.c into
 * the programs of a portable build. Not under a sanitizer, which has to see these calls itself. */
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "core/base/old_glibc.h"
#include "core/base/util.h"

#pragma GCC visibility push(hidden)
#ifdef CAPO_LATE_THREADS
void *capo_object_next_function(const char *name); /* shim/find/object.h */

/* Loads what nobody has brought by libc's own dlopen(), which glibc before 2.34 has. */
void *capo_old_late(const char *name)
{
        enum { AS_DLOPEN = 0x80000000 }; /* glibc's flag for a load that is not part of the start */
        void *(*load)(const char *file, int mode);
        void *found = capo_object_next_function(name);

        if (found)
                return found;
        load = (void *(*)(const char *, int))capo_object_next_function("__libc_dlopen_mode");
        if (!load)
                return NULL;
        load("libpthread.so.0", RTLD_NOW | (int)AS_DLOPEN);
        load("libdl.so.2", RTLD_NOW | (int)AS_DLOPEN);
        return capo_object_next_function(name);
}
#endif

/* Moved into libc by 2.34. */
#ifndef CAPO_OWN_DLOPEN /* profiles/plan/virtual/worker_main.c */
OLD(void *, dlopen, (const char *file, int mode), (file, mode))
#endif
OLD(int, dlclose, (void *handle), (handle))
OLD(char *, dlerror, (void), ())
OLD_ELSE(FIRST, 0, int, dladdr, (const void *address, Dl_info *info), (address, info))
OLD_SINCE(AT_2_3_3, int, dlinfo, (void *restrict handle, int what, void *restrict out),
          (handle, what, out))
#ifdef CAPO_OLD_DLSYM /* libcapo.so has a dlsym of its own (shim/nccl/dlsym.c) */
OLD(void *, dlsym, (void *restrict handle, const char *restrict name), (handle, name))
#endif
OLD(int, pthread_create,
    (pthread_t *restrict thread, const pthread_attr_t *restrict attr, void *(*start)(void *),
     void *restrict arg),
    (thread, attr, start, arg))
OLD(int, pthread_attr_setstacksize, (pthread_attr_t * attr, size_t size), (attr, size))
OLD(int, pthread_once, (pthread_once_t * once, void (*init)(void)), (once, init))
OLD(int, pthread_key_create, (pthread_key_t * key, void (*destroy)(void *)), (key, destroy))
OLD(int, pthread_setspecific, (pthread_key_t key, const void *value), (key, value))
OLD(void *, pthread_getspecific, (pthread_key_t key), (key))
OLD(int, pthread_mutex_trylock, (pthread_mutex_t * mutex), (mutex))
OLD(int, pthread_mutex_timedlock,
    (pthread_mutex_t *restrict mutex, const struct timespec *restrict until), (mutex, until))
OLD(int, pthread_rwlock_rdlock, (pthread_rwlock_t * lock), (lock))
OLD(int, pthread_rwlock_wrlock, (pthread_rwlock_t * lock), (lock))
OLD(int, pthread_rwlock_unlock, (pthread_rwlock_t * lock), (lock))
/* Moved by 2.32. */
OLD(int, pthread_sigmask, (int how, const sigset_t *restrict set, sigset_t *restrict before),
    (how, set, before))

/* gcc's thread layer asks for this name to find out whether there are threads. */
int __pthread_key_create(pthread_key_t *key, void (*destroy)(void *));
int __pthread_key_create(pthread_key_t *key, void (*destroy)(void *))
{
        return pthread_key_create(key, destroy);
}

/* Functions since 2.33, macros over __xstat before. The kernel's structure is glibc's here. */
static int stat_at(int fd, const char *path, void *out, int flags)
{
        return (int)syscall(SYS_newfstatat, fd, path, out, flags);
}

#undef stat
#undef fstat
#undef lstat
#undef stat64
#undef fstat64
#undef lstat64
int capo_stat(const char *path, void *out) __asm__("stat");
int capo_fstat(int fd, void *out) __asm__("fstat");
int capo_lstat(const char *path, void *out) __asm__("lstat");
int capo_stat64(const char *path, void *out) __asm__("stat64");
int capo_fstat64(int fd, void *out) __asm__("fstat64");
int capo_lstat64(const char *path, void *out) __asm__("lstat64");

int capo_stat(const char *path, void *out) { return stat_at(AT_FDCWD, path, out, 0); }

int capo_fstat(int fd, void *out) { return stat_at(fd, "", out, AT_EMPTY_PATH); }

int capo_lstat(const char *path, void *out)
{
        return stat_at(AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW);
}

int capo_stat64(const char *path, void *out) { return stat_at(AT_FDCWD, path, out, 0); }

int capo_fstat64(int fd, void *out) { return stat_at(fd, "", out, AT_EMPTY_PATH); }

int capo_lstat64(const char *path, void *out)
{
        return stat_at(AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW);
}

/* New in 2.35, and what unwind tables are found with (shim/find/object.c, and the unwinder of a gcc
 * built there); nothing else is asked. The real one where there is one (it takes no lock), else
 * what libgcc did before: the walk over all objects. */
#ifdef DLFO_STRUCT_HAS_EH_DBASE
void *old_dlvsym(void *handle, const char *name,
                 const char *version) __asm__("capo_old_dlvsym") OLD_WEAK;
__asm__(".symver capo_old_dlvsym,dlvsym" OLD_AT(FIRST));

struct find {
        uintptr_t pc;
        struct dl_find_object *out;
        bool later; /* than the program, which is the first object */
};

/* The kernel maps the program's segments one by one: what lies between two of them may be another's
 * mapping. So where they have a hole, the program's mapping is the segment, as glibc has it. All
 * other objects are mapped in one piece. */
static int match_object(struct dl_phdr_info *info, size_t size, void *arg)
{
        struct find *find = arg;
        uintptr_t low = UINTPTR_MAX, high = 0, page = (uintptr_t)getpagesize();
        const ElfW(Phdr) *tables = NULL, *around = NULL;
        bool hole = false, program = !find->later;

        find->later = true;
        for (int i = 0; i < info->dlpi_phnum; i++) {
                const ElfW(Phdr) *p = &info->dlpi_phdr[i];
                uintptr_t begin = info->dlpi_addr + p->p_vaddr;

                if (p->p_type == PT_GNU_EH_FRAME)
                        tables = p;
                if (p->p_type != PT_LOAD)
                        continue;
                hole |= high && begin / page > (high - 1) / page + 1;
                low = begin < low ? begin : low;
                high = begin + p->p_memsz > high ? begin + p->p_memsz : high;
                around = find->pc - begin < p->p_memsz ? p : around;
        }
        if (!around || !tables)
                return around != NULL;
        if (program && hole) {
                low = info->dlpi_addr + around->p_vaddr;
                high = low + around->p_memsz;
        }
        *find->out = (struct dl_find_object){
                .dlfo_map_start = (void *)low,
                .dlfo_map_end = (void *)high,
                .dlfo_eh_frame = (void *)(info->dlpi_addr + tables->p_vaddr),
        };
        return 2;
}

int capo_find_object(void *pc, struct dl_find_object *out);
int capo_find_object(void *pc, struct dl_find_object *out)
{
        struct find find = {(uintptr_t)pc, out, false};

        return dl_iterate_phdr(match_object, &find) == 2 ? 0 : -1;
}

int _dl_find_object(void *pc, struct dl_find_object *out)
{
        static int (*real)(void *, struct dl_find_object *);
        static int asked;

        if (!__atomic_load_n(&asked, __ATOMIC_ACQUIRE)) {
                __typeof__(&old_dlvsym) look_up = OLD_OF(dlvsym);

                if (look_up)
                        __atomic_store_n(&real,
                                         (int (*)(void *, struct dl_find_object *))look_up(
                                                 RTLD_DEFAULT, "_dl_find_object", "GLIBC_2.35"),
                                         __ATOMIC_RELAXED);
                __atomic_store_n(&asked, 1, __ATOMIC_RELEASE);
        }
        return real ? real(pc, out) : capo_find_object(pc, out);
}
#endif

#pragma GCC visibility pop
