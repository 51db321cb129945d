/* SPDX-License-Identifier: Apache-2.0 */
/* Finds rows of platforms.def: by name, by shape, by generation of links. */

#include "core/base/among.h"
#include "core/base/text.h"
#include "profiles/machine/platform.h"

/* DGX-1 with V100: 6 NVLinks per GPU; counts as in a dump of the machine
 * (profiles/data/topologies.py). */
static const uint8_t cube_v100[8][8] = {
        {0, 1, 1, 2, 2, 0, 0, 0}, {1, 0, 2, 1, 0, 2, 0, 0}, {1, 2, 0, 2, 0, 0, 1, 0},
        {2, 1, 2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 1, 1, 2}, {0, 2, 0, 0, 1, 0, 2, 1},
        {0, 0, 1, 0, 1, 2, 0, 2}, {0, 0, 0, 1, 2, 1, 2, 0},
};

/* DGX-1 with P100: 4 NVLinks per GPU; both quads fully connected, and each GPU connected to its
 * counterpart. */
static const uint8_t cube_p100[8][8] = {
        {0, 1, 1, 1, 1, 0, 0, 0}, {1, 0, 1, 1, 0, 1, 0, 0}, {1, 1, 0, 1, 0, 0, 1, 0},
        {1, 1, 1, 0, 0, 0, 0, 1}, {1, 0, 0, 0, 0, 1, 1, 1}, {0, 1, 0, 0, 1, 0, 1, 1},
        {0, 0, 1, 0, 1, 1, 0, 1}, {0, 0, 0, 1, 1, 1, 1, 0},
};

static const struct capo_platform platforms[] = {
#define MESH(table)                   .mesh = table
#define SWITCH(...)                   .to_switch = {__VA_ARGS__}
#define RACK_OF(links, tray_, trays_) .to_switch = {links}, .tray = tray_, .trays = trays_
#define PLATFORM(name_, from_, classes_, gpus, sm_, nic, wiring, what_, source_, unlike_) \
        {.name = name_,                                                                   \
         .from = CAPO_PLATFORM_##from_,                                                   \
         .classes = classes_,                                                             \
         .n_gpus = gpus,                                                                  \
         .sm = sm_,                                                                       \
         .nic_speed = nic,                                                                \
         wiring,                                                                          \
         .what = what_,                                                                   \
         .source = source_,                                                               \
         .unlike = unlike_},
#include "profiles/machine/platforms.def"
};

static const struct capo_wire_kind wires[] = {
#define WIRE(wire, from, to, gbs, source, adds, measured, measured_in) \
        {CAPO_WIRE_##wire, from, to, gbs, source, adds, measured, measured_in},
#include "profiles/machine/platforms.def"
};

const struct capo_platform *capo_platform_at(size_t i)
{
        return i < N_ELEMENTS(platforms) ? &platforms[i] : NULL;
}

const struct capo_platform *capo_platform_find(const char *name)
{
        return FIRST_OF(p, platforms, N_ELEMENTS(platforms),
                        p->from != CAPO_PLATFORM_SHAPE && !strcasecmp(p->name, name));
}

char *capo_platform_names(bool racks, char *text, size_t room)
{
        *text = 0;
        for (size_t i = 0; i < N_ELEMENTS(platforms); i++) {
                if (platforms[i].from == CAPO_PLATFORM_FILE ||
                    (racks && platforms[i].from == CAPO_PLATFORM_RACK))
                        capo_append(text, room, " %s", platforms[i].name);
        }
        return text;
}

const struct capo_wire_kind *capo_wire_kind(enum capo_wire wire, int sm, int gcn)
{
        int key = wire == CAPO_WIRE_XGMI ? gcn : sm;

        return FIRST_OF(w, wires, N_ELEMENTS(wires),
                        w->wire == wire && key >= w->from && key <= w->to);
}

double capo_brick_measured_gbs(const struct capo_topology *t, const char **source)
{
        const struct capo_wire_kind *wire = NULL;

        if (t->n_gpus && t->n_links && t->links[0].kind == CAPO_WIRE_NVLINK)
                wire = capo_wire_kind(CAPO_WIRE_NVLINK, t->gpus[0].sm, 0);
        if (wire)
                *source = wire->measured_in;
        return wire ? wire->measured_gbs : 0;
}

/* --- by shape --- */

/* Has each GPU as many NVLinks, to as many others, as in the table? The cube meshes of the DGX-1
 * are regular, and no other machine of their size has these numbers. */
static bool is_mesh(const struct capo_topology *t, const struct capo_platform *p)
{
        int degree[CAPO_PLATFORM_GPUS] = {0}, bricks[CAPO_PLATFORM_GPUS] = {0};

        if (t->n_switches)
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
        for (int i = 0; i < CAPO_PLATFORM_GPUS; i++) {
                for (int k = 0; k < CAPO_PLATFORM_GPUS; k++) {
                        degree[i] -= p->mesh[i][k] > 0;
                        bricks[i] -= p->mesh[i][k];
                }
                if (degree[i] || bricks[i])
                        return false;
        }
        return true;
}

const char *capo_platform_recognise(const struct capo_topology *t)
{
        bool switched = ALL_OF(g, t->gpus, t->n_gpus,
                               ANY_OF(l, t->links, t->n_links,
                                      l->end == CAPO_END_SWITCH && l->from == g - t->gpus));

        if (ALL_OF(l, t->links, t->n_links, l->end == CAPO_END_CPU))
                return "pcie";
        for (size_t i = 0; i < N_ELEMENTS(platforms); i++) {
                const struct capo_platform *p = &platforms[i];

                if ((size_t)p->n_gpus != t->n_gpus)
                        continue;
                /* generations: 70 to 75, 100 to 109; for a mesh the number of links tells it */
                if (p->mesh ? !switched && is_mesh(t, p)
                            : switched && p->sm / 10 == t->gpus[0].sm / 10)
                        return p->classes;
        }
        return switched                                                     ? "nvswitch"
               : ANY_OF(l, t->links, t->n_links, l->kind == CAPO_WIRE_XGMI) ? "xgmi"
                                                                            : "nvlink";
}
