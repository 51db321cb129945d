/* SPDX-License-Identifier: Apache-2.0 */
/* The machines that capo knows by name: one row each. */
#include <strings.h>

#include "core/base/util.h"
#include "profiles/plan/plan.h"
#include "profiles/plan/platform.h"

/* DGX-1 with V100: 6 NVLinks per GPU; counts as in a dump of the machine (profiles/data/topologies/dgx1v.xml). */
static const uint8_t cube_v100[8][8] = {
        {0, 1, 1, 2, 2, 0, 0, 0}, {1, 0, 2, 1, 0, 2, 0, 0}, {1, 2, 0, 2, 0, 0, 1, 0}, {2, 1, 2, 0, 0, 0, 0, 1},
        {2, 0, 0, 0, 0, 1, 1, 2}, {0, 2, 0, 0, 1, 0, 2, 1}, {0, 0, 1, 0, 1, 2, 0, 2}, {0, 0, 0, 1, 2, 1, 2, 0},
};

/* DGX-1 with P100: 4 NVLinks per GPU, both quads fully connected, each GPU to its counterpart. */
static const uint8_t cube_p100[8][8] = {
        {0, 1, 1, 1, 1, 0, 0, 0}, {1, 0, 1, 1, 0, 1, 0, 0}, {1, 1, 0, 1, 0, 0, 1, 0}, {1, 1, 1, 0, 0, 0, 0, 1},
        {1, 0, 0, 0, 0, 1, 1, 1}, {0, 1, 0, 0, 1, 0, 1, 1}, {0, 0, 1, 0, 1, 1, 0, 1}, {0, 0, 0, 1, 1, 1, 1, 0},
};

#define NVSWITCH_A100            \
        {                        \
                2, 2, 2, 2, 2, 2 \
        }
#define NVSWITCH_H100      \
        {                  \
                5, 4, 4, 5 \
        }
#define NVSWITCH_B200 \
        {             \
                9, 9  \
        }

static const struct plan_platform platforms[] = {
        {.name = "dgx1p",
         .what = "DGX-1, 8 P100, hybrid cube mesh of NVLink 1, 4 x 100 Gb/s",
         .n_gpus = 8,
         .sm = 60,
         .nic_speed = 100000,
         .mesh = cube_p100,
         .source = "NVIDIA DGX-1 white paper (2017), figure of the hybrid cube mesh"},
        {.name = "dgx1v",
         .what = "DGX-1, 8 V100, hybrid cube mesh of NVLink 2, 4 x 100 Gb/s",
         .n_gpus = 8,
         .sm = 70,
         .nic_speed = 100000,
         .mesh = cube_v100,
         .source = "NCCL dump of a DGX-1V (UC Berkeley blinkplus)"},
        {.name = "dgx2",
         .what = "DGX-2, 16 V100, NVSwitch, 8 x 100 Gb/s",
         .n_gpus = 16,
         .sm = 70,
         .nic_speed = 100000,
         .to_switch = {1, 1, 1, 1, 1, 1},
         .source = "hwloc test suite nvidiaDGX2 (PCI tree); NVIDIA DGX-2 data sheet"},
        {.name = "dgxa100",
         .what = "DGX A100, 8 A100, NVSwitch, 8 x 200 Gb/s",
         .n_gpus = 8,
         .sm = 80,
         .nic_speed = 200000,
         .to_switch = NVSWITCH_A100,
         .source = "NVIDIA DGX A100 system architecture white paper"},
        {.name = "p4d",
         .what = "AWS p4d.24xlarge / p4de, 8 A100, NVSwitch, 4 x 100 Gb/s EFA",
         .n_gpus = 8,
         .sm = 80,
         .nic_speed = 100000,
         .to_switch = NVSWITCH_A100,
         .source = "aws-ofi-nccl topology file (PCI tree)"},
        {.name = "p5",
         .what = "AWS p5.48xlarge, 8 H100, NVSwitch, 32 x 100 Gb/s EFA",
         .n_gpus = 8,
         .sm = 90,
         .nic_speed = 100000,
         .to_switch = NVSWITCH_H100,
         .source = "aws-ofi-nccl topology file (PCI tree)",
         .unlike = "aws-ofi-nccl groups the four NICs of a GPU into one device of 400 Gb/s; here they are four"},
        {.name = "ndv4",
         .what = "Azure ND A100 v4, 8 A100, NVSwitch, 8 x 200 Gb/s",
         .n_gpus = 8,
         .sm = 80,
         .nic_speed = 200000,
         .to_switch = NVSWITCH_A100,
         .source = "Azure azhpc-images topology file (PCI tree)"},
        {.name = "ndv5",
         .what = "Azure ND H100 v5, 8 H100, NVSwitch, 8 x 400 Gb/s",
         .n_gpus = 8,
         .sm = 90,
         .nic_speed = 400000,
         .to_switch = NVSWITCH_H100,
         .source = "Azure azhpc-images topology file (PCI tree)"},
        {.name = "hgxh100",
         .what = "HGX H100, 8 H100, 4 NVSwitches, 8 x 400 Gb/s",
         .n_gpus = 8,
         .sm = 90,
         .nic_speed = 400000,
         .to_switch = NVSWITCH_H100,
         .source = "NVIDIA DGX H100 system architecture; NVLink status of a real machine"},
        {.name = "hgxh200",
         .what = "HGX H200, 8 H200, 4 NVSwitches, 8 x 400 Gb/s",
         .n_gpus = 8,
         .sm = 90,
         .nic_speed = 400000,
         .to_switch = NVSWITCH_H100,
         .source = "as hgxh100: NCCL sees the same links"},
        {.name = "hgxb200",
         .what = "HGX B200, 8 B200, 2 NVSwitches of NVLink 5, 8 x 400 Gb/s",
         .n_gpus = 8,
         .sm = 100,
         .nic_speed = 400000,
         .to_switch = NVSWITCH_B200,
         .source = "NVIDIA DGX B200 data sheet (18 NVLink 5 per GPU)",
         .unlike = "the PCI tree is written from the public block diagram, not dumped"},
        {.name = "gb200",
         .what = "one compute tray of GB200 NVL72: 4 B200, NVSwitch, 4 x 400 Gb/s",
         .n_gpus = 4,
         .sm = 100,
         .nic_speed = 400000,
         .to_switch = NVSWITCH_B200,
         .source = "NVIDIA GB200 NVL72 reference",
         .unlike = "NVLink between trays (MNNVL) is not modelled: trays talk over their NICs"},
};

const struct plan_platform *plan_platform_at(size_t i)
{
        return i < N_ELEMENTS(platforms) ? &platforms[i] : NULL;
}

const struct plan_platform *plan_platform_find(const char *name)
{
        for (size_t i = 0; i < N_ELEMENTS(platforms); i++) {
                if (!strcasecmp(platforms[i].name, name))
                        return &platforms[i];
        }
        return NULL;
}

const char *capo_plan_platform_what(size_t i, const char **name)
{
        const struct plan_platform *p = plan_platform_at(i);

        if (p)
                *name = p->name;
        return p ? p->what : NULL;
}
