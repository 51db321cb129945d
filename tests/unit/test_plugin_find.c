/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <criterion/criterion.h>

#include "tuner/plugin_find.h"

static int asked;

static enum capo_plugin_found say(void *library, void *user)
{
        cr_assert(library);
        asked++;
        return *(enum capo_plugin_found *)user;
}

static bool find(const char *value, enum capo_plugin_found found)
{
        asked = 0;
        return capo_plugin_find("tuner", value, say, &found);
}

Test(plugin_find, by_value)
{
        unsetenv("NCCL_NET_PLUGIN");
        cr_assert(!find("none", CAPO_PLUGIN_FOUND) && asked == 0, "switched off");
        cr_assert(!find("/nowhere/libx.so", CAPO_PLUGIN_FOUND) && asked == 0);
        cr_assert(find("libm.so.6", CAPO_PLUGIN_FOUND) && asked == 1);
        cr_assert(!find("libm.so.6", CAPO_PLUGIN_NONE) && asked == 1);
        cr_assert(!find("libm.so.6", CAPO_PLUGIN_OURSELVES) && asked == 1,
                  "what was named is not replaced by another");
}

Test(plugin_find, net_plugin_that_is_loaded)
{
        setenv("NCCL_NET_PLUGIN", "libc.so.6", 1);
        cr_assert(find("", CAPO_PLUGIN_FOUND) && asked == 1);
        cr_assert(!find("", CAPO_PLUGIN_NONE) && asked == 1);
        setenv("NCCL_NET_PLUGIN", "libsqlite3.so.0", 1);
        cr_assert(!find("", CAPO_PLUGIN_FOUND) && asked == 0, "not loaded for our sake");
        setenv("NCCL_NET_PLUGIN", "none", 1);
        cr_assert(!find("", CAPO_PLUGIN_FOUND) && asked == 0);
}
