/* SPDX-License-Identifier: Apache-2.0 */
/* What NCCL's lines say of one node and not of another: GPUDirect RDMA, NICs, network, interface. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/diagnose/evidence.h"
#include "core/base/text.h"
#include "core/base/util.h"
#include "core/base/xalloc.h"

enum { NODES = 64, NODE = 64, VALUE = 48 };

enum shape { HAS_GDRDMA, NEXT_WORD, COUNT_NICS };

static const struct property {
        const char *words;
        enum shape shape;
        enum capo_finding_rank rank;
        const char *kind, *what, *next;
} properties[] = {
        {"via NET/IB", HAS_GDRDMA, CAPO_RANK_SLOW, "slow", "channels of NET/IB",
         "GPUDirect RDMA there: lsmod | grep -i peermem on both nodes (modprobe nvidia-peermem, at boot), "
         "or DMA-BUF; then all channels show GDRDMA"},
        {"GPU Direct RDMA ", NEXT_WORD, CAPO_RANK_SLOW, "slow", "GPUDirect RDMA",
         "lsmod | grep -i peermem on both nodes; the same driver, kernel and modules on all"},
        {"Using network ", NEXT_WORD, CAPO_RANK_ERROR, "network", "network",
         "libraries, devices and NCCL_NET, NCCL_IB_DISABLE and LD_LIBRARY_PATH of the node that differs"},
        {"NET/IB : Using", COUNT_NICS, CAPO_RANK_SLOW, "slow", "number of NICs",
         "ibstat on the node that has fewer: a port that is down, or devices that its container lacks"},
        {"NCCL_SOCKET_IFNAME set by environment to ", NEXT_WORD, CAPO_RANK_NOTE, "setting",
         "NCCL_SOCKET_IFNAME", "are both in one network (ip addr)? They must reach each other"},
};

struct nodes {
        const struct property *p;
        uint32_t n, text;
        char name[NODES][NODE], value[NODES][VALUE];
        bool mixed[NODES]; /* its lines have several values */
        struct capo_evidence_mark mark[NODES];
};

static void read_value(const struct nodes *s, const char *at, char value[VALUE])
{
        size_t size = strcspn(at, "\n");
        uint32_t n = 0;

        *value = 0;
        switch (s->p->shape) {
        case HAS_GDRDMA:
                snprintf(value, VALUE, "%sGDRDMA", memmem(at, size, "GDRDMA", 6) ? "" : "no ");
                break;
        case NEXT_WORD:
                at += strlen(s->p->words);
                snprintf(value, VALUE, "%.*s", (int)strcspn(at, " \r\n"), at);
                break;
        case COUNT_NICS:
                capo_nics_used(at, at, 0, &n);
                snprintf(value, VALUE, "%u", n);
                break;
        }
}

/* "gn37:18840:18917 [0] NCCL INFO ...": the node is before the first colon. */
static void take_node(const char *at, const char *line, uint32_t number, void *arg)
{
        struct nodes *s = arg;
        const char *info = memmem(line, (size_t)(at - line), " NCCL INFO ", 11);
        const char *colon = info ? memchr(line, ':', (size_t)(info - line)) : NULL, *name = colon;
        char value[VALUE];
        uint32_t i;

        while (name && name > line && !strchr(" \t>]", name[-1]))
                name--;
        if (!name || name == colon || colon - name >= NODE)
                return;
        read_value(s, at, value);
        for (i = 0; i < s->n; i++) {
                if (!strncmp(s->name[i], name, (size_t)(colon - name)) && !s->name[i][colon - name])
                        break;
        }
        if (i == NODES)
                return;
        if (i == s->n) {
                snprintf(s->name[s->n++], NODE, "%.*s", (int)(colon - name), name);
                snprintf(s->value[i], VALUE, "%s", value);
                s->mark[i] = (struct capo_evidence_mark){s->text, number};
        }
        s->mixed[i] |= strcmp(s->value[i], value) != 0;
}

/* Two nodes differ, and each says one thing only: the smaller side is odd, of two nodes the one that
 * lacks something. */
static void judge_nodes(struct capo_evidence *e, struct nodes *s)
{
        uint32_t same = 0, other = 0, odd, usual;
        struct capo_diagnose_finding *f;

        for (uint32_t i = 0; i < s->n; i++) {
                bool alike = !strcmp(s->value[i], s->value[0]);

                if (s->mixed[i])
                        return;
                same += alike;
                other = alike || other ? other : i;
        }
        if (!other)
                return;
        odd = same * 2 > s->n || (same * 2 == s->n && strstr(s->value[0], "no ") != s->value[0])
                      ? other
                      : 0;
        usual = odd ? 0 : other;
        f = capo_evidence_finding(e);
        capo_finding_is(f, s->p->rank, s->p->kind, "likely");
        SAY(f->headline, "NODES DIFFER in %s: %s has %s, %s has %s", s->p->what, s->name[odd],
            s->value[odd], s->name[usual], s->value[usual]);
        SAY(f->next, "%s", s->p->next);
        capo_finding_mark(f, s->mark[odd]);
        capo_finding_mark(f, s->mark[usual]);
}

void capo_nodes_read(struct capo_evidence *e)
{
        struct nodes *s = xcalloc(1, sizeof *s);

        for (size_t i = 0; i < N_ELEMENTS(properties); i++) {
                *s = (struct nodes){.p = &properties[i]};
                capo_evidence_all(e, s->p->words, take_node, s, &s->text);
                judge_nodes(e, s);
        }
        free(s);
}
