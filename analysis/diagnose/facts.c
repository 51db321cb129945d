/* SPDX-License-Identifier: Apache-2.0 */
/* Facts that no single line says, for rules and known bugs, which put an at sign before the name:
 *
 *      many-nodes   NCCL's lines are of several hosts
 *      one-node     all ranks are on one node; two-nodes: on two; few-nodes: on 2 to 7
 *      one-comm     all of NCCL's lines are of communicators of one size
 *      uneven       the hosts have different numbers of ranks of one communicator
 *      nvlink       nvidia-smi topo -m: GPUs are connected by NVLink
 *      nvlink-pairs some pairs of GPUs have NVLink, others have not
 *      gpus-far     no two GPUs share NVLink or a PCIe switch
 *      amd          GPUs of AMD
 *      nccls        several releases of NCCL ran
 *      few-nics     NCCL uses less than half of the NICs in that matrix
 *      idle-nics    NCCL's rings name less than half of the NICs that it found
 *      lossy        a counter of a NIC shows lost packets or errors */
#include "analysis/diagnose/evidence.h"
#include "core/base/xalloc.h"

enum { HOSTS = 256, HOST = 64, RANKS = 1 << 14, CELLS = 80, ROW = 1024 };

struct hosts {
        uint32_t n, n_ranks[HOSTS]; /* n_ranks: of the largest communicator */
        char names[HOSTS][HOST];
        long most;
        bool seen[RANKS];
        bool many, one, sizes; /* sizes: several */
        char tested[HOST];     /* a host of nccl-tests */
        bool tested_far;       /* it ran on another one, too */
};

static const char NAME_CHARS[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";

static void take_init(const char *at, const char *line, uint32_t number, void *arg)
{
        struct hosts *h = arg;
        const char *nranks = memmem(line, (size_t)(at - line), " nranks ", 8),
                   *rank = memmem(line, (size_t)(at - line), " rank ", 6);
        char name[HOST];
        long of = nranks ? strtol(nranks + 8, NULL, 10) : 0,
             r = rank ? strtol(rank + 6, NULL, 10) : -1;
        uint32_t i;

        h->sizes |= h->most && of && of != h->most;
        if (!capo_debug_host(line, name, HOST) || r < 0 || r >= RANKS || of < h->most)
                return;
        if (of > h->most) {
                h->most = of;
                memset(h->seen, 0, sizeof h->seen);
                memset(h->n_ranks, 0, sizeof h->n_ranks);
        }
        for (i = 0; i < h->n && strcmp(h->names[i], name) != 0;)
                i++;
        if (i == HOSTS || h->seen[r])
                return;
        if (i == h->n)
                memcpy(h->names[h->n++], name, HOST);
        h->seen[r] = true;
        h->n_ranks[i]++;
}

/* "#  Rank  0 Group  0 Pid 2000 on node-a device 0 ..." of nccl-tests. */
static void take_device(const char *at, const char *line, uint32_t number, void *arg)
{
        struct hosts *h = arg;
        const char *on = memmem(at, strcspn(at, "\n"), " on ", 4);
        char name[HOST];

        on = on ? on + 4 + strspn(on + 4, " ") : NULL;
        if (!on || !capo_take_word(on, NAME_CHARS, name, sizeof name))
                return;
        h->tested_far |= *h->tested && strcmp(h->tested, name) != 0;
        memcpy(h->tested, name, HOST);
}

static void take_nodes(const char *at, const char *line, uint32_t number, void *arg)
{
        long n = strtol(at + strlen(" nNodes "), NULL, 10);

        ((struct hosts *)arg)->many |= n > 1;
        ((struct hosts *)arg)->one |= n == 1;
}

static void add_fact(struct capo_evidence *e, const char *fact) { ADD(e->facts, "%s ", fact); }

/* In a job of two ranks all groups are of both. */
static bool is_pair(struct capo_evidence *e)
{
        static const char words[] =
                "Starting with 2 processes|MEMBER: 1/2|nproc-per-node 2 |nproc_per_node 2 |nproc_per_node=2 |nproc-per-node=2 |"
                "world_size=2 |world size 2\n|-np 2 ";

        return capo_bug_any(words, capo_evidence_has, e, NULL) && !capo_evidence_has("nnodes", e) &&
               !capo_evidence_has("[rank2]", e);
}

static void read_hosts(struct capo_evidence *e)
{
        struct hosts *h = xcalloc(1, sizeof *h);
        uint32_t sum = 0, least = UINT32_MAX, most = 0, with = 0;
        bool many;

        for (uint32_t i = 0; i < e->n_texts; i++) {
                capo_evidence_each(e, i, "Init START", take_init, h);
                capo_evidence_each(e, i, "Init COMPLETE", take_init, h);
                capo_evidence_each(e, i, " nNodes ", take_nodes, h);
                capo_evidence_each(e, i, "#  Rank ", take_device, h);
                capo_evidence_each(e, i, "#   Rank ", take_device, h);
        }
        for (uint32_t i = 0; i < h->n; i++) {
                if (!h->n_ranks[i])
                        continue;
                with++;
                sum += h->n_ranks[i];
                least = h->n_ranks[i] < least ? h->n_ranks[i] : least;
                most = h->n_ranks[i] > most ? h->n_ranks[i] : most;
        }
        if (h->most > 1 ? !h->sizes : is_pair(e))
                add_fact(e, "@one-comm");
        many = with > 1 || h->many || h->tested_far;
        if (many)
                add_fact(e, "@many-nodes");
        else if (*h->tested || h->one || (with == 1 && h->n_ranks[0] == h->most && h->most > 1))
                add_fact(e, "@one-node");
        if (with > 1 && with < 8 && sum == h->most)
                add_fact(e, with == 2 ? "@two-nodes @few-nodes" : "@few-nodes");
        if (with > 1 && sum == h->most && least < most)
                add_fact(e, "@uneven");
        free(h);
}

struct matrix {
        bool nic[CELLS], nvlink, pcie, pair_near;
        uint32_t n;
};

/* The head of the matrix names its columns; a row begins with the name of its own. */
static void read_row(struct matrix *m, const char *line)
{
        char row[ROW], *rest = row;
        bool head = strchr(" \t", *line) && !memmem(line, strcspn(line, "\n"), "X", 1) &&
                    !strncmp(line + strspn(line, " \t"), "GPU0", 4);
        uint32_t n = 0;

        if (!head && strncmp(line, "GPU", 3) != 0)
                return;
        SAY(row, "%.*s", (int)strcspn(line, "\r\n"), line);
        if (head)
                *m = (struct matrix){
                        .nvlink = m->nvlink, .pcie = m->pcie, .pair_near = m->pair_near};
        for (char *cell, *save = NULL; (cell = strtok_r(rest, " \t", &save)) && n < CELLS;) {
                rest = NULL;
                if (head) {
                        m->nic[n++] = strncmp(cell, "GPU", 3) != 0;
                        m->n = strcmp(cell, "CPU") ? n : n - 1;
                        if (m->n < n)
                                return;
                        continue;
                }
                if (n && n <= m->n && !m->nic[n - 1]) {
                        m->nvlink |= cell[0] == 'N' && cell[1] == 'V';
                        m->pcie |= !strcmp(cell, "NODE") || !strcmp(cell, "SYS") || cell[0] == 'P';
                        m->pair_near |= !strcmp(cell, "PIX") || !strcmp(cell, "PXB");
                }
                n++;
        }
}

void capo_nics_used(const char *at, const char *line, uint32_t number, void *arg)
{
        uint32_t *most = arg, n = 0;
        size_t size = strcspn(at, ";\n");

        for (const char *nic = at; (nic = memmem(nic, size - (size_t)(nic - at), ":1/", 3)); nic++)
                n++;
        *most = n > *most ? n : *most;
}

/* "NCCL INFO  1 : NET/1 GPU/0 GPU/7 ... NET/1": a bit for each NIC. */
static void take_ring(const char *at, const char *line, uint32_t number, void *arg)
{
        unsigned long nic = strtoul(at + strlen(" : NET/"), NULL, 10);

        if (nic < 64 && memmem(at, strcspn(at, "\n"), " GPU/", 5))
                *(uint64_t *)arg |= UINT64_C(1) << nic;
}

static void take_counter(const char *at, const char *line, uint32_t number, void *arg)
{
        const char *digit = at + strcspn(at, "0123456789\n");

        *(bool *)arg |= digit - at < 48 && strtoull(digit, NULL, 10) > 0;
}

static void read_nics(struct capo_evidence *e, uint32_t n_nics)
{
        static const char counters[] =
                "out_of_sequence|packet_seq_err|local_ack_timeout_err|roce_adp_retrans|rx_discards_phy|tx_discards_phy|"
                "SymbolErrorCounter|symbol_error|port_rcv_errors|PortRcvErrors|PortXmitDiscards|port_xmit_discards|"
                "rx_prio3_discards|rnr_nak_retry_err";
        char word[40];
        uint32_t used = 0;
        uint64_t rings = 0;
        bool lossy = false;

        for (uint32_t i = 0; i < e->n_texts; i++) {
                capo_evidence_each(e, i, "NET/IB : Using", capo_nics_used, &used);
                capo_evidence_each(e, i, " : NET/", take_ring, &rings);
                for (const char *at = counters; *at;
                     at += strlen(word) + (at[strlen(word)] == '|')) {
                        SAY(word, "%.*s", (int)strcspn(at, "|"), at);
                        capo_evidence_each(e, i, word, take_counter, &lossy);
                }
        }
        if (used && used * 2 < n_nics)
                add_fact(e, "@few-nics");
        if (rings && (uint32_t)__builtin_popcountll(rings) * 2 < used)
                add_fact(e, "@idle-nics");
        if (lossy)
                add_fact(e, "@lossy");
}

void capo_facts_read(struct capo_evidence *e)
{
        struct matrix m = {0};
        uint32_t n_nics = 0;

        for (uint32_t i = 0; i < e->n_texts; i++) {
                const struct capo_records *r = &e->texts[i].records;

                m.n = 0;
                for (uint32_t k = 0; k < r->n && e->texts[i].n[CAPO_EVIDENCE_MATRIX]; k++)
                        read_row(&m, r->text + r->v[k].begin);
                for (uint32_t k = 0, n = 0; k < m.n; k++) {
                        n += m.nic[k];
                        n_nics = n > n_nics ? n : n_nics;
                }
        }
        if (m.nvlink)
                add_fact(e, "@nvlink");
        if (m.pcie && m.nvlink)
                add_fact(e, "@nvlink-pairs");
        if (m.pcie && !m.nvlink && !m.pair_near)
                add_fact(e, "@gpus-far");
        if (capo_bug_any("AMD Instinct|RCCL version|MI300X|MI250|MI210|amdgpu|Radeon",
                         capo_evidence_has, e, NULL) &&
            !capo_bug_any("NVIDIA |nvidia-smi", capo_evidence_has, e, NULL))
                add_fact(e, "@amd");
        if (e->n_nccls > 1)
                add_fact(e, "@nccls");
        read_nics(e, n_nics);
        return read_hosts(e);
}

/* What NCCL's lines say of one node and not of another: GPUDirect RDMA, NICs, network, interface. */

enum { NODES = 64, VALUE = 48 };

enum shape { HAS_GDRDMA, NEXT_WORD, COUNT_NICS };

static const struct property {
        const char *words;
        enum shape shape;
        enum capo_finding_rank rank;
        const char *kind, *what, *next;
} properties[] = {
        {"via NET/IB", HAS_GDRDMA, CAPO_RANK_SLOW, "slow", "channels of NET/IB",
         "GPUDirect RDMA there: lsmod | grep -i peermem on both nodes (modprobe nvidia-peermem, at boot), or DMA-BUF; then all channels show GDRDMA"},
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
        char name[NODES][HOST], value[NODES][VALUE];
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

static void take_node(const char *at, const char *line, uint32_t number, void *arg)
{
        struct nodes *s = arg;
        char name[HOST], value[VALUE];
        uint32_t i;

        if (!capo_debug_host(line, name, HOST))
                return;
        read_value(s, at, value);
        for (i = 0; i < s->n && strcmp(s->name[i], name) != 0;)
                i++;
        if (i == NODES)
                return;
        if (i == s->n) {
                memcpy(s->name[s->n++], name, HOST);
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
