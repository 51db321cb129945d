/* SPDX-License-Identifier: Apache-2.0 */
/* Do the labels of a series fit its times? */
#ifndef CAPO_FIT_LABELS_H
#define CAPO_FIT_LABELS_H

#include "profiles/fit/fit.h"

/** capo_fit_labels() - set labels_doubted from the blocks of @s. */
void capo_fit_labels(struct capo_fit_series *s);

#endif
