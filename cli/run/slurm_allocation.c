/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exports the allocation that the user names to capo run: its class, which rules of a profile can
 * name, and its layout. Both come from the command line, so they are the same on every machine that
 * runs the same command.
 */
#include <stdlib.h>

#include "capo/env.h"
#include "capo/msg.h"
#include "cli/base/cli_machine.h"
#include "cli/run/cmd_run.h"
#include "core/base/layout.h"
#include "core/base/util.h"
#include "profiles/fragment/fragment.h"

int run_allocation(const struct run *run)
{
        _cleanup_(capo_topology_freep) struct capo_topology *t = NULL;
        struct cli_machine_words o = {.topo = run->topo, .platform = run->platform};
        char why[512], class[1024], layout_text[CAPO_LAYOUT_TEXT];
        struct cli_machine_source s;
        struct capo_layout layout;
        struct capo_alloc a;
        const char *gpus = run->gpus ? run->gpus : run->alloc;

        if (!run->topo && !run->platform && !gpus)
                return 0;
        if (!(run->topo || run->platform) || !gpus || (run->gpus && run->alloc))
                return capo_fail(
                        CAPO_EXIT_USAGE,
                        "run: --gpus or --alloc and --topo or --platform go together: which GPUs of which machine");
        if (cli_machine_load("run", &o, &t, &s) < 0)
                return CAPO_EXIT_FAIL;
        if (capo_alloc_parse(t, gpus, !run->gpus, &a, why, sizeof why) < 0)
                return capo_fail(CAPO_EXIT_FAIL, "run: %s", why);
        if (capo_class_name(t, &a, class, sizeof class) == 0)
                run_setenv(CAPO_ENV_class_name, class);
        capo_alloc_layout(&a, &layout);
        if (!run->layout && !getenv(CAPO_ENV_layout))
                run_setenv(CAPO_ENV_layout,
                           capo_layout_print(&layout, layout_text, sizeof layout_text));
        capo_alloc_free(&a);
        return 0;
}
