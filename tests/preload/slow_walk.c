/* SPDX-License-Identifier: Apache-2.0 */
/* A process with very many libraries: preloaded beside the recorder, a walk of its thread over them
 * takes 30 ms more, with the loader's lock. */
#include <link.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <dlfcn.h>

/* In the first such walk by the program's first thread, SIGUSR1 comes. */
extern __attribute__((visibility("default"))) atomic_int jump_now;
atomic_int jump_now;

struct walk {
        int (*each)(struct dl_phdr_info *info, size_t size, void *arg);
        void *arg;
        int waited;
};

static int slowly(struct dl_phdr_info *info, size_t size, void *arg)
{
        struct walk *w = arg;
        char name[16] = "";

        if (jump_now && gettid() == getpid()) {
                jump_now = 0;
                raise(SIGUSR1);
        }
        if (!w->waited++ && !prctl(PR_GET_NAME, name) && !strcmp(name, "capo-drain"))
                nanosleep(&(struct timespec){0, 30000000}, NULL);
        return w->each(info, size, w->arg);
}

__attribute__((visibility("default"))) int dl_iterate_phdr(int (*each)(struct dl_phdr_info *info,
                                                                       size_t size, void *arg),
                                                           void *arg)
{
        __typeof__(dl_iterate_phdr) *real =
                (__typeof__(real))(size_t)dlsym(RTLD_NEXT, "dl_iterate_phdr");

        return real(slowly, &(struct walk){each, arg, 0});
}
