/* SPDX-License-Identifier: Apache-2.0 */
/* The driver functions that NCCL gets from the runtime (cudaGetDriverEntryPoint) and, up to 2.20,
 * from libcuda.so, of which it uses the three that are exported here. Virtual memory management is
 * complete enough for NCCL's bookkeeping: a handle is a size and a count; mapping it gives new
 * anonymous memory; exporting it makes a file descriptor that names the handle. Two mappings of one
 * handle do not share contents, which only kernels would notice. */
#include <sys/mman.h>

#include "core/base/among.h"
#include "profiles/plan/virtual/virtual.h"

_Thread_local int plan_device;
_Thread_local struct plan_seen *plan_seen;

#define DRIVER_VERSION 13000 /* new enough for every runtime in a libnccl so far */
#define GRANULARITY    (2ul << 20)

enum { INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_SUPPORTED = 801 };

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

static const struct plan_gpu *plan_cuda_gpu(int dev)
{
        return FIRST_OF(gpu, plan_machine->gpus, plan_machine->n_gpus, gpu->dev == dev);
}

/* cudaDeviceAttr and CUdevice_attribute share their numbers (cuda.h, driver_types.h). */
static int device_attribute(int *v, int attr, int dev)
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

CAPO_EXPORT int cuInit(void);
CAPO_EXPORT int cuDriverGetVersion(int *v);
CAPO_EXPORT int cuGetProcAddress(const char *name, void **f, int version, uint64_t flags);

int cuInit(void) { return 0; }

int cuDriverGetVersion(int *v)
{
        *v = DRIVER_VERSION;
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
        char *q = mmap(NULL, bytes + GRANULARITY, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

        if (q == MAP_FAILED)
                return OUT_OF_MEMORY;

        char *aligned = (char *)(((uintptr_t)q + GRANULARITY - 1) & ~(GRANULARITY - 1));

        if (aligned > q)
                munmap(q, (size_t)(aligned - q));
        munmap(aligned + bytes, (size_t)(q + GRANULARITY - aligned));
        *p = aligned;
        return 0;
}

static int cuMemMap(void *p, size_t bytes, size_t offset, struct handle *h,
                    unsigned long long flags)
{
        return plan_memory_map(p, bytes, h) ? 0 : OUT_OF_MEMORY;
}

static int cuMemUnmap(void *p, size_t bytes)
{
        handle_put(plan_memory_unmap(p, bytes));
        return 0;
}

static int cuMemRetainAllocationHandle(struct handle **h, void *p)
{
        struct plan_range r;

        if (!plan_memory_find(p, true, &r) || !r.handle)
                return INVALID_VALUE;
        *h = r.handle;
        return 0;
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
        struct plan_range r;

        if (!plan_memory_find(p, false, &r))
                return INVALID_VALUE;
        if (base)
                *base = r.base;
        if (bytes)
                *bytes = r.bytes;
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

static int plan_cuda_launched(unsigned grid, unsigned block, void **args)
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
        *f = plan_cuda_find(name);
        return *f ? 0 : 500;
}

/* ---- the runtime, and what of the driver has no state ---- */

#define MEMORY_BYTES (80ull << 30)

/* Public layouts of cuda_runtime_api.h, rewritten (checked against CUDA 13.0's headers). */
struct dim3 {
        unsigned x, y, z;
};
struct launch_config {
        struct dim3 grid, block; /* dynamic shared memory, stream, attributes follow */
};
struct ipc_handle {
        char bytes[64];
};
struct pointer_attributes {
        int type, device;
        void *device_pointer, *host_pointer;
};
struct func_attributes {
        size_t shared_bytes, const_bytes, local_bytes;
        int max_threads, registers, ptx, binary;
};

static int set_device(int dev)
{
        if (!plan_cuda_gpu(dev))
                return 101; /* cudaErrorInvalidDevice */
        plan_device = dev;
        return 0;
}

/* cudaDeviceProp up to 13.0: name 0, totalGlobalMem 288, major 360, minor 364; the rest is not
 * changed. */
static int device_properties(char *prop, int dev)
{
        const struct plan_gpu *gpu = plan_cuda_gpu(dev);
        size_t memory = MEMORY_BYTES;
        int major, minor;

        if (!gpu)
                return 101;
        major = gpu->sm / 10;
        minor = gpu->sm % 10;
        strcpy(prop, "capo virtual GPU");
        memcpy(prop + 288, &memory, sizeof memory);
        memcpy(prop + 360, &major, sizeof major);
        memcpy(prop + 364, &minor, sizeof minor);
        return 0;
}

static int device_busid(char *text, int room, int dev)
{
        const struct plan_gpu *gpu = plan_cuda_gpu(dev);

        if (!gpu || room <= 0)
                return 101;
        snprintf(text, (size_t)room, "%s", gpu->busid);
        return 0;
}

static int device_by_busid(int *dev, const char *text)
{
        const struct plan_gpu *gpu =
                FIRST_OF(g, plan_machine->gpus, plan_machine->n_gpus, !strcasecmp(g->busid, text));

        if (!gpu)
                return 101;
        *dev = gpu->dev;
        return 0;
}

static int allocate_memory(void **p, size_t n)
{
        *p = plan_memory_map(NULL, n, NULL);
        return *p ? 0 : 2; /* cudaErrorMemoryAllocation */
}

static int fill_memory(void *p, int v, size_t n)
{
        if (v || !plan_memory_zero(p, n))
                memset(p, v, n);
        return 0;
}

static int pointer_attributes(struct pointer_attributes *a, const void *p)
{
        a->type = 2; /* device */
        a->device = plan_device;
        a->device_pointer = a->host_pointer = (void *)(uintptr_t)p;
        return 0;
}

static int func_attributes(struct func_attributes *a)
{
        memset(a, 0, sizeof *a);
        a->max_threads = 1024;
        a->registers = 96;
        a->ptx = a->binary = plan_machine->gpus[0].sm;
        return 0;
}

static int give_handle(void **handle)
{
        static _Atomic uintptr_t next = 0x1000;

        *handle = (void *)(atomic_fetch_add(&next, 16) + 16);
        return 0;
}

static const char *error_text(int e) { return e ? "an error of capo's virtual CUDA" : "no error"; }

static int entry_point(const char *name, void **f, int *status)
{
        *f = plan_cuda_find(name);
        if (status)
                *status = *f ? 0 : 1; /* cudaDriverEntryPointSuccess, SymbolNotFound */
        return 0;
}

#define SAME(...)
#define CUDA(name, params, ...) static int virtual_##name params __VA_ARGS__
#include "profiles/plan/virtual/cuda_calls.def"

static const struct {
        void *address;
        const char *const *names;
} functions[] = {
#define SAME(function, ...)     {(void *)function, (const char *const[]){__VA_ARGS__, NULL}},
#define CUDA(name, params, ...) SAME(virtual_##name, #name)
#include "profiles/plan/virtual/cuda_calls.def"
};

void *plan_cuda_find(const char *name)
{
        for (size_t i = 0; i < N_ELEMENTS(functions); i++) {
                for (const char *const *known = functions[i].names; *known; known++) {
                        if (!strcmp(*known, name))
                                return functions[i].address;
                }
        }
        return NULL;
}
