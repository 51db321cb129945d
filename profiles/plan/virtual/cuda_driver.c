/* SPDX-License-Identifier: Apache-2.0 */
/* The driver functions that NCCL gets from the runtime (cudaGetDriverEntryPoint) and, up to 2.20,
 * from libcuda.so, of which it uses the three that are exported here. Virtual memory management is
 * complete enough for NCCL's bookkeeping: a handle is a size and a count; mapping it gives new
 * anonymous memory; exporting it makes a file descriptor that names the handle. Two mappings of one
 * handle do not share contents, which only kernels would notice. */
#include <sys/mman.h>
#include <pthread.h>

#include "core/base/array.h"
#include "profiles/plan/virtual/cuda_driver.h"
#include "profiles/plan/virtual/virtual.h"

_Thread_local int plan_device;
_Thread_local struct plan_seen *plan_seen;

enum { INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_SUPPORTED = 801 };

struct handle {
        uint64_t bytes;
        _Atomic int count;
        int pid;
        int types; /* types of shareable handles it was created for */
};

/* Mappings of handles, for cuMemRetainAllocationHandle. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct mapping {
        char *base;
        size_t bytes;
        struct handle *handle;
} * mappings;
static size_t n_mappings;

static struct handle *handle_new(uint64_t bytes, int types)
{
        struct handle *h = calloc(1, sizeof *h);

        if (h) {
                h->bytes = bytes;
                h->count = 1;
                h->pid = getpid();
                h->types = types;
        }
        return h;
}

static void handle_put(struct handle *h)
{
        if (h && --h->count == 0)
                free(h);
}

/* ---- devices and contexts ---- */

const struct plan_gpu *plan_cuda_gpu(int dev)
{
        for (uint32_t i = 0; i < plan_machine->n_gpus; i++) {
                if (plan_machine->gpus[i].dev == dev)
                        return &plan_machine->gpus[i];
        }
        return NULL;
}

/* cudaDeviceAttr and CUdevice_attribute share their numbers (cuda.h, driver_types.h). */
int plan_cuda_device_attribute(int *v, int attr, int dev)
{
        const struct plan_gpu *gpu = plan_cuda_gpu(dev);

        if (!gpu)
                return 101;
        switch (attr) {
        case 75: *v = gpu->sm / 10; break; /* compute capability, major */
        case 76: *v = gpu->sm % 10; break; /* minor */
        case 16: *v = 132; break;          /* multiprocessors */
        case 97:
                *v = gpu->sm >= 90   ? 232448
                     : gpu->sm >= 80 ? 166912
                     : gpu->sm >= 70 ? 98304
                                     : 49152;
                break;                       /* shared memory */
        case 102: *v = gpu->sm >= 70; break; /* virtual memory management */
        case 103: *v = 1; break;             /* its handles as file descriptors */
        case 110:                            /* RDMA with VMM */
        case 116: *v = gpu->gdr; break;      /* GPUDirect RDMA */
        case 132: *v = plan_machine->multicast && gpu->sm >= 90; break; /* multicast (NVLS) */
        case 134: *v = gpu->numa; break;                                /* host NUMA node */
        case 128: *v = plan_job->domain_nodes > 0; break; /* handles that other nodes can open */
        default: *v = 0;                                  /* DMA-BUF 124, ... */
        }
        return 0;
}

CAPO_EXPORT int cuInit(unsigned flags);
CAPO_EXPORT int cuDriverGetVersion(int *v);
CAPO_EXPORT int cuGetProcAddress(const char *name, void **f, int version, uint64_t flags);

int cuInit(unsigned flags) { return 0; }

int cuDriverGetVersion(int *v)
{
        *v = PLAN_DRIVER_VERSION;
        return 0;
}

/* ---- virtual memory management ---- */

/* CUmemAllocationProp: int type, requestedHandleTypes; ... */
static int cuMemCreate(struct handle **h, size_t bytes, const int *prop, unsigned long long flags)
{
        *h = handle_new(bytes, prop[1]);
        return *h ? 0 : OUT_OF_MEMORY;
}

static int cuMemRelease(struct handle *h)
{
        handle_put(h);
        return 0;
}

static int cuMemAddressReserve(void **p, size_t bytes, size_t align, void *hint,
                               unsigned long long flags)
{
        char *q = mmap(NULL, bytes + PLAN_GRANULARITY, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

        if (q == MAP_FAILED)
                return OUT_OF_MEMORY;

        char *aligned = (char *)(((uintptr_t)q + PLAN_GRANULARITY - 1) & ~(PLAN_GRANULARITY - 1));

        if (aligned > q)
                munmap(q, (size_t)(aligned - q));
        munmap(aligned + bytes, (size_t)(q + PLAN_GRANULARITY - aligned));
        *p = aligned;
        return 0;
}

static int cuMemMap(void *p, size_t bytes, size_t offset, struct handle *h,
                    unsigned long long flags)
{
        int rc;

        if (plan_memory_map_at(p, bytes) < 0)
                return OUT_OF_MEMORY;
        pthread_mutex_lock(&lock);
        rc = capo_array_room(&mappings, n_mappings, sizeof *mappings) < 0 ? OUT_OF_MEMORY : 0;
        if (rc == 0) {
                h->count++;
                mappings[n_mappings++] = (struct mapping){p, bytes, h};
        }
        pthread_mutex_unlock(&lock);
        return rc;
}

/* The mapping that contains @p, or NULL. The lock must be held. */
static struct mapping *mapping_of(const char *p)
{
        for (size_t i = 0; i < n_mappings; i++) {
                if (p >= mappings[i].base && p < mappings[i].base + mappings[i].bytes)
                        return &mappings[i];
        }
        return NULL;
}

static int cuMemUnmap(void *p, size_t bytes)
{
        struct handle *h = NULL;
        struct mapping *m;

        pthread_mutex_lock(&lock);
        m = mapping_of(p);
        if (m && m->base == p) {
                h = m->handle;
                *m = mappings[--n_mappings];
        }
        pthread_mutex_unlock(&lock);
        handle_put(h);
        return plan_memory_unmap_at(p, bytes) < 0 ? OUT_OF_MEMORY : 0;
}

static int cuMemRetainAllocationHandle(struct handle **h, void *p)
{
        const struct mapping *m;

        pthread_mutex_lock(&lock);
        m = mapping_of(p);
        if (m) {
                *h = m->handle;
                (*h)->count++;
        }
        pthread_mutex_unlock(&lock);
        return m ? 0 : INVALID_VALUE;
}

static int cuMemGetAllocationPropertiesFromHandle(int *prop, struct handle *h)
{
        prop[0] = 1; /* pinned */
        prop[1] = h->types;
        prop[2] = 1; /* on a device */
        prop[3] = plan_device;
        return 0;
}

/* Contents of a shareable handle: the address of the handle, and the process in which it is valid.
 * A file descriptor refers to a memory file with it; a fabric handle (64 bytes) contains it. */
enum { BY_FD = 1, BY_FABRIC = 8 };

struct shared_name {
        struct handle *handle;
        uint64_t bytes;
        int pid, types;
};

static int cuMemExportToShareableHandle(void *to, struct handle *h, int type,
                                        unsigned long long flags)
{
        struct shared_name name = {h, h->bytes, h->pid, h->types};
        int *fd = to;

        if (type == BY_FABRIC && plan_job->domain_nodes) {
                memset(to, 0, 64);
                memcpy(to, &name, sizeof name);
                return 0;
        }
        if (type != BY_FD)
                return NOT_SUPPORTED;
        *fd = memfd_create("capo-plan-handle", MFD_CLOEXEC);
        if (*fd < 0 || pwrite(*fd, &name, sizeof name, 0) != (ssize_t)sizeof name)
                return OUT_OF_MEMORY;
        return 0;
}

static int cuMemImportFromShareableHandle(struct handle **h, void *os_handle, int type)
{
        struct shared_name name;

        if (type == BY_FABRIC)
                memcpy(&name, os_handle, sizeof name);
        else if (type != BY_FD ||
                 pread((int)(intptr_t)os_handle, &name, sizeof name, 0) != (ssize_t)sizeof name)
                return INVALID_VALUE;
        if (name.pid == getpid()) {
                *h = name.handle;
                (*h)->count++;
        } else {
                *h = handle_new(name.bytes, name.types);
        }
        return *h ? 0 : OUT_OF_MEMORY;
}

static int cuMemGetAddressRange(void **base, size_t *bytes, void *p)
{
        void *b;
        size_t n;

        if (plan_memory_range(p, &b, &n) < 0)
                return INVALID_VALUE;
        if (base)
                *base = b;
        if (bytes)
                *bytes = n;
        return 0;
}

/* ---- multicast: the NVSwitch object for NVLS ---- */

static int cuMulticastCreate(struct handle **h, const size_t *prop)
{
        *h = handle_new(prop[1], (int)prop[2]); /* CUmulticastObjectProp: unsigned numDevices;
                                                   size_t size, handleTypes; ... */
        return *h ? 0 : OUT_OF_MEMORY;
}

/* ---- kernels ---- */

int plan_cuda_launched(unsigned grid, unsigned block, void **args)
{
        if (plan_seen) {
                plan_seen->grid = grid;
                plan_seen->block = block;
                plan_seen->func_index = plan_kernel_work(args);
        }
        return 0;
}

int cuGetProcAddress(const char *name, void **f, int version, uint64_t flags)
{
        *f = plan_cuda_driver_find(name);
        return *f ? 0 : 500;
}

static const struct plan_symbol driver[] = {
#define ROW(name)                   \
        {                           \
#name, (void *)name \
        }
        ROW(cuInit),
        ROW(cuDriverGetVersion),
        {"cuDeviceGetAttribute", (void *)plan_cuda_device_attribute},
        ROW(cuMemCreate),
        ROW(cuMemRelease),
        ROW(cuMemAddressReserve),
        ROW(cuMemMap),
        ROW(cuMemUnmap),
        ROW(cuMemRetainAllocationHandle),
        ROW(cuMemGetAllocationPropertiesFromHandle),
        ROW(cuMemExportToShareableHandle),
        ROW(cuMemImportFromShareableHandle),
        ROW(cuMemGetAddressRange),
        ROW(cuMulticastCreate),
        ROW(cuGetProcAddress),
#undef ROW
};

void *plan_symbol_find(const struct plan_symbol *list, size_t n, const char *name)
{
        for (size_t i = 0; i < n; i++) {
                if (!strcmp(list[i].name, name))
                        return list[i].address;
        }
        return NULL;
}

void *plan_cuda_driver_find(const char *name)
{
        return plan_symbol_find(driver, N_ELEMENTS(driver), name) ?: plan_cuda_runtime_find(name);
}
