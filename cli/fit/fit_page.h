/* SPDX-License-Identifier: Apache-2.0 */
/* The output of capo fit. */
#pragma once

#include <jansson.h>

#include "cli/base/cli_page.h"
#include "profiles/fit/fit.h"

struct capo_profile;

/** fit_page() - @all: every size, else groups of sizes with one answer. The page points into @fit. */
struct cli_page *fit_page(const struct capo_samples *set, const struct capo_fit *fit, bool all);

/** fit_page_uncertain() - the page for measurements of which none is certain in what ran: says what
 * to measure. */
struct cli_page *fit_page_uncertain(const struct capo_samples *set);

/** fit_runs() - print a line for each run: what it is taken for, and why. */
void fit_runs(const struct capo_samples *set);

/** fit_json() - the page as JSON. */
json_t *fit_json(const struct capo_samples *set, const struct capo_fit *fit,
                 const struct capo_profile *profile);

/** fit_page_range() - "4 MiB - 8 MiB", "4 MiB": returns @text. */
const char *fit_page_range(uint64_t first, uint64_t last, char text[40]);

/** fit_provenance_when() - set tool and date of @profile; fit_provenance() - and what in @set the rules
 * were made from. */
void fit_provenance_when(struct capo_profile *profile);
void fit_provenance(const struct capo_samples *set, const struct capo_fit *fit,
                    struct capo_profile *profile);
