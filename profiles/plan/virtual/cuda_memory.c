/* SPDX-License-Identifier: Apache-2.0 */
/* Virtual device memory: anonymous pages that cost nothing until they are written. NCCL clears what
 * it allocates, so clearing drops the pages instead of writing them. A table of ranges, sorted by
 * address, finds the allocation of a pointer; there are some hundreds. */
#include <pthread.h>
#include <sys/mman.h>

#include "core/base/array.h"
#include "profiles/plan/virtual/virtual.h"

#define PAGE 4096ul

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct range {
        char *base;
        size_t bytes;
} * ranges;
static size_t n_ranges;

/* First range whose base is above @address. The lock must be held. */
static size_t find_above(const char *address)
{
        size_t lo = 0, hi = n_ranges;

        while (lo < hi) {
                size_t mid = (lo + hi) / 2;

                if (ranges[mid].base <= address)
                        lo = mid + 1;
                else
                        hi = mid;
        }
        return lo;
}

static struct range *find_range(const char *address)
{
        size_t i = find_above(address);

        return i && address < ranges[i - 1].base + ranges[i - 1].bytes ? &ranges[i - 1] : NULL;
}

static void remove_range(struct range *r)
{
        n_ranges--;
        memmove(r, r + 1, (size_t)(ranges + n_ranges - r) * sizeof *r);
}

/* Map @bytes (whole pages) at @at, or anywhere if it is NULL, and note the range. */
static char *map_range(char *at, size_t bytes)
{
        char *base =
                mmap(at, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at ? MAP_FIXED : 0), -1, 0);

        if (base == MAP_FAILED)
                return NULL;
        pthread_mutex_lock(&lock);
        if (capo_array_room(&ranges, n_ranges, sizeof *ranges) < 0) {
                pthread_mutex_unlock(&lock);
                munmap(base, bytes);
                return NULL;
        }

        size_t i = find_above(base);

        memmove(ranges + i + 1, ranges + i, (n_ranges - i) * sizeof *ranges);
        ranges[i] = (struct range){base, bytes};
        n_ranges++;
        pthread_mutex_unlock(&lock);
        return base;
}

void *plan_memory_map(size_t bytes)
{
        size_t size = (bytes + PAGE - 1) & ~(PAGE - 1);

        return map_range(NULL, size ? size : PAGE);
}

int plan_memory_map_at(void *address, size_t bytes)
{
        return map_range(address, (bytes + PAGE - 1) & ~(PAGE - 1)) ? 0 : -ENOMEM;
}

void plan_memory_unmap(void *address)
{
        pthread_mutex_lock(&lock);

        struct range *r = find_range(address);

        if (r && r->base == address) {
                munmap(r->base, r->bytes);
                remove_range(r);
        }
        pthread_mutex_unlock(&lock);
}

/* One call restores the reservation: with a hole in between, another thread could get memory there,
 * and lose it. */
int plan_memory_unmap_at(void *address, size_t bytes)
{
        void *reserved;

        pthread_mutex_lock(&lock);

        struct range *r = find_range(address);

        if (r && r->base == address)
                remove_range(r);
        reserved = mmap(address, bytes, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        pthread_mutex_unlock(&lock);
        return reserved == MAP_FAILED ? -errno : 0;
}

bool plan_memory_zero(void *address, size_t bytes)
{
        bool ours;
        char *first = (char *)(((uintptr_t)address + PAGE - 1) & ~(PAGE - 1));
        char *last = (char *)(((uintptr_t)address + bytes) & ~(PAGE - 1));

        if (bytes < 16 * PAGE)
                return false;
        pthread_mutex_lock(&lock);
        struct range *r = find_range(address);

        ours = r && (char *)address + bytes <= r->base + r->bytes;
        pthread_mutex_unlock(&lock);
        if (!ours || madvise(first, (size_t)(last - first), MADV_DONTNEED) < 0)
                return false;
        memset(address, 0, (size_t)(first - (char *)address));
        memset(last, 0, (size_t)((char *)address + bytes - last));
        return true;
}

int plan_memory_range(void *address, void **base, size_t *bytes)
{
        int rc = -ENOENT;

        pthread_mutex_lock(&lock);
        struct range *r = find_range(address);

        if (r) {
                *base = r->base;
                *bytes = r->bytes;
                rc = 0;
        }
        pthread_mutex_unlock(&lock);
        return rc;
}
