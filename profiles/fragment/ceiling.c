/* SPDX-License-Identifier: Apache-2.0 */
/* The ceilings of an allocation from the rates of tree_pack.h. With one switch and equal ports they
 * have closed forms (72 GPUs take no time). */
#include "capo/collectives.h"
#include "profiles/fragment/flow_net.h"
#include "profiles/machine/platform.h"

static void pack_rates(const struct pack_net *net, double unit_gbs, struct capo_rates *out)
{
        struct pack_rate broadcast, gather;
        double reduce;

        pack_broadcast(net, &broadcast);
        pack_gather(net, &gather);
        pack_allreduce(net, &reduce);
        out->broadcast_gbs = (double)broadcast.num * unit_gbs;
        out->allgather_gbs = net->n_ranks * (double)gather.num / (double)gather.den * unit_gbs;
        out->allreduce_gbs = reduce * unit_gbs;
}

/* Can the switches of this machine add and copy? */
static bool switches_add(const struct capo_topology *t)
{
        const struct capo_wire_kind *wire = capo_wire_kind(CAPO_WIRE_NVLINK, t->gpus[0].sm, 0);

        return t->n_switches && wire && wire->adds;
}

static double rate_of(const struct capo_rates *r, enum capo_coll coll)
{
        switch (coll) {
        case CAPO_COLL_ALLREDUCE: return r->allreduce_gbs;
        case CAPO_COLL_ALLGATHER:
        case CAPO_COLL_REDUCESCATTER: return r->allgather_gbs;
        default: return r->broadcast_gbs;
        }
}

double capo_ceiling(const struct capo_ceilings *c, unsigned coll, enum capo_ceiling_of *of)
{
        const struct {
                enum capo_ceiling_of of;
                double gbs; /* 0 or less: not known, or it does not connect all */
        } ways[] = {
                {CAPO_CEILING_LINKS, c->connected ? rate_of(&c->links, coll) : 0},
                {CAPO_CEILING_SWITCH, coll == CAPO_COLL_ALLREDUCE ? c->nvls_gbs : 0},
                {CAPO_CEILING_ALL, rate_of(&c->hybrid, coll)},
                {CAPO_CEILING_ALL_SWITCH,
                 coll == CAPO_COLL_ALLREDUCE && !c->connected ? c->nvls_across_gbs : 0},
        };
        double most = 0;

        *of = CAPO_CEILING_NONE;
        for (size_t i = 0; i < N_ELEMENTS(ways); i++) {
                if (ways[i].gbs > most * (1 + 1e-9)) { /* of equal ones, the simplest */
                        most = ways[i].gbs;
                        *of = ways[i].of;
                }
        }
        return most;
}

const char *capo_ceiling_text(enum capo_ceiling_of of)
{
        static const char *const texts[] = {"", "", ", the switches adding", " with PCIe and NICs",
                                            " with PCIe and NICs, the switches adding"};

        return texts[of];
}

const char *capo_ceiling_word(enum capo_ceiling_of of)
{
        static const char *const words[] = {"", "NVLink", "NVLink+NVLS", "NVLink+PCIe+NIC",
                                            "NVLink+PCIe+NIC+NVLS"};

        return words[of];
}

int capo_ceilings(const struct capo_topology *t, const struct capo_alloc *a, unsigned what,
                  struct capo_ceilings *out)
{
        struct capo_ceilings c = {
                .n_ranks = a->n_ranks,
                .shapes = {.rings = -1, .ring_gbs = -1, .ring_split_gbs = -1, .chain_gbs = -1},
                .hybrid = {-1, -1, -1}};
        struct pack_net net;
        double unit_gbs, port;
        int n = a->n_ranks;

        if (n < 1)
                return -EINVAL;
        fragment_net(t, a, false, &net, &unit_gbs);
        port = (double)fragment_star(&net);
        if (n > 1 &&
            port) /* a chain for broadcast; for the others, every GPU is the centre of one tree */
                c.links = (struct capo_rates){port * unit_gbs, port * unit_gbs * n / (n - 1),
                                              port * unit_gbs * n / (2 * (n - 1))};
        else if (n > 1)
                pack_rates(&net, unit_gbs, &c.links);
        c.connected = n == 1 || c.links.broadcast_gbs > 0;
        /* NVLink SHARP: each GPU fetches its shard summed from the switch and stores it to all through the
         * switch. A GPU sends its buffer once and its shard once, and receives as much. */
        if (port && n > 1 && switches_add(t))
                c.nvls_gbs = port * unit_gbs / (1 + 1.0 / n);
        if (what & CAPO_CEILING_RINGS)
                fragment_shapes(&net, unit_gbs, t->brick_gbs, &c.shapes);
        free(net.cap);
        if (what & CAPO_CEILING_HYBRID && t->pci_known && n > 1) {
                fragment_net(t, a, true, &net, &unit_gbs);
                pack_rates(&net, unit_gbs, &c.hybrid);
                free(net.cap);
                c.nvls_across_gbs = switches_add(t) ? c.hybrid.broadcast_gbs : 0;
        }
        *out = c;
        return 0;
}
