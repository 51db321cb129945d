/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libunwind-ptrace is loaded when it is needed and never linked: its libraries also define the
 * compiler's unwinder, and capo must run without them. The declarations are the used part of
 * libunwind.h and libunwind-ptrace.h (equal in 1.3 to 1.8); a cursor is 127 words on x86-64, 250 on
 * AArch64.
 */
#include <dlfcn.h>

#include "analysis/process/unwind.h"

#if defined __x86_64__
#define ARCH "x86_64"
enum { FIRST_IP = 16, IP = FIRST_IP };
#else
#define ARCH "aarch64"
/* The program counter keeps the innermost frame's value. For outer frames libunwind's instruction
 * pointer is the link register. */
enum { FIRST_IP = 32, IP = 30 };
#endif
enum { FRAMES = 64 };

static struct {
        void *accessors; /* unw_accessors_t */
        void *(*create)(int tid);
        void (*destroy)(void *thread);
        void *(*create_addr_space)(void *accessors, int order);
        int (*init_remote)(void *cursor, void *space, void *thread);
        int (*step)(void *cursor);
        int (*get_reg)(void *cursor, int reg, uint64_t *value);
        int (*get_proc_name)(void *cursor, char *name, size_t room, uint64_t *into);
        void *space;
} unw;

bool process_unwind_open(void)
{
        void *ptrace, *arch;

        if (unw.space)
                return true;
        /* the second library uses symbols of the first without linking it */
        arch = dlopen("libunwind-" ARCH ".so.8", RTLD_NOW | RTLD_GLOBAL);
        ptrace = arch ? dlopen("libunwind-ptrace.so.0", RTLD_NOW | RTLD_LOCAL) : NULL;
        if (!ptrace)
                return false;
#define FIND(name, library, symbol)                             \
        do {                                                    \
                *(void **)&unw.name = dlsym(library, (symbol)); \
                if (!unw.name)                                  \
                        return false;                           \
        } while (0)
        FIND(accessors, ptrace, "_UPT_accessors");
        FIND(create, ptrace, "_UPT_create");
        FIND(destroy, ptrace, "_UPT_destroy");
        FIND(create_addr_space, arch, "_U" ARCH "_create_addr_space");
        FIND(init_remote, arch, "_U" ARCH "_init_remote");
        FIND(step, arch, "_U" ARCH "_step");
        FIND(get_reg, arch, "_U" ARCH "_get_reg");
        FIND(get_proc_name, arch, "_U" ARCH "_get_proc_name");
#undef FIND
        unw.space = unw.create_addr_space(unw.accessors, 0);
        return unw.space;
}

void process_unwind(int tid, void (*frame)(const char *name, uint64_t into, void *arg), void *arg)
{
        static uint64_t cursor[2048];
        void *thread = unw.create(tid);

        if (!thread)
                return;
        if (unw.init_remote(cursor, unw.space, thread) == 0) {
                for (int i = 0; i < FRAMES; i++) {
                        uint64_t ip = 0, into = 0;
                        char name[1024] = "";

                        if (unw.get_reg(cursor, i ? IP : FIRST_IP, &ip) < 0 || !ip)
                                break;
                        if (unw.get_proc_name(cursor, name, sizeof name, &into) < 0)
                                *name = 0;
                        name[sizeof name - 1] = 0;
                        frame(name, *name ? into : ip, arg);
                        if (unw.step(cursor) <= 0)
                                break;
                }
        }
        unw.destroy(thread);
}
