/* SPDX-License-Identifier: Apache-2.0 */
/* Loading somebody else's plugin the way NCCL would. */
#pragma once

#include "tuner/plugin.h"

/** capo_plugin_find() - the first of NCCL's candidates that has what is looked for
 * @kind:  "tuner" or "profiler"
 * @value: what the variable says, "" when unset
 * @probe: what a library that is loaded has; CAPO_PLUGIN_FOUND ends the search
 *
 * Libraries stay loaded. A value that leads to nothing is said. */
bool capo_plugin_find(const char *kind, const char *value,
                      enum capo_plugin_found (*probe)(void *library, void *user), void *user);
