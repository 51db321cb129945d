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

/** fit_page_runs() - "NCCL's own choice in 3 runs, Ring Simple in 3": returns @text. */
char *fit_page_runs(const struct capo_fit_series *s, char *text, size_t room);

/** fit_page_gain() - "4.1 % +- 1.0 %" over the points from @first to @last: returns @text. */
const char *fit_page_gain(const struct capo_fit_series *s, int first, int last, char text[48]);

/** fit_page_days() - "2026-11-20 to 2026-11-22": dates of the runs used, in UTC if their files have
 * them; "": none has. Returns @text. */
const char *fit_page_days(const struct capo_samples *set, char text[32]);

/** fit_provenance_when() - set tool and date of @profile. Return: 0; negative errno. */
int fit_provenance_when(struct capo_profile *profile);

/** fit_provenance() - the same, and what in @set the rules were made from. Return: 0; negative
 * errno. */
int fit_provenance(const struct capo_samples *set, const struct capo_fit *fit,
                   struct capo_profile *profile);
