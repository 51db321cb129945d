/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why no call of NCCL was seen, in a process that has an NCCL. Asked once, at the end of a process
 * that recorded nothing.
 */
#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "capo/env.h"
#include "capo/msg.h"
#include "core/base/util.h"
#include "shim/find/object.h"
#include "shim/find/symbol.h"
#include "shim/nccl/real.h"
#include "shim/nccl/unseen.h"
#include "shim/record/start.h"

/* As the settings table reads them. */
bool capo_recording_wanted(void)
{
        const char *off = getenv(CAPO_ENV_off), *dir = getenv(CAPO_ENV_dir);

        return dir && *dir &&
               !(off && (!strcmp(off, "1") || !strcasecmp(off, "yes") || !strcasecmp(off, "on") ||
                         !strcasecmp(off, "true")));
}

/* Where an NCCL lies. */
static int find_nccl(struct dl_phdr_info *info, size_t size, void *out)
{
        if (!info->dlpi_name || !capo_nccl_file(info->dlpi_name))
                return 0;
        for (int i = 0; i < info->dlpi_phnum; i++) {
                const ElfW(Phdr) *p = &info->dlpi_phdr[i];

                if (p->p_type == PT_LOAD && p->p_flags & PF_X)
                        return capo_object_of((const void *)(info->dlpi_addr + p->p_vaddr), out);
        }
        return 0;
}

static bool is_call(const char *name)
{
        return name[0] == 'n' && name[1] == 'c' && capo_wrapper_of(name, 0);
}

/* An NCCL in a namespace that dlmopen() made: ld.so lists those since glibc 2.35. */
static const char *nccl_apart(void)
{
#ifdef __GLIBC__
        const struct apart_debug { /* struct r_debug_extended of that glibc */
                struct r_debug base;
                const struct apart_debug *next;
        } *space = (const struct apart_debug *)&_r_debug;

        if (_r_debug.r_version < 2)
                return NULL;
        while ((space = space->next)) {
                for (const struct link_map *m = space->base.r_map; m; m = m->l_next) {
                        if (m->l_name && capo_nccl_file(m->l_name))
                                return m->l_name;
                }
        }
#endif
        return NULL;
}

__attribute__((destructor)) static void warn_unseen(void)
{
        struct capo_object nccl, front;
        const char *apart;
        char path[512];

        if (atomic_load(&capo_life.state) != CAPO_SHIM_UNBORN || !capo_recording_wanted())
                return;
        apart = nccl_apart();
        if (apart)
                capo_warn("no call of NCCL was seen: %s is in a namespace of its own (dlmopen()), "
                          "where no library is preloaded",
                          apart);
        if (!dl_iterate_phdr(find_nccl, &nccl))
                return;
        if (capo_dlsym_front(&front))
                capo_warn(
                        "no call of NCCL was seen: %s has a dlsym of its own and stands in front of libcapo.so, which should be "
                        "the first in LD_PRELOAD",
                        front.path);
        else if (capo_own(capo_real_dlsym(RTLD_DEFAULT, "ncclGetVersion")) && /* preloaded */
                 capo_object_bound(is_call, &nccl, path, sizeof path))
                capo_warn(
                        "no call of NCCL was seen: %s is bound to it past libcapo.so, as a library "
                        "is that was opened with RTLD_DEEPBIND",
                        path);
}
