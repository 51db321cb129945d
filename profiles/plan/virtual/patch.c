/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Overwrites the beginning of a function with a jump. libnccl's CUDA runtime is linked into it and
 * called directly, so no symbol can be interposed: the code itself has to be redirected. Only
 * worker processes do this, to their own private copy of the pages; the file is never touched.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "profiles/plan/virtual/symtab.h"

int capo_patch_jump(void *from, const void *to)
{
#if defined(__x86_64__)
        static const unsigned char jump[6] = {0xff, 0x25, 0, 0, 0, 0}; /* jmp *0(%rip) */
        unsigned char *at = from;
        uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
        uintptr_t first = (uintptr_t)from & ~(page - 1);
        uintptr_t last = ((uintptr_t)from + CAPO_PATCH_BYTES - 1) & ~(page - 1);
        static uintptr_t open_first,
                open_last; /* functions come in address order, many to a page */

        if (first < open_first || last > open_last || !open_first) {
                if (mprotect((void *)first, last - first + page,
                             PROT_READ | PROT_WRITE | PROT_EXEC) < 0)
                        return -errno;
                open_first = first;
                open_last = last;
        }
        memcpy(at, jump, sizeof jump);
        memcpy(at + sizeof jump, &to, sizeof to);
        return 0;
#else
        return -ENOTSUP;
#endif
}

#if defined(__x86_64__)
/* Where a 32-bit distance from @code reaches: a jump to @to. */
static void *make_near_jump(const char *code, const void *to)
{
        enum { STEP = 16 << 20, TRIES = 100 };

        for (int i = 1; i <= TRIES; i++) {
                char *at = (char *)((uintptr_t)code & ~(uintptr_t)(STEP - 1)) - (size_t)i * STEP;
                void *got = mmap(at, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

                if (got == at && capo_patch_jump(at, to) == 0)
                        return at;
                if (got != MAP_FAILED)
                        munmap(got, 4096);
        }
        return NULL;
}

/* Calls and, where they end a function, jumps. */
static int patch_range(unsigned char *code, size_t n, const unsigned char *callee,
                       const unsigned char *to)
{
        uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
        int calls = 0;

        for (size_t i = 0; i + 5 <= n; i++) {
                int32_t distance;

                if ((code[i] & 0xfe) != 0xe8)
                        continue;
                memcpy(&distance, code + i + 1, sizeof distance);
                if (code + i + 5 + distance != callee)
                        continue;

                uintptr_t first = (uintptr_t)(code + i) & ~(page - 1);

                if (mprotect((void *)first, 2 * page, PROT_READ | PROT_WRITE | PROT_EXEC) < 0)
                        return -errno;
                distance = (int32_t)(to - (code + i + 5));
                memcpy(code + i + 1, &distance, sizeof distance);
                calls++;
        }
        return calls;
}
#endif

int capo_patch_calls(char *code, size_t n, const void *callee, const void *to)
{
#if defined(__x86_64__)
        const void *near = make_near_jump(code, to);

        return near ? patch_range((unsigned char *)code, n, callee, near) : -ENOMEM;
#else
        return -ENOTSUP;
#endif
}
