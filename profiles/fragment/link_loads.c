/* SPDX-License-Identifier: Apache-2.0 */
/* Each link of a machine has one counter per direction. Every channel is walked once and adds its
 * share to each link it crosses; the fullest link limits the rate. Shares are equal, because NCCL
 * divides data evenly over channels: a channel over a busy NIC delays the others. */
#include <math.h>

#include "core/base/xalloc.h"
#include "profiles/fragment/link_loads.h"
#include "profiles/fragment/ways.h"

struct machine {
        struct ways ways;
        double *load; /* by link */
        bool lost;    /* a path was missing */
};

static void add_way_load(struct machine *m, struct way way, double x)
{
        m->lost |= way.type == WAY_NONE;
        way_load(&way, x, m->load);
}

static void gpu_to_gpu(struct machine *m, const struct fragment_domain *d, int a, int b, double x)
{
        add_way_load(m, way_between(&m->ways, d->gpus, d->n_gpus, a, b), x);
}

/* ---- channels ---- */

struct channel {
        int gpus[CAPO_NODE_GPUS_MAX], n;
        int nic[2]; /* where it enters and leaves; -1: it stays in the node */
};

/* Parse "net0 0 2 1 net0". */
static int channel_read(const struct capo_topology *t, const char *text, struct channel *c)
{
        *c = (struct channel){.nic = {-1, -1}};
        while (*text) {
                bool net = !strncmp(text, "net", 3);
                char *end;
                int dev = (int)strtol(text + (net ? 3 : 0), &end, 10), at = -1;

                if (end == text || (net && end == text + 3))
                        return -EINVAL;
                text = end + strspn(end, " ");
                if (net) {
                        at = dev < (int)t->n_nics
                                     ? dev
                                     : -1; /* capo plan numbers them in the order of the file */
                        c->nic[c->n > 0] = at;
                } else {
                        at = capo_topology_gpu_by_dev(t, dev);
                        if (c->n == CAPO_NODE_GPUS_MAX)
                                return -EINVAL;
                        c->gpus[c->n++] = at;
                }
                if (at < 0)
                        return -EINVAL;
        }
        if (c->nic[1] < 0)
                c->nic[1] = c->nic[0];
        return c->n ? 0 : -EINVAL;
}

static int ring_channel(struct machine *m, const struct fragment_domain *d, const struct channel *c,
                        bool alone, double x)
{
        for (int i = 0; i + 1 < c->n; i++)
                gpu_to_gpu(m, d, c->gpus[i], c->gpus[i + 1], x);
        if (alone) {
                if (c->n > 1)
                        gpu_to_gpu(m, d, c->gpus[c->n - 1], c->gpus[0], x);
                return 0;
        }
        if (c->nic[0] < 0)
                return -EINVAL;
        add_way_load(m, way_in(&m->ways, c->nic[0], c->gpus[0]), x);
        add_way_load(m, way_out(&m->ways, d->gpus, d->n_gpus, c->gpus[c->n - 1], c->nic[1]), x);
        return 0;
}

/* The place of a node in one of the two trees: has it a parent, a first and a second child?
 * It is a binary tree over the numbers: a number with k trailing zero bits is 2^(k-1) away from its
 * children; number 0 is the root. The other tree is the mirror image, or, with an odd number of
 * nodes, the same shifted by one (src/graph/trees.cc). */
struct place {
        bool parent, child[2];
};

static struct place place_in_tree(int r, int n, bool second)
{
        struct place p = {0};
        int bit = 1, low, down;

        if (second)
                r = n % 2 ? (r - 1 + n) % n : n - 1 - r;
        while (bit < n && !(r & bit))
                bit <<= 1;
        if (r == 0) {
                p.child[1] = n > 1;
                return p;
        }
        p.parent = true;
        low = bit >> 1;
        p.child[0] = low > 0;
        for (down = low; down > 0 && r + down >= n; down >>= 1)
                ;
        p.child[1] = down > 0;
        return p;
}

/* The first GPU of a chain talks to the parent. The pattern decides which talk to the children: the
 * first (tree), the second (split tree), or the second for the first child and the first for the
 * other (balanced). */
static int tree_channel(struct machine *m, const struct fragment_domain *d, const struct channel *c,
                        int node, int n_nodes, double x)
{
        int second = c->n > 1,
            child_at[2] = {d->tree->pattern == 3 ? 0 : second, d->tree->pattern == 2 ? second : 0};

        for (int i = 0; i + 1 < c->n; i++) {
                gpu_to_gpu(m, d, c->gpus[i], c->gpus[i + 1], x);
                gpu_to_gpu(m, d, c->gpus[i + 1], c->gpus[i], x);
        }
        if (n_nodes == 1)
                return 0;
        if (c->nic[0] < 0)
                return -EINVAL;
        for (int copy = 0; copy < 2; copy++) { /* half of the channels use each of the two trees */
                struct place p = place_in_tree(node, n_nodes, copy);

                for (int k = 0; k < 3; k++) {
                        int at = k < 2 ? child_at[k] : 0;

                        if (k < 2 ? !p.child[k] : !p.parent)
                                continue;
                        add_way_load(
                                m,
                                way_out(&m->ways, d->gpus, d->n_gpus, c->gpus[at], c->nic[at > 0]),
                                x / 2);
                        add_way_load(m, way_in(&m->ways, c->nic[at > 0], c->gpus[at]), x / 2);
                }
        }
        return 0;
}

/* ---- the fullest link ---- */

static void find_fullest(const struct machine *m, double *rate, char *text, size_t room)
{
        const double *cap = m->ways.cap;

        for (int i = 0; i < m->ways.n_links; i++) {
                if (m->load[i] > 0 && cap[i] > 0 && cap[i] / m->load[i] < *rate * (1 - 1e-9)) {
                        *rate = cap[i] / m->load[i];
                        ways_link_name(&m->ways, i, text, room);
                }
        }
}

static int shape_rate(const struct capo_topology *t, const struct fragment_domain *domains,
                      int n_domains, int n_channels, bool tree, double *rate, char *text,
                      size_t room)
{
        struct machine m = {0};
        int r = 0;

        ways_new(t, &m.ways);
        m.load = xcalloc((size_t)m.ways.n_links + 1, sizeof *m.load);
        *rate = INFINITY;
        for (int i = 0; i < n_domains && r == 0; i++) {
                const struct fragment_domain *d = &domains[i];
                const struct capo_plan_graph *g = tree ? d->tree : d->ring;

                for (int c = 0; c < n_channels && r == 0; c++) {
                        struct channel channel;

                        r = g && g->n_paths
                                    ? channel_read(t, g->paths[(size_t)c % g->n_paths], &channel)
                                    : -EINVAL;
                        if (r == 0)
                                r = tree ? tree_channel(&m, d, &channel, i, n_domains,
                                                        1.0 / n_channels)
                                         : ring_channel(&m, d, &channel, n_domains == 1,
                                                        1.0 / n_channels);
                }
                if (i + 1 == n_domains || domains[i + 1].machine != d->machine) {
                        find_fullest(&m, rate, text, room);
                        memset(m.load, 0, sizeof *m.load * (size_t)m.ways.n_links);
                }
        }
        if (m.lost)
                r = -EINVAL;
        free(m.load);
        ways_free(&m.ways);
        return r < 0 ? r : isinf(*rate) ? -EINVAL : 0;
}

int fragment_loads(const struct capo_topology *t, const struct fragment_domain *domains,
                   int n_domains, int n_channels, struct fragment_attained *out)
{
        int r;

        memset(out, 0, sizeof *out);
        if (n_channels < 1 || n_domains < 1)
                return -EINVAL;
        r = shape_rate(t, domains, n_domains, n_channels, false, &out->ring_gbs, out->ring_full,
                       sizeof out->ring_full);
        if (r == 0)
                r = shape_rate(t, domains, n_domains, n_channels, true, &out->tree_gbs,
                               out->tree_full, sizeof out->tree_full);
        out->tree_gbs *= 2; /* NCCL's bus bandwidth of Tree is twice the rate of all-reduce */
        return r;
}
