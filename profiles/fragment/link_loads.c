/* SPDX-License-Identifier: Apache-2.0 */
/* Each link of a machine has one counter per direction. Every channel is walked once and adds its
 * share to each link it crosses; the fullest link limits the rate. Shares are equal, because NCCL
 * divides data evenly over channels: a channel over a busy NIC delays the others. */
#include <math.h>

#include "profiles/fragment/link_loads.h"
#include "profiles/fragment/ways.h"

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
                int dev = (int)strtol(text + (net ? 3 : 0), &end, 10), at;

                if (end == text || (net && end == text + 3))
                        return -EINVAL;
                text = end + strspn(end, " ");
                at = net ? dev : capo_topology_gpu_by_dev(t, dev);
                if (at < 0 || (net && dev >= (int)t->n_nics) ||
                    (!net && c->n == CAPO_NODE_GPUS_MAX))
                        return -EINVAL;
                if (net) /* capo plan numbers them in the order of the file */
                        c->nic[c->n > 0] = at;
                else
                        c->gpus[c->n++] = at;
        }
        if (c->nic[1] < 0)
                c->nic[1] = c->nic[0];
        return c->n ? 0 : -EINVAL;
}

static int ring_channel(struct ways *w, const struct fragment_domain *d, const struct channel *c,
                        bool alone, double x)
{
        for (int i = 0; i + 1 < c->n; i++)
                ways_load_between(w, d->gpus, d->n_gpus, c->gpus[i], c->gpus[i + 1], x);
        if (alone) {
                if (c->n > 1)
                        ways_load_between(w, d->gpus, d->n_gpus, c->gpus[c->n - 1], c->gpus[0], x);
                return 0;
        }
        if (c->nic[0] < 0)
                return -EINVAL;
        ways_load_in(w, c->nic[0], c->gpus[0], x);
        ways_load_out(w, d->gpus, d->n_gpus, c->gpus[c->n - 1], c->nic[1], x);
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
static int tree_channel(struct ways *w, const struct fragment_domain *d, const struct channel *c,
                        int node, int n_nodes, double x)
{
        int second = c->n > 1,
            child_at[2] = {d->tree->pattern == 3 ? 0 : second, d->tree->pattern == 2 ? second : 0};

        for (int i = 0; i + 1 < c->n; i++) {
                ways_load_between(w, d->gpus, d->n_gpus, c->gpus[i], c->gpus[i + 1], x);
                ways_load_between(w, d->gpus, d->n_gpus, c->gpus[i + 1], c->gpus[i], x);
        }
        if (n_nodes == 1)
                return 0;
        if (c->nic[0] < 0)
                return -EINVAL;
        for (int copy = 0; copy < 2; copy++) { /* half of the channels use each of the two trees */
                struct place p = place_in_tree(node, n_nodes, copy);

                for (int k = 0; k < 3; k++) {
                        int at = k < 2 ? child_at[k] : 0, nic = c->nic[at > 0];

                        if (k < 2 ? !p.child[k] : !p.parent)
                                continue;
                        ways_load_out(w, d->gpus, d->n_gpus, c->gpus[at], nic, x / 2);
                        ways_load_in(w, nic, c->gpus[at], x / 2);
                }
        }
        return 0;
}

/* ---- the fullest link ---- */

/* @full: 64 bytes for its name. */
static int shape_rate(const struct capo_topology *t, const struct fragment_domain *domains,
                      int n_domains, int n_channels, bool tree, double *rate, char *full)
{
        struct ways w;
        int r = 0;

        ways_new(t, &w);
        *rate = INFINITY;
        for (int i = 0; i < n_domains && r == 0; i++) {
                const struct fragment_domain *d = &domains[i];
                const struct capo_plan_graph *g = tree ? d->tree : d->ring;

                for (int c = 0; c < n_channels && r == 0; c++) {
                        double x = 1.0 / n_channels;
                        struct channel channel;

                        r = g && g->n_paths
                                    ? channel_read(t, g->paths[(size_t)c % g->n_paths], &channel)
                                    : -EINVAL;
                        if (r == 0)
                                r = tree ? tree_channel(&w, d, &channel, i, n_domains, x)
                                         : ring_channel(&w, d, &channel, n_domains == 1, x);
                }
                if (i + 1 < n_domains && domains[i + 1].machine == d->machine)
                        continue;
                for (int k = 0; k < w.n_links; k++) {
                        if (w.load[k] > 0 && w.cap[k] > 0 &&
                            w.cap[k] / w.load[k] < *rate * (1 - 1e-9)) {
                                *rate = w.cap[k] / w.load[k];
                                ways_link_name(&w, k, full, 64);
                        }
                        w.load[k] = 0;
                }
        }
        free(w.cap);
        free(w.load);
        return r < 0 || w.lost || isinf(*rate) ? -EINVAL : 0;
}

int fragment_loads(const struct capo_topology *t, const struct fragment_domain *domains,
                   int n_domains, int n_channels, struct fragment_attained *out)
{
        int r;

        memset(out, 0, sizeof *out);
        if (n_channels < 1 || n_domains < 1)
                return -EINVAL;
        r = shape_rate(t, domains, n_domains, n_channels, false, &out->ring_gbs, out->ring_full);
        if (r == 0)
                r = shape_rate(t, domains, n_domains, n_channels, true, &out->tree_gbs,
                               out->tree_full);
        out->tree_gbs *= 2; /* NCCL's bus bandwidth of Tree is twice the rate of all-reduce */
        return r;
}
