/* SPDX-License-Identifier: Apache-2.0 */
#include "core/log/machine_frame.h"

/* The row of a reading among those of its scope: its number less that of the scope's first. */
enum {
        FIRST_PROCESS = CAPO_M_PROC_USER,
        FIRST_THREAD = CAPO_M_THREAD_RUN,
        FIRST_NODE = CAPO_M_NODE_CPU,
        FIRST_NETIF = CAPO_M_IF_RX,
        FIRST_NIC = CAPO_M_NIC_STATE,
        FIRST_GPU = CAPO_M_GPU_SM,
};

const struct capo_machine_reading capo_machine_readings[CAPO_MACHINE_READINGS] = {
#define READING(id, scope_, name_, source_, key_, unit_, kind_, meaning_) \
        [CAPO_M_##id] = {.name = name_,                                   \
                         .source = source_,                               \
                         .key = key_,                                     \
                         .unit = unit_,                                   \
                         .meaning = meaning_,                             \
                         .scope = CAPO_MACHINE_##scope_,                  \
                         .kind = CAPO_MACHINE_##kind_,                    \
                         .row = CAPO_M_##id - FIRST_##scope_},
#include "capo/machine.def"
};

const char *const capo_machine_scopes[CAPO_MACHINE_SCOPES] = {
        [CAPO_MACHINE_PROCESS] = "process", [CAPO_MACHINE_THREAD] = "thread",
        [CAPO_MACHINE_NODE] = "node",       [CAPO_MACHINE_NETIF] = "netif",
        [CAPO_MACHINE_NIC] = "nic",         [CAPO_MACHINE_GPU] = "gpu",
};

const char *const capo_between_kinds[CAPO_BETWEEN_KINDS] = {
        [CAPO_BETWEEN_RUN] = "run",     [CAPO_BETWEEN_GC] = "gc",
        [CAPO_BETWEEN_READ] = "read",   [CAPO_BETWEEN_WRITE] = "write",
        [CAPO_BETWEEN_FAULT] = "fault", [CAPO_BETWEEN_SLEEP] = "sleep",
        [CAPO_BETWEEN_WAIT] = "wait",   [CAPO_BETWEEN_DEVICE] = "device",
        [CAPO_BETWEEN_OTHER] = "other",
};
