/* SPDX-License-Identifier: Apache-2.0 */
/* Parses allocations from command lines and schedulers. */
#include "capo/msg.h"
#include "core/base/xalloc.h"
#include "profiles/fragment/fragment.h"
#include "profiles/machine/gpus.h"

void capo_alloc_free(struct capo_alloc *a)
{
        free(a->ranks);
        memset(a, 0, sizeof *a);
}

void capo_alloc_gpus(const int *gpus, int n, struct capo_alloc *out)
{
        *out = (struct capo_alloc){
                .n_ranks = n, .n_nodes = 1, .ranks = xcalloc((size_t)n + 1, sizeof *out->ranks)};
        for (int i = 0; i < n; i++)
                out->ranks[i].gpu = gpus[i];
}

void capo_alloc_layout(const struct capo_alloc *a, struct capo_layout *out)
{
        *out = (struct capo_layout){0};
        for (int i = 0, n; i < a->n_ranks; i += n) {
                for (n = 1; i + n < a->n_ranks && a->ranks[i + n].node == a->ranks[i].node;)
                        n++;
                capo_layout_add(out, (uint32_t)n, 1);
        }
}

static int find_busid(const void *topology, const char *text)
{
        return capo_topology_gpu_by_busid(topology, text);
}

int capo_alloc_parse(const struct capo_topology *t, const char *text, bool counts,
                     struct capo_alloc *out, char *why, size_t room)
{
        _cleanup_free_ uint16_t *devs = xmalloc((t->n_gpus + 1) * sizeof *devs);
        struct capo_gpus_of of = {t->name, devs, t->n_gpus, 4096, find_busid, t};
        struct capo_gpu_place *places;
        struct capo_alloc a = {0};
        char plain[1024];
        size_t n = strlen(text), any = strlen(CAPO_LAYOUT_ANY);
        int e;

        if (n > any && n - any < sizeof plain && !strcmp(text + n - any, CAPO_LAYOUT_ANY)) {
                snprintf(plain, sizeof plain, "%.*s", (int)(n - any), text);
                text = plain;
                a.any_order = true;
        }

        for (size_t i = 0; i < t->n_gpus; i++)
                devs[i] = (uint16_t)t->gpus[i].dev;
        e = capo_gpus_parse(text, counts, &of, &places, &n, why, room);
        if (e < 0)
                return e;
        a.ranks = xcalloc(n + 1, sizeof *a.ranks);
        a.n_ranks = (int)n;
        /* machines are numbered in the order of appearance; the user's numbers only identify them */
        for (size_t i = 0; i < n && e == 0; i++) {
                bool new = !i || places[i].node != places[i - 1].node;

                for (size_t k = 0; new &&k < i; k++) {
                        if (places[k].node == places[i].node)
                                e = -EINVAL;
                }
                a.n_nodes += new;
                a.ranks[i] = (struct capo_alloc_rank){a.n_nodes - 1, places[i].gpu};
                if (e < 0)
                        capo_why(e, why, room, "allocation \"%.80s\": machine %d is there twice",
                                 text, places[i].node);
        }
        free(places);
        if (e < 0)
                capo_alloc_free(&a);
        else
                *out = a;
        return e;
}
