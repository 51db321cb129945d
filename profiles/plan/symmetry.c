/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the automorphisms of a machine by backtracking: each GPU gets an image that agrees with all
 * pairs placed so far. With eight to sixteen GPUs and a few distances, few branches remain. */
#include "core/base/xalloc.h"
#include "profiles/plan/symmetry.h"

enum { GPUS = 32, MAPS = 40320 };

struct search {
        const struct capo_topology *t;
        uint32_t pair[GPUS][GPUS]; /* all properties of a pair of GPUs; [i][i]: of one */
        struct capo_symmetry *out;
        uint8_t map[GPUS];
        uint32_t used;
};

static void describe_pairs(struct search *s)
{
        const struct capo_topology *t = s->t;

        for (size_t a = 0; a < t->n_gpus; a++) {
                for (size_t b = 0; b < t->n_gpus; b++)
                        s->pair[a][b] =
                                a == b ? (uint32_t)t->gpus[a].sm << 8 | (uint32_t)t->gpus[a].gdr
                                       : t->gpu_path[a * t->n_gpus + b];
        }
        for (size_t i = 0; i < t->n_links; i++) {
                const struct capo_topology_link *l = &t->links[i];

                if (l->end == CAPO_END_GPU) {
                        s->pair[l->from][l->to] += (uint32_t)l->count << 16;
                        s->pair[l->to][l->from] += (uint32_t)l->count << 16;
                } else {
                        s->pair[l->from][l->from] += (uint32_t)l->count
                                                     << (l->end == CAPO_END_SWITCH ? 16 : 24);
                }
        }
}

/* Every NIC needs a counterpart at the same distances from the images. */
static bool nics_follow(const struct search *s)
{
        const struct capo_topology *t = s->t;
        uint64_t taken = 0;

        if (t->n_nics > 64)
                return false;
        for (size_t a = 0; a < t->n_nics; a++) {
                size_t b;

                for (b = 0; b < t->n_nics; b++) {
                        bool same = !(taken & 1ull << b) && t->nics[a].gbs == t->nics[b].gbs &&
                                    t->nics[a].gdr == t->nics[b].gdr;

                        for (size_t g = 0; g < t->n_gpus && same; g++)
                                same = t->nic_path[g * t->n_nics + a] ==
                                       t->nic_path[(size_t)s->map[g] * t->n_nics + b];
                        if (same)
                                break;
                }
                if (b == t->n_nics)
                        return false;
                taken |= 1ull << b;
        }
        return true;
}

static void map_gpus(struct search *s, size_t gpu)
{
        if (s->out->n_maps == MAPS)
                return;
        if (gpu == s->t->n_gpus) {
                if (!nics_follow(s))
                        return;
                xarray_room(&s->out->maps, s->out->n_maps, sizeof *s->out->maps);
                memcpy(s->out->maps[s->out->n_maps++], s->map, sizeof s->map);
                return;
        }
        for (uint8_t image = 0; image < s->t->n_gpus; image++) {
                bool fits = !(s->used & 1u << image) && s->pair[gpu][gpu] == s->pair[image][image];

                for (size_t before = 0; before < gpu && fits; before++)
                        fits = s->pair[gpu][before] == s->pair[image][s->map[before]];
                if (!fits)
                        continue;
                s->map[gpu] = image;
                s->used |= 1u << image;
                map_gpus(s, gpu + 1);
                s->used &= ~(1u << image);
        }
}

int capo_symmetry_find(const struct capo_topology *t, struct capo_symmetry *out)
{
        struct search s = {.t = t, .out = out};

        *out = (struct capo_symmetry){.n_gpus = t->n_gpus};
        if (t->n_gpus > GPUS)
                return -E2BIG;
        describe_pairs(&s);
        map_gpus(&s, 0);
        return 0;
}

uint32_t capo_symmetry_least(const struct capo_symmetry *s, uint32_t set)
{
        uint32_t least = set;

        for (size_t m = 0; m < s->n_maps; m++) {
                uint32_t image = 0;

                for (size_t g = 0; g < s->n_gpus; g++) {
                        if (set & 1u << g)
                                image |= 1u << s->maps[m][g];
                }
                if (image < least)
                        least = image;
        }
        return least;
}
