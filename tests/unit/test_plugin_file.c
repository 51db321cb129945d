/* SPDX-License-Identifier: Apache-2.0 */
/* The files NCCL tries for a plugin, in its order. */
#include <criterion/criterion.h>
#include <string.h>

#include "core/base/plugin_file.h"

static void expect(const char *kind, const char *value, const char *first, const char *second)
{
        char text[CAPO_PLUGIN_FILE];

        cr_expect_str_eq(capo_plugin_file(kind, value, 0, text), first);
        if (second)
                cr_expect_str_eq(capo_plugin_file(kind, value, 1, text), second);
        else
                cr_expect_null(capo_plugin_file(kind, value, 1, text));
        cr_expect_null(capo_plugin_file(kind, value, 2, text));
}

Test(plugin_file, the_order_of_nccl)
{
        expect("tuner", NULL, "libnccl-tuner.so", NULL);
        expect("tuner", "", "libnccl-tuner.so", NULL);
        expect("net", NULL, "libnccl-net.so", NULL);
        expect("profiler", "mine", "mine", "libnccl-profiler-mine.so");
        expect("net", "libx.so", "libx.so", "libnccl-net-libx.so.so");
        expect("tuner", "/opt/x.so", "/opt/x.so", NULL);
        expect("tuner", "./x", "./x", NULL);
}

Test(plugin_file, a_name_that_does_not_fit_is_none)
{
        static char value[CAPO_PLUGIN_FILE + 10];
        char text[CAPO_PLUGIN_FILE];

        memset(value, 'x', CAPO_PLUGIN_FILE);
        cr_expect_null(capo_plugin_file("tuner", value, 0, text));
        value[CAPO_PLUGIN_FILE - 1] = 0;
        cr_expect_str_eq(capo_plugin_file("tuner", value, 0, text), value);
        cr_expect_null(capo_plugin_file("tuner", value, 1, text), "longer by the name around it");
}

Test(plugin_file, capos_own)
{
        cr_expect(capo_plugin_own("capo"));
        cr_expect(capo_plugin_own("libnccl-tuner-capo.so"));
        cr_expect(capo_plugin_own("/opt/capo/lib/libcapo.so"));
        cr_expect_not(capo_plugin_own(""));
        cr_expect_not(capo_plugin_own("/opt/capo"));
        cr_expect_not(capo_plugin_own("libnccl-tuner.so"));
}

Test(plugin_file, off_and_static)
{
        cr_expect(capo_plugin_off("none"));
        cr_expect(capo_plugin_off("NONE"));
        cr_expect_not(capo_plugin_off("none2"));
        cr_expect_not(capo_plugin_off("non"));
        cr_expect_not(capo_plugin_off(""));
        cr_expect_not(capo_plugin_off(NULL));
        cr_expect(capo_plugin_static("STATIC_PLUGIN"));
        cr_expect(capo_plugin_static("st"));
        cr_expect(capo_plugin_static("S"));
        cr_expect_not(capo_plugin_static("STATIC_PLUGINS"));
        cr_expect_not(capo_plugin_static("static-plugin"));
        cr_expect_not(capo_plugin_static(""));
        cr_expect_not(capo_plugin_static(NULL));
}
