/* SPDX-License-Identifier: Apache-2.0 */

#include "core/base/plugin_file.h"
#include "core/base/util.h"

const char *capo_plugin_file(const char *kind, const char *value, unsigned i,
                             char text[CAPO_PLUGIN_FILE])
{
        int n;

        if (!value || !*value)
                n = i == 0 ? snprintf(text, CAPO_PLUGIN_FILE, "libnccl-%s.so", kind) : -1;
        else if (i == 0)
                n = snprintf(text, CAPO_PLUGIN_FILE, "%s", value);
        else
                n = i == 1 && !strchr(value, '/')
                            ? snprintf(text, CAPO_PLUGIN_FILE, "libnccl-%s-%s.so", kind, value)
                            : -1;
        return n >= 0 && n < CAPO_PLUGIN_FILE ? text : NULL;
}

bool capo_plugin_off(const char *value) { return value && !strcasecmp(value, "none"); }

bool capo_plugin_static(const char *value)
{
        return value && *value && !strncasecmp(value, "STATIC_PLUGIN", strlen(value));
}

bool capo_plugin_own(const char *value)
{
        const char *name = capo_base_name(value);

        return !strcmp(value, "capo") || !strcmp(name, "libcapo.so") ||
               !strcmp(name, "libnccl-tuner-capo.so");
}
