/* SPDX-License-Identifier: Apache-2.0 */
/* Writes down what NCCL would find here. NCCL's PCI tree has only every second bridge: from a
 * device it goes two steps up, past the port, to the switch (nccl src/graph/xml.cc,
 * ncclTopoGetXmlFromSys); so does this file. CPUs are NUMA nodes. */
#include <hwloc.h>
#include <sys/utsname.h>

#include "capo/msg.h"
#include "core/base/xalloc.h"
#include "profiles/machine/nvml.h"
#include "profiles/machine/sysfs.h"
#include "profiles/machine/topology_capture.h"
#include "profiles/machine/topology_nccl.h"

enum { BUSID = CAPO_BUSID_ROOM };

struct capture {
        hwloc_topology_t topology;
        FILE *out;
        struct capo_capture *found;
        struct capo_nvml nvml;
};

#define PCI_FILE(busid, file, text) \
        capo_sysfs_text(text, sizeof(text), "bus/pci/devices/%s/%s", busid, file)

static void busid_of(hwloc_obj_t o, char out[BUSID])
{
        const struct hwloc_pcidev_attr_s *p =
                o->type == HWLOC_OBJ_BRIDGE ? &o->attr->bridge.upstream.pci : &o->attr->pcidev;

        snprintf(out, BUSID, "%04x:%02x:%02x.%x", (unsigned)p->domain, p->bus, p->dev, p->func);
}

static void put_pci(const struct capture *c, hwloc_obj_t o, int depth)
{
        const struct hwloc_pcidev_attr_s *p =
                o->type == HWLOC_OBJ_BRIDGE ? &o->attr->bridge.upstream.pci : &o->attr->pcidev;
        char busid[BUSID], class[32], own[64], port[64];
        int own_width, port_width;

        busid_of(o, busid);
        if (!PCI_FILE(busid, "class", class))
                snprintf(class, sizeof class, "0x%04x00", p->class_id);
        /* the slower of a device and its port, as in NCCL */
        PCI_FILE(busid, "max_link_speed", own);
        if (PCI_FILE(busid, "../max_link_speed", port) && strtod(port, NULL) < strtod(own, NULL))
                memcpy(own, port, sizeof own);
        own_width = (int)capo_sysfs_number(0, "bus/pci/devices/%s/max_link_width", busid);
        port_width =
                (int)capo_sysfs_number(own_width, "bus/pci/devices/%s/../max_link_width", busid);
        fprintf(c->out,
                "%*s<pci busid=\"%s\" class=\"%s\" vendor=\"0x%04x\" device=\"0x%04x\" subsystem_vendor=\"0x%04x\" "
                "subsystem_device=\"0x%04x\" link_speed=\"%s\" link_width=\"%d\">\n",
                depth * 2, "", busid, class, p->vendor_id, p->device_id, p->subvendor_id,
                p->subdevice_id, own,
                port_width && port_width < own_width ? port_width : own_width);
}

static void put_gpu(struct capture *c, hwloc_obj_t o, int depth)
{
        char busid[BUSID], class[32];
        const struct capo_nvml_gpu *gpu = NULL;

        busid_of(o, busid);
        for (int i = 0; i < c->nvml.n_gpus; i++) {
                if (!strcmp(c->nvml.gpus[i].busid, busid))
                        gpu = &c->nvml.gpus[i];
        }
        fprintf(c->out, "%*s<gpu dev=\"%d\"", depth * 2, "",
                gpu ? gpu->dev : (int)c->found->n_gpus);
        if (gpu && gpu->sm)
                fprintf(c->out, " sm=\"%d\"", gpu->sm);
        fputs(" gdr=\"1\">\n", c->out);
        for (int i = 0; gpu && i < gpu->n_links; i++) {
                /* a target that is no PCI device here is an NVSwitch on the host of this virtual
                 * machine */
                if (!PCI_FILE(gpu->links[i].target, "class", class))
                        strcpy(class, "0x068000");
                fprintf(c->out, "%*s<nvlink target=\"%s\" count=\"%d\" tclass=\"%s\"/>\n",
                        depth * 2 + 2, "", gpu->links[i].target, gpu->links[i].count, class);
                c->found->n_links += (unsigned)gpu->links[i].count;
        }
        fprintf(c->out, "%*s</gpu>\n", depth * 2, "");
        c->found->n_gpus++;
}

/* InfiniBand and RoCE: Gb/s of port 1; others: Mb/s of the interface; 10 Gb/s if unknown, as in
 * NCCL. */
static int net_speed(hwloc_obj_t os)
{
        char text[64];
        long speed;

        if (os->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS)
                return capo_sysfs_text(text, sizeof text, "class/infiniband/%s/ports/1/rate",
                                       os->name)
                               ? (int)(strtod(text, NULL) * 1000)
                               : 10000;
        speed = capo_sysfs_number(0, "class/net/%s/speed", os->name);
        return speed > 0 ? (int)speed : 10000;
}

/* NCCL's name: the verbs device if there is one, else the interface. */
static hwloc_obj_t net_of(hwloc_obj_t pci)
{
        hwloc_obj_t found = NULL;

        for (hwloc_obj_t os = pci->io_first_child; os; os = os->next_sibling) {
                if (os->type != HWLOC_OBJ_OS_DEVICE)
                        continue;
                if (os->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS)
                        return os;
                if (os->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK && !found)
                        found = os;
        }
        return found;
}

static void put_net(struct capture *c, hwloc_obj_t os, int depth)
{
        bool verbs = os->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS;
        bool gdr = verbs && c->found->nvml; /* needs the peer memory module or DMA-BUF, which only
                                               NCCL can ask the driver about */

        fprintf(c->out,
                "%*s<nic>\n%*s<net name=\"%s\" dev=\"%u\" speed=\"%d\" port=\"1\" latency=\"0.000000\" guid=\"0x%x\" "
                "maxconn=\"%d\" "
                "gdr=\"%d\"/>\n%*s</nic>\n",
                depth * 2, "", depth * 2 + 2, "", os->name, c->found->n_nets, net_speed(os),
                c->found->n_nets + 1, verbs ? 131072 : 65536, gdr, depth * 2, "");
        c->found->n_nets++;
}

static bool is_gpu(hwloc_obj_t o)
{
        return o->type == HWLOC_OBJ_PCI_DEVICE && o->attr->pcidev.vendor_id == 0x10de &&
               o->attr->pcidev.class_id >> 8 == 0x03;
}

static bool is_net(hwloc_obj_t o)
{
        return o->type == HWLOC_OBJ_PCI_DEVICE && o->attr->pcidev.class_id >> 8 == 0x02 &&
               net_of(o);
}

/* Is there a device below that NCCL uses? */
static bool leads_somewhere(hwloc_obj_t o)
{
        if (is_gpu(o) || is_net(o))
                return true;
        for (hwloc_obj_t child = o->io_first_child; child; child = child->next_sibling) {
                if (leads_somewhere(child))
                        return true;
        }
        return false;
}

/* @port: this bridge is a port and is left out; the next one below is a switch, and so on. */
static void put_below(struct capture *c, hwloc_obj_t parent, bool port, int depth)
{
        for (hwloc_obj_t o = parent->io_first_child; o; o = o->next_sibling) {
                bool bridge = o->type == HWLOC_OBJ_BRIDGE &&
                              o->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI;

                if (!leads_somewhere(o))
                        continue;
                if (o->type == HWLOC_OBJ_BRIDGE &&
                    !bridge) { /* host bridge: its PCI bridges are root ports */
                        put_below(c, o, true, depth);
                } else if (bridge && port) {
                        put_below(c, o, false, depth);
                } else if (bridge) {
                        put_pci(c, o, depth);
                        put_below(c, o, true, depth + 1);
                        fprintf(c->out, "%*s</pci>\n", depth * 2, "");
                } else if (is_gpu(o) || is_net(o)) {
                        put_pci(c, o, depth);
                        if (is_gpu(o))
                                put_gpu(c, o, depth + 1);
                        else
                                put_net(c, net_of(o), depth + 1);
                        fprintf(c->out, "%*s</pci>\n", depth * 2, "");
                }
        }
}

/* I/O is below the object that contains the NUMA node's processors, or below a common parent of
 * several nodes. */
static void put_holders(struct capture *c, hwloc_obj_t o, hwloc_obj_t numa, hwloc_obj_t first_numa)
{
        if (o->io_arity &&
            (hwloc_bitmap_isincluded(o->cpuset, numa->cpuset) ||
             (numa == first_numa && hwloc_bitmap_isincluded(numa->cpuset, o->cpuset))))
                put_below(c, o, true, 2);
        for (unsigned i = 0; i < o->arity; i++)
                put_holders(c, o->children[i], numa, first_numa);
}

static const char *find_hwloc_info(hwloc_obj_t o, const char *name)
{
        const char *text = NULL;

        for (; o && !text; o = o->parent)
                text = hwloc_obj_get_info_by_name(o, name);
        return text;
}

/* A mask in the kernel's format, as in sysfs: groups of 8 hexadecimal digits with commas. */
static void put_mask(FILE *out, hwloc_const_bitmap_t set)
{
        int last = hwloc_bitmap_last(set) / 32;

        for (int i = last < 0 ? 0 : last; i >= 0; i--)
                fprintf(out, "%08lx%s",
                        hwloc_bitmap_to_ith_ulong(set, (unsigned)i / 2) >> (i % 2 * 32) &
                                0xffffffff,
                        i ? "," : "");
}

static void put_cpus(struct capture *c)
{
        hwloc_obj_t first = hwloc_get_obj_by_type(c->topology, HWLOC_OBJ_NUMANODE, 0),
                    root = hwloc_get_root_obj(c->topology);
        struct utsname machine;

        uname(&machine);
        for (hwloc_obj_t numa = first; numa; numa = numa->next_cousin) {
                hwloc_obj_t package = hwloc_get_obj_covering_cpuset(c->topology, numa->cpuset);
                const char *vendor, *family, *model;

                if (hwloc_bitmap_iszero(numa->cpuset)) /* memory without processors */
                        continue;
                while (package && package->type != HWLOC_OBJ_PACKAGE && package->arity)
                        package = package->first_child;
                vendor = package ? find_hwloc_info(package, "CPUVendor") : NULL;
                family = package ? find_hwloc_info(package, "CPUFamilyNumber") : NULL;
                model = package ? find_hwloc_info(package, "CPUModelNumber") : NULL;
                fprintf(c->out, "  <cpu numaid=\"%u\" affinity=\"", numa->os_index);
                put_mask(c->out, numa->cpuset);
                fprintf(c->out, "\" arch=\"%s\"",
                        strcmp(machine.machine, "aarch64") ? machine.machine : "arm64");
                if (vendor)
                        fprintf(c->out, " vendor=\"%s\" familyid=\"%s\" modelid=\"%s\"", vendor,
                                family ? family : "0", model ? model : "0");
                fputs(">\n", c->out);
                put_holders(c, root, numa, first);
                fputs("  </cpu>\n", c->out);
                c->found->n_cpus++;
        }
}

int capo_topology_capture(FILE *out, struct capo_capture *found, char *why, size_t room)
{
        struct capture *c = xcalloc(1, sizeof *c);
        char no_driver[256];

        *found = (struct capo_capture){0};
        c->out = out;
        c->found = found;
        hwloc_topology_init(&c->topology);
        hwloc_topology_set_io_types_filter(c->topology, HWLOC_TYPE_FILTER_KEEP_ALL);
        if (hwloc_topology_load(c->topology) < 0) {
                capo_why(-EIO, why, room, "hwloc reads no machine: %s", strerror(errno));
                hwloc_topology_destroy(c->topology);
                free(c);
                return -EIO;
        }
        found->nvml = capo_nvml_read(&c->nvml, no_driver, sizeof no_driver) == 0;
        fputs("<system version=\"1\">\n", out);
        put_cpus(c);
        fputs("</system>\n", out);
        hwloc_topology_destroy(c->topology);
        free(c);
        if (ferror(out))
                return capo_why(-EIO, why, room, "the file cannot be written: %s", strerror(errno));
        return 0;
}

int capo_topology_this_machine(double brick_gbs, struct capo_topology **out, char *why, size_t room)
{
        _cleanup_free_ char *text = NULL;
        struct capo_capture found;
        struct topology_build b;
        size_t size;
        FILE *f = xmemstream(&text, &size);
        int r = capo_topology_capture(f, &found, why, room);

        xmemclose(f);
        topology_build_begin(&b, "this machine", CAPO_TOPOLOGY_PARTIAL, brick_gbs, why, room);
        r = r ?: topology_read_nccl(&b, text, size);
        for (size_t i = 0; i < b.t->n_gpus; i++)
                b.t->gpus[i].dev = -1; /* by bus: a container's driver counts its own GPUs only */
        r = topology_build_end(&b, r, out);
        if (!r)
                (*out)->links_unknown = !found.nvml;
        return r;
}
