/* SPDX-License-Identifier: Apache-2.0 */
/* `capo run` names this library by its path, so that a process without the preload (an environment
 * that reached the other node without LD_PRELOAD) decides like all others. NCCL 2.27.3 takes no
 * path and says nothing. There the name serves: ld.so finds the preloaded library by its soname. */
#include <dlfcn.h>

#include "capo/env.h"
#include "capo/msg.h"
#include "core/base/nccl_facts.h"
#include "core/base/nccl_release.h"
#include "core/log/info.h"
#include "shim/find/object.h"
#include "shim/find/symbol.h"
#include "shim/nccl/untuned.h"
#include "shim/record/shim.h"

static atomic_bool was_loaded, was_logged;

/* Would dlopen of @name find this library and no other? */
static bool is_ours(const char *name)
{
        void *handle = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
        bool ours = handle && capo_own(capo_real_dlsym(handle, "ncclTunerPlugin_v4"));

        if (handle)
                dlclose(handle);
        return ours;
}

void capo_untuned_prevent(int version)
{
        static const char *const variables[] = {"NCCL_TUNER_PLUGIN", "NCCL_PROFILER_PLUGIN"};

        if (!capo_nccl_has(version, CAPO_NCCL_PLUGIN_NO_PATH))
                return;
        for (size_t i = 0; i < N_ELEMENTS(variables); i++) {
                char *value = getenv(variables[i]);
                const char *name = value ? capo_base_name(value) : NULL;

                if (name != value && is_ours(value) && is_ours(name))
                        memmove(value, name, strlen(name) + 1);
        }
}

void capo_untuned_loaded(void) { atomic_store_explicit(&was_loaded, true, memory_order_relaxed); }

static bool is_wanted(const struct capo_env *env)
{
        return (*env->profile || *env->sweep) && strcmp(env->tuner, "off") &&
               strcmp(env->tuner, "chain");
}

void capo_untuned_check(uint32_t n_ranks, int version)
{
        const struct capo_env *env = capo_shim_env();
        const char *plugin = getenv("NCCL_TUNER_PLUGIN");
        char release[16], use[sizeof((struct capo_object *)0)->path + 32] = "";
        struct capo_object own;

        if (n_ranks < 2 || atomic_load_explicit(&was_loaded, memory_order_relaxed) ||
            !is_wanted(env))
                return;
        if (!atomic_exchange(&was_logged, true))
                capo_shim_info(CAPO_INFO_UNTUNED, "%s", plugin && *plugin ? plugin : "-");
        plugin = plugin ? plugin : "";
        /* a release without tuners, and one that has the right value, cannot be helped by another
         */
        if (capo_nccl_has(version, CAPO_NCCL_TUNER) && !(*plugin && is_ours(plugin)) &&
            capo_object_of(&was_loaded, &own))
                snprintf(use, sizeof use, "; use NCCL_TUNER_PLUGIN=%s",
                         capo_nccl_has(version, CAPO_NCCL_PLUGIN_NO_PATH) ? capo_base_name(own.path)
                                                                          : own.path);
        capo_warn_once(
                "NCCL %s has not loaded capo's tuner (NCCL_TUNER_PLUGIN=%s), so %s is not used%s",
                capo_nccl_text((uint32_t)version, release, sizeof release), plugin,
                *env->profile ? "the profile" : "the sweep", use);
}
