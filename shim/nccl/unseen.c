/* SPDX-License-Identifier: Apache-2.0 */
/* Why not all calls of NCCL, or none, were seen in a process that has it. Asked at its end. */
#include <dlfcn.h>
#include <link.h>

#include "capo/env.h"
#include "capo/msg.h"
#include "core/base/write_signals.h"
#include "shim/find/object.h"
#include "shim/find/symbol.h"
#include "shim/nccl/real.h"
#include "shim/record/start.h"

/* Where the copies of NCCL lie. */
struct copies {
        struct capo_object of[CAPO_NCCL_COPIES];
        unsigned n;
};

static int find_nccl(struct dl_phdr_info *info, size_t size, void *out)
{
        struct copies *copies = out;

        if (!info->dlpi_name || !capo_nccl_file(info->dlpi_name))
                return 0;
        for (int i = 0; i < info->dlpi_phnum; i++) {
                const ElfW(Phdr) *p = &info->dlpi_phdr[i];

                if (p->p_type == PT_LOAD && p->p_flags & PF_X) {
                        copies->n += capo_object_of((const void *)(info->dlpi_addr + p->p_vaddr),
                                                    &copies->of[copies->n]);
                        break;
                }
        }
        return copies->n == N_ELEMENTS(copies->of);
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

/* Loaded libraries whose calls of NCCL pass by the recorder. */
static void warn_bound(const struct copies *copies, const char *which)
{
        static char path[512];

        if (!capo_own(capo_real_dlsym(RTLD_DEFAULT, "ncclGetVersion"))) /* not preloaded */
                return;
        for (unsigned i = 0; i < copies->n; i++) {
                if (capo_object_bound(is_call, &copies->of[i], path, sizeof path))
                        capo_warn("%s: %s is bound to it past libcapo.so, as a library is that was "
                                  "opened with RTLD_DEEPBIND",
                                  which, path);
        }
}

__attribute__((destructor)) static void warn_unseen(void)
{
        const int state = atomic_load(&capo_life.state);
        const char *which = state == CAPO_SHIM_UNSTARTED ? "no call of NCCL was seen"
                                                         : "not all calls of NCCL are recorded";
        static struct copies copies; /* the stack may be small */
        static struct capo_object front;
        const char *apart;

        if (state == CAPO_SHIM_OFF || capo_on_signal_stack() || !capo_env_wanted())
                return;
        apart = nccl_apart();
        if (apart)
                capo_warn("%s: %s is in a namespace of its own (dlmopen()), where no library is "
                          "preloaded",
                          which, apart);
        dl_iterate_phdr(find_nccl, &copies);
        if (!copies.n)
                return;
        if (state == CAPO_SHIM_UNSTARTED && capo_dlsym_front(&front))
                capo_warn("%s: %s has a dlsym of its own and stands in front of libcapo.so, which "
                          "should be the first in LD_PRELOAD",
                          which, front.path);
        else
                warn_bound(&copies, which);
}
