/* SPDX-License-Identifier: Apache-2.0 */
/* Whose call is it? What comes through our entries may be the provider's own work: EFA reads a
 * queue through the queue's own table, the collectives of libfabric send through the endpoint they
 * were given, layered providers open the fabric below. That passes uncounted.
 *
 * In the data path the caller is known by its return address: code of the library that made the
 * object, or, when the provider jumped here in tail position, our own entry that called the
 * provider. That is a comparison or two, and no store. Where objects are made and changed the
 * thread remembers the frame of the call of ours that is under way; one that was left by longjmp is
 * found out by the next (shim/record/left.h).
 *
 * The address of the struct is also the identity of the thread for its counters. initial-exec: one
 * load off the thread pointer instead of a call of __tls_get_addr(); fine in a library that is
 * preloaded, 16 bytes of static TLS in one that is not. */
#pragma once

#include "core/base/util.h"

struct fi_thread {
        const void *inside; /* the frame of that call; NULL: none */
        const void *caller; /* where it returns to */
};
extern __thread struct fi_thread capo_fi_me __attribute__((tls_model("initial-exec")));

/* Of the wrapper itself, in which they stand. */
#define FI_FRAME  __builtin_dwarf_cfa()
#define FI_CALLER __builtin_return_address(0)

static inline void capo_fi_enter(const void *frame, const void *caller)
{
        capo_fi_me = (struct fi_thread){frame, caller};
}

static inline void capo_fi_leave(void) { capo_fi_me.inside = NULL; }

bool capo_fi_left(const void *frame);

/* Does what is called at @frame belong to a call of ours that is under way? */
static inline bool capo_fi_within(const void *frame)
{
        return unlikely(capo_fi_me.inside != NULL) && !capo_fi_left(frame);
}

extern const char __ehdr_start[]
        __attribute__((visibility("hidden"))); /* of libcapo.so, by the linker */
extern const char etext[] __attribute__((visibility("hidden")));

#define FI_PROVIDER_CALL(object, caller) \
        unlikely((uintptr_t)(caller) - (object)->text < (object)->text_size)

#define FI_OWN_CALL(object, caller)                               \
        (FI_PROVIDER_CALL(object, caller) ||                      \
         unlikely((uintptr_t)(caller) - (uintptr_t)__ehdr_start < \
                  (uintptr_t)etext - (uintptr_t)__ehdr_start))
