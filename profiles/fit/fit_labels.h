/* SPDX-License-Identifier: Apache-2.0 */
/* Do the labels of a series fit its times? */
#pragma once

#include "profiles/fit/fit.h"

/** capo_fit_labels() - set labels_doubted from the blocks of @s. */
void capo_fit_labels(struct capo_fit_series *s);
