/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures of a fit: time by size, absolute and relative to NCCL's own choice, a line per
 * candidate. */
#pragma once

#include "profiles/fit/fit.h"

/** capo_svg_fit() - one panel per series, as a self-contained SVG file. Return: 0 or -EIO. */
int capo_svg_fit(FILE *out, const struct capo_fit *fit, const char *title);
