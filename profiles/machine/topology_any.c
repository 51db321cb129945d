/* SPDX-License-Identifier: Apache-2.0 */
/* Detects the format of a file by its first characters, never by its name. Also makes racks, which
 * no file describes. */
#include <hwloc.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>

#include "core/base/file.h"
#include "core/base/xalloc.h"
#include "profiles/machine/apart.h"
#include "profiles/machine/platform.h"
#include "profiles/machine/topology_nccl.h"

/* The text of `nvidia-smi topo -m`: a matrix of words between GPUs and NICs, with terminal escapes
 * around its heading. It names neither GPU model nor switches. If the NV# of a GPU with all others
 * would need more than 18 links (no GPU has more), the GPUs are connected by a switch. The
 * generation follows from the largest number of ports (4 P100, 6 V100, 12 A100, 18 H100). The
 * caller can give the bandwidth of a link. */
#define COLUMNS 256
#define PORTS   18

/* Remove ESC [ ... letter. */
static void strip_escapes(char *line)
{
        char *to = line;

        for (const char *p = line; *p;) {
                if (p[0] == '\033') {
                        p++;
                        if (*p == '[') {
                                p++;
                                while (*p && !isalpha((unsigned char)*p))
                                        p++;
                        }
                        p += *p != 0;
                        continue;
                }
                *to++ = *p++;
        }
        *to = 0;
}

static enum capo_path path_of(const char *word)
{
        static const enum capo_path paths[] = {CAPO_PATH_PIX, CAPO_PATH_PXB, CAPO_PATH_PHB,
                                               CAPO_PATH_NODE, CAPO_PATH_SYS};

        for (size_t i = 0; i < N_ELEMENTS(paths); i++) {
                if (!strcmp(word, capo_path_name(paths[i])))
                        return paths[i];
        }
        return !strcmp(word, "SOC")
                       ? CAPO_PATH_SYS
                       : CAPO_PATH_UNKNOWN; /* SOC: the name of SYS before driver 396 */
}

struct matrix {
        size_t n_gpus, n_columns; /* device columns: GPUs and NICs */
        char names[COLUMNS][40];
        int bricks[COLUMNS][COLUMNS];
        uint8_t path[COLUMNS][COLUMNS];
        int line[COLUMNS];
        bool row[COLUMNS];
};

static bool is_device(const char *word)
{
        return !strncmp(word, "GPU", 3) ? isdigit((unsigned char)word[3])
                                        : !strncmp(word, "NIC", 3) || !strncmp(word, "mlx", 3) ||
                                                  !strncmp(word, "ib", 2);
}

static void read_heading(struct matrix *m, char **words, size_t n)
{
        for (; m->n_columns < n && is_device(words[m->n_columns]); m->n_columns++) {
                snprintf(m->names[m->n_columns], sizeof m->names[0], "%s", words[m->n_columns]);
                m->n_gpus += !strncmp(words[m->n_columns], "GPU", 3);
        }
}

static int read_row(struct topology_build *b, struct matrix *m, char **words, size_t n, int line)
{
        size_t row = 0;

        while (row < m->n_columns && strcmp(m->names[row], words[0]) != 0)
                row++;
        if (row == m->n_columns)
                return 0; /* the legend, or another table */
        if (n < m->n_columns + 1)
                return topology_fail(b, line, "expected %zu entries for %s, found %zu",
                                     m->n_columns, words[0], n - 1);
        if (m->row[row])
                return topology_fail(b, line, "expected one row for %s, found a second", words[0]);
        m->row[row] = true;
        m->line[row] = line;
        for (size_t k = 0; k < m->n_columns; k++) {
                const char *w = words[k + 1];

                m->path[row][k] = CAPO_PATH_UNKNOWN;
                if (!strcmp(w, "X")) {
                        if (k != row)
                                return topology_fail(
                                        b, line, "expected X under %s itself, found it under %s",
                                        words[0], m->names[k]);
                        m->path[row][k] = CAPO_PATH_SELF;
                } else if (!strncmp(w, "NV", 2) && isdigit((unsigned char)w[2])) {
                        m->bricks[row][k] = atoi(w + 2);
                        if (m->bricks[row][k] < 1 || m->bricks[row][k] > PORTS)
                                return topology_fail(b, line, "expected NV1 to NV%d, found %s",
                                                     PORTS, w);
                } else {
                        m->path[row][k] = path_of(w);
                        if (m->path[row][k] == CAPO_PATH_UNKNOWN)
                                return topology_fail(
                                        b, line,
                                        "expected X, NV#, PIX, PXB, PHB, NODE or SYS under %s, found \"%s\"",
                                        m->names[k], w);
                }
        }
        return 0;
}

static int read_lines(struct topology_build *b, struct matrix *m, char *text)
{
        char *words[COLUMNS];
        int number = 0, r = 0;

        for (char *line; !r && (line = strsep(&text, "\n")) && (*line || text);) {
                size_t n = 0;

                number++;
                strip_escapes(line);
                for (char *save, *w = strtok_r(line, " \t\r\n", &save); w && n < COLUMNS;
                     w = strtok_r(NULL, " \t\r\n", &save))
                        words[n++] = w;
                if (n && m->n_columns)
                        r = read_row(b, m, words, n, number);
                else
                        read_heading(m, words, n);
        }
        if (r < 0)
                return r;
        if (!m->n_gpus)
                return topology_fail(
                        b, 0,
                        "expected the matrix of nvidia-smi topo -m (a heading GPU0 GPU1 ...), or "
                        "XML; found neither");
        for (size_t i = 0; i < m->n_gpus; i++) {
                if (!m->row[i])
                        return topology_fail(b, number, "expected a row for %s, found none",
                                             m->names[i]);
                for (size_t j = 0; j < i; j++) {
                        if (m->bricks[i][j] != m->bricks[j][i] || m->path[i][j] != m->path[j][i])
                                return topology_fail(
                                        b, m->line[i],
                                        "expected %s and %s joined the same both ways, found two answers "
                                        "(the other in line %d)",
                                        m->names[i], m->names[j], m->line[j]);
                }
        }
        return 0;
}

static void add_switch_link(struct topology_build *b, int gpu, int count, int line)
{
        *TOPOLOGY_GROW(b->halves, b->n_halves) = (struct half_link){.from = gpu,
                                                                    .count = count,
                                                                    .line = line,
                                                                    .to = "nvswitch",
                                                                    .class_text = "0x068000"};
}

static void build_from_matrix(struct topology_build *b, const struct matrix *m)
{
        size_t n = m->n_gpus, n_nics = m->n_columns - n;
        int most = 0;
        bool switched = false;

        for (size_t i = 0; i < n; i++) {
                int sum = 0, top = 0;

                for (size_t j = 0; j < n; j++) {
                        sum += m->bricks[i][j];
                        top = m->bricks[i][j] > top ? m->bricks[i][j] : top;
                }
                switched |= sum > PORTS;
                most = sum > most ? sum : most;
                if (switched && top > 0)
                        most = top;
        }
        for (size_t i = 0; i < n; i++) {
                struct capo_topology_gpu *g = topology_add_gpu(b);

                g->dev = atoi(m->names[i] + 3);
                g->sm = most >= 18 ? 90 : most >= 8 ? 80 : most >= 5 ? 70 : most ? 60 : 0;
                snprintf(g->busid, sizeof g->busid, "gpu%d", g->dev);
        }
        for (size_t i = 0; i < n; i++) {
                int top = 0;

                for (size_t j = 0; j < n; j++) {
                        struct half_link *h;

                        top = m->bricks[i][j] > top ? m->bricks[i][j] : top;
                        if (switched || !m->bricks[i][j])
                                continue;
                        h = TOPOLOGY_GROW(b->halves, b->n_halves);
                        h->from = (int)i;
                        h->count = m->bricks[i][j];
                        h->line = m->line[i];
                        snprintf(h->to, sizeof h->to, "gpu%d", atoi(m->names[j] + 3));
                }
                if (switched && top)
                        add_switch_link(b, (int)i, top, m->line[i]);
        }
        for (size_t k = 0; k < n_nics; k++) {
                struct capo_topology_nic *nic = topology_add_nic(b);

                nic->dev = (int)k;
                snprintf(nic->name, sizeof nic->name, "%s", m->names[n + k]);
        }
        b->t->gpu_path = xmalloc(n * n + 1);
        b->t->nic_path = xmalloc(n * n_nics + 1);
        for (size_t i = 0; i < n; i++) {
                for (size_t j = 0; j < n; j++)
                        b->t->gpu_path[i * n + j] = m->path[i][j];
                for (size_t k = 0; k < n_nics; k++)
                        b->t->nic_path[i * n_nics + k] = m->path[i][n + k];
        }
}

static int read_smi(struct topology_build *b, char *text, size_t size)
{
        _cleanup_free_ struct matrix *m = xcalloc(1, sizeof *m);
        int r;

        for (size_t i = 0; i < size; i++) /* a text does not end at a byte of 0 */
                text[i] = text[i] ? text[i] : ' ';
        r = read_lines(b, m, text);
        if (!r)
                build_from_matrix(b, m);
        return r;
}

/* hwloc: this machine, or one that lstopo wrote to XML. hwloc has the PCI tree. With its NVML or
 * RSMI backend it also has link bandwidths, as a distance matrix between GPUs (and NVSwitches):
 * NVLinkBandwidth, XGMIBandwidth, in MB/s of the wire. The number of bricks is that divided by the
 * wire rate of one; a brick gets NCCL's constant, as everywhere else. */
/* GPU models by a word of their name: compute capability, and wire rate of one link in MB/s. */
static const struct model {
        const char *word;
        int sm;
} models[] = {
        {"P100", 60},   {"V100", 70},   {"T4", 75},     {"A100", 80},  {"A800", 80},
        {"A10", 86},    {"RTX 30", 86}, {"A6000", 86},  {"A40", 86},   {"H100", 90},
        {"H200", 90},   {"H800", 90},   {"H20", 90},    {"L40", 89},   {"L4", 89},
        {"RTX 40", 89}, {"B200", 100},  {"GB200", 100}, {"B300", 103}, {"RTX 50", 120},
};

static int sm_of(const char *model)
{
        for (size_t i = 0; i < N_ELEMENTS(models); i++) {
                if (strstr(model, models[i].word))
                        return models[i].sm;
        }
        return 0;
}

enum { TRIAL_SECONDS = 60 };
enum { WIRES = 1000 }; /* limit between two devices, as in NCCL's XML (topology_nccl.c) */

/* Wire rate of a link, MB/s: NVIDIA's data sheets (P100 20, V100 to H100 25, B200 50 GB/s each
 * way). */
static double wire_mbs(int sm) { return sm >= 100 ? 50000 : sm >= 70 ? 25000 : 20000; }

static void format_busid(hwloc_obj_t o, char out[CAPO_BUSID_ROOM])
{
        snprintf(out, CAPO_BUSID_ROOM, "%04x:%02x:%02x.%x", o->attr->pcidev.domain,
                 o->attr->pcidev.bus, o->attr->pcidev.dev, o->attr->pcidev.func);
}

static int cpu_of(struct topology_build *b, hwloc_topology_t h, hwloc_obj_t o)
{
        hwloc_obj_t place = hwloc_get_non_io_ancestor_obj(h, o), node = NULL;
        int numa = 0;
        struct capo_topology_cpu *cpu;

        while ((node = hwloc_get_next_obj_by_type(h, HWLOC_OBJ_NUMANODE, node))) {
                if (place->nodeset && node->nodeset &&
                    hwloc_bitmap_intersects(place->nodeset, node->nodeset)) {
                        numa = (int)node->os_index;
                        break;
                }
        }
        for (size_t i = 0; i < b->t->n_cpus; i++) {
                if (b->t->cpus[i].numa == numa)
                        return (int)i;
        }
        cpu = TOPOLOGY_GROW(b->t->cpus, b->t->n_cpus);
        cpu->numa = numa;
        hwloc_obj_t package = hwloc_get_obj_by_type(h, HWLOC_OBJ_PACKAGE, 0);

        if (package) {
                const char *vendor = hwloc_obj_get_info_by_name(package, "CPUVendor"),
                           *model = hwloc_obj_get_info_by_name(package, "CPUModelNumber");

                snprintf(cpu->vendor, sizeof cpu->vendor, "%s", vendor ? vendor : "");
                snprintf(cpu->arch, sizeof cpu->arch, "%s", vendor ? "x86_64" : "");
                cpu->model = model ? atoi(model) : 0;
        }
        return (int)b->t->n_cpus - 1;
}

/* Add a PCI device, after the bridges above it. Return: index. */
static int add_pci(struct topology_build *b, hwloc_topology_t h, hwloc_obj_t o, int cpu)
{
        struct capo_topology_pci *d;
        char id[CAPO_BUSID_ROOM];
        int parent = -1;
        bool bridge = o->type == HWLOC_OBJ_BRIDGE;
        double wire = o->attr->pcidev.linkspeed;

        format_busid(o, id);
        for (size_t i = 0; i < b->t->n_pcis; i++) {
                if (!strcmp(b->t->pcis[i].busid, id))
                        return (int)i;
        }
        if (o->parent && o->parent->type == HWLOC_OBJ_BRIDGE &&
            o->parent->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI)
                parent = add_pci(b, h, o->parent, cpu);
        d = TOPOLOGY_GROW(b->t->pcis, b->t->n_pcis);
        memcpy(d->busid, id, sizeof id);
        d->class = (uint32_t)(bridge ? 0x0604 : o->attr->pcidev.class_id) << 8;
        d->parent = parent;
        d->cpu = cpu;
        /* hwloc has GB/s of the whole link; NCCL's constants are 12 for gen 3 x16, 24 for gen 4 */
        d->gbs = wire > 0 ? wire * 12.0 / 15.753846 : 12.0;
        return (int)b->t->n_pcis - 1;
}

static void add_gpu(struct topology_build *b, hwloc_topology_t h, hwloc_obj_t o)
{
        int cpu = cpu_of(b, h, o), pci = add_pci(b, h, o, cpu);
        struct capo_topology_gpu *g = topology_add_gpu(b);

        g->cpu = cpu;
        g->pci = pci;
        format_busid(o, g->busid);
        for (hwloc_obj_t os = o->io_first_child; os; os = os->next_sibling) {
                const char *model = hwloc_obj_get_info_by_name(os, "GPUModel"),
                           *uuid = hwloc_obj_get_info_by_name(os, "NVIDIAUUID");

                if (model)
                        snprintf(g->model, sizeof g->model, "%s", model);
                if (uuid)
                        snprintf(g->uuid, sizeof g->uuid, "%s", uuid);
        }
        g->sm = sm_of(*g->model ? g->model : o->name ? o->name : "");
}

/* Is it a verbs device? hwloc 3 numbers the types of OS devices differently, so in its files the
 * name decides. */
static bool is_verbs(hwloc_obj_t os)
{
        static const char *const names[] = {"mlx",   "hfi",     "rdmap", "efa",
                                            "irdma", "bnxt_re", "rocep", "ibp"};

        if (os->type != HWLOC_OBJ_OS_DEVICE || !os->name)
                return false;
        for (size_t i = 0; i < N_ELEMENTS(names); i++) {
                if (!strncmp(os->name, names[i], strlen(names[i])))
                        return true;
        }
        return os->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS;
}

static void add_nic(struct topology_build *b, hwloc_topology_t h, hwloc_obj_t o)
{
        for (hwloc_obj_t os = o->io_first_child; os; os = os->next_sibling) {
                struct capo_topology_nic *nic;
                int cpu, pci;

                if (!is_verbs(os))
                        continue;
                cpu = cpu_of(b, h, o);
                pci = add_pci(b, h, o, cpu);
                nic = topology_add_nic(b);
                nic->cpu = cpu;
                nic->pci = pci;
                nic->dev = (int)b->t->n_nics - 1;
                nic->gbs =
                        b->t->pcis[pci].gbs; /* hwloc has no port speed: use that of its PCI link */
                snprintf(nic->name, sizeof nic->name, "%s", os->name ? os->name : "");
        }
}

static bool is_switch(hwloc_obj_t o)
{
        return (o->subtype && !strcmp(o->subtype, "NVSwitch")) ||
               (o->attr->pcidev.class_id == 0x0680 && o->attr->pcidev.vendor_id == 0x10de);
}

/* The PCI function of an object in the distance matrix, which may be an NVML device below it. */
static hwloc_obj_t device_of(hwloc_obj_t o)
{
        while (o && o->type != HWLOC_OBJ_PCI_DEVICE)
                o = o->parent;
        return o;
}

static void add_links(struct topology_build *b, hwloc_topology_t h, const char *name,
                      enum capo_wire kind)
{
        struct hwloc_distances_s *d = NULL;
        unsigned one = 1;

        if (hwloc_distances_get_by_name(h, name, &one, &d, 0) < 0 || !one || !d)
                return;
        for (unsigned i = 0; i < d->nbobjs; i++) {
                hwloc_obj_t from = device_of(d->objs[i]);
                char from_id[CAPO_BUSID_ROOM], to_id[CAPO_BUSID_ROOM];
                int gpu = -1;

                if (!from)
                        continue;
                format_busid(from, from_id);
                for (size_t g = 0; g < b->t->n_gpus; g++) {
                        if (!strcmp(b->t->gpus[g].busid, from_id))
                                gpu = (int)g;
                }
                for (unsigned j = 0; gpu >= 0 && j < d->nbobjs; j++) {
                        hwloc_obj_t to = device_of(d->objs[j]);
                        double mbs = (double)d->values[i * d->nbobjs + j];
                        struct half_link *half;

                        if (!to || i == j || mbs < 1000)
                                continue;
                        format_busid(to, to_id);
                        half = TOPOLOGY_GROW(b->halves, b->n_halves);
                        half->kind = kind;
                        half->from = gpu;
                        half->count = (int)fmin(mbs / wire_mbs(b->t->gpus[gpu].sm) + 0.5, WIRES);
                        if (half->count < 1)
                                half->count = 1;
                        memcpy(half->to, to_id, sizeof to_id);
                        if (is_switch(to))
                                snprintf(half->class_text, sizeof half->class_text, "0x068000");
                }
        }
        hwloc_distances_release(h, d);
}

static void build_topology(struct topology_build *b, hwloc_topology_t h)
{
        hwloc_obj_t o = NULL;

        while ((o = hwloc_get_next_pcidev(h, o))) {
                unsigned class = o->attr->pcidev.class_id, vendor = o->attr->pcidev.vendor_id;
                char id[CAPO_BUSID_ROOM];

                if (class >> 8 == 0x03 && (vendor == 0x10de || vendor == 0x1002))
                        add_gpu(b, h, o);
                else if (class >> 8 == 0x12 &&
                         vendor == 0x1002) /* AMD Instinct is a processing accelerator */
                        add_gpu(b, h, o);
                else if (class >> 8 == 0x02)
                        add_nic(b, h, o);
                else if (is_switch(o)) {
                        format_busid(o, id);
                        topology_add_switch(b, id);
                }
        }
        add_links(b, h, "NVLinkBandwidth", CAPO_WIRE_NVLINK);
        add_links(b, h, "XGMIBandwidth", CAPO_WIRE_XGMI);
}

/* @text: lstopo's XML; NULL: this machine. */
static int load_hwloc(struct topology_build *b, const char *text, size_t size)
{
        hwloc_topology_t h;
        int r = 0;

        hwloc_topology_init(&h);
        hwloc_topology_set_io_types_filter(h, HWLOC_TYPE_FILTER_KEEP_ALL);
        if ((text && hwloc_topology_set_xmlbuffer(h, text, (int)size + 1) < 0) ||
            hwloc_topology_load(h) < 0) {
                r = topology_fail(b, 0, "hwloc does not read it (expected the XML of lstopo)");
        } else {
                b->t->pci_known = true;
                build_topology(b, h);
        }
        hwloc_topology_destroy(h);
        return r;
}

struct xml_text {
        struct topology_build *b;
        const char *text;
        size_t size;
};

static int try_hwloc(const void *arg, void *nothing)
{
        const struct xml_text *x = arg;
        const int deaths[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE};
        const struct rlimit no_core = {0};

        for (size_t i = 0; i < N_ELEMENTS(deaths); i++)
                signal(deaths[i], SIG_DFL);
        setrlimit(RLIMIT_CORE, &no_core);
        load_hwloc(x->b, x->text, x->size);
        return 0;
}

/* libhwloc trusts its input: if an object lacks its cpuset, it dereferences a null pointer (2.9,
 * found by fuzzing). So a child process reads the file first, and a file that it does not survive
 * is rejected. */
static bool crashes_hwloc(struct topology_build *b, const char *text, size_t size)
{
        int r = capo_apart(try_hwloc, &(struct xml_text){b, text, size}, &(char){0}, 1,
                           TRIAL_SECONDS);

        return r && r != -EAGAIN; /* where no process can be started it is read all the same */
}

static int read_lstopo(struct topology_build *b, char *text, size_t size)
{
        static const char three[] = "<topology version=\"3.";
        char *at = strstr(text, three);

        if (at) /* hwloc 2 rejects files of hwloc 3 only for the number; what is read is the same */
                at[sizeof three - 3] = '2';
        return crashes_hwloc(b, text, size)
                       ? topology_fail(
                                 b, 0,
                                 "libhwloc does not survive it (expected the XML of lstopo, undamaged)")
                       : load_hwloc(b, text, size);
}

int capo_topology_read(const char *path, unsigned flags, double brick_gbs,
                       struct capo_topology **out, char *why, size_t room)
{
        _cleanup_free_ char *text = NULL;
        struct topology_build b;
        const char *begin;
        size_t size;
        int r = capo_file_read(path, 64 << 20, &text, &size);

        if (r == -ESPIPE)
                return capo_why(-EINVAL, why, room, "%s: is a pipe; expected a file, or -", path);
        if (r < 0)
                return capo_why(r, why, room, "%s: %s", path,
                                r == -E2BIG ? "too large" : strerror(-r));
        topology_build_begin(&b, path, flags, brick_gbs, why, room);
        begin = text + strspn(text, " \t\r\n\xef\xbb\xbf");
        if (size && *begin != '<') {
                r = topology_build_end(&b, read_smi(&b, text, size), out);
                if (!r && brick_gbs <= 0 && (*out)->brick_gbs > 0)
                        (*out)->brick_source =
                                "NCCL's planning constant for the generation guessed from the link counts";
                return r;
        }
        if (strstr(begin, "<topology") && !strstr(begin, "<system"))
                r = read_lstopo(&b, text, size);
        else
                r = topology_read_nccl(&b, text, size);
        return topology_build_end(&b, r, out);
}

int capo_topology_this_machine(double brick_gbs, struct capo_topology **out, char *why, size_t room)
{
        struct topology_build b;

        topology_build_begin(&b, "this machine", 0, brick_gbs, why, room);
        return topology_build_end(&b, load_hwloc(&b, NULL, 0), out);
}

/* One NVLink domain over many trays: all GPUs on one switch. */
int capo_topology_made(const char *name, double brick_gbs, struct capo_topology **out, char *why,
                       size_t room)
{
        const struct capo_platform *p = capo_platform_find(name);
        struct topology_build b;

        if (!p || p->from != CAPO_PLATFORM_RACK)
                return -ENOENT;
        topology_build_begin(&b, p->name, 0, brick_gbs, why, room);
        for (int k = 0; k < p->n_gpus; k++) {
                struct capo_topology_gpu *gpu = topology_add_gpu(&b);

                gpu->dev = k;
                gpu->sm = p->sm;
                snprintf(gpu->busid, sizeof gpu->busid, "gpu%d", k);
                add_switch_link(&b, k, p->to_switch[0], 0);
        }
        return topology_build_end(&b, 0, out);
}
