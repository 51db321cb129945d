/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "Device" memory of the stand-in driver is host memory, remembered in a sorted table so that
 * pointer attributes can say which context and device it belongs to, as callers of a real driver
 * expect.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fake.h"

struct block {
        uintptr_t base;
        size_t bytes;
        CUcontext ctx; /* NULL: mapped by cuMemMap() */
        int device;
        CUmemorytype type;
        bool managed;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct block *blocks; /* sorted by base */
static size_t n_blocks, room;

/* First block whose base is above p. */
static size_t above(uintptr_t p)
{
        size_t lo = 0, hi = n_blocks;

        while (lo < hi) {
                size_t mid = (lo + hi) / 2;

                if (blocks[mid].base <= p)
                        lo = mid + 1;
                else
                        hi = mid;
        }
        return lo;
}

static bool find(uintptr_t p, struct block *out)
{
        bool found = false;
        size_t i;

        pthread_mutex_lock(&lock);
        i = above(p);
        if (i && p - blocks[i - 1].base < blocks[i - 1].bytes) {
                *out = blocks[i - 1];
                found = true;
        }
        pthread_mutex_unlock(&lock);
        return found;
}

static CUresult remember(struct block b)
{
        size_t i;

        pthread_mutex_lock(&lock);
        if (n_blocks == room) {
                size_t wider = room ? 2 * room : 64;
                struct block *more = realloc(blocks, wider * sizeof *more);

                if (!more) {
                        pthread_mutex_unlock(&lock);
                        return CUDA_ERROR_OUT_OF_MEMORY;
                }
                blocks = more;
                room = wider;
        }
        i = above(b.base);
        memmove(blocks + i + 1, blocks + i, (n_blocks - i) * sizeof *blocks);
        blocks[i] = b;
        n_blocks++;
        pthread_mutex_unlock(&lock);
        return CUDA_SUCCESS;
}

/* The block that begins there, which is then forgotten; false if there is none of that kind. */
static bool forget(uintptr_t p, bool host, bool mapped, struct block *out)
{
        bool found = false;
        size_t i;

        pthread_mutex_lock(&lock);
        i = above(p);
        if (i && blocks[i - 1].base == p && (blocks[i - 1].type == CU_MEMORYTYPE_HOST) == host &&
            !blocks[i - 1].ctx == mapped) {
                *out = blocks[i - 1];
                memmove(blocks + i - 1, blocks + i, (n_blocks - i) * sizeof *blocks);
                n_blocks--;
                found = true;
        }
        pthread_mutex_unlock(&lock);
        return found;
}

CUresult fake_mapped(uintptr_t base, size_t bytes, int device)
{
        return remember((struct block){
                .base = base, .bytes = bytes, .device = device, .type = CU_MEMORYTYPE_DEVICE});
}

void fake_unmapped(uintptr_t base)
{
        struct block b;

        forget(base, false, true, &b);
}

static CUresult alloc(uintptr_t *out, size_t bytes, CUmemorytype type, bool managed)
{
        struct block b = {.type = type, .managed = managed};
        CUresult r = fake_current(&b.ctx);
        void *p;

        if (r)
                return r;
        if (!out || !bytes)
                return CUDA_ERROR_INVALID_VALUE;
        b.bytes = (bytes + 511) & ~(size_t)511;
        p = mmap(NULL, b.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED)
                return CUDA_ERROR_OUT_OF_MEMORY;
        b.base = (uintptr_t)p;
        b.device = b.ctx->device;
        r = remember(b);
        if (r)
                munmap(p, b.bytes);
        else
                *out = b.base;
        return r;
}

static CUresult release(uintptr_t p, bool host)
{
        struct block b;

        if (!forget(p, host, false, &b))
                return CUDA_ERROR_INVALID_VALUE;
        munmap((void *)b.base, b.bytes);
        return CUDA_SUCCESS;
}

EXPORT CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
        *free_bytes = (size_t)sysconf(_SC_AVPHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
        *total_bytes = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
        return CUDA_SUCCESS;
}

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *ptr, size_t bytes)
{
        CUresult r = capture_unsafe();
        uintptr_t p;

        if (!r)
                r = alloc(&p, bytes, CU_MEMORYTYPE_DEVICE, false);
        if (!r)
                *ptr = p;
        return r;
}

EXPORT CUresult cuMemAllocManaged(CUdeviceptr *ptr, size_t bytes, unsigned int flags)
{
        uintptr_t p;
        CUresult r = alloc(&p, bytes, CU_MEMORYTYPE_DEVICE, true);

        if (!r)
                *ptr = p;
        return r;
}

/* The memory exists at once, which a caller that respects stream order cannot tell. */
EXPORT CUresult cuMemAllocAsync(CUdeviceptr *ptr, size_t bytes, CUstream stream)
{
        uintptr_t p;
        CUresult r = alloc(&p, bytes, CU_MEMORYTYPE_DEVICE, false);

        if (!r)
                *ptr = p;
        return r;
}

/* Freeing waits for the device, as cuMemFree does. */
EXPORT CUresult cuMemFree_v2(CUdeviceptr ptr)
{
        CUresult r;

        if (!ptr)
                return CUDA_SUCCESS;
        r = capture_unsafe();
        if (r)
                return r;
        cuCtxSynchronize();
        return release((uintptr_t)ptr, false);
}

static void run_free(struct task *t) { release(t->n, false); }

EXPORT CUresult cuMemFreeAsync(CUdeviceptr ptr, CUstream handle)
{
        struct task t = {.run = run_free, .n = ptr};
        CUstream s;
        CUresult r = fake_stream(handle, &s);

        return r ? r : fake_submit(s, &t, false);
}

EXPORT CUresult cuMemHostAlloc(void **ptr, size_t bytes, unsigned int flags)
{
        uintptr_t p;
        CUresult r = alloc(&p, bytes, CU_MEMORYTYPE_HOST, false);

        if (!r)
                *ptr = (void *)p;
        return r;
}

EXPORT CUresult cuMemAllocHost_v2(void **ptr, size_t bytes)
{
        return cuMemHostAlloc(ptr, bytes, 0);
}

EXPORT CUresult cuMemFreeHost(void *ptr) { return release((uintptr_t)ptr, true); }

EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr ptr)
{
        struct block b;

        if (!find((uintptr_t)ptr, &b))
                return CUDA_ERROR_NOT_FOUND;
        if (base)
                *base = b.base;
        if (bytes)
                *bytes = b.bytes;
        return CUDA_SUCCESS;
}

EXPORT CUresult cuPointerGetAttribute(void *value, CUpointer_attribute attribute, CUdeviceptr ptr)
{
        struct block b;

        if (!value)
                return CUDA_ERROR_INVALID_VALUE;
        if (!find((uintptr_t)ptr, &b))
                return CUDA_ERROR_INVALID_VALUE;
        switch ((int)attribute) {
        case CU_POINTER_ATTRIBUTE_CONTEXT: *(CUcontext *)value = b.ctx; break;
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: *(unsigned *)value = b.type; break;
        case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: *(CUdeviceptr *)value = ptr; break;
        case CU_POINTER_ATTRIBUTE_HOST_POINTER: *(void **)value = (void *)(uintptr_t)ptr; break;
        case CU_POINTER_ATTRIBUTE_IS_MANAGED: *(unsigned *)value = b.managed; break;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *(int *)value = b.device; break;
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: *(CUdeviceptr *)value = b.base; break;
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE: *(size_t *)value = b.bytes; break;
        default: return CUDA_ERROR_NOT_SUPPORTED;
        }
        return CUDA_SUCCESS;
}

EXPORT CUresult cuPointerGetAttributes(unsigned int n, CUpointer_attribute *attributes,
                                       void **values, CUdeviceptr ptr)
{
        for (unsigned i = 0; i < n;
             i++) /* unknown pointers are no error here: their values are left zero */
                if (cuPointerGetAttribute(values[i], attributes[i], ptr))
                        memset(values[i], 0, sizeof(int));
        return CUDA_SUCCESS;
}

static void run_copy(struct task *t) { memmove(t->a, t->b, t->n); }

static void run_set8(struct task *t) { memset(t->a, (int)t->v, t->n); }

static void run_set32(struct task *t)
{
        uint32_t *p = t->a;

        for (size_t i = 0; i < t->n; i++)
                p[i] = (uint32_t)t->v;
}

static CUresult submit(struct task t, CUstream handle, bool wait)
{
        CUstream s;
        CUresult r = wait ? capture_unsafe() : CUDA_SUCCESS;

        if (!r)
                r = fake_stream(handle, &s);
        if (!r && t.n && !t.a)
                r = CUDA_ERROR_INVALID_VALUE;
        return r ? r : fake_submit(s, &t, wait);
}

static CUresult copy(const void *src, void *dst, size_t bytes, CUstream stream, bool wait)
{
        return submit(
                (struct task){.run = run_copy, .a = dst, .b = (void *)(uintptr_t)src, .n = bytes},
                stream, wait);
}

#define MEM(p) ((void *)(uintptr_t)(p))

EXPORT CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t bytes)
{
        return copy(MEM(src), MEM(dst), bytes, NULL, true);
}

EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr dst, const void *src, size_t bytes)
{
        return copy(src, MEM(dst), bytes, NULL, true);
}

EXPORT CUresult cuMemcpyDtoH_v2(void *dst, CUdeviceptr src, size_t bytes)
{
        return copy(MEM(src), dst, bytes, NULL, true);
}

EXPORT CUresult cuMemcpyDtoD_v2(CUdeviceptr dst, CUdeviceptr src, size_t bytes)
{
        return copy(MEM(src), MEM(dst), bytes, NULL, true);
}

EXPORT CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
        return copy(MEM(src), MEM(dst), bytes, stream, false);
}

EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t bytes,
                                     CUstream stream)
{
        return copy(src, MEM(dst), bytes, stream, false);
}

EXPORT CUresult cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
        return copy(MEM(src), dst, bytes, stream, false);
}

EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t bytes,
                                     CUstream stream)
{
        return copy(MEM(src), MEM(dst), bytes, stream, false);
}

static CUresult set(CUdeviceptr dst, uint32_t value, size_t n, bool wide, CUstream stream,
                    bool wait)
{
        return submit(
                (struct task){
                        .run = wide ? run_set32 : run_set8, .a = MEM(dst), .n = n, .v = value},
                stream, wait);
}

EXPORT CUresult cuMemsetD8_v2(CUdeviceptr dst, unsigned char value, size_t n)
{
        return set(dst, value, n, false, NULL, true);
}

EXPORT CUresult cuMemsetD32_v2(CUdeviceptr dst, unsigned int value, size_t n)
{
        return set(dst, value, n, true, NULL, true);
}

EXPORT CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t n, CUstream stream)
{
        return set(dst, value, n, false, stream, false);
}

EXPORT CUresult cuMemsetD32Async(CUdeviceptr dst, unsigned int value, size_t n, CUstream stream)
{
        return set(dst, value, n, true, stream, false);
}

/* A write in the stream's order; whatever was issued before it is done by then, so the flag that
 * allows less says the same. */
EXPORT CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value,
                                        unsigned int flags)
{
        return flags > 1 || addr % sizeof value ? CUDA_ERROR_INVALID_VALUE
                                                : set(addr, value, 1, true, stream, false);
}
