/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list must be complete, or a tuner would take one layout for another. So every layout is asked
 * with every choice of GPUs that could matter, and with NICs missing: on machines with one NIC per
 * GPU a lost NIC makes the table of 4+4 that of 3+5, to the last digit. What then has the costs of
 * several layouts settles none, and that is the point.
 *
 * A cost is two numbers from two sizes; a third size checks that the line through them is one.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capo/msg.h"
#include "core/base/array.h"
#include "core/base/layout.h"
#include "core/profile/seen.h"
#include "core/base/util.h"
#include "core/base/file.h"
#include "profiles/plan/plan_layouts.h"
#include "profiles/plan/symmetry.h"

enum { NODES_MAX = 32, SIZES = 3, MAX_DEFAULT = 1000 };

static const uint64_t sizes[SIZES] = {16u << 20, 128u << 20, 1024u << 20};

/* One allocation to be asked about. */
struct place {
        char layout[CAPO_LAYOUT_TEXT], gpus[256];
        struct capo_plan_gpu *ranks;
        const char *topo[NODES_MAX];
        double us[CAPO_COLLS], gbs[CAPO_COLLS];
        bool lacks, good; /* a NIC is missing; its costs are known */
};

struct maker {
        const struct capo_layouts_machine *m;
        int n_ranks, n_nodes;
        uint16_t devs[CAPO_PLAN_GPUS_MAX];
        int n_devs;
        struct capo_symmetry symmetry;
        struct place *places;
        size_t n_places, max, done;
        int version;
        char folder[64], *lacking[64]; /* topology files without NIC i */
        int n_nics;
        struct capo_plan_ask asks[CAPO_COLLS * SIZES];
        char why[256];
};

static uint32_t first_gpus(int k)
{
        return k >= 32 ? UINT32_MAX : (1u << k) - 1;
}

/* A place with the GPUs @sets of each node; @lacks: node whose NIC @nic is missing, -1 none. */
static int add_place(struct maker *k, const char *layout, const uint32_t *sets, int lacks, int nic)
{
        struct place *p;
        size_t used = 0, n = 0;

        if (k->n_places >= k->max)
                return -E2BIG;
        if (capo_array_room(&k->places, k->n_places, sizeof *p) < 0)
                return -ENOMEM;
        p = &k->places[k->n_places];
        *p = (struct place){0};
        p->ranks = calloc((size_t)k->n_ranks, sizeof *p->ranks);
        if (!p->ranks)
                return -ENOMEM;
        k->n_places++;
        snprintf(p->layout, sizeof p->layout, "%s", layout);
        for (int node = 0; node < k->n_nodes; node++) {
                const char *comma = "";

                p->topo[node] = node == lacks ? k->lacking[nic] : k->m->topo;
                used += (size_t)snprintf(p->gpus + used, sizeof p->gpus - used,
                                         node ? ";%d:" : "%d:", node);
                for (int g = 0; g < k->n_devs; g++) {
                        if (!(sets[node] & 1u << g))
                                continue;
                        p->ranks[n++] = (struct capo_plan_gpu){(uint16_t)node, k->devs[g]};
                        if (used < sizeof p->gpus)
                                used += (size_t)snprintf(p->gpus + used, sizeof p->gpus - used,
                                                         "%s%u", comma, k->devs[g]);
                        comma = ",";
                        used = used < sizeof p->gpus ? used : sizeof p->gpus - 1;
                }
        }
        p->lacks = lacks >= 0;
        if (p->lacks)
                snprintf(p->gpus + used, sizeof p->gpus - used, " without NIC %d of node %d", nic,
                         lacks);
        return 0;
}

/* All choices of GPUs, node by node; nodes of one size in order, because they can be exchanged. */
static int add_choices(struct maker *k, const char *layout, const int *size, uint32_t *sets,
                       int node)
{
        uint64_t end = 1ull << k->n_devs;
        int r = 0;

        if (node == k->n_nodes)
                return add_place(k, layout, sets, -1, 0);
        for (uint64_t set = first_gpus(size[node]); set < end && r == 0; set = capo_set_next(set)) {
                if (capo_symmetry_least(&k->symmetry, (uint32_t)set) == set &&
                    !(node && size[node] == size[node - 1] && set < sets[node - 1])) {
                        sets[node] = (uint32_t)set;
                        r = add_choices(k, layout, size, sets, node + 1);
                }
        }
        return r;
}

/* All layouts with rising node sizes; each with its choices and its missing NICs. */
static int add_sized_layouts(struct maker *k, int *size, int node, int left)
{
        struct capo_layout l = {0};
        uint32_t sets[NODES_MAX];
        char text[CAPO_LAYOUT_TEXT];
        int r = 0;

        if (node < k->n_nodes) {
                int least = node ? size[node - 1] : 1, nodes_left = k->n_nodes - node;

                for (int s = least; s <= k->n_devs && s * nodes_left <= left && r == 0; s++) {
                        size[node] = s;
                        if (nodes_left > 1 || s == left)
                                r = add_sized_layouts(k, size, node + 1, left - s);
                }
                return r;
        }
        for (int i = 0; i < k->n_nodes; i++)
                (void)capo_layout_add(&l, (uint32_t)size[i], 1);
        capo_layout_print(&l, text, sizeof text);
        r = add_choices(k, text, size, sets, 0);
        for (int i = 0; i < k->n_nodes; i++)
                sets[i] = first_gpus(size[i]);
        for (int i = 0; i < k->n_nodes && r == 0; i++) {
                if (i + 1 < k->n_nodes && size[i + 1] == size[i])
                        continue; /* the last of equal nodes stands for all */
                for (int nic = 0; nic < k->n_nics && r == 0; nic++)
                        r = add_place(k, text, sets, i, nic);
        }
        return r;
}

/* Topology files that lack one NIC each: the text without its i-th <net> element. */
static int take_nics_out(struct maker *k)
{
        _cleanup_free_ char *text = NULL;
        size_t size;
        int r = k->m->all_nics ? 0 : capo_file_read(k->m->topo, 64 << 20, &text, &size);

        if (r < 0 || k->m->all_nics)
                return r;
        snprintf(k->folder, sizeof k->folder, "/tmp/capo-layouts-XXXXXX");
        if (!mkdtemp(k->folder)) {
                *k->folder = 0;
                return -errno;
        }
        for (char *at = strstr(text, "<net "); at && k->n_nics < (int)N_ELEMENTS(k->lacking);
             at = strstr(at + 1, "<net ")) {
                char *close = strchr(at, '>'), *end;
                _cleanup_fclose_ FILE *f = NULL;

                if (!close)
                        break;
                end = close[-1] == '/' ? close + 1 : strstr(close, "</net>");
                if (end && close[-1] != '/')
                        end += strlen("</net>");
                if (!end || asprintf(&k->lacking[k->n_nics], "%s/%d.xml", k->folder, k->n_nics) < 0)
                        return end ? -ENOMEM : -EINVAL;
                f = fopen(k->lacking[k->n_nics++], "we");
                if (!f || fwrite(text, 1, (size_t)(at - text), f) != (size_t)(at - text) ||
                    fputs(end, f) < 0)
                        return -EIO;
        }
        return 0;
}

/* The two numbers of a collective, from three rows of it. false: not available, or not a line. */
static bool fit_line(const struct capo_plan_row *row, double *us, double *gbs)
{
        double y[SIZES], x[SIZES], slope, base;

        for (int i = 0; i < SIZES; i++) {
                if (row[i].n_algo < CAPO_ALGO_RING || row[i].n_proto < CAPO_PROTO_SIMPLE ||
                    row[i].pipe_ops > 1 ||
                    !(row[i].cost[CAPO_ALGO_RING - 1][CAPO_PROTO_SIMPLE - 1] > 0))
                        return false;
                x[i] = (double)row[i].told;
                y[i] = (double)row[i].cost[CAPO_ALGO_RING - 1][CAPO_PROTO_SIMPLE - 1];
        }
        slope = (y[2] - y[0]) / (x[2] - x[0]);
        base = y[0] - slope * x[0];
        if (!(slope > 0 && base > 0) ||
            fabs(base + slope * x[1] - y[1]) > y[1] * CAPO_SEEN_TOLERANCE / 4)
                return false;
        *us = base;
        *gbs = 1e-3 / slope;
        return true;
}

static int take_place_answer(size_t i, int rc, struct capo_plan_answer *a, const char *why,
                             void *arg)
{
        struct maker *k = arg;
        struct place *p = &k->places[i];

        if (k->m->progress)
                k->m->progress(++k->done, k->n_places, k->m->arg);
        if (rc < 0) {
                snprintf(k->why, sizeof k->why, "%s", why);
                /* without that NIC there is no such job; any other gap would make the list a lie */
                return p->lacks && (rc == -EINVAL || rc == -EPROTO) ? 0 : rc;
        }
        k->version = a->version;
        if (a->told.abi && a->told.n_nodes != k->n_nodes)
                return 0;
        for (int c = 0; c < CAPO_COLLS && a->n_rows == CAPO_COLLS * SIZES; c++)
                p->good |= fit_line(&a->rows[c * SIZES], &p->us[c], &p->gbs[c]);
        if (!p->good)
                snprintf(k->why, sizeof k->why,
                         "%.190s: this NCCL shows a tuner no table with Ring/Simple", p->gpus);
        return p->good ? 0 : -ENODATA;
}

static int ask_places(struct maker *k)
{
        _cleanup_free_ struct capo_plan_question *q = calloc(k->n_places, sizeof *q);

        if (!q)
                return -ENOMEM;
        for (size_t i = 0; i < k->n_places; i++) {
                q[i] = (struct capo_plan_question){.tools = k->m->tools,
                                                   .libnccl = k->m->libnccl,
                                                   .topo = k->places[i].topo,
                                                   .n_topo = (size_t)k->n_nodes,
                                                   .platform = k->m->platform,
                                                   .gpus = k->places[i].ranks,
                                                   .n_ranks = (size_t)k->n_ranks,
                                                   .asks = k->asks,
                                                   .n_asks = N_ELEMENTS(k->asks)};
        }
        return capo_plan_ask_all(q, k->n_places, k->m->at_once, take_place_answer, k);
}

static bool is_same_number(double a, double b)
{
        return fabs(a - b) <= CAPO_SEEN_TOLERANCE / 4 * fabs(a);
}

static bool same_costs(const struct place *a, const struct place *b)
{
        for (int c = 0; c < CAPO_COLLS; c++) {
                if (!is_same_number(a->us[c], b->us[c]) || !is_same_number(a->gbs[c], b->gbs[c]))
                        return false;
        }
        return true;
}

/* Seven digits are more than a float has, and fewer than a person tires of. */
static double round_digits(double v)
{
        char text[32];

        snprintf(text, sizeof text, "%.7g", v);
        return strtod(text, NULL);
}

static int write_entries(struct maker *k, struct capo_profile *profile,
                         struct capo_layouts_made *made)
{
        const char *told = "", *last = "";

        for (size_t i = 0; i < k->n_places; i++) {
                const struct place *p = &k->places[i];
                struct capo_layout_cost c = {
                        .layout = p->layout, .gpus = p->gpus, .nccl = {k->version, k->version}};
                bool twice = false, shared = false;
                int e;

                made->n_layouts += strcmp(p->layout, last) != 0;
                last = p->layout;
                if (!p->good) {
                        made->n_refused++;
                        continue;
                }
                for (size_t j = 0; j < k->n_places; j++) {
                        const struct place *o = &k->places[j];
                        bool alike = j != i && o->good && same_costs(p, o);

                        twice |= alike && j < i && !strcmp(p->layout, o->layout);
                        shared |= alike && strcmp(p->layout, o->layout) != 0;
                }
                if (!shared && strcmp(told, p->layout) != 0) {
                        made->n_told++;
                        told = p->layout;
                }
                if (twice)
                        continue;
                for (int x = 0; x < CAPO_COLLS; x++) {
                        c.us[x] = round_digits(p->us[x]);
                        c.gbs[x] = round_digits(p->gbs[x]);
                }
                e = capo_profile_layout(profile, &c);
                if (e < 0)
                        return e;
        }
        made->version = k->version;
        made->n_asked = k->n_places;
        return made->n_refused == made->n_asked ? -ENODATA : 0;
}

int capo_layouts_make(const struct capo_layouts_machine *m, int n_ranks, int n_nodes,
                      struct capo_profile *profile, struct capo_layouts_made *made, char *why,
                      size_t room)
{
        _cleanup_free_ struct maker *k = calloc(1, sizeof *k);
        struct capo_topology *t = NULL;
        int size[NODES_MAX], r, n = 0;

        *made = (struct capo_layouts_made){0};
        if (!k)
                return -ENOMEM;
        k->m = m;
        k->n_ranks = n_ranks;
        k->n_nodes = n_nodes;
        k->max = m->max ? m->max : MAX_DEFAULT;
        for (int c = 0; c < CAPO_COLLS; c++) {
                for (int s = 0; s < SIZES; s++)
                        k->asks[n++] = (struct capo_plan_ask){(enum capo_coll)c, sizes[s]};
        }
        k->n_devs = capo_plan_machine_gpus(m->topo, m->platform, k->devs, why, room);
        if (k->n_devs < 0)
                return k->n_devs;
        if (n_nodes < 2 || n_nodes > NODES_MAX || n_ranks < n_nodes ||
            n_ranks > n_nodes * k->n_devs || n_ranks > CAPO_PLAN_RANKS_MAX)
                return capo_why(
                        -EINVAL, why, room,
                        "%d ranks on %d nodes of %d GPUs: expected 2 to %d nodes, and ranks that fit",
                        n_ranks, n_nodes, k->n_devs, NODES_MAX);
        r = capo_topology_read_nccl(m->topo, 0, 0, &t, why, room);
        if (r < 0)
                return r;
        if (t->n_gpus != (size_t)k->n_devs || capo_symmetry_find(t, &k->symmetry) < 0)
                k->symmetry = (struct capo_symmetry){.n_gpus = (size_t)k->n_devs};
        r = take_nics_out(k);
        if (r == 0)
                r = add_sized_layouts(k, size, 0, n_ranks);
        if (r == 0)
                r = ask_places(k);
        if (r == 0)
                r = write_entries(k, profile, made);
        if (r == -E2BIG)
                snprintf(why, room,
                         "%d ranks on %d nodes: more than %zu allocations would have to be asked",
                         n_ranks, n_nodes, k->max);
        else if (r == -ENODATA)
                snprintf(why, room, "%d ranks on %d nodes: %.250s", n_ranks, n_nodes,
                         *k->why ? k->why : "NCCL counts other nodes in all of their allocations");
        else if (r < 0)
                snprintf(why, room, "%s", *k->why ? k->why : strerror(-r));
        for (size_t i = 0; i < k->n_places; i++)
                free(k->places[i].ranks);
        free(k->places);
        for (int i = 0; i < k->n_nics; i++) {
                unlink(k->lacking[i]);
                free(k->lacking[i]);
        }
        if (*k->folder)
                rmdir(k->folder);
        capo_symmetry_finish(&k->symmetry);
        capo_topology_free(t);
        return r;
}
