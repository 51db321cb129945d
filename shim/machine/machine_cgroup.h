/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAPO_MACHINE_CGROUP_H
#define CAPO_MACHINE_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

/** capo_machine_cgroups() - find the cgroups of this process; before capo_machine_cgroup(). */
void capo_machine_cgroups(void);
bool capo_machine_cgroup(const char *source, const char *key, uint64_t *value);

#endif
