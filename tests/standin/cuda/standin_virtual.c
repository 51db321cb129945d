/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual memory management of the stand-in driver: reservations are address space without access,
 * an allocation is a file in memory, a mapping is that file mapped into a reservation. So two
 * mappings of one allocation are the same bytes, in another process too, which got it as a file
 * descriptor. Memory on the host by this interface, multicast and fabric handles are refused.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fake.h"

#define GRAIN       ((size_t)2 << 20) /* as an H100 */
#define NAME        "capo-stand-in-device-"
#define MAX_DEVICES 64

struct allocation {
        struct allocation *next;
        CUmemAllocationProp prop;
        size_t bytes;
        int fd;
        unsigned handles, mappings; /* at none of either it is freed */
};

struct range {
        struct range *next;
        uintptr_t base;
        size_t bytes;
        struct allocation *of;             /* a mapping's; NULL: a reservation */
        unsigned char access[MAX_DEVICES]; /* a mapping's, by device */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct allocation *allocations;
static struct range *reservations, *mappings;

static bool even(size_t n) { return n && n % GRAIN == 0; }

static CUresult started(void)
{
        return fake_device_count() < 0 ? CUDA_ERROR_NOT_INITIALIZED : CUDA_SUCCESS;
}

/* Does it name a device of ours? */
static CUresult located(const CUmemLocation *where)
{
        if (where->type == CU_MEM_LOCATION_TYPE_DEVICE)
                return where->id >= 0 && where->id < fake_device_count()
                               ? CUDA_SUCCESS
                               : CUDA_ERROR_INVALID_DEVICE;
        return where->type == CU_MEM_LOCATION_TYPE_INVALID ? CUDA_ERROR_INVALID_VALUE
                                                           : CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult allowed(const CUmemAllocationProp *prop)
{
        CUresult r = started();

        if (r)
                return r;
        if (!prop || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED || prop->win32HandleMetaData)
                return CUDA_ERROR_INVALID_VALUE;
        r = located(&prop->location);
        if (!r && prop->requestedHandleTypes & ~(unsigned)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
                r = CUDA_ERROR_NOT_SUPPORTED;
        return r;
}

/* The range of the list that has all of these bytes; the place that points to it. */
static struct range **within(struct range **list, uintptr_t base, size_t bytes)
{
        for (; *list; list = &(*list)->next)
                if (base >= (*list)->base && base - (*list)->base < (*list)->bytes &&
                    bytes <= (*list)->bytes - (base - (*list)->base))
                        return list;
        return NULL;
}

static bool overlaps(const struct range *list, uintptr_t base, size_t bytes)
{
        for (; list; list = list->next)
                if (base < list->base + list->bytes && list->base < base + bytes)
                        return true;
        return false;
}

static struct allocation *known(CUmemGenericAllocationHandle handle)
{
        struct allocation *a = allocations;

        while (a && (uintptr_t)a != handle)
                a = a->next;
        return a && a->handles ? a : NULL;
}

static void drop_unused(struct allocation *a)
{
        struct allocation **at = &allocations;

        if (a->handles || a->mappings)
                return;
        while (*at != a)
                at = &(*at)->next;
        *at = a->next;
        close(a->fd);
        free(a);
}

static CUresult take(int fd, size_t bytes, const CUmemAllocationProp *prop,
                     CUmemGenericAllocationHandle *handle)
{
        struct allocation *a = calloc(1, sizeof *a);

        if (!a)
                return CUDA_ERROR_OUT_OF_MEMORY;
        *a = (struct allocation){.prop = *prop, .bytes = bytes, .fd = fd, .handles = 1};
        pthread_mutex_lock(&lock);
        a->next = allocations;
        allocations = a;
        pthread_mutex_unlock(&lock);
        *handle = (uintptr_t)a;
        return CUDA_SUCCESS;
}

EXPORT CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
                                              CUmemAllocationGranularity_flags option)
{
        CUresult r = allowed(prop);

        if (!r && (!granularity || option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED))
                r = CUDA_ERROR_INVALID_VALUE;
        if (!r)
                *granularity = GRAIN;
        return r;
}

EXPORT CUresult cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment,
                                    CUdeviceptr addr, unsigned long long flags)
{
        CUresult r = started();
        struct range *range;
        uintptr_t p, extra;

        if (r)
                return r;
        if (!ptr || !size || size % (size_t)sysconf(_SC_PAGESIZE) ||
            (alignment & (alignment - 1)) || flags)
                return CUDA_ERROR_INVALID_VALUE;
        if (alignment < GRAIN)
                alignment = GRAIN;
        range = calloc(1, sizeof *range);
        p = (uintptr_t)mmap((void *)(uintptr_t)addr, size + alignment, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (!range || (void *)p == MAP_FAILED) {
                if ((void *)p != MAP_FAILED)
                        munmap((void *)p, size + alignment);
                free(range);
                return CUDA_ERROR_OUT_OF_MEMORY;
        }
        extra = -p & (alignment - 1);
        if (extra)
                munmap((void *)p, extra);
        munmap((void *)(p + extra + size), alignment - extra);
        range->base = p + extra;
        range->bytes = size;
        pthread_mutex_lock(&lock);
        range->next = reservations;
        reservations = range;
        pthread_mutex_unlock(&lock);
        *ptr = range->base;
        return CUDA_SUCCESS;
}

EXPORT CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
        CUresult r = started();
        struct range **at, *gone;

        if (r)
                return r;
        pthread_mutex_lock(&lock);
        at = within(&reservations, (uintptr_t)ptr, size);
        if (!at || (*at)->base != ptr || (*at)->bytes != size ||
            overlaps(mappings, (uintptr_t)ptr, size)) {
                pthread_mutex_unlock(&lock);
                return CUDA_ERROR_INVALID_VALUE;
        }
        gone = *at;
        *at = gone->next;
        munmap((void *)gone->base, gone->bytes);
        pthread_mutex_unlock(&lock);
        free(gone);
        return CUDA_SUCCESS;
}

EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
                            const CUmemAllocationProp *prop, unsigned long long flags)
{
        CUresult r = allowed(prop);
        char name[64];
        int fd;

        if (!r && (!handle || !even(size) || flags))
                r = CUDA_ERROR_INVALID_VALUE;
        if (r)
                return r;
        snprintf(name, sizeof name, NAME "%d",
                 prop->location.id); /* who is handed the file sees whose it is */
        fd = memfd_create(name, MFD_CLOEXEC);
        r = fd < 0 || ftruncate(fd, (off_t)size) ? CUDA_ERROR_OUT_OF_MEMORY
                                                 : take(fd, size, prop, handle);
        if (r && fd >= 0)
                close(fd);
        return r;
}

EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
        CUresult r = started();
        struct allocation *a;

        if (r)
                return r;
        pthread_mutex_lock(&lock);
        a = known(handle);
        if (a) {
                a->handles--;
                drop_unused(a);
        }
        pthread_mutex_unlock(&lock);
        return a ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
        CUresult r = started();
        struct range **at;

        if (r)
                return r;
        if (!handle)
                return CUDA_ERROR_INVALID_VALUE;
        pthread_mutex_lock(&lock);
        at = within(&mappings, (uintptr_t)addr, 1);
        if (at) {
                (*at)->of->handles++;
                *handle = (uintptr_t)(*at)->of;
        }
        pthread_mutex_unlock(&lock);
        return at ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
                                                       CUmemGenericAllocationHandle handle)
{
        CUresult r = started();
        struct allocation *a;

        if (r)
                return r;
        if (!prop)
                return CUDA_ERROR_INVALID_VALUE;
        pthread_mutex_lock(&lock);
        a = known(handle);
        if (a)
                *prop = a->prop;
        pthread_mutex_unlock(&lock);
        return a ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Makes it address space without access again, without a moment in which another thread could get
 * it. */
static void unmap(uintptr_t base, size_t bytes)
{
        mmap((void *)base, bytes, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

EXPORT CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset,
                         CUmemGenericAllocationHandle handle, unsigned long long flags)
{
        struct range *range = calloc(1, sizeof *range);
        CUresult r = started();
        struct allocation *a;

        if (!r && !range)
                r = CUDA_ERROR_OUT_OF_MEMORY;
        if (!r &&
            (flags || !even(size) || ptr % GRAIN || offset)) /* an offset must be none, so far */
                r = CUDA_ERROR_INVALID_VALUE;
        if (r) {
                free(range);
                return r;
        }
        pthread_mutex_lock(&lock);
        a = known(handle);
        if (!a || size > a->bytes || !within(&reservations, (uintptr_t)ptr, size) ||
            overlaps(mappings, (uintptr_t)ptr, size))
                r = CUDA_ERROR_INVALID_VALUE;
        else if (mmap((void *)(uintptr_t)ptr, size, PROT_NONE, MAP_SHARED | MAP_FIXED, a->fd, 0) ==
                 MAP_FAILED)
                r = CUDA_ERROR_OUT_OF_MEMORY;
        else if ((r = fake_mapped((uintptr_t)ptr, size, a->prop.location.id)))
                unmap((uintptr_t)ptr, size);
        if (!r) {
                *range = (struct range){
                        .next = mappings, .base = (uintptr_t)ptr, .bytes = size, .of = a};
                mappings = range;
                a->mappings++;
                range = NULL;
        }
        pthread_mutex_unlock(&lock);
        free(range);
        return r;
}

/* It waits for the device, as freeing does; then the range is a reservation again. */
EXPORT CUresult cuMemUnmap(CUdeviceptr ptr, size_t size)
{
        CUresult r = started();
        struct range **at, *gone;

        if (!r)
                r = capture_unsafe();
        if (r)
                return r;
        cuCtxSynchronize();
        pthread_mutex_lock(&lock);
        at = within(&mappings, (uintptr_t)ptr, size);
        if (!at || (*at)->base != ptr || (*at)->bytes != size) {
                pthread_mutex_unlock(&lock);
                return CUDA_ERROR_INVALID_VALUE;
        }
        gone = *at;
        *at = gone->next;
        fake_unmapped(gone->base);
        unmap(gone->base, gone->bytes);
        gone->of->mappings--;
        drop_unused(gone->of);
        pthread_mutex_unlock(&lock);
        free(gone);
        return CUDA_SUCCESS;
}

/* There is one page table here: what one device may do all may. Who was allowed what is remembered
 * all the same. */
EXPORT CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc,
                               size_t count)
{
        CUresult r = started();
        size_t done = 0;

        if (!r && (!desc || !count || !even(size)))
                r = CUDA_ERROR_INVALID_VALUE;
        for (size_t i = 0; !r && i < count; i++) {
                r = located(&desc[i].location);
                if (!r && desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
                    desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
                    desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
                        r = CUDA_ERROR_INVALID_VALUE;
        }
        if (r)
                return r;
        pthread_mutex_lock(&lock);
        for (const struct range *m = mappings; m;
             m = m->next) /* all of it is mapped, and no mapping in part */
                if (m->base >= ptr && m->base - ptr < size)
                        done += m->bytes;
        if (done != size || !within(&reservations, (uintptr_t)ptr, size))
                r = CUDA_ERROR_INVALID_VALUE;
        for (struct range *m = mappings; m && !r; m = m->next) {
                int most = 0;

                if (m->base < ptr || m->base - ptr >= size)
                        continue;
                for (size_t i = 0; i < count; i++)
                        m->access[desc[i].location.id] = (unsigned char)desc[i].flags;
                for (int i = 0; i < MAX_DEVICES; i++)
                        most |= m->access[i];
                if (mprotect((void *)m->base, m->bytes,
                             (most & 1 ? PROT_READ : 0) | (most & 2 ? PROT_WRITE : 0)))
                        r = CUDA_ERROR_OUT_OF_MEMORY;
        }
        pthread_mutex_unlock(&lock);
        return r;
}

EXPORT CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
                               CUdeviceptr ptr)
{
        CUresult r = started();
        struct range **at;

        if (!r && (!flags || !location))
                r = CUDA_ERROR_INVALID_VALUE;
        if (!r)
                r = located(location);
        if (r)
                return r;
        pthread_mutex_lock(&lock);
        at = within(&mappings, (uintptr_t)ptr, 1);
        if (at)
                *flags = (*at)->access[location->id];
        pthread_mutex_unlock(&lock);
        return at ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMemExportToShareableHandle(void *shared, CUmemGenericAllocationHandle handle,
                                             CUmemAllocationHandleType type,
                                             unsigned long long flags)
{
        CUresult r = started();
        struct allocation *a;
        int fd = -1;

        if (!r && (!shared || flags))
                r = CUDA_ERROR_INVALID_VALUE;
        if (!r && type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
                r = CUDA_ERROR_NOT_SUPPORTED;
        if (r)
                return r;
        pthread_mutex_lock(&lock);
        a = known(handle);
        if (!a || !(a->prop.requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
                r = CUDA_ERROR_INVALID_VALUE;
        else if ((fd = fcntl(a->fd, F_DUPFD_CLOEXEC, 0)) < 0)
                r = CUDA_ERROR_OPERATING_SYSTEM;
        pthread_mutex_unlock(&lock);
        if (!r)
                *(int *)shared = fd;
        return r;
}

EXPORT CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shared,
                                               CUmemAllocationHandleType type)
{
        CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                    .requestedHandleTypes =
                                            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
        CUresult r = started();
        char path[64], target[128] = "";
        struct stat st;
        int fd;

        if (!r && !handle)
                r = CUDA_ERROR_INVALID_VALUE;
        if (!r && type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
                r = CUDA_ERROR_NOT_SUPPORTED;
        if (r)
                return r;
        fd = (int)(intptr_t)shared;
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        if (readlink(path, target, sizeof target - 1) < 0 ||
            sscanf(target, "/memfd:" NAME "%d", &prop.location.id) != 1 ||
            located(&prop.location) || fstat(fd, &st) || !even((size_t)st.st_size))
                return CUDA_ERROR_INVALID_VALUE; /* a file, but not of a device's memory */
        fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        r = fd < 0 ? CUDA_ERROR_OPERATING_SYSTEM : take(fd, (size_t)st.st_size, &prop, handle);
        if (r && fd >= 0)
                close(fd);
        return r;
}
