/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding the real functions. What ld.so does, tested with glibc 2.36:
 *
 *  1. The library was opened by dlopen with local scope (a Python extension that is linked to
 *     NCCL): our symbol is taken, because the global scope is searched first, but RTLD_NEXT finds
 *     nothing, because the real library is not in the global scope. This is the usual case.
 *  2. RTLD_NEXT works when the program itself is linked to NCCL.
 *  3. dlopen + dlsym(handle) passes by every preload; dlsym.c catches it.
 *  4. dlopen with RTLD_DEEPBIND and static linking with hidden symbols pass us by for good. A
 *     static NCCL with visible symbols does not, but has no libnccl.so.2 to ask for: only a walk
 *     finds it.
 *
 * So for code that called our wrapper, the copy it would have been bound to is looked for
 *      next     in the global scope behind us, as ld.so would
 *      caller   in the caller's own object and what that depends on, in ld.so's order
 *      noload   as libnccl.so.2, or AMD's librccl.so.1, if somebody has loaded that
 *      walk     in any loaded object that defines ncclCommInitRank
 *      dlopen   by loading one of these: only a program with a weak reference, bound to us although
 *               NCCL is not loaded, gets here
 * and remembered per caller. Copies are told apart by where they lie. Handles are never given back.
 */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "capo/msg.h"
#include "core/base/lock.h"
#include "core/base/nccl_release.h"
#include "core/base/util.h"
#include "shim/find/loader.h"
#include "shim/find/object.h"
#include "shim/find/symbol.h"
#include "shim/nccl/real.h"
#include "shim/nccl/untuned.h"
#include "shim/record/start.h"

struct capo_nccl capo_nccl_copies[CAPO_NCCL_COPIES];
static _Atomic int n_copies; /* known */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct capo_nccl absent; /* answers for an NCCL that is not there */
static struct {
        const void *caller;
        struct capo_nccl *copy;
} callers[256];

/* What answers where a copy lacks a function. */
#define CALL(name, params, args, id, comm, stream, ...) \
        static ncclResult_t missing_##name params       \
        {                                               \
                return ncclInvalidUsage;                \
        }
#define HAND(name, params, args) CALL(name, params, args, , , )
#define PASS(type, name, params, args, missing) \
        static type missing_##name params       \
        {                                       \
                return missing;                 \
        }
#include "capo/nccl_calls.def"

/* ---- objects ---- */

/* The next loaded object whose handle answers ncclCommInitRank from itself. */
struct walk {
        unsigned skip, at;
        char path[512];
};

static int walk_step(struct dl_phdr_info *info, size_t size, void *cookie)
{
        struct walk *w = cookie;

        if (w->at++ < w->skip || !info->dlpi_name || !*info->dlpi_name ||
            capo_own((const void *)info->dlpi_phdr))
                return 0;
        snprintf(w->path, sizeof w->path, "%s", info->dlpi_name);
        return 1;
}

static void *walk_objects(void)
{
        struct walk w = {0};

        for (; dl_iterate_phdr(walk_step, &w) == 1; w.skip = w.at, w.at = 0) {
                void *handle = dlopen(w.path, RTLD_LAZY | RTLD_NOLOAD);
                void *symbol = handle ? capo_real_dlsym(handle, "ncclCommInitRank") : NULL;

                if (symbol && !capo_own(symbol))
                        return symbol; /* the handle is kept */
                if (handle)
                        dlclose(handle);
        }
        return NULL;
}

/* ---- copies ---- */

/* Fill in the pointers: what @handle knows, else what answers for it. The handle's own order of
 * search finds the copy itself first; the pncclX twin serves where somebody removed the plain name.
 */
static void resolve_functions(struct capo_nccl *copy, void *handle)
{
        char twin[64];
        void *p;

#define FIND(name)                                          \
        p = handle ? capo_real_dlsym(handle, #name) : NULL; \
        if (handle && (!p || capo_own(p))) {                \
                snprintf(twin, sizeof twin, "p%s", #name);  \
                p = capo_real_dlsym(handle, twin);          \
        }                                                   \
        copy->name = p && !capo_own(p) ? (__typeof__(copy->name))p : missing_##name;
#define CALL(name, params, args, id, comm, stream, ...) FIND(name)
#define HAND(name, params, args)                        FIND(name)
#define PASS(type, name, params, args, missing)         FIND(name)
#include "capo/nccl_calls.def"
#undef FIND
}

/* Functions a libnccl has that this capo does not know: calls of them are in no log. The names a
 * program gives its own functions, linked to NCCL, say nothing. */
struct strange {
        char names[400];
};

static void look_strange(const char *name, void *arg)
{
        struct strange *s = arg;

        capo_nccl_strange(s->names, sizeof s->names, name);
}

static struct strange strange_of(const struct capo_nccl *copy)
{
        struct strange s = {""};

        if (!capo_nccl_file(copy->path))
                return s;
        capo_loader_enter();
        capo_object_functions(copy->base, look_strange, &s);
        capo_loader_leave();
        return s;
}

static int told; /* copies the log knows of */

void capo_nccl_tell(void)
{
        struct capo_object front;
        bool in_front = false;

        if (told == 0 && atomic_load_explicit(&n_copies, memory_order_acquire)) {
                capo_loader_enter();
                in_front = capo_dlsym_front(&front);
                capo_loader_leave();
        }
        if (in_front)
                capo_shim_info(CAPO_INFO_DLSYM_FRONT, "%s", front.path);
        for (; told < atomic_load_explicit(&n_copies, memory_order_acquire); told++) {
                struct capo_nccl *copy = &capo_nccl_copies[told];
                struct strange strange = strange_of(copy);
                char path[32], how[32], version[32], unknown[32], release[16], suffix[16] = "";

                if (told)
                        snprintf(suffix, sizeof suffix, ".%d", told);
                snprintf(path, sizeof path, "%s%s", CAPO_INFO_NCCL_PATH, suffix);
                snprintf(how, sizeof how, "%s%s", CAPO_INFO_NCCL_HOW, suffix);
                snprintf(version, sizeof version, "%s%s", CAPO_INFO_NCCL_VERSION, suffix);
                snprintf(unknown, sizeof unknown, "%s%s", CAPO_INFO_NCCL_UNKNOWN, suffix);
                capo_shim_info(path, "%s", copy->path);
                capo_shim_info(how, "%s", copy->how);
                if (copy->version)
                        capo_shim_info(
                                version, "%s",
                                capo_nccl_text((uint32_t)copy->version, release, sizeof release));
                if (*strange.names)
                        capo_shim_info(unknown, "%s", strange.names);
        }
}

struct capo_nccl *capo_nccl_at(const void *symbol, const char *how)
{
        struct capo_nccl *copy = NULL;
        struct capo_object o;
        int n;

        if (!symbol || capo_own(symbol) || !capo_object_of(symbol, &o))
                return NULL;
        n = atomic_load_explicit(&n_copies, memory_order_acquire);
        for (int i = 0; i < n; i++) {
                if (capo_nccl_copies[i].base == o.base)
                        return &capo_nccl_copies[i];
        }
        capo_lock(&lock);
        n = atomic_load_explicit(&n_copies, memory_order_relaxed);
        for (int i = 0; i < n && !copy; i++) {
                if (capo_nccl_copies[i].base == o.base)
                        copy = &capo_nccl_copies[i];
        }
        if (!copy && n < CAPO_NCCL_COPIES) {
                void *handle = *o.path ? dlopen(o.path, RTLD_LAZY | RTLD_NOLOAD) : RTLD_NEXT;

                if (handle && capo_real_dlsym(handle, "ncclCommInitRank")) {
                        copy = &capo_nccl_copies[n];
                        copy->base = o.base;
                        copy->code = o.begin;
                        copy->code_size = o.size;
                        copy->number = n;
                        copy->how = how;
                        memcpy(copy->path, o.path, sizeof copy->path);
                        resolve_functions(copy, handle);
                        if (copy->ncclGetVersion(&copy->version) != ncclSuccess)
                                copy->version = 0;
                        capo_untuned_prevent(copy->version);
                        atomic_store_explicit(&n_copies, n + 1, memory_order_release);
                }
        }
        capo_unlock(&lock);
        return copy;
}

bool capo_nccl_own(const struct capo_nccl *lib, const void *address)
{
        int n = atomic_load_explicit(&n_copies, memory_order_acquire);
        struct capo_object o;

        if (likely(lib && (uintptr_t)address - lib->code < lib->code_size))
                return true;
        if (!capo_object_of(address, &o))
                return false;
        for (int i = 0; i < n; i++) {
                if (capo_nccl_copies[i].base == o.base)
                        return true;
        }
        return capo_nccl_file(o.path);
}

static const char *const names[] = {"libnccl.so.2", "librccl.so.1"};

bool capo_nccl_file(const char *path)
{
        const char *file = capo_base_name(path);

        return !strncmp(file, "libnccl", strlen("libnccl")) ||
               !strncmp(file, "librccl", strlen("librccl"));
}

static struct capo_nccl *look_up(const void *caller)
{
        struct capo_nccl *copy;
        struct capo_object o;
        void *handle, *symbol;

        copy = capo_nccl_at(capo_real_dlsym(RTLD_NEXT, "ncclCommInitRank"), "next");
        if (!copy && capo_object_of(caller, &o) && *o.path &&
            (handle = dlopen(o.path, RTLD_LAZY | RTLD_NOLOAD))) {
                copy = capo_nccl_at(capo_real_dlsym(handle, "ncclCommInitRank"), "caller");
                if (!copy)
                        dlclose(handle);
        }
        for (size_t i = 0; !copy && i < N_ELEMENTS(names); i++) {
                if ((handle = dlopen(names[i], RTLD_LAZY | RTLD_NOLOAD)))
                        copy = capo_nccl_at(capo_real_dlsym(handle, "ncclCommInitRank"), "noload");
        }
        if (!copy && (symbol = walk_objects()))
                copy = capo_nccl_at(symbol, "walk");
        for (size_t i = 0; !copy && i < N_ELEMENTS(names); i++) {
                if ((handle = dlopen(names[i], RTLD_LAZY)))
                        copy = capo_nccl_at(capo_real_dlsym(handle, "ncclCommInitRank"), "dlopen");
        }
        return copy;
}

struct capo_nccl *capo_nccl_of(const void *caller)
{
        unsigned at = (unsigned)((uintptr_t)caller ^ (uintptr_t)caller >> 9) % N_ELEMENTS(callers);
        struct capo_nccl *copy = NULL;
        int saved = errno;

        capo_lock(&lock);
        if (callers[at].caller == caller)
                copy = callers[at].copy;
        capo_unlock(&lock);
        if (copy)
                return copy;
        copy = look_up(caller);
        if (copy) {
                capo_lock(&lock);
                callers[at].caller = caller;
                callers[at].copy = copy;
                capo_unlock(&lock);
        } else {
                capo_warn_once(
                        "no libnccl.so.2 to be found behind a call of NCCL, nor librccl.so.1; it gets ncclInvalidUsage");
                capo_lock(&lock);
                if (!absent.ncclGetVersion)
                        resolve_functions(&absent, NULL);
                capo_unlock(&lock);
                copy = &absent;
        }
        errno = saved;
        return copy;
}

void capo_nccl_fork(void)
{
        pthread_mutex_init(&lock, NULL);
        told = 0;
}
