/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles for NCCL that has no tuner interface (2.4 to 2.18): what can be said in the variables of that release.
 *
 * The variables know no sizes beyond two thresholds (2.4) and apply to the whole process, so most profiles can be
 * expressed in part only; what is left out is said, line by line. Facts of each variable's reach are from the sources
 * of each release:
 *
 *   2.4          NCCL_TREE_THRESHOLD (all-reduce: tree up to that size), NCCL_LL_THRESHOLD (every collective: LL up to
 *                that size)
 *   2.5 - 2.18   NCCL_ALGO (2.7 to 2.16: all-reduce only; else every collective), NCCL_PROTO (every collective); no
 *                sizes
 *   channels     NCCL_MAX_NRINGS in 2.4; NCCL_MAX_NCHANNELS from 2.5 on
 */
#ifndef CAPO_LEGACY_H
#define CAPO_LEGACY_H

#include "core/profile/match.h"

struct capo_legacy {
        struct {
                char name[32], value[32];
        } set[4];
        unsigned n;
        char *lost; /* lines, each ending in \n: what could not be expressed and why; NULL when nothing. free() it */
};

/**
 * capo_legacy_translate() - @profile's rules for @shape as variables of release @shape->nccl
 * @out: filled; variables the user has set himself are never among them, and are said in @out->lost
 *
 * Return: 0; -ERANGE when the release has a tuner interface or is older than 2.4.2; -ENOMEM.
 */
int capo_legacy_translate(const struct capo_profile *profile, const struct capo_shape *shape, struct capo_legacy *out);

#endif
