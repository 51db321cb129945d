/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding the plugin that capo stands in front of. NCCL's own rules (src/plugin/plugin_open.cc of 2.26 to 2.30,
 * misc/tuner.cc before): the value of the variable as a file, then libnccl-<kind>-<value>.so; without a value
 * libnccl-<kind>.so; and when there is none of these, the net plugin that is loaded already. "none" turns it off.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "capo/msg.h"
#include "tuner/chain.h"

/* @name, or libnccl-<kind>-<name>.so; with @flags RTLD_NOLOAD only what is there already. */
static void *open_as(const char *kind, const char *name, int flags)
{
        char file[512];
        void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL | flags);

        if (library || strchr(name, '/'))
                return library;
        if (snprintf(file, sizeof file, "libnccl-%s-%s.so", kind, name) >= (int)sizeof file)
                return NULL;
        return dlopen(file, RTLD_NOW | RTLD_LOCAL | flags);
}

static const void *look(void *library, const char *const *symbols, const void *const *own, int *which)
{
        for (int i = 0; library && symbols[i]; i++) {
                const void *object = dlsym(library, symbols[i]);
                const char *name = object ? *(const char *const *)object : NULL; /* the first member of every version */

                if (!object || object == own[i])
                        continue;
                if (name && !strcmp(name, "capo")) /* another copy of ourselves: it would chain to us */
                        continue;
                *which = i;
                return object;
        }
        return NULL;
}

const void *capo_plugin_find(const char *kind, const char *value, const char *const *symbols, const void *const *own,
                             int *which)
{
        const char *net = getenv("NCCL_NET_PLUGIN");
        char file[64];
        const void *object;

        if (!strcasecmp(value, "none"))
                return NULL;
        if (*value) {
                void *library = open_as(kind, value, 0);

                object = look(library, symbols, own, which);
                if (!library)
                        capo_warn("the %s plugin \"%s\" to chain to cannot be loaded: %s", kind, value, dlerror());
                else if (!object && !dlsym(library, symbols[0]))
                        capo_warn("the %s plugin \"%s\" to chain to exports no interface that this NCCL and capo both "
                                  "know",
                                  kind, value);
                return object; /* never unloaded: it may have threads of its own */
        }
        snprintf(file, sizeof file, "libnccl-%s.so", kind);
        object = look(dlopen(file, RTLD_NOW | RTLD_LOCAL), symbols, own, which);
        if (object)
                return object;
        if (net && !strcasecmp(net, "none"))
                return NULL;
        return look(net && *net ? open_as("net", net, RTLD_NOLOAD) : dlopen("libnccl-net.so", RTLD_NOW | RTLD_NOLOAD),
                    symbols, own, which);
}
