/* SPDX-License-Identifier: Apache-2.0 */
/* capo fit --model: rules for allocations that were not measured. */
#pragma once

#include <jansson.h>

#include "profiles/fragment/fragment_beyond.h"
#include "cli/base/cli_page.h"
#include "profiles/fit/fit_model.h"

struct capo_profile;

struct fit_models {
        const char *alloc[8];
        size_t n;
        const char *topo, *platform, *libnccl, *sizes;
        int domain; /* machines per NVLink domain; 0: as in the platform; 1: none */
};

/** fit_models_measured() - rules scaled from the measurements in @fit; adds lines to @page. Return:
 * 0; -ENODEV no such machine, -1 another reason, printed. */
int fit_models_measured(struct fit_models *m, const struct capo_fit *fit,
                        const struct capo_fit_options *options, struct capo_profile *profile,
                        struct cli_page *page);

/** fit_models_alone() - rules from the machine's description alone; adds sections to @page, and an
 * object per allocation to @list. Return: as above. */
int fit_models_alone(struct fit_models *m, const struct capo_fit_options *options,
                     struct capo_profile *profile, struct cli_page *page, json_t *list);

/* The page of one allocation. */
struct fit_models_shown {
        const char *text, *machine; /* the option's value; for example "dgx1v" */
        const char *measured_in;    /* where the rate of a link was measured; NULL: NCCL's planning
                                       constant is used */
        const struct capo_topology *t;
        const struct capo_alloc *a;
        const struct capo_fit_fragment *f;
        const struct fragment_beyond *beyond;
};
void fit_models_page(struct cli_page *page, const struct fit_models_shown *s);
/** fit_models_json() - the same as JSON. */
json_t *fit_models_json(const struct fit_models_shown *s);
