/* SPDX-License-Identifier: Apache-2.0 */
/* Samples as flat CSV, the exchange format of docs/store.md: one line per sample, columns
 * documented there. */
#pragma once

#include "profiles/import/import.h"

/** capo_csv_heads() - the first line. */
void capo_csv_heads(FILE *out);

/** capo_csv_sample() - one line. Return: 0 or -EIO. */
int capo_csv_sample(FILE *out, const struct capo_sample *s, const struct capo_trial *r);
