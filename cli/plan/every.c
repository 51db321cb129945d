/* SPDX-License-Identifier: Apache-2.0 */
/*
 * capo plan --every: the atlas of a machine. Every subset of k GPUs is a question of its own; subsets that NCCL treats
 * alike, figure for figure, are one line. For two nodes (3+5) all pairs of subsets are meant: those that the symmetry
 * of the machine makes equal are asked once, unless --all.
 */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capo/msg.h"
#include "cli/base/cli.h"
#include "cli/plan/plan.h"
#include "core/base/calls.h"
#include "core/base/size.h"
#include "core/base/util.h"
#include "profiles/fragment/atlas.h"
#include "profiles/plan/symmetry.h"

struct cell { /* what NCCL does with one ask */
        uint8_t algo, proto, channels;
        double us, busbw;
};

struct place {           /* an allocation, and what became of it */
        uint32_t set[2]; /* bit i: i-th GPU of the machine */
        uint32_t stands_for;
        struct capo_plan_gpu *gpus;
        size_t n_gpus;
        int rc;
        int nodes; /* as NCCL counts */
        char ring[64], tree[64];
        struct cell *cells;
        struct fragment_bound bound; /* class and ceilings; class "" where the file has no links */
        size_t group;
        char why[256];
};

struct atlas {
        struct plan_options *o;
        struct place *places;
        size_t n_places, room, n_all, done;
        int version;
        double wall_ms;
        size_t *group_first; /* index of the first place of each group */
        size_t n_groups;
        bool symmetric;
};

static int add(struct atlas *a, uint32_t one, uint32_t two, uint32_t stands_for)
{
        const struct plan_options *o = a->o;
        struct place *p;

        if (a->n_places == a->room) {
                size_t more = a->room ? a->room * 2 : 64;

                p = reallocarray(a->places, more, sizeof *p);
                if (!p)
                        return -ENOMEM;
                a->places = p;
                a->room = more;
        }
        p = &a->places[a->n_places++];
        *p = (struct place){.set = {one, two}, .stands_for = stands_for, .rc = -ECANCELED};
        p->gpus = calloc((size_t)(o->every + o->every_2), sizeof *p->gpus);
        p->cells = calloc(o->n_asks, sizeof *p->cells);
        if (!p->gpus || !p->cells)
                return -ENOMEM;
        for (int node = 0; node < 2; node++) {
                for (size_t g = 0; g < o->n_devs; g++) {
                        if (p->set[node] & 1u << g)
                                p->gpus[p->n_gpus++] = (struct capo_plan_gpu){(uint16_t)node, o->devs[g]};
                }
        }
        return 0;
}

/* The next set with as many bits, above @set (Gosper). */
static uint64_t next_set(uint64_t set)
{
        uint64_t low = set & (~set + 1), ripple = set + low;

        return ripple | (((set ^ ripple) >> 2) / low);
}

static int subsets(const struct plan_options *o, int k, uint32_t **out, size_t *n)
{
        uint64_t end = 1ull << o->n_devs;
        size_t room = 0;

        *n = 0;
        *out = NULL;
        for (uint64_t set = (1ull << k) - 1; set < end; set = next_set(set)) {
                if (*n == room) {
                        uint32_t *p = reallocarray(*out, room = room ? room * 4 : 64, sizeof *p);

                        if (!p)
                                return -ENOMEM;
                        *out = p;
                }
                (*out)[(*n)++] = (uint32_t)set;
                if (*n > 1000000)
                        return -E2BIG;
        }
        return 0;
}

/* Sets that no symmetry maps to a smaller one, and for how many each stands. */
static int orbits(const struct plan_options *o, int k, const struct capo_symmetry *s, uint32_t **sets,
                  uint32_t **counts, size_t *n)
{
        _cleanup_free_ uint32_t *all = NULL;
        size_t n_all;
        int r = subsets(o, k, &all, &n_all);

        *n = 0;
        *sets = calloc(n_all + 1, sizeof **sets);
        *counts = calloc(n_all + 1, sizeof **counts);
        if (r < 0 || !*sets || !*counts)
                return r < 0 ? r : -ENOMEM;
        for (size_t i = 0; i < n_all; i++) {
                uint32_t least = capo_symmetry_least(s, all[i]);
                size_t at = 0;

                while (at < *n && (*sets)[at] != least)
                        at++;
                if (at == *n)
                        (*sets)[(*n)++] = least;
                (*counts)[at]++;
        }
        return 0;
}

static int list_places(struct atlas *a)
{
        struct plan_options *o = a->o;
        struct capo_symmetry symmetry = {.n_gpus = o->n_devs};
        struct capo_topology *t = NULL;
        uint32_t *sets[2] = {NULL, NULL}, *counts[2] = {NULL, NULL};
        size_t n[2] = {1, 1};
        char why[512];
        int r = 0;

        /* GPU numbers in the topology are sorted, as ours are */
        if (o->every_2 && !o->all && o->n_topo == 1) {
                r = capo_topology_read_nccl(o->topo[0], 0, 0, &t, why, sizeof why);
                if (r == 0 && t->n_gpus == o->n_devs)
                        r = capo_symmetry_find(t, &symmetry);
                if (r == 0)
                        a->symmetric = symmetry.n_maps > 1;
        }
        for (int k = 0; k < (o->every_2 ? 2 : 1) && r != -ENOMEM; k++)
                r = orbits(o, k ? o->every_2 : o->every, &symmetry, &sets[k], &counts[k], &n[k]);
        for (size_t i = 0; i < n[0] && r == 0; i++) {
                for (size_t k = 0; k < (o->every_2 ? n[1] : 1) && r == 0; k++) {
                        uint32_t stands = counts[0][i] * (o->every_2 ? counts[1][k] : 1);

                        /* 4+4: the nodes themselves can be exchanged */
                        if (o->every == o->every_2 && !o->all && sets[1][k] < sets[0][i])
                                continue;
                        if (o->every == o->every_2 && !o->all && sets[1][k] != sets[0][i])
                                stands *= 2;
                        a->n_all += stands;
                        r = add(a, sets[0][i], o->every_2 ? sets[1][k] : 0, stands);
                }
        }
        for (int k = 0; k < 2; k++) {
                free(sets[k]);
                free(counts[k]);
        }
        capo_symmetry_finish(&symmetry);
        capo_topology_free(t);
        return r;
}

static void graph_text(const struct capo_plan_graph *g, char *text, size_t room)
{
        bool leaves = g && g->n_paths && strstr(g->paths[0], "net");

        if (!g)
                snprintf(text, room, "-");
        else if (leaves)
                snprintf(text, room, "%d x %g %s, %s", g->n_channels, g->speed_inter, g->type_intra, g->type_inter);
        else
                snprintf(text, room, "%d x %g %s", g->n_channels, g->speed_intra, g->type_intra);
}

static int take(size_t i, int rc, struct capo_plan_answer *answer, const char *why, void *arg)
{
        struct atlas *a = arg;
        struct place *p = &a->places[i];

        p->rc = rc;
        snprintf(p->why, sizeof p->why, "%s", why);
        a->done++;
        if (isatty(2))
                fprintf(stderr, "\r%zu of %zu asked\033[K%s", a->done, a->n_places,
                        a->done == a->n_places ? "\r\033[K" : "");
        if (rc < 0)
                return rc == -ENOEXEC || rc == -ENOENT || rc == -EINTR ? rc : 0; /* no use in asking on */
        a->version = answer->version;
        a->wall_ms += answer->wall_ms;
        p->nodes = answer->told.n_nodes;
        graph_text(plan_graph_find(answer, 0), p->ring, sizeof p->ring);
        graph_text(plan_graph_find(answer, 1), p->tree, sizeof p->tree);
        for (size_t k = 0; k < answer->n_rows; k++) {
                const struct capo_plan_row *row = &answer->rows[k];

                p->cells[k] = (struct cell){row->algo, row->proto, row->channels, row->us, row->busbw_gbs};
        }
        return 0;
}

static bool alike(const struct atlas *a, const struct place *x, const struct place *y)
{
        if (x->rc != y->rc || x->nodes != y->nodes || strcmp(x->ring, y->ring) != 0 || strcmp(x->tree, y->tree) != 0)
                return false;
        for (size_t k = 0; k < a->o->n_asks; k++) {
                const struct cell *c = &x->cells[k], *d = &y->cells[k];
                bool same_us = isnan(c->us) ? isnan(d->us) : c->us == d->us;

                if (c->algo != d->algo || c->proto != d->proto || c->channels != d->channels || !same_us)
                        return false;
        }
        return true;
}

/* Fastest group first, by the last size asked. */
static struct atlas *sorting;
static int by_speed(const void *x, const void *y)
{
        const struct place *p = &sorting->places[*(const size_t *)x], *q = &sorting->places[*(const size_t *)y];
        double u = p->rc ? INFINITY : p->cells[sorting->o->n_asks - 1].us;
        double v = q->rc ? INFINITY : q->cells[sorting->o->n_asks - 1].us;

        if (isnan(u) || isnan(v) || u == v)
                return *(const size_t *)x < *(const size_t *)y ? -1 : 1;
        return u < v ? -1 : 1;
}

static int group(struct atlas *a)
{
        a->group_first = calloc(a->n_places, sizeof *a->group_first);
        if (!a->group_first)
                return -ENOMEM;
        for (size_t i = 0; i < a->n_places; i++) {
                size_t g = 0;

                while (g < a->n_groups && !alike(a, &a->places[i], &a->places[a->group_first[g]]))
                        g++;
                if (g == a->n_groups)
                        a->group_first[a->n_groups++] = i;
        }
        sorting = a;
        qsort(a->group_first, a->n_groups, sizeof *a->group_first, by_speed);
        for (size_t i = 0; i < a->n_places; i++) {
                while (!alike(a, &a->places[i], &a->places[a->group_first[a->places[i].group]]))
                        a->places[i].group++;
        }
        return 0;
}

/* Classes and ceilings: every allocation of one node; of two nodes, where one takes longer, those that are shown first.
 */
static void bounds(struct atlas *a)
{
        struct capo_topology *t = NULL;
        char why[512];

        if (capo_topology_read_nccl(a->o->topo[0], CAPO_TOPOLOGY_PARTIAL, 0, &t, why, sizeof why) < 0)
                return; /* said before, when NCCL was asked */
        for (size_t i = 0; i < a->n_places && t->n_links; i++) {
                struct place *p = &a->places[i];

                if (p->rc == 0 && (!a->o->every_2 || a->group_first[p->group] == i))
                        (void)fragment_bound(t, p->gpus, p->n_gpus, &p->bound);
        }
        capo_topology_free(t);
}

/* The ceiling of the last ask over a group's allocations, and the classes in it. */
static void print_bound(const struct atlas *a, size_t g)
{
        enum capo_coll coll = a->o->asks[a->o->n_asks - 1].coll;
        const struct place *first = &a->places[a->group_first[g]];
        double low = INFINITY, high = 0;
        bool hybrid = false;
        const char *classes[4];
        size_t n = 0, more = 0;

        for (size_t i = 0; i < a->n_places; i++) {
                const struct place *p = &a->places[i];
                size_t k = 0;

                if (p->group != g || !*p->bound.class)
                        continue;
                low = fmin(low, p->bound.busbw_gbs[coll]);
                high = fmax(high, p->bound.busbw_gbs[coll]);
                hybrid |= p->bound.hybrid;
                while (k < n && strcmp(classes[k], p->bound.class) != 0)
                        k++;
                if (k == n && n < N_ELEMENTS(classes))
                        classes[n++] = p->bound.class;
                else if (k == n)
                        more = 1;
        }
        if (!n)
                return;
        printf("        no software exceeds %.2f", high);
        if (low < high)
                printf(" (%.2f in some)", low);
        printf(" busbw%s", hybrid ? " with PCIe and NICs" : " over NVLink");
        if (first->cells[a->o->n_asks - 1].busbw > 0 && high > 0)
                printf(", NCCL reaches %.0f %% of it", 100 * first->cells[a->o->n_asks - 1].busbw / high);
        printf("  ");
        for (size_t k = 0; k < n; k++)
                printf(" %s", classes[k]);
        puts(more ? " ..." : "");
}

static void print_text(const struct atlas *a)
{
        const struct plan_options *o = a->o;
        char version[16];
        const char *name = strrchr(o->topo[0], '/');

        printf("capo plan   real NCCL %s on virtual GPUs: decisions are NCCL's, times are its model, nothing was "
               "measured\n",
               plan_version_text(a->version, version));
        printf("%-11s ", name ? name + 1 : o->topo[0]);
        if (o->every_2)
                printf("all %zu splits %d+%d over two nodes", a->n_all, o->every, o->every_2);
        else
                printf("all %zu subsets of %d GPUs", a->n_all, o->every);
        printf("; %zu asked%s; %zu kinds\n\n", a->n_places,
               a->n_places < a->n_all ? ": the others are the same by the symmetry of the machine" : "", a->n_groups);
        printf("%6s  %5s  %-20s  %-20s", o->every_2 ? "splits" : "sets", "nodes", "ring, GB/s", "tree, GB/s");
        for (size_t k = 0; k < o->n_asks; k++) {
                char size[24], title[48];

                snprintf(title, sizeof title, "%s %s", capo_coll_word(o->asks[k].coll),
                         capo_size_print(o->asks[k].bytes, size, sizeof size));
                printf("  %-27s", title);
        }
        printf("\n%6s  %5s  %-20s  %-20s", "", "", "", "");
        for (size_t k = 0; k < o->n_asks; k++)
                printf("  %-6s %-7s %2s %8s", "algo", "proto", "ch", "busbw");
        putchar('\n');
        for (size_t g = 0; g < a->n_groups; g++) {
                const struct place *p = &a->places[a->group_first[g]];
                char text[1024];
                size_t n = 0, shown = 0, at = 0;

                for (size_t i = 0; i < a->n_places; i++)
                        n += a->places[i].group == g ? a->places[i].stands_for : 0;
                if (p->rc < 0) {
                        printf("%6zu  %s\n", n, p->why[0] ? p->why : strerror(-p->rc));
                } else {
                        printf("%6zu  %5d  %-20s  %-20s", n, p->nodes, p->ring, p->tree);
                        for (size_t k = 0; k < o->n_asks; k++)
                                printf("  %-6s %-7s %2u %8.2f", capo_algo_name(p->cells[k].algo),
                                       capo_proto_name(p->cells[k].proto), p->cells[k].channels, p->cells[k].busbw);
                        putchar('\n');
                }
                printf("        ");
                for (size_t i = 0; i < a->n_places && at < 90; i++) {
                        if (a->places[i].group != g)
                                continue;
                        plan_nodes_text(a->places[i].gpus, a->places[i].n_gpus, text, sizeof text);
                        at += strlen(text) + 1;
                        shown += a->places[i].stands_for;
                        printf("%s ", text);
                }
                if (shown < n)
                        printf("and %zu more", n - shown);
                putchar('\n');
                print_bound(a, g);
        }
}

static void print_json(const struct atlas *a)
{
        const struct plan_options *o = a->o;
        json_t *groups = json_array(), *root;
        char version[16];

        for (size_t g = 0; g < a->n_groups; g++) {
                const struct place *p = &a->places[a->group_first[g]];
                json_t *members = json_array(), *rows = json_array(), *group;
                size_t n = 0;

                for (size_t i = 0; i < a->n_places; i++) {
                        json_t *gpus;

                        if (a->places[i].group != g)
                                continue;
                        gpus = json_array();
                        n += a->places[i].stands_for;
                        for (size_t k = 0; k < a->places[i].n_gpus; k++)
                                json_array_append_new(
                                        gpus, json_pack("[i, i]", a->places[i].gpus[k].node, a->places[i].gpus[k].dev));
                        json_array_append_new(members, json_pack("{s:o, s:i, s:s}", "gpus", gpus, "stands_for",
                                                                 (int)a->places[i].stands_for, "class",
                                                                 a->places[i].bound.class));
                }
                for (size_t k = 0; k < o->n_asks && p->rc == 0; k++) {
                        const struct cell *c = &p->cells[k];

                        json_array_append_new(
                                rows,
                                json_pack("{s:s, s:I, s:s, s:s, s:i, s:o, s:o, s:o}", "coll",
                                          capo_coll_word(o->asks[k].coll), "bytes", (json_int_t)o->asks[k].bytes,
                                          "algo", capo_algo_name(c->algo), "proto", capo_proto_name(c->proto),
                                          "channels", c->channels, "us", isnan(c->us) ? json_null() : json_real(c->us),
                                          "busbw_gbs", isnan(c->busbw) ? json_null() : json_real(c->busbw),
                                          "ceiling_busbw_gbs",
                                          p->bound.busbw_gbs[o->asks[k].coll] > 0
                                                  ? json_real(p->bound.busbw_gbs[o->asks[k].coll])
                                                  : json_null()));
                }
                group = json_pack("{s:i, s:i, s:s, s:s, s:o, s:o}", "count", (int)n, "nccl_nodes", p->nodes, "ring",
                                  p->ring, "tree", p->tree, "rows", rows, "members", members);
                if (p->rc < 0)
                        json_object_set_new(group, "error", json_string(p->why));
                json_array_append_new(groups, group);
        }
        root = json_pack("{s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:o}", "nccl", plan_version_text(a->version, version),
                         "libnccl", o->libnccl, "times", "NCCL's model", "gpus", o->every, "gpus_2", o->every_2,
                         "allocations", (int)a->n_all, "asked", (int)a->n_places, "groups", groups);
        json_dumpf(root, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
        putchar('\n');
        json_decref(root);
}

static void print_csv(const struct atlas *a)
{
        const struct plan_options *o = a->o;

        puts("gpus,stands_for,kind,nccl_nodes,ring,tree,coll,bytes,algo,proto,channels,model_us,busbw_gbs,class,"
             "ceiling_busbw_gbs");
        for (size_t i = 0; i < a->n_places; i++) {
                const struct place *p = &a->places[i];
                char text[1024];

                for (size_t k = 0; k < o->n_asks && p->rc == 0; k++)
                        printf("\"%s\",%u,%zu,%d,\"%s\",\"%s\",%s,%llu,%s,%s,%u,%.9g,%.9g,%s,%.9g\n",
                               plan_nodes_text(p->gpus, p->n_gpus, text, sizeof text), p->stands_for, p->group + 1,
                               p->nodes, p->ring, p->tree, capo_coll_word(o->asks[k].coll),
                               (unsigned long long)o->asks[k].bytes, capo_algo_name(p->cells[k].algo),
                               capo_proto_name(p->cells[k].proto), p->cells[k].channels, p->cells[k].us,
                               p->cells[k].busbw, p->bound.class, p->bound.busbw_gbs[o->asks[k].coll]);
        }
}

static int ask(struct atlas *a)
{
        _cleanup_free_ struct capo_plan_question *q = calloc(a->n_places ? a->n_places : 1, sizeof *q);
        int r;

        if (!q)
                return -ENOMEM;
        for (size_t i = 0; i < a->n_places; i++) {
                q[i] = plan_question(a->o, false);
                q[i].gpus = a->places[i].gpus;
                q[i].n_ranks = a->places[i].n_gpus;
        }
        r = capo_plan_ask_all(q, a->n_places, a->o->jobs, take, a);
        return r < 0 ? r : group(a);
}

int plan_every(struct plan_options *o)
{
        struct atlas a = {.o = o};
        int r, status = CAPO_EXIT_FAIL;

        if (o->every > (int)o->n_devs || o->every_2 > (int)o->n_devs || o->n_devs > 32) {
                capo_error("--every %d: the machine has %zu GPUs", o->every > (int)o->n_devs ? o->every : o->every_2,
                           o->n_devs);
                return CAPO_EXIT_USAGE;
        }
        r = list_places(&a);
        if (r == 0)
                r = ask(&a);
        if (r == 0 && a.version) {
                bounds(&a);
                switch (o->format) {
                case PLAN_TEXT: print_text(&a); break;
                case PLAN_JSON: print_json(&a); break;
                case PLAN_CSV: print_csv(&a); break;
                }
                status = CAPO_EXIT_OK;
        } else {
                const char *why = NULL;

                for (size_t i = 0; i < a.n_places && !why; i++)
                        why = a.places[i].why[0] ? a.places[i].why : NULL;
                capo_error("plan: %s", why ? why : strerror(r < 0 ? -r : EPROTO));
        }
        for (size_t i = 0; i < a.n_places; i++) {
                free(a.places[i].gpus);
                free(a.places[i].cells);
        }
        free(a.places);
        free(a.group_first);
        return status;
}
