/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA runtime that libnccl uses in a worker. cuda_runtime.def is the list; this file has the
 * functions that need more than a line. Nothing is computed: a virtual GPU is a bus id, a compute
 * capability and some memory. */
#include <strings.h>
#include <sys/mman.h>

#include "profiles/plan/virtual/cuda_driver.h"
#include "profiles/plan/virtual/virtual.h"

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
        for (uint32_t i = 0; i < plan_machine->n_gpus; i++) {
                if (!strcasecmp(plan_machine->gpus[i].busid, text)) {
                        *dev = plan_machine->gpus[i].dev;
                        return 0;
                }
        }
        return 101;
}

static int allocate_memory(void **p, size_t n)
{
        *p = plan_memory_map(n);
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

static void *make_cuda_handle(void)
{
        static _Atomic uintptr_t next = 0x1000;

        return (void *)(atomic_fetch_add(&next, 16) + 16);
}

static const char *error_text(int e) { return e ? "an error of capo's virtual CUDA" : "no error"; }

/* CUDA 11 callers pass three arguments, so the third one is undefined there: use it only if the library
 * was built for CUDA 12 or later (plan_cuda_has_status). */
bool plan_cuda_has_status = true;

static int entry_point(const char *name, void **f, int *status)
{
        *f = plan_cuda_driver_find(name);
        if (plan_cuda_has_status && status)
                *status = *f ? 0 : 1; /* cudaDriverEntryPointSuccess, SymbolNotFound */
        return *f || plan_cuda_has_status ? 0 : 500; /* cudaErrorSymbolNotFound */
}

#define CUDA(name, params, ...)      static int virtual_##name params __VA_ARGS__
#define CUDA_TEXT(name, params, ...) static const char *virtual_##name params __VA_ARGS__
#include "profiles/plan/virtual/cuda_runtime.def"

static const struct plan_symbol runtime[] = {
#define CUDA(name, params, ...)      {#name, (void *)virtual_##name},
#define CUDA_TEXT(name, params, ...) {#name, (void *)virtual_##name},
#include "profiles/plan/virtual/cuda_runtime.def"
};

void *plan_cuda_runtime_find(const char *name)
{
        return plan_symbol_find(runtime, N_ELEMENTS(runtime), name);
}
