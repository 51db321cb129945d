/* SPDX-License-Identifier: Apache-2.0 */
/* Virtual device memory: anonymous pages that cost nothing until they are written. NCCL clears what
 * it allocates, so clearing drops the pages instead of writing them. A list of ranges finds
 * the allocation of a pointer; there are some hundreds. */
#include <pthread.h>
#include <sys/mman.h>

#include "core/base/among.h"
#include "core/base/array.h"
#include "profiles/plan/virtual/virtual.h"

#define PAGE 4096ul

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct plan_range *ranges;
static size_t n_ranges;

/* The lock must be held. */
static struct plan_range *find_range(const char *address)
{
        return FIRST_OF(r, ranges, n_ranges, address >= r->base && address < r->base + r->bytes);
}

bool plan_memory_find(const void *address, bool hold, struct plan_range *out)
{
        const struct plan_range *r;

        pthread_mutex_lock(&lock);
        r = find_range(address);
        *out = r ? *r : (struct plan_range){0};
        if (hold && out->handle)
                out->handle->count++;
        pthread_mutex_unlock(&lock);
        return r;
}

void *plan_memory_map(void *at, size_t bytes, struct handle *handle)
{
        size_t size = bytes ? (bytes + PAGE - 1) & ~(PAGE - 1) : PAGE;
        char *base =
                mmap(at, size, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at ? MAP_FIXED : 0), -1, 0);
        bool room;

        if (base == MAP_FAILED)
                return NULL;
        pthread_mutex_lock(&lock);
        room = capo_array_room(&ranges, n_ranges, sizeof *ranges) == 0;
        if (room)
                ranges[n_ranges++] = (struct plan_range){base, size, handle};
        if (room && handle)
                handle->count++;
        pthread_mutex_unlock(&lock);
        if (!room)
                munmap(base, size);
        return room ? base : NULL;
}

/* With a reservation, one call restores it: with a hole in between, another thread could get memory
 * there, and lose it. */
struct handle *plan_memory_unmap(void *address, size_t reserved)
{
        struct handle *handle = NULL;
        struct plan_range *r;

        pthread_mutex_lock(&lock);
        r = find_range(address);
        if (r && r->base == address) {
                if (!reserved)
                        munmap(r->base, r->bytes);
                handle = r->handle;
                *r = ranges[--n_ranges];
        }
        if (reserved)
                mmap(address, reserved, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        pthread_mutex_unlock(&lock);
        return handle;
}

bool plan_memory_zero(void *address, size_t bytes)
{
        char *first = (char *)(((uintptr_t)address + PAGE - 1) & ~(PAGE - 1));
        char *last = (char *)(((uintptr_t)address + bytes) & ~(PAGE - 1));
        struct plan_range r;

        if (bytes < 16 * PAGE || !plan_memory_find(address, false, &r) ||
            (char *)address + bytes > r.base + r.bytes ||
            madvise(first, (size_t)(last - first), MADV_DONTNEED) < 0)
                return false;
        memset(address, 0, (size_t)(first - (char *)address));
        memset(last, 0, (size_t)((char *)address + bytes - last));
        return true;
}
