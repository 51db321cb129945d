/* SPDX-License-Identifier: Apache-2.0 */
/* Any lines as the environment of a process: capo's own settings, what a launcher says of the
 * layout, the GPUs that CUDA is to see. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capo/env.h"
#include "core/base/layout.h"
#include "core/base/util.h"
#include "profiles/machine/visible.h"
#include "tests/fuzz/fuzz.h"

enum { VARIABLES = 64 };

static const char *get(const char *name, void *user) { return getenv(name); }

static void ask_layout(bool in_rank)
{
        struct capo_layout_launch launch;
        char text[CAPO_LAYOUT_TEXT];
        struct capo_layout again;

        if (capo_layout_from_launcher(get, NULL, in_rank, &launch) == 0) {
                must(launch.layout.n_nodes && launch.layout.n_ranks && *launch.source);
                capo_layout_print(&launch.layout, text, sizeof text);
                must(capo_layout_parse(text, &again, NULL) == 0 &&
                     capo_layout_equal(&launch.layout, &again));
        }
        must(memchr(launch.said, 0, sizeof launch.said));
}

static void visible(void)
{
        static const char machine[] =
                "<system version=\"1\"><cpu numaid=\"0\" arch=\"x86_64\">"
                "<pci busid=\"0000:01:00.0\" class=\"0x030200\"><gpu dev=\"0\" sm=\"70\"/></pci>"
                "<pci busid=\"0000:02:00.0\" class=\"0x030200\"><gpu dev=\"1\" sm=\"70\"/></pci>"
                "<pci busid=\"0000:03:00.0\" class=\"0x030200\"><gpu dev=\"2\" sm=\"80\"/></pci>"
                "<pci busid=\"0000:04:00.0\" class=\"0x030200\"><gpu dev=\"3\" sm=\"80\"/></pci>"
                "</cpu></system>";
        static struct capo_topology *t;
        static struct capo_nvml nvml;
        static struct capo_visible out;
        char why[512] = "";

        if (!t) {
                must(capo_topology_read(fuzz_file(0, machine, strlen(machine)), 0, 0, &t, why,
                                        sizeof why) == 0);
                nvml = (struct capo_nvml){.n_gpus = 4, .n_slices = 3};
                for (int i = 0; i < 4; i++) {
                        struct capo_nvml_gpu *g = &nvml.gpus[i];

                        memcpy(g->busid, t->gpus[i].busid, sizeof g->busid);
                        snprintf(g->uuid, sizeof g->uuid, "GPU-%d%d-ab", i / 2, i);
                        g->mig = i == 3;
                        g->dev = i;
                }
                for (unsigned i = 0; i < 3; i++) {
                        nvml.slices[i] = (struct capo_nvml_slice){.gpu = 3, .gi = i + 1, .ci = 0};
                        snprintf(nvml.slices[i].uuid, sizeof nvml.slices[i].uuid, "MIG-%u%u-cd",
                                 i / 2, i);
                }
        }
        for (int k = 0; k < 2; k++) {
                if (capo_visible_find(t, k ? &nvml : NULL, get, NULL, &out, why, sizeof why) < 0) {
                        must(*why);
                        continue;
                }
                must(out.n > 0 && out.n <= (int)N_ELEMENTS(out.devices));
                for (int i = 0; i < out.n; i++)
                        must(out.devices[i].gpu >= 0 && out.devices[i].gpu < (int)t->n_gpus);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct fuzz_bytes b = {data, size};
        char *variables[VARIABLES + 1], **before = environ;
        const char *of;
        struct capo_env env;
        unsigned n = 0;

        while (n < VARIABLES && b.left)
                variables[n++] = fuzz_word(&b, '\n');
        variables[n] = NULL;
        environ = variables;
        must(capo_env_read(&env) >= 0 && env.dir && env.sweep);
        for (unsigned i = 0; i < n; i++) {
                char *value = strchr(variables[i], '='), name[64] = "";

                if (value && value - variables[i] < (int)sizeof name) {
                        memcpy(name, variables[i], (size_t)(value - variables[i]));
                        capo_env_understood(name, value + 1, &of);
                }
        }
        ask_layout(false);
        ask_layout(true);
        visible();
        environ = before;
        for (unsigned i = 0; i < n; i++)
                free(variables[i]);
        return 0;
}
