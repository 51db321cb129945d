/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <sys/mman.h>

#include "core/base/util.h"
#include "shim/record/left.h"

CAPO_UNSANITIZED bool capo_left(const void *inside, const void *frame, const void **returns_to)
{
        stack_t stack;

        *returns_to = NULL;
        if ((uintptr_t)frame >= (uintptr_t)inside)
                return sigaltstack(NULL, &stack) || !(stack.ss_flags & SS_ONSTACK);
#if defined __x86_64__
        const void *const *at = (const void *const *)inside - 1;
        unsigned char there;
        int saved = errno;

        if (mincore((void *)((uintptr_t)at & -(uintptr_t)sysconf(_SC_PAGESIZE)), 1, &there)) {
                errno = saved;
                return true; /* no memory any more */
        }
        *returns_to = *at;
#endif
        return false;
}
