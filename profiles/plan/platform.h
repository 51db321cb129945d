/* SPDX-License-Identifier: Apache-2.0 */
/* What a topology file may leave to the driver: NVLinks, compute capability, the speed of NICs. By name of the machine.
 */
#ifndef CAPO_PLAN_PLATFORM_H
#define CAPO_PLAN_PLATFORM_H

#include <stddef.h>
#include <stdint.h>

enum { PLAN_PLATFORM_GPUS = 16, PLAN_PLATFORM_SWITCHES = 6 };

struct plan_platform {
        const char *name;
        const char *what; /* for people */
        int n_gpus, sm;
        int nic_speed; /* Mb/s */
        /* NVLinks of one GPU to each NVSwitch, 0-terminated; all 0: the GPUs are wired to each other by `mesh` */
        uint8_t to_switch[PLAN_PLATFORM_SWITCHES + 1];
        const uint8_t (*mesh)[8];
        const char *source; /* where this is from */
        const char *unlike; /* what is not modelled; NULL nothing that matters to NCCL's choice */
};

/** plan_platform_find() - by name, case ignored; NULL when there is none. */
const struct plan_platform *plan_platform_find(const char *name);

/** plan_platform_at() - the i-th, NULL after the last. */
const struct plan_platform *plan_platform_at(size_t i);

#endif
