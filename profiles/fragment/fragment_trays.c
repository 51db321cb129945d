/* SPDX-License-Identifier: Apache-2.0 */
#include "capo/msg.h"
#include "core/base/text.h"
#include "core/base/xalloc.h"
#include "profiles/fragment/fragment_trays.h"

int fragment_trays_join(const struct fragment_machine *m, const struct capo_alloc *a,
                        struct fragment_trays *out, char *why, size_t room)
{
        int each = (int)m->t->n_gpus, r;

        *out = (struct fragment_trays){.machine = *m};
        r = capo_topology_read_trays(m->topo, a->n_nodes < m->domain ? a->n_nodes : m->domain,
                                     m->t->brick_gbs, &out->t, why, room);
        if (r < 0)
                return r;
        if (!out->t->n_links)
                return capo_why(
                        -EINVAL, why, room,
                        "%s: expected NVLinks of each GPU, which join the trays; found none",
                        m->topo);
        out->machine.t = out->t;
        out->machine.tray = m->t;
        out->a.n_ranks = a->n_ranks;
        out->a.n_nodes = (a->n_nodes + m->domain - 1) / m->domain;
        out->a.ranks = xcalloc((size_t)a->n_ranks + 1, sizeof *out->a.ranks);
        for (int i = 0; i < a->n_ranks; i++)
                out->a.ranks[i] = (struct capo_alloc_rank){a->ranks[i].node / m->domain,
                                                           a->ranks[i].node % m->domain * each +
                                                                   a->ranks[i].gpu};
        return 0;
}

void fragment_trays_free(struct fragment_trays *trays)
{
        capo_topology_free(trays->t);
        capo_alloc_free(&trays->a);
        memset(trays, 0, sizeof *trays);
}

struct capo_plan_gpu fragment_trays_gpu(const struct fragment_machine *m, int node, int gpu)
{
        int each = (int)m->tray->n_gpus;

        return (struct capo_plan_gpu){(uint16_t)(node * m->domain + gpu / each),
                                      (uint16_t)m->tray->gpus[gpu % each].dev};
}

void fragment_trays_number(const struct fragment_machine *m, struct capo_plan_answer *answer)
{
        enum { PATH = sizeof *answer->graphs->paths };

        for (size_t g = 0; g < answer->n_graphs; g++) {
                for (size_t p = 0; p < answer->graphs[g].n_paths; p++) {
                        char *path = answer->graphs[g].paths[p], old[PATH], *save = NULL;

                        memcpy(old, path, sizeof old);
                        *path = 0;
                        for (char *word = strtok_r(old, " ", &save); word;
                             word = strtok_r(NULL, " ", &save)) {
                                bool net = !strncmp(word, "net", 3);
                                char *dev;
                                long tray = strtol(word + (net ? 3 : 0), &dev, 10), at;

                                at = strtol(dev + (*dev == ':'), NULL, 10);
                                if (!net)
                                        at = capo_topology_gpu_by_dev(m->tray, (int)at);
                                at += tray * (long)(net ? m->tray->n_nics : m->tray->n_gpus);
                                capo_append(path, PATH, "%s%s%ld", *path ? " " : "",
                                            net ? "net" : "", at);
                        }
                }
        }
}
