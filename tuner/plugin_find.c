/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the plugin that capo stands in front of, by NCCL's own rules (core/base/plugin_file.h):
 * the value of the variable; without one the default name; and when that has nothing, the net
 * plugin that is loaded already. */
#include <dlfcn.h>
#include <stdlib.h>

#include "capo/msg.h"
#include "core/base/plugin_file.h"
#include "tuner/plugin_find.h"

/* The first that opens; with @flags RTLD_NOLOAD only what is there already. */
static void *open_first(const char *kind, const char *value, int flags)
{
        char file[CAPO_PLUGIN_FILE];
        void *library = NULL;

        for (unsigned i = 0; !library && capo_plugin_file(kind, value, i, file); i++)
                library = dlopen(file, RTLD_NOW | RTLD_LOCAL | flags);
        return library;
}

bool capo_plugin_find(const char *kind, const char *value,
                      enum capo_plugin_found (*probe)(void *library, void *user), void *user)
{
        const char *net = getenv("NCCL_NET_PLUGIN");
        enum capo_plugin_found found;
        void *library;

        if (capo_plugin_off(value))
                return false;
        library = open_first(kind, value, 0);
        if (*value && !library) {
                capo_warn("the %s plugin \"%s\" to chain to cannot be loaded: %s", kind, value,
                          dlerror());
                return false;
        }
        found = library ? probe(library, user) : CAPO_PLUGIN_NONE;
        if (*value && found == CAPO_PLUGIN_NONE)
                capo_warn(
                        "the %s plugin \"%s\" to chain to exports no interface that this NCCL and capo both know",
                        kind, value);
        if (*value || found == CAPO_PLUGIN_FOUND)
                return found == CAPO_PLUGIN_FOUND;
        library = capo_plugin_off(net) ? NULL : open_first("net", net, RTLD_NOLOAD);
        return library && probe(library, user) == CAPO_PLUGIN_FOUND;
}
