/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recognising machines by their shape: how many GPUs, how they are joined, which generation. The name is what classes
 * of allocations hang on (dgx1v/3-chain), so a rule is added here once and never changed.
 */
#include <string.h>

#include "core/base/util.h"
#include "profiles/machine/topology_build.h"

/* The cube-mesh of the DGX-1: 4 neighbours per GPU; with V100 six bricks per GPU, with P100 four. */
static bool cube_mesh(const struct capo_topology *t, int bricks_per_gpu)
{
        int degree[8] = {0}, bricks[8] = {0};

        if (t->n_gpus != 8 || t->n_switches)
                return false;
        for (size_t i = 0; i < t->n_links; i++) {
                const struct capo_topology_link *l = &t->links[i];

                if (l->end != CAPO_END_GPU || l->kind != CAPO_WIRE_NVLINK)
                        return false;
                degree[l->from]++;
                degree[l->to]++;
                bricks[l->from] += l->count;
                bricks[l->to] += l->count;
        }
        for (int i = 0; i < 8; i++) {
                if (degree[i] != 4 || bricks[i] != bricks_per_gpu)
                        return false;
        }
        return true;
}

static bool all_on_switches(const struct capo_topology *t)
{
        size_t seen = 0;

        for (size_t g = 0; g < t->n_gpus; g++) {
                for (size_t i = 0; i < t->n_links; i++) {
                        if (t->links[i].end == CAPO_END_SWITCH && t->links[i].from == (int)g) {
                                seen++;
                                break;
                        }
                }
        }
        return seen == t->n_gpus;
}

static const char *switched(const struct capo_topology *t)
{
        static const struct {
                size_t gpus;
                int sm_from, sm_to;
                const char *name;
        } boxes[] = {
                {16, 70, 75, "dgx2"},          {8, 80, 80, "dgxa100"},        {16, 80, 80, "hgxa100x16"},
                {8, 90, 90, "hgxh100"},        {8, 100, 109, "hgxb200"},      {4, 100, 109, "gb200"},
                {36, 100, 109, "gb200-nvl36"}, {72, 100, 109, "gb200-nvl72"},
        };

        for (size_t i = 0; i < N_ELEMENTS(boxes); i++) {
                if (boxes[i].gpus == t->n_gpus && t->gpus[0].sm >= boxes[i].sm_from && t->gpus[0].sm <= boxes[i].sm_to)
                        return boxes[i].name;
        }
        return "nvswitch";
}

const char *topology_platform(const struct capo_topology *t)
{
        bool fast = false, xgmi = false;

        for (size_t i = 0; i < t->n_links; i++) {
                if (t->links[i].end != CAPO_END_CPU)
                        fast = true;
                xgmi |= t->links[i].kind == CAPO_WIRE_XGMI;
        }
        if (!fast)
                return "pcie";
        if (all_on_switches(t))
                return switched(t);
        if (cube_mesh(t, 6))
                return "dgx1v";
        if (cube_mesh(t, 4))
                return "dgx1p";
        return xgmi ? "xgmi" : "nvlink";
}
