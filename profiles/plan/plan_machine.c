/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL combines its topology file with what it finds on the machine. Here it finds no machine, so
 * the file must be complete: GPUs and NICs that are only PCI functions get their <gpu> and <net>,
 * and NVLinks come from the platform if one is named. Existing contents do not change, with two
 * exceptions: ranks of the dump are removed, and so are GUIDs of NICs, which differ from node to
 * node and come from the virtual NICs.
 *
 * The XML tree is not changed; additions are kept beside it, by element, and inserted when the file
 * is written. */

#include "core/base/among.h"
#include "capo/msg.h"
#include "core/base/markup.h"
#include "core/base/xalloc.h"
#include "profiles/plan/plan_machine.h"
#include "profiles/machine/platform.h"

struct reading {
        const char *path;
        const struct capo_platform *platform;
        struct plan_machine *m;
        const struct capo_xml
                *gpu_at[CAPO_PLAN_GPUS_MAX]; /* the <pci> of each GPU, in the order of m->gpus */
        const struct capo_xml *net_at[PLAN_MAX_NETS]; /* the <net>, or the <pci> that gets one */
        bool has_links, has_switch;
        char *why;
        size_t room;
        int rc;
};

/* Keeps the first error. */
#define fail(r, line, ...)                                                              \
        ((r)->rc = (r)->rc ? (r)->rc                                                    \
                           : capo_why_at(-EINVAL, (r)->why, (r)->room, (r)->path, line, \
                                         __VA_ARGS__))

static int get_number_attr(const struct capo_xml *e, const char *attr, int otherwise)
{
        const char *text = e ? capo_xml_get(e, attr) : NULL;

        return text && *text ? (int)strtol(text, NULL, 0) : otherwise;
}

static const struct capo_xml *find_child(const struct capo_xml *e, const char *name)
{
        for (const struct capo_xml *c = e->child; c; c = c->next) {
                if (!strcmp(c->name, name))
                        return c;
        }
        return NULL;
}

static bool is_class(const struct capo_xml *e, const char *prefix)
{
        const char *class = capo_xml_get(e, "class");

        return class && !strncmp(class, prefix, strlen(prefix));
}

static int add_gpu(struct reading *r, const struct capo_xml *pci, int numa)
{
        const struct capo_xml *xml = find_child(pci, "gpu");
        const char *busid = capo_xml_get(pci, "busid");
        struct plan_gpu *gpu = &r->m->gpus[r->m->n_gpus];
        int end = 0;

        if (r->m->n_gpus == CAPO_PLAN_GPUS_MAX)
                return fail(r, pci->line, "more than %d GPUs; NCCL's NVML table ends there",
                            CAPO_PLAN_GPUS_MAX);
        if (!busid)
                return fail(r, pci->line, "expected <pci> to have a busid, found none");
        sscanf(busid, "%*8[0-9a-fA-F]:%*2[0-9a-fA-F]:%*2[0-9a-fA-F].%*1[0-7]%n", &end);
        if (busid[end] || end < 12)
                return fail(r, pci->line,
                            "expected a busid as 0000:06:00.0 on the <pci> of a GPU, found \"%s\"",
                            busid);
        for (size_t i = 0; busid[i]; i++) /* NCCL compares bus ids as lower-case text */
                gpu->busid[i] = (char)tolower((unsigned char)busid[i]);
        gpu->dev = get_number_attr(xml, "dev", -1);
        gpu->sm = get_number_attr(xml, "sm", 0);
        gpu->gdr = get_number_attr(xml, "gdr", 1);
        gpu->numa = numa;
        if (!gpu->sm && r->platform)
                gpu->sm = r->platform->sm;
        if (gpu->sm < 35 || gpu->sm > 150)
                fail(r, pci->line,
                     "GPU %s: expected its compute capability (sm=\"70\"), found %s; --platform NAME supplies it",
                     busid, xml && capo_xml_get(xml, "sm") ? capo_xml_get(xml, "sm") : "none");
        for (const struct capo_xml *l = xml ? xml->child : NULL; l; l = l->next) {
                const char *class = capo_xml_get(l, "tclass");

                if (!strcmp(l->name, "xgmi"))
                        fail(r, l->line,
                             "an xGMI link: this is an AMD machine, and plan asks NVIDIA's NCCL");
                if (strcmp(l->name, "nvlink") && strcmp(l->name, "c2c"))
                        continue;
                r->has_links = true;
                r->has_switch |= class && !strncmp(class, "0x0680", 6);
        }
        r->gpu_at[r->m->n_gpus++] = pci;
        return r->rc;
}

/* @made: the begin of its name, if it has none */
static int add_net(struct reading *r, const struct capo_xml *xml, const char *made)
{
        struct plan_net *net = &r->m->nets[r->m->n_nets];
        const char *latency = capo_xml_get(xml, "latency"), *guid = capo_xml_get(xml, "guid"),
                   *name = strcmp(xml->name, "net") ? NULL : capo_xml_get(xml, "name");

        if (r->m->n_nets == PLAN_MAX_NETS)
                return fail(r, xml->line, "more than %d network interfaces", PLAN_MAX_NETS);
        if (name && strlen(name) >= sizeof net->name)
                return fail(r, xml->line, "network interface name longer than %zu characters",
                            sizeof net->name - 1);
        if (name && *name)
                strcpy(net->name, name);
        else
                snprintf(net->name, sizeof net->name, "%s%u", made, r->m->n_nets);
        for (uint32_t i = 0; i < r->m->n_nets; i++) {
                if (!strcmp(r->m->nets[i].name, net->name))
                        return fail(r, xml->line, "a second network interface named \"%s\"",
                                    net->name);
        }
        net->dev = (int)r->m->n_nets;
        net->speed = get_number_attr(xml, "speed", r->platform ? r->platform->nic_speed : 10000);
        net->port = get_number_attr(xml, "port", 1);
        net->gdr = get_number_attr(xml, "gdr", strcmp(xml->name, "net") ? 1 : 0);
        net->max_comms = get_number_attr(xml, "maxconn", 65536);
        net->latency = latency ? strtof(latency, NULL) : 0;
        net->guid = guid ? strtoull(guid, NULL, 0) : 0x1000 + r->m->n_nets;
        if (net->speed <= 0)
                net->speed = 10000;
        r->net_at[r->m->n_nets++] = xml;
        return 0;
}

static int walk_elements(struct reading *r, const struct capo_xml *e, int numa)
{
        bool pci = !strcmp(e->name, "pci");

        if (!strcmp(e->name, "cpu"))
                numa = get_number_attr(e, "numaid", 0);
        if (pci && (find_child(e, "gpu") || is_class(e, "0x03")))
                return add_gpu(r, e, numa);
        if (!strcmp(e->name, "net"))
                return add_net(r, e, "net");
        if (pci && is_class(e, "0x02") && !find_child(e, "nic"))
                return add_net(r, e, "nic");
        for (const struct capo_xml *c = e->child; c && !r->rc; c = c->next)
                walk_elements(r, c, numa < 0 ? 0 : numa);
        return r->rc;
}

/* GPUs without a number are numbered by bus id, as CUDA does for equal GPUs. */
static void number_gpus(struct reading *r)
{
        struct plan_machine *m = r->m;
        uint32_t named = 0;

        for (uint32_t i = 0; i < m->n_gpus; i++)
                named += m->gpus[i].dev >= 0;
        if (named != 0 && named != m->n_gpus) {
                fail(r, 0, "expected a dev number on all %u GPUs or on none, found %u", m->n_gpus,
                     named);
                return;
        }
        for (uint32_t i = 0; i < m->n_gpus && !named; i++) {
                m->gpus[i].dev = 0;
                for (uint32_t k = 0; k < m->n_gpus; k++)
                        m->gpus[i].dev += strcasecmp(m->gpus[k].busid, m->gpus[i].busid) < 0;
        }
        for (uint32_t i = 0; i < m->n_gpus; i++) {
                for (uint32_t k = 0; k < i; k++) {
                        if (m->gpus[i].dev == m->gpus[k].dev)
                                fail(r, 0, "two GPUs with dev=\"%d\"", m->gpus[i].dev);
                        if (!strcmp(m->gpus[i].busid, m->gpus[k].busid))
                                fail(r, 0, "two GPUs at busid %s", m->gpus[i].busid);
                }
        }
}

/* ---- writing ---- */

static void put_links(FILE *f, const struct reading *r, int dev)
{
        const struct capo_platform *p = r->platform;

        if (!p || r->has_links)
                return;
        for (int s = 0; p->to_switch[s]; s++)
                fprintf(f, "<nvlink target=\"0000:%02x:00.0\" count=\"%d\" tclass=\"0x068000\"/>\n",
                        0xf0 + s, p->to_switch[s]);
        for (int peer = 0; p->mesh && peer < 8 && dev < 8; peer++) {
                for (uint32_t i = 0; i < r->m->n_gpus && p->mesh[dev][peer]; i++) {
                        if (r->m->gpus[i].dev == peer)
                                fprintf(f,
                                        "<nvlink target=\"%s\" count=\"%d\" tclass=\"0x030200\"/>\n",
                                        r->m->gpus[i].busid, p->mesh[dev][peer]);
                }
        }
}

static int index_of(const struct capo_xml *const *list, uint32_t n, const struct capo_xml *e)
{
        const struct capo_xml *const *at = FIRST_OF(it, list, n, *it == e);

        return at ? (int)(at - list) : -1;
}

static void put_element(FILE *f, const struct reading *r, const struct capo_xml *e)
{
        int gpu = index_of(r->gpu_at, r->m->n_gpus, e->parent);
        int net = index_of(r->net_at, r->m->n_nets, e);
        int new_gpu = index_of(r->gpu_at, r->m->n_gpus, e);
        bool is_gpu = !strcmp(e->name, "gpu"), is_net = !strcmp(e->name, "net");

        fprintf(f, "<%s", e->name);
        for (size_t i = 0; i < e->n_attrs; i++) {
                const char *name = e->attrs[i].name;

                if (!strcmp(name, "rank") || !strcmp(name, "keep") || !strcmp(name, "host_hash") ||
                    !strcmp(name, "coll"))
                        continue;
                if ((is_gpu && gpu >= 0 && (!strcmp(name, "dev") || !strcmp(name, "sm"))) ||
                    (is_net && net >= 0 &&
                     (!strcmp(name, "name") || !strcmp(name, "dev") || !strcmp(name, "guid"))))
                        continue;
                fprintf(f, " %s=\"", name);
                if (!strcmp(name, "busid") && new_gpu >= 0)
                        capo_markup_text(f, r->m->gpus[new_gpu].busid);
                else
                        capo_markup_text(f, e->attrs[i].value);
                fputc('"', f);
        }
        if (is_gpu && gpu >= 0)
                fprintf(f, " dev=\"%d\" sm=\"%d\"", r->m->gpus[gpu].dev, r->m->gpus[gpu].sm);
        if (is_net && net >= 0) {
                fprintf(f, " name=\"%s\" dev=\"%d\"", r->m->nets[net].name, r->m->nets[net].dev);
                if (!capo_xml_get(e, "speed"))
                        fprintf(f, " speed=\"%d\"", r->m->nets[net].speed);
        }
        fputs(">\n", f);
        for (const struct capo_xml *c = e->child; c; c = c->next)
                put_element(f, r, c);
        if (is_gpu && gpu >= 0)
                put_links(f, r, r->m->gpus[gpu].dev);
        if (new_gpu >= 0 && !find_child(e, "gpu")) {
                fprintf(f, "<gpu dev=\"%d\" sm=\"%d\" gdr=\"1\">\n", r->m->gpus[new_gpu].dev,
                        r->m->gpus[new_gpu].sm);
                put_links(f, r, r->m->gpus[new_gpu].dev);
                fputs("</gpu>\n", f);
        }
        if (net >= 0 && !is_net)
                fprintf(f,
                        "<nic><net name=\"%s\" dev=\"%d\" speed=\"%d\" port=\"1\" latency=\"0\" "
                        "maxconn=\"%d\" gdr=\"1\"/></nic>\n",
                        r->m->nets[net].name, r->m->nets[net].dev, r->m->nets[net].speed,
                        r->m->nets[net].max_comms);
        fprintf(f, "</%s>\n", e->name);
}

int plan_machine_prepare(const char *topo, const char *platform, const char *write_to,
                         struct plan_machine *m, char *why, size_t room)
{
        struct capo_xml *root = NULL;
        struct reading r = {.path = topo, .m = m, .why = why, .room = room};
        FILE *f;

        memset(m, 0, sizeof *m);
        if (platform && !(r.platform = capo_platform_find(platform)))
                return capo_why(-EINVAL, why, room, "unknown platform \"%s\"", platform);
        if ((r.rc = capo_xml_read(topo, &root, why, room)) < 0)
                return r.rc;
        if (strcmp(root->name, "system") != 0)
                fail(&r, root->line, "expected NCCL's <system>, found <%s>", root->name);
        else if (!walk_elements(&r, root, 0))
                number_gpus(&r);
        if (!m->n_gpus)
                fail(&r, 0, "no GPU in it");
        if (r.platform && r.platform->mesh && !r.has_links && m->n_gpus != 8)
                fail(&r, 0, "platform %s has 8 GPUs, the file has %u", platform, m->n_gpus);
        m->multicast = r.has_switch || (r.platform && !r.has_links && r.platform->to_switch[0]);
        if (!r.rc && write_to) {
                f = fopen(write_to, "we");
                if (f)
                        put_element(f, &r, root);
                if (!f || fclose(f) != 0)
                        r.rc = capo_why(-errno, why, room, "%s: %s", write_to, strerror(errno));
                snprintf(m->topo, sizeof m->topo, "%s", write_to);
        }
        capo_xml_free(root);
        return r.rc;
}

static int by_number(const void *a, const void *b)
{
        return *(const uint16_t *)a - *(const uint16_t *)b;
}

int capo_plan_machine_gpus(const char *topo, const char *platform, uint16_t *devs, char *why,
                           size_t room)
{
        _cleanup_free_ struct plan_machine *m = xcalloc(1, sizeof *m);
        int r = plan_machine_prepare(topo, platform, NULL, m, why, room);

        if (r < 0)
                return r;
        for (uint32_t i = 0; i < m->n_gpus; i++)
                devs[i] = (uint16_t)m->gpus[i].dev;
        qsort(devs, m->n_gpus, sizeof *devs, by_number);
        return (int)m->n_gpus;
}
