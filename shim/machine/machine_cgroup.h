/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/** capo_machine_cgroups() - find the cgroups of this process; before capo_machine_cgroup(). */
void capo_machine_cgroups(void);
bool capo_machine_cgroup(const char *source, const char *key, uint64_t *value);
