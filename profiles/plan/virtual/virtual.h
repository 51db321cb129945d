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
extern uint32_t plan_node;                      /* that node */

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
int plan_memory_unmap_at(void *address,
                         size_t bytes); /* it is reserved again; 0 or negative errno */
bool plan_memory_zero(void *address,
                      size_t bytes); /* by dropping pages; false: not device memory, or too small */
int plan_memory_range(void *address, void **base, size_t *bytes);

/*
 * Nodes that are stood in for (plan_job.messages): what ranks tell each other when a communicator
 * is made goes through the job's memory, and what the nodes that are not there would say is made of
 * what two of their kind say. Nothing is connected.
 *
 * plan_standin_symbol() - for capo_elf_symbols(): notes or redirects a function of NCCL
 * plan_standin_patch()  - after all symbols, with room for jumps in NCCL's code; -ENOEXEC after
 * plan_fail() where something is missing plan_standin_begin()  - the calling thread plays the rank
 * job->asked[@asked]
 */
enum { PLAN_SPARE = 3 };
int plan_standin_symbol(const char *name, uint64_t value, uint64_t size, void *base);
int plan_standin_patch(char *base, void *const spare[PLAN_SPARE]);
int plan_standin_begin(uint32_t asked);

/*
 * Messages among the workers, in the job's memory. @key: names one exchange; a rank uses it once.
 *
 * plan_message_put() - @data for everybody who asks for it. Return: 0; -E2BIG after plan_fail().
 * plan_message_get() - wait for the message of each of the ranks asked[@from[i]]; @take gets it.
 *                      Return: 0; -EIO the job failed.
 * plan_message_is()  - whether one of the ranks that are heard has put something by that name
 */
struct plan_message;
int plan_message_put(uint64_t key, uint32_t from, const void *data, size_t size);
int plan_message_get(uint64_t key, const uint32_t *from, size_t n,
                     void (*take)(size_t i, const struct plan_message *m, void *arg), void *arg);
size_t plan_message_size(const struct plan_message *m);
void plan_message_copy(const struct plan_message *m, void *to);
bool plan_message_is(uint64_t key);

/*
 * plan_pieces_begin()   - before the others
 * plan_asked_at()       - place of a rank in job->asked; -1: it is stood in for
 * plan_pieces_make_up() - into what all ranks told (@size bytes each), that of those stood in for
 */
static inline uint64_t plan_mix(uint64_t a, uint64_t b)
{
        uint64_t x = a * 0x9e3779b97f4a7c15 + b + 1;

        x ^= x >> 32;
        x *= 0xd6e8feb86659fd93;
        return x ^ x >> 32;
}

void plan_pieces_begin(void);
int plan_asked_at(int rank);
void plan_pieces_make_up(char *all, size_t size);

/*
 * plan_preset_found()   - where NCCL's ncclTopoPreset() is
 *
 * plan_preset_patch()   - @n bytes of @code call it through here. Return: how many calls do, 0: it
 *                         was not found; negative errno
 *
 * plan_preset_make_up() - rings in what all ranks told, of those stood in for; @rank: the word of
 *                         this thread's communicator. Return: NCCL's code
 */
void plan_preset_found(void *at);
int plan_preset_patch(char *code, size_t n, void *spare);
int plan_preset_make_up(char *all, size_t size, int *rank);

/*
 * plan_host_symbol()         - for capo_elf_symbols(): notes NCCL's name of this host
 * plan_host_write_topology() - a topology file that has it, in place of the machine's, where NVLink
 *                              domains have several nodes; before the first communicator
 */
void plan_host_symbol(const char *name, void *at);
int plan_host_write_topology(void);

/** plan_poll_pause() - between two looks: the longer it takes the longer. */
void plan_poll_pause(unsigned *polls);

/* The CUDA device that is current on this thread. */
extern _Thread_local int plan_device;

#endif
