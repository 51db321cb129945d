/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of capo-plan-virtual.so, which simulates the machine for a real libnccl: CUDA runtime
 * and driver, NVML, network, profiler and tuner. It exists only in worker processes. */
#pragma once

#include <stdbool.h>

#include "profiles/plan/plan_job.h"

extern struct plan_job *plan_job;               /* the mapped job */
extern const struct plan_machine *plan_machine; /* of the node that this worker simulates */
extern uint32_t plan_node;                      /* index of that node */

/* The calling thread's current question. Profiler, tuner and kernel launches write here, because
 * NCCL calls all three on the thread that called the collective (true for blocking communicators,
 * 2.19 to 2.30). */
struct plan_seen {
        struct capo_plan_row *row; /* of rank 0; NULL on other ranks */
        int algo, proto;           /* -1 not reported */
        int channels;
        unsigned grid, block; /* of the last kernel launch */
        int func_index; /* of the kernel's first piece of work, 2.19 to 2.21 only; -1 not known */
};
extern _Thread_local struct plan_seen *plan_seen;

/* 2.19 to 2.21 do not report their choice to a plugin, but the work that they pass to the kernel
 * has the number of the device function.
 *
 * plan_kernel_table()  - for each symbol: finds NCCL's table from (collective, type,
 *                        algorithm, protocol) to that number
 * plan_kernel_work()   - the number, from the arguments of a launch; -1 without the table
 * plan_kernel_decode() - sets seen->algo and proto if the number has one meaning for @func */
int plan_kernel_table(const char *name, uint64_t value, uint64_t size, void *base);
int plan_kernel_work(void **args);
void plan_kernel_decode(struct plan_seen *seen, int func);

/** plan_cuda_find() - the virtual implementation of a CUDA runtime or driver function, by its plain
 * name. Return: NULL: there is none (one of the runtime is then patched to a stub that calls
 * plan_gap()). */
void *plan_cuda_find(const char *name);

/* Virtual device memory. A range counts as one user of its handle. */
struct handle {
        uint64_t bytes;
        _Atomic int count;
        int pid;
        int types; /* types of shareable handles it was created for */
};
struct plan_range {
        char *base;
        size_t bytes;
        struct handle *handle; /* what is mapped there; NULL: an allocation */
};
/** plan_memory_map() - @at: in a reservation; NULL: anywhere. Return: NULL: no memory. */
void *plan_memory_map(void *at, size_t bytes, struct handle *handle);
/** plan_memory_unmap() - the range that begins there, if any. @reserved: bytes to reserve again; 0:
 * none. Return: its handle, for the caller to put. */
struct handle *plan_memory_unmap(void *address, size_t reserved);
/** plan_memory_zero() - drop the pages. Return: false: not device memory, or too small. */
bool plan_memory_zero(void *address, size_t bytes);
/** plan_memory_find() - the range that contains @address. @hold: the caller becomes a user of its
 * handle. Return: is there one? */
bool plan_memory_find(const void *address, bool hold, struct plan_range *out);

/* Simulated nodes without a process (plan_job.messages). What ranks exchange when a communicator is
 * created goes through the job's memory. What the missing nodes would send is derived from two
 * nodes of the same kind. No connections are made.
 *
 * plan_standin_symbol() - for each symbol: notes or redirects a function of NCCL
 * plan_standin_patch()  - after all symbols, with room for jumps in NCCL's code; -ENOEXEC after
 *                         plan_fail(): something is missing
 * plan_standin_begin()  - the calling thread simulates the rank job->asked[@asked] */
enum { PLAN_SPARE = 3 };
int plan_standin_symbol(const char *name, uint64_t value, uint64_t size, void *base);
int plan_standin_patch(char *base, void *const spare[PLAN_SPARE]);
int plan_standin_begin(uint32_t asked);

/* Messages among the workers, in the job's memory. @key: names one exchange; a rank uses it once.
 *
 * plan_message_put() - publish @data for all. Return: 0; -E2BIG after plan_fail().
 * plan_message_get() - wait for the messages of the ranks asked[@from[i]] and pass them to @take.
 *                      Return: 0; -EIO: the job failed.
 * plan_message_is()  - has one of the ranks that make the calls published something by that name?
 */
struct plan_message;
int plan_message_put(uint64_t key, uint32_t from, const void *data, size_t size);
int plan_message_get(uint64_t key, const uint32_t *from, size_t n,
                     void (*take)(size_t i, const struct plan_message *m, void *arg), void *arg);
size_t plan_message_size(const struct plan_message *m);
void plan_message_copy(const struct plan_message *m, void *to);
bool plan_message_is(uint64_t key);

/* plan_pieces_begin()   - call it before the others
 * plan_asked_at()       - index of a rank in job->asked; -1: it is not started
 * plan_pieces_make_up() - add the pieces of the ranks that are not started to those of all others
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

/* plan_host_symbol()         - for each symbol: finds NCCL's name of this host
 * plan_host_write_topology() - if NVLink domains have several nodes, replaces the machine's
 * topology
 *                              file by one with that name; call it before the first communicator */
void plan_host_symbol(const char *name, void *at);
int plan_host_write_topology(void);

/** plan_poll_pause() - pause between two polls; longer with each one. */
void plan_poll_pause(unsigned *polls);

/* The CUDA device that is current on this thread. */
extern _Thread_local int plan_device;
