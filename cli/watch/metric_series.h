/* SPDX-License-Identifier: Apache-2.0 */
/* Which series a family has already. A user can make a job that has one twice, and one series twice
 * makes the node exporter fail for all of them. */
#pragma once

#include "core/base/util.h"

struct metric_series {
        uint64_t *hash; /* 0: free */
        size_t n, room;
};

/** metric_series_add() - Return: is it new? Without memory it is not. */
bool metric_series_add(struct metric_series *s, const char *text, size_t n);

void metric_series_clear(struct metric_series *s);
