/* SPDX-License-Identifier: Apache-2.0 */
/* The life of the recorder in this process. */
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>

#include "capo/msg.h"
#include "shim/shim.h"

_Atomic int capo_shim_state;
static struct capo_env env;

bool capo_shim_start_slow(void)
{
        int unborn = CAPO_SHIM_UNBORN;

        capo_env_read(&env);
        atomic_compare_exchange_strong(&capo_shim_state, &unborn, CAPO_SHIM_OFF);
        return false;
}

const struct capo_env *capo_shim_env(void)
{
        return &env;
}

bool capo_shim_current(struct capo_shim_outer *out)
{
        return false;
}

void capo_shim_text(unsigned type, const char *text, size_t size)
{
}

void capo_shim_info(const char *key, const char *format, ...)
{
}

bool capo_shim_at_checkpoint(void (*write)(bool last))
{
        return true;
}

bool capo_shim_at_poll(void (*poll)(void))
{
        return true;
}

bool capo_shim_at_fork(void (*child)(void))
{
        return true;
}

uint64_t capo_shim_ns(uint64_t ticks)
{
        return 0;
}

void *capo_shim_alloc(size_t size)
{
        void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        return p == MAP_FAILED ? NULL : p;
}
