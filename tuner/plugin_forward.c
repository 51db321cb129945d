/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin library in a process that libcapo.so is preloaded into: NCCL_TUNER_PLUGIN=capo makes
 * NCCL load this library, while the recorder, its records and the calls that it turns belong to the
 * copy of the plugin in libcapo.so. Two copies would read two profiles, and the records would have
 * no rules. So NCCL gets the functions of the preloaded copy. Both copies have the interface of
 * NCCL's release, so it does not matter whether they are of one release of capo. */
#include <dlfcn.h>

#include "tuner/nccl_profiler.h"
#include "tuner/plugin.h"

static void forward_object(void *program, void *own, size_t size, const char *symbol)
{
        const void *preloaded = program ? dlsym(program, symbol) : NULL;

        if (preloaded && preloaded != own && capo_plugin_is_ours(*(const char *const *)preloaded))
                memcpy(own, preloaded, size);
}

#define CAPO_TUNER_ABI(version, first, last) \
        extern struct capo_tuner_v##version ncclTunerPlugin_v##version;
#define CAPO_PROFILER_ABI(version, first, last) \
        extern struct capo_profiler_v##version ncclProfiler_v##version;
#include "capo/plugin_abis.def"

__attribute__((constructor)) static void forward_to_preload(void)
{
        /* the program and what is preloaded; RTLD_DEFAULT begins with this library */
        void *program = dlopen(NULL, RTLD_LAZY);

#define CAPO_TUNER_ABI(version, first, last)                                                    \
        forward_object(program, &ncclTunerPlugin_v##version, sizeof ncclTunerPlugin_v##version, \
                       "ncclTunerPlugin_v" #version);
#define CAPO_PROFILER_ABI(version, first, last)                                           \
        forward_object(program, &ncclProfiler_v##version, sizeof ncclProfiler_v##version, \
                       "ncclProfiler_v" #version);
#include "capo/plugin_abis.def"
}
