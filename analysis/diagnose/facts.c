/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts that no single line says, for rules and known bugs, which put an at sign
 * before the name:
 *
 *      many-nodes   NCCL's lines are of several hosts
 *      uneven       the hosts have different numbers of ranks of one communicator
 *      nic-far      nvidia-smi topo -m: no GPU shares a PCIe switch with a NIC
 *      nic-near     one does
 *      nvlink       GPUs are connected by NVLink
 *      pcie         GPUs are connected by PCIe alone
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/diagnose/evidence.h"
#include "core/base/text.h"

enum { HOSTS = 256, HOST = 64, RANKS = 1 << 14, CELLS = 80, ROW = 1024 };

struct hosts {
        uint32_t n, n_ranks[HOSTS]; /* n_ranks: of the largest communicator */
        char names[HOSTS][HOST];
        long most;
        bool seen[RANKS];
        bool many;
};

static int take_init(const char *at, const char *line, uint32_t number, void *arg)
{
        struct hosts *h = arg;
        const char *nranks = memmem(line, (size_t)(at - line), " nranks ", 8),
                   *rank = memmem(line, (size_t)(at - line), " rank ", 6),
                   *end = memmem(line, (size_t)(at - line), " NCCL INFO ", 11);
        const char *colon = end ? memchr(line, ':', (size_t)(end - line)) : NULL, *name = colon;
        long of = nranks ? strtol(nranks + 8, NULL, 10) : 0,
             r = rank ? strtol(rank + 6, NULL, 10) : -1;
        uint32_t i;

        while (name && name > line && !strchr(" \t>]", name[-1]))
                name--;
        if (!name || colon - name >= HOST || colon == name || r < 0 || r >= RANKS || of < h->most)
                return 0;
        if (of > h->most) {
                h->most = of;
                memset(h->seen, 0, sizeof h->seen);
                memset(h->n_ranks, 0, sizeof h->n_ranks);
        }
        for (i = 0; i < h->n; i++) {
                if (!strncmp(h->names[i], name, (size_t)(colon - name)) &&
                    !h->names[i][colon - name])
                        break;
        }
        if (i == HOSTS || h->seen[r])
                return 0;
        if (i == h->n)
                snprintf(h->names[h->n++], HOST, "%.*s", (int)(colon - name), name);
        h->seen[r] = true;
        h->n_ranks[i]++;
        return 0;
}

static int take_nodes(const char *at, const char *line, uint32_t number, void *arg)
{
        ((struct hosts *)arg)->many |= strtol(at + strlen(" nNodes "), NULL, 10) > 1;
        return 0;
}

static void add_fact(struct capo_evidence *e, const char *fact)
{
        capo_append(e->facts, sizeof e->facts, "%s ", fact);
}

static int read_hosts(struct capo_evidence *e)
{
        struct hosts *h = calloc(1, sizeof *h);
        uint32_t sum = 0, least = UINT32_MAX, most = 0, with = 0;

        if (!h)
                return -ENOMEM;
        for (uint32_t i = 0; i < e->n_texts; i++) {
                capo_evidence_each(e, i, "Init START", take_init, h);
                capo_evidence_each(e, i, "Init COMPLETE", take_init, h);
                capo_evidence_each(e, i, " nNodes ", take_nodes, h);
        }
        for (uint32_t i = 0; i < h->n; i++) {
                if (!h->n_ranks[i])
                        continue;
                with++;
                sum += h->n_ranks[i];
                least = h->n_ranks[i] < least ? h->n_ranks[i] : least;
                most = h->n_ranks[i] > most ? h->n_ranks[i] : most;
        }
        if (with > 1 || h->many)
                add_fact(e, "@many-nodes");
        if (with > 1 && sum == h->most && least < most)
                add_fact(e, "@uneven");
        free(h);
        return 0;
}

struct matrix {
        bool nic[CELLS], any_nic, near, nvlink, pcie;
        uint32_t n;
};

/* The head of the matrix names its columns; a row begins with the name of its own. */
static void read_row(struct matrix *m, const char *line)
{
        char row[ROW], *rest = row;
        bool head = !strncmp(line + strspn(line, " \t"), "GPU0", 4) && strchr(" \t", *line);
        uint32_t n = 0;

        if (!head && strncmp(line, "GPU", 3) != 0)
                return;
        snprintf(row, sizeof row, "%.*s", (int)strcspn(line, "\r\n"), line);
        if (head)
                *m = (struct matrix){.any_nic = m->any_nic,
                                     .near = m->near,
                                     .nvlink = m->nvlink,
                                     .pcie = m->pcie};
        for (char *cell, *save = NULL; (cell = strtok_r(rest, " \t", &save)) && n < CELLS;) {
                rest = NULL;
                if (head) {
                        m->nic[n++] = strncmp(cell, "GPU", 3) != 0;
                        m->n = strcmp(cell, "CPU") ? n : n - 1;
                        if (m->n < n)
                                return;
                        continue;
                }
                if (n && n <= m->n && m->nic[n - 1]) {
                        m->any_nic |= !strcmp(cell, "NODE") || !strcmp(cell, "SYS") ||
                                      !strcmp(cell, "PHB") || cell[0] == 'P';
                        m->near |= !strcmp(cell, "PIX") || !strcmp(cell, "PXB");
                } else if (n && n <= m->n) {
                        m->nvlink |= cell[0] == 'N' && cell[1] == 'V';
                        m->pcie |= !strcmp(cell, "NODE") || !strcmp(cell, "SYS") || cell[0] == 'P';
                }
                n++;
        }
}

int capo_facts_read(struct capo_evidence *e)
{
        struct matrix m = {0};

        for (uint32_t i = 0; i < e->n_texts; i++) {
                const struct capo_records *r = &e->texts[i].records;

                m.n = 0;
                for (uint32_t k = 0; k < r->n && e->texts[i].n[CAPO_EVIDENCE_MATRIX]; k++)
                        read_row(&m, r->text + r->v[k].begin);
        }
        if (m.any_nic)
                add_fact(e, m.near ? "@nic-near" : "@nic-far");
        if (m.nvlink || m.pcie)
                add_fact(e, m.nvlink ? "@nvlink" : "@pcie");
        return read_hosts(e);
}
