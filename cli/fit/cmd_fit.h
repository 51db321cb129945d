/* SPDX-License-Identifier: Apache-2.0 */
/* capo fit --model: rules for allocations that were not measured. */
#ifndef CAPO_FIT_CLI_H
#define CAPO_FIT_CLI_H

#include <jansson.h>
#include <stdbool.h>

#include "cli/base/cli_page.h"
#include "profiles/fit/fit_model.h"

struct capo_profile;

struct fit_models {
        const char *alloc[8];
        size_t n;
        const char *topo, *platform, *libnccl, *sizes;
        int domain; /* machines of an NVLink domain; 0: as the platform has it; 1: none */
        bool every; /* every class that the numbers can be, not the first GPUs */
};

/** fit_models_measured() - from the measurements in @fit; lines of @page. Return: 0; -1 after
 * saying why not. */
int fit_models_measured(struct fit_models *m, const struct capo_fit *fit,
                        const struct capo_fit_options *options, struct capo_profile *profile,
                        struct cli_page *page);

/** fit_models_alone() - from nothing but the machine's description: sections of @page, an object
 * of each allocation in @list. Return: 0; -1, said. */
int fit_models_alone(struct fit_models *m, const struct capo_fit_options *options,
                     struct capo_profile *profile, struct cli_page *page, json_t *list);

/* One allocation's page. */
struct fit_models_shown {
        const char *text, *machine; /* the option's value; "dgx1v" */
        const char *measured_in;    /* where the rate of a link was measured; NULL: it is NCCL's
                                       planning constant */
        const struct capo_topology *t;
        const struct capo_alloc *a;
        const struct capo_fit_fragment *f;
};
void fit_models_page(struct cli_page *page, const struct fit_models_shown *s);
/** fit_models_line() - the same in a row of the page's first section. */
void fit_models_line(struct cli_page *page, const struct fit_models_shown *s);
/** fit_models_json() - Return: NULL: no memory. */
json_t *fit_models_json(const struct fit_models_shown *s);

#endif
