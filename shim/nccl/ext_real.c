/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the real functions of NCCL EP and NCCL M2N.
 *
 * Our names are exported for programs that are linked to the libraries. nccl.ep (Python) loads its
 * library only where dlsym(RTLD_DEFAULT) does not know the names, and nccl.m2n asks dlsym with its
 * library's handle: dlsym.c answers both as for NCCL's own names. */
#include <link.h>

#include "capo/msg.h"
#include "core/base/write_signals.h"
#include "core/log/info.h"
#include "shim/find/object.h"
#include "shim/find/symbol.h"
#include "shim/nccl/ext_real.h"
#include "shim/record/start.h"

static const char *const row_names[] = {
#define ROW(name)                                               #name,
#define EVENT(name, params, args, id, comm, after)              ROW(name)
#define DATA(name, params, args, id, comm, stream, what, after) ROW(name)
#define HAND(name, params, args)                                ROW(name)
#include "capo/nccl_ext_calls.def"
};
#undef ROW

static const char *const libraries[] = {"libnccl_ep.", "libnccl_m2n."};
void *_Atomic capo_ext_reals[CAPO_EXT_ROWS];
static _Atomic(const void *) found_in[N_ELEMENTS(libraries)]; /* a real function of each library */
static _Atomic uint32_t unknown_structs;

static unsigned library_of(unsigned row)
{
        return strncmp(row_names[row], "ncclEp", strlen("ncclEp")) != 0;
}

/* ---- the real functions ---- */

static int find_library(struct dl_phdr_info *info, size_t size, void *arg)
{
        const char **prefix_and_path = arg;

        if (!info->dlpi_name || strncmp(capo_base_name(info->dlpi_name), prefix_and_path[0],
                                        strlen(prefix_and_path[0])) != 0)
                return 0;
        prefix_and_path[1] = info->dlpi_name;
        return 1;
}

static void *find_function(const char *path, const char *name)
{
        void *handle = path && *path ? dlopen(path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
        void *p = handle ? capo_real_dlsym(handle, name) : NULL;

        return p && !capo_own(p) ? p : NULL;
}

/* As the linker had bound @caller; else in any object of that name, opened with local scope. */
static void *look_up_real(unsigned row, const void *caller)
{
        const char *library[2] = {libraries[library_of(row)], NULL};
        const char *name = row_names[row];
        struct capo_object o;
        int saved = errno;
        CAPO_NO_SIGNALS;
        void *p = capo_real_dlsym(RTLD_NEXT, name);

        p = p && !capo_own(p) ? p : NULL;
        if (!p && capo_object_of(caller, &o))
                p = find_function(o.path, name);
        if (!p && dl_iterate_phdr(find_library, library))
                p = find_function(library[1], name);
        if (!p)
                capo_warn_once("no %sso to be found behind a call of it; it gets ncclInvalidUsage",
                               library[0]);
        errno = saved;
        return p;
}

/* Remembered per place in the program, which calls one function. */
void *capo_ext_real(unsigned row, const void *caller)
{
        static struct {
                _Atomic uintptr_t caller; /* 0 free, 1 being filled */
                void *real;
        } known[1024];
        unsigned at = (unsigned)((uintptr_t)caller * 0x9e3779b97f4a7c15u >> 54);
        uintptr_t there = atomic_load_explicit(&known[at].caller, memory_order_acquire);
        void *real;

        if (likely(there == (uintptr_t)caller))
                return known[at].real;
        real = look_up_real(row, caller);
        if (real && !there && atomic_compare_exchange_strong(&known[at].caller, &there, 1)) {
                known[at].real = real;
                atomic_store_explicit(&known[at].caller, (uintptr_t)caller, memory_order_release);
        }
        if (real)
                atomic_store_explicit(&found_in[library_of(row)], real, memory_order_relaxed);
        return real;
}

void *capo_ext_sibling(const void *real, const char *name)
{
        struct capo_object o;

        return capo_object_of(real, &o) ? find_function(o.path, name) : NULL;
}

/* ---- the log ---- */

void capo_ext_unknown(void)
{
        atomic_fetch_add_explicit(&unknown_structs, 1, memory_order_relaxed);
}

void capo_ext_tell(void)
{
        static const char *const keys[] = {CAPO_INFO_EP_PATH, CAPO_INFO_M2N_PATH};
        static bool told[N_ELEMENTS(libraries)];
        static uint32_t told_unknown;
        uint32_t unknown = atomic_load_explicit(&unknown_structs, memory_order_relaxed);

        for (size_t i = 0; i < N_ELEMENTS(libraries); i++) {
                const void *real = atomic_load_explicit(&found_in[i], memory_order_relaxed);
                ncclResult_t (*get)(int *version);
                struct capo_object o;
                int v;

                if (!real || told[i] || !capo_object_of(real, &o))
                        continue;
                told[i] = true;
                capo_shim_info(keys[i], "%s", o.path);
                get = i ? NULL : (__typeof__(get))capo_ext_sibling(real, "ncclEpGetVersion");
                if (get && get(&v) == ncclSuccess)
                        capo_shim_info(CAPO_INFO_EP_VERSION, "%d.%d.%d", v / 10000, v / 100 % 100,
                                       v % 100);
        }
        if (unknown != told_unknown)
                capo_shim_info(CAPO_INFO_EXT_UNKNOWN, "%u", unknown);
        told_unknown = unknown;
}

int capo_ext_find(const char *name)
{
        for (int i = 0; i < CAPO_EXT_ROWS; i++) {
                if (!strcmp(row_names[i], name))
                        return i;
        }
        return -1;
}

bool capo_ext_asked(unsigned row, void *real)
{
        void *there = NULL;

        if (!atomic_compare_exchange_strong(&capo_ext_reals[row], &there, real) && there != real) {
                capo_warn_once(
                        "a second copy of %sso is in this process: its calls are not recorded",
                        libraries[library_of(row)]);
                return false;
        }
        atomic_store_explicit(&found_in[library_of(row)], real, memory_order_relaxed);
        return true;
}
