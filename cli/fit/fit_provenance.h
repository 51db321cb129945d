/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "profiles/fit/fit.h"

struct capo_profile;

/** fit_provenance_when() - set tool and date of @profile. Return: 0; negative errno. */
int fit_provenance_when(struct capo_profile *profile);

/** fit_provenance() - the same, and what in @set the rules were made from. Return: 0; negative
 * errno. */
int fit_provenance(const struct capo_samples *set, const struct capo_fit *fit,
                   struct capo_profile *profile);
