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
