/* SPDX-License-Identifier: Apache-2.0 */
/* What capo fit prints. */
#ifndef CAPO_FIT_PAGE_H
#define CAPO_FIT_PAGE_H

#include <stdbool.h>

#include "profiles/fit/fit.h"

struct fit_page {
        bool all; /* every size, not groups of sizes with one answer */
};

void fit_page(const struct capo_samples *set, const struct capo_fit *fit,
              const struct fit_page *page);

/** fit_page_uncertain() - there are measurements, but of none is it certain what ran: what to
 * measure. */
void fit_page_uncertain(const struct capo_samples *set);

/** fit_runs() - a line for each run: what it is taken for, and why. */
void fit_runs(const struct capo_samples *set);

/** fit_json() - Return: 0; -ENOMEM; -1 not written. */
int fit_json(const struct capo_samples *set, const struct capo_fit *fit,
             const struct capo_profile *profile);

/** fit_page_runs() - "NCCL's own choice in 3 runs, Ring Simple in 3": returns @text. */
char *fit_page_runs(const struct capo_fit_series *s, char *text, size_t room);

#endif
