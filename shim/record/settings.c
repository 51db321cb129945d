/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/mman.h>

#include "capo/env.h"
#include "shim/record/shim.h"

struct capo_env capo_settings;

void *capo_shim_alloc(size_t size)
{
        void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        return p == MAP_FAILED ? NULL : p;
}
