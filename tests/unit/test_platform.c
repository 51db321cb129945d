/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of platforms.def: each is whole, found by its name, and what its shape is recognised as.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "core/base/util.h"
#include "profiles/machine/platform.h"

Test(platform, rows_are_whole)
{
        const struct capo_platform *p;
        size_t n = 0;

        for (; (p = capo_platform_at(n)); n++) {
                cr_assert(p->n_gpus > 0 && *p->what && *p->source, "%s", p->name);
                cr_assert(!p->mesh != !p->to_switch[0], "%s: a mesh or a switch", p->name);
                cr_assert(!p->mesh || p->n_gpus == CAPO_PLATFORM_GPUS, "%s", p->name);
                cr_assert(capo_wire_kind(CAPO_WIRE_NVLINK, p->sm, 0), "%s: no bandwidth for sm %d",
                          p->name, p->sm);
                cr_assert(p->from != CAPO_PLATFORM_FILE || p->nic_speed > 0, "%s", p->name);
                for (size_t i = 0; i < n; i++)
                        cr_assert_str_neq(p->name, capo_platform_at(i)->name);
        }
        cr_assert_geq(n, 15u);
}

Test(platform, meshes_are_two_way)
{
        const struct capo_platform *p;

        for (size_t n = 0; (p = capo_platform_at(n)); n++) {
                for (int i = 0; p->mesh && i < CAPO_PLATFORM_GPUS; i++) {
                        cr_assert_eq(p->mesh[i][i], 0);
                        for (int k = 0; k < i; k++)
                                cr_assert_eq(p->mesh[i][k], p->mesh[k][i], "%s %d %d", p->name, i,
                                             k);
                }
        }
}

Test(platform, by_name)
{
        char names[512];

        cr_assert_str_eq(capo_platform_find("DGX1V")->name, "dgx1v");
        cr_assert_null(capo_platform_find("nosuch"));
        cr_assert_null(capo_platform_find("hgxa100x16"), "nothing describes it");
        capo_platform_names(false, names, sizeof names);
        cr_assert(!strncmp(names, " dgx1p dgx1v ", 13) && !strstr(names, "nvl72") &&
                  !strstr(names, "x16"));
        cr_assert(strstr(capo_platform_names(true, names, sizeof names), " gb200-nvl72"));
        capo_platform_names(true, names, 8);
        cr_assert_lt(strlen(names), 8u);
}

Test(platform, wires)
{
        cr_assert_float_eq(capo_wire_kind(CAPO_WIRE_NVLINK, 70, 0)->gbs, 20, 1e-9);
        cr_assert_float_eq(capo_wire_kind(CAPO_WIRE_NVLINK, 75, 0)->gbs, 20, 1e-9);
        cr_assert_float_eq(capo_wire_kind(CAPO_WIRE_XGMI, 0, 908)->gbs, 24, 1e-9);
        cr_assert_null(capo_wire_kind(CAPO_WIRE_NVLINK, 0, 908));
        cr_assert_null(capo_wire_kind(CAPO_WIRE_C2C, 90, 0));
        cr_assert_not(capo_wire_kind(CAPO_WIRE_NVLINK, 80, 0)->adds);
        cr_assert(capo_wire_kind(CAPO_WIRE_NVLINK, 90, 0)->adds);
}

/* Machines made of nothing but GPUs and links. */
struct made {
        struct capo_topology t;
        struct capo_topology_gpu gpus[16];
        struct capo_topology_link links[64];
        struct capo_topology_switch one;
};

static const char *recognised(struct made *m)
{
        m->t.gpus = m->gpus;
        m->t.links = m->links;
        return capo_platform_recognise(&m->t);
}

static void switched(struct made *m, int n, int sm)
{
        *m = (struct made){.t = {.n_gpus = (size_t)n, .n_links = (size_t)n, .n_switches = 1}};
        m->t.switches = &m->one;
        for (int i = 0; i < n; i++) {
                m->gpus[i].sm = sm;
                m->links[i] =
                        (struct capo_topology_link){.end = CAPO_END_SWITCH, .from = i, .count = 1};
        }
}

static void meshed(struct made *m, const uint8_t (*mesh)[8])
{
        *m = (struct made){.t = {.n_gpus = 8}};
        for (int i = 0; i < 8; i++) {
                for (int k = i + 1; k < 8; k++) {
                        if (mesh[i][k])
                                m->links[m->t.n_links++] =
                                        (struct capo_topology_link){.end = CAPO_END_GPU,
                                                                    .from = i,
                                                                    .to = k,
                                                                    .count = mesh[i][k]};
                }
        }
}

Test(platform, by_shape)
{
        static const struct {
                int gpus, sm;
                const char *name;
        } boxes[] = {{16, 70, "dgx2"},       {16, 75, "dgx2"},   {8, 80, "dgxa100"},
                     {16, 80, "hgxa100x16"}, {8, 90, "hgxh100"}, {8, 100, "hgxb200"},
                     {8, 103, "hgxb200"},    {4, 100, "gb200"},  {6, 90, "nvswitch"},
                     {8, 70, "nvswitch"}};
        struct made m;

        for (size_t i = 0; i < N_ELEMENTS(boxes); i++) {
                switched(&m, boxes[i].gpus, boxes[i].sm);
                cr_assert_str_eq(recognised(&m), boxes[i].name, "%d GPUs, sm %d: %s", boxes[i].gpus,
                                 boxes[i].sm, recognised(&m));
        }
        m.links[0].end = CAPO_END_CPU;
        cr_assert_str_eq(recognised(&m), "nvlink", "one GPU is not on the switch");
        meshed(&m, capo_platform_find("dgx1v")->mesh);
        cr_assert_str_eq(recognised(&m), "dgx1v");
        m.links[0].count++;
        cr_assert_str_eq(recognised(&m), "nvlink");
        meshed(&m, capo_platform_find("dgx1p")->mesh);
        cr_assert_str_eq(recognised(&m), "dgx1p");
        m.links[3].kind = CAPO_WIRE_XGMI;
        cr_assert_str_eq(recognised(&m), "xgmi");
        m.t.n_links = 0;
        cr_assert_str_eq(recognised(&m), "pcie");
}
