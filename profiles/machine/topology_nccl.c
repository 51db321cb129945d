/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's topology file: <system> contains <cpu>, which contains nested <pci>, with <gpu>, <nic> and
 * <net> as leaves, and the links of a GPU inside it. RCCL writes the same with <xgmi> and version
 * 2. NCCL fills in missing or empty attributes on the machine; here they get NCCL's defaults
 * (src/graph/topo.cc, 2.28). */
#include "profiles/machine/topology_nccl.h"

/* Of the link. Speed of one lane in units of 100 Mb/s after encoding, rounded as in NCCL's
 * kvDictPciGen; missing or unknown: 60. */
static double pci_gbs(const struct capo_xml *e)
{
        static const struct {
                double gts;
                int speed;
        } generations[] = {{2.5, 15}, {5, 30}, {8, 60}, {16, 120}, {32, 240}, {64, 480}};
        const char *width = capo_xml_get(e, "link_width"), *text = capo_xml_get(e, "link_speed");
        double gts = text ? strtod(text, NULL) : 0, speed = 60;
        int lanes = width ? atoi(width) : 0;

        for (size_t i = 0; i < N_ELEMENTS(generations); i++)
                speed = gts == generations[i].gts ? generations[i].speed : speed;
        return speed * (lanes > 0 ? lanes : 16) / 80.0;
}

/* A whole number; missing or empty: `otherwise`. */
static int parse_int_attr(struct topology_build *b, const struct capo_xml *e, const char *attr,
                          long low, long high, int otherwise, int *out)
{
        const char *text = capo_xml_get(e, attr);
        char *end;
        long v;

        if (!text || !*text) {
                *out = otherwise;
                return 0;
        }
        errno = 0;
        v = strtol(text, &end, 0);
        if (*end || errno || v < low || v > high)
                return topology_fail(b, e->line,
                                     "expected %s of <%s> between %ld and %ld, found \"%s\"", attr,
                                     e->name, low, high, text);
        *out = (int)v;
        return 0;
}

/* Parse "942" or, from RCCL since ROCm 6, "gfx942", "gfx90a:sramecc+". The number of 90a is 910. */
static int gcn_of(struct topology_build *b, const struct capo_xml *e, int *out)
{
        const char *text = capo_xml_get(e, "gcn");
        char *end;
        long v;

        if (!text || strncmp(text, "gfx", 3) != 0)
                return parse_int_attr(b, e, "gcn", 0, 99999, 0, out);
        v = strtol(text + 3, &end, 10);
        if (v == 90 && *end == 'a') {
                v = 910;
                end++;
        }
        if (v < 1 || v > 99999 || (*end && *end != ':'))
                return topology_fail(b, e->line,
                                     "expected gcn of <gpu> as 942 or gfx942, found \"%s\"", text);
        *out = (int)v;
        return 0;
}

static void copy_attr(char *out, size_t room, const struct capo_xml *e, const char *attr)
{
        const char *text = capo_xml_get(e, attr);

        snprintf(out, room, "%s", text ? text : "");
}

static int read_links(struct topology_build *b, const struct capo_xml *gpu_xml, int gpu)
{
        for (const struct capo_xml *e = gpu_xml->child; e; e = e->next) {
                struct half_link *h;
                const char *target = capo_xml_get(e, "target");
                bool c2c = !strcmp(e->name, "c2c"), xgmi = !strcmp(e->name, "xgmi");
                int r;

                if (!c2c && !xgmi && strcmp(e->name, "nvlink") != 0)
                        continue;
                h = TOPOLOGY_GROW(b->halves, b->n_halves);
                h->kind = c2c ? CAPO_WIRE_C2C : xgmi ? CAPO_WIRE_XGMI : CAPO_WIRE_NVLINK;
                h->from = gpu;
                h->line = e->line;
                copy_attr(h->class_text, sizeof h->class_text, e, "tclass");
                r = parse_int_attr(b, e, "count", 1, 1000, 1, &h->count);
                if (r < 0)
                        return r;
                if (c2c) {
                        const char *bw = capo_xml_get(e, "bw");

                        /* MB/s per link; src/graph/topo.cc ncclTopoAddC2c */
                        h->gbs = bw ? strtod(bw, NULL) / 1000.0 * h->count : 0;
                } else if (!target) {
                        return topology_fail(b, e->line,
                                             "expected <%s> to have a target, found none", e->name);
                } else if (!strncmp(target, "fffffff", 7)) {
                        snprintf(h->to, sizeof h->to,
                                 "nvswitch"); /* the operating system does not see it */
                        snprintf(h->class_text, sizeof h->class_text, "0x068000");
                } else if (capo_busid_canonical(target, h->to) < 0) {
                        return topology_fail(
                                b, e->line,
                                "expected a PCI bus id such as 0000:06:00.0, found \"%s\"", target);
                }
        }
        return 0;
}

static int read_gpu(struct topology_build *b, const struct capo_xml *e, int cpu, int pci)
{
        struct capo_topology_gpu *gpu = topology_add_gpu(b);
        int index = (int)b->t->n_gpus - 1, gdr = 0, r;

        gpu->cpu = cpu;
        gpu->pci = pci;
        gpu->xml = e;
        if (pci >= 0)
                snprintf(gpu->busid, sizeof gpu->busid, "%s", b->t->pcis[pci].busid);
        if (strcmp(e->name, "gpu") != 0) /* a bare <pci> with a GPU's class */
                return 0;
        if ((r = parse_int_attr(b, e, "dev", 0, 4095, -1, &gpu->dev)) < 0 ||
            (r = parse_int_attr(b, e, "sm", 0, 999, 0, &gpu->sm)) < 0 ||
            (r = gcn_of(b, e, &gpu->gcn)) < 0 ||
            (r = parse_int_attr(b, e, "rank", -1, 1 << 24, -1, &gpu->rank)) < 0 ||
            (r = parse_int_attr(b, e, "gdr", 0, 1, 0, &gdr)) < 0)
                return r;
        gpu->gdr = gdr;
        if (gpu->gcn)
                gpu->sm = 0; /* RCCL writes the number of compute units there */
        return read_links(b, e, index);
}

static int read_nic(struct topology_build *b, const struct capo_xml *e, int cpu, int pci)
{
        for (const struct capo_xml *n = e->child; n; n = n->next) {
                struct capo_topology_nic *nic;
                int speed, gdr = 0, r;

                if (strcmp(n->name, "net") != 0)
                        continue;
                nic = topology_add_nic(b);
                nic->cpu = cpu;
                nic->pci = pci;
                copy_attr(nic->name, sizeof nic->name, n, "name");
                if ((r = parse_int_attr(b, n, "dev", 0, 4095, (int)b->t->n_nics - 1, &nic->dev)) <
                            0 ||
                    (r = parse_int_attr(b, n, "port", 0, 255, 0, &nic->port)) < 0 ||
                    (r = parse_int_attr(b, n, "gdr", 0, 1, 0, &gdr)) < 0 ||
                    (r = parse_int_attr(b, n, "speed", 0, 1 << 30, 10000, &speed)) < 0)
                        return r;
                nic->gdr = gdr;
                nic->gbs = (speed > 0 ? speed : 10000) /
                           8000.0; /* Mb/s; 10 Gb/s by default, as in NCCL */
        }
        return 0;
}

/* Read everything below one <cpu> or <pci>. The XML reader limits the depth. */
static int read_devices(struct topology_build *b, const struct capo_xml *parent, int cpu,
                        int parent_pci)
{
        for (const struct capo_xml *e = parent->child; e; e = e->next) {
                int r = 0;

                if (!strcmp(e->name, "pci")) {
                        const char *busid = capo_xml_get(e, "busid"),
                                   *class = capo_xml_get(e, "class");
                        struct capo_topology_pci *pci = TOPOLOGY_GROW(b->t->pcis, b->t->n_pcis);
                        int index = (int)b->t->n_pcis - 1;
                        size_t gpus_before = b->t->n_gpus;

                        *pci = (struct capo_topology_pci){
                                .class = class ? (uint32_t)strtoul(class, NULL, 16) : 0,
                                .parent = parent_pci,
                                .cpu = cpu,
                                .gbs = pci_gbs(e),
                                .xml = e};
                        if (!busid)
                                return topology_fail(b, e->line,
                                                     "expected <pci> to have a busid, found none");
                        if (capo_busid_canonical(busid, pci->busid) < 0)
                                return topology_fail(
                                        b, e->line,
                                        "expected a PCI bus id such as 0000:06:00.0, found \"%s\"",
                                        busid);
                        r = read_devices(b, e, cpu, index);
                        if (!r && b->t->n_gpus == gpus_before &&
                            b->t->pcis[index].class >> 16 == 0x03)
                                r = read_gpu(b, e, cpu, index);
                        if (!r && b->t->pcis[index].class >> 8 == 0x0680)
                                topology_add_switch(b, b->t->pcis[index].busid);
                } else if (!strcmp(e->name, "gpu")) {
                        if (parent_pci < 0)
                                return topology_fail(
                                        b, e->line,
                                        "expected <gpu> inside a <pci>, found it in <%s>",
                                        parent->name);
                        r = read_gpu(b, e, cpu, parent_pci);
                } else if (!strcmp(e->name, "nic")) {
                        r = read_nic(b, e, cpu, parent_pci);
                } /* <pcilink> and later additions stay available in the XML */
                if (r < 0)
                        return r;
        }
        return 0;
}

/* @tray: number of the machine if the file stands for several; -1: a single one. */
static int read_system(struct topology_build *b, const struct capo_xml *root, int tray)
{
        if (strcmp(root->name, "system") != 0)
                return topology_fail(
                        b, root->line, "expected <system> of an NCCL topology, found <%s>%s",
                        root->name,
                        !strcmp(root->name, "graphs")     ? " (this is an NCCL graph file)"
                        : !strcmp(root->name, "topology") ? " (of lstopo's, which is not read)"
                                                          : "");
        for (const struct capo_xml *e = root->child; e; e = e->next) {
                struct capo_topology_cpu *cpu;
                int r;

                if (strcmp(e->name, "cpu") != 0)
                        continue;
                cpu = TOPOLOGY_GROW(b->t->cpus, b->t->n_cpus);
                copy_attr(cpu->host_hash, sizeof cpu->host_hash, e, "host_hash");
                if (tray >= 0)
                        snprintf(cpu->host_hash, sizeof cpu->host_hash, "%05d", tray);
                copy_attr(cpu->arch, sizeof cpu->arch, e, "arch");
                copy_attr(cpu->vendor, sizeof cpu->vendor, e, "vendor");
                if ((r = parse_int_attr(b, e, "numaid", -1, 65535, (int)b->t->n_cpus - 1,
                                        &cpu->numa)) < 0 ||
                    (r = parse_int_attr(b, e, "modelid", 0, 65535, 0, &cpu->model)) < 0)
                        return r;
                r = read_devices(b, e, (int)b->t->n_cpus - 1, -1);
                if (r < 0)
                        return r;
        }
        return 0;
}

int capo_topology_read_trays(const char *path, int n, double brick_gbs, struct capo_topology **out,
                             char *why, size_t room)
{
        struct topology_build b;
        int r;

        topology_build_begin(&b, path, 0, brick_gbs, why, room);
        r = capo_xml_read(path, &b.t->xml, why, room);
        b.t->pci_known = true;
        for (int i = 0; i < n && !r; i++)
                r = read_system(&b, b.t->xml, i);
        r = topology_build_end(&b, r, out);
        for (size_t i = 0; !r && i < (*out)->n_gpus; i++)
                (*out)->gpus[i].dev = (int)i; /* sorted by tray, then by number */
        return r;
}

int topology_read_nccl(struct topology_build *b, const char *text, size_t size)
{
        int r = capo_xml_parse(b->t->name, text, size, &b->t->xml, b->why, b->room);

        b->t->pci_known = true;
        return r ? r : read_system(b, b->t->xml, -1);
}
