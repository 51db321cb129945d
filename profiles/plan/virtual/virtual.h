/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of capo-plan-virtual.so, the shared object that plays the machine for a real libnccl: CUDA
 * runtime and driver, NVML, network, profiler and tuner. It lives only in worker processes.
 */
#ifndef CAPO_PLAN_VIRTUAL_H
#define CAPO_PLAN_VIRTUAL_H

#include <stdbool.h>

#include "profiles/plan/plan_job.h"

extern struct plan_job *plan_job;               /* the mapped job */
extern const struct plan_machine *plan_machine; /* of the node this worker plays */

/* What the calling thread is asking NCCL right now. Profiler, tuner and kernel launches write here,
 * because NCCL calls all three on the thread that called the collective (facts of NCCL: blocking
 * communicators, 2.19 to 2.30). */
struct plan_seen {
        struct capo_plan_row *row; /* of rank 0; NULL on other ranks */
        int algo, proto;           /* -1 not reported */
        int channels;
        unsigned grid, block; /* of the last kernel launch */
        int func_index;       /* of its first piece of work, 2.19 to 2.21 only; -1 not known */
};
extern _Thread_local struct plan_seen *plan_seen;

/** plan_fail() - say why this job cannot be answered; only the first of all workers is kept. */
void plan_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** plan_gap() - a CUDA function without virtual answer was called; kept once per name. Returns
 * cudaErrorNotSupported.
 */
int plan_gap(const char *name);

/*
 * 2.19 to 2.21 report their choice to no plugin, but the number of the device function is in the
 * work it hands to the kernel.
 *
 * plan_kernel_table()  - for capo_elf_symbols(): notes NCCL's table from (collective, type,
 *                      algorithm, protocol) to
 *                        that number
 * plan_kernel_work()   - the number, from the arguments of a launch; -1 without the table
 * plan_kernel_decode() - fills seen->algo and proto when the number has one meaning for @func
 */
int plan_kernel_table(const char *name, uint64_t value, uint64_t size, void *base);
int plan_kernel_work(void **args);
void plan_kernel_decode(struct plan_seen *seen, int func);

struct plan_symbol {
        const char *name;
        void *address;
};

/** plan_symbol_find() - by name; NULL when it is none of them. */
void *plan_symbol_find(const struct plan_symbol *list, size_t n, const char *name);

/**
 * plan_cuda_runtime_find() - the virtual implementation of a CUDA runtime function
 * Return: NULL when there is none (the function is then patched to a thunk that reports itself).
 */
void *plan_cuda_runtime_find(const char *name);

/** plan_cuda_driver_find() - the virtual implementation of a driver function, by its plain name
 * ("cuMemCreate"). */
void *plan_cuda_driver_find(const char *name);

/* Virtual device memory, shared by the runtime and driver halves. */
void *plan_memory_map(size_t bytes);
int plan_memory_map_at(void *address, size_t bytes); /* in a reservation; 0 or -ENOMEM */
void plan_memory_unmap(void *address);
bool plan_memory_zero(void *address,
                      size_t bytes); /* by dropping pages; false: not device memory, or too small */
int plan_memory_range(void *address, void **base, size_t *bytes);

/* The CUDA device that is current on this thread. */
extern _Thread_local int plan_device;

#endif
