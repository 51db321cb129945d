/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <rdma/fabric.h>

#include "cli/doctor/network_devices.h"
#include "core/base/text.h"
#include "profiles/machine/apart.h"
#include "profiles/machine/sysfs.h"

enum { AMAZON = 0x1d0f, EFA_FIRST = 0xefa0, EFA_LAST = 0xefaf };

const char *capo_network_word(enum capo_network_kind kind)
{
        static const char *const words[] = {"EFA", "InfiniBand", "RoCE", "Slingshot"};

        return words[kind];
}

static void keep_device(struct capo_network *n, const struct capo_network_device *d)
{
        if (n->n < N_ELEMENTS(n->devices))
                n->devices[n->n] = *d;
        n->n++;
        n->of[d->kind]++;
}

struct interface {
        const char *device;
        int mtu;
};

static void read_mtu(const char *name, void *arg)
{
        struct interface *i = arg;

        i->mtu = (int)capo_sysfs_number(i->mtu, "class/infiniband/%s/device/net/%s/mtu", i->device,
                                        name);
}

static void add_infiniband(const char *name, void *arg)
{
        struct capo_network_device d = {.kind = CAPO_NET_INFINIBAND, .active = true};
        struct interface i = {.device = name};
        char text[64], folder[128];

        snprintf(d.name, sizeof d.name, "%s", name);
        capo_sysfs_text(d.rate, sizeof d.rate, "class/infiniband/%s/ports/1/rate", name);
        if (capo_sysfs_text(text, sizeof text, "class/infiniband/%s/ports/1/state", name))
                d.active = strstr(text, "ACTIVE") && !strstr(text, "DEFER");
        if (capo_sysfs_link(text, sizeof text, "class/infiniband/%s/device/driver", name) &&
            !strcmp(text, "efa")) {
                d.kind = CAPO_NET_EFA;
        } else if (capo_sysfs_text(text, sizeof text, "class/infiniband/%s/ports/1/link_layer",
                                   name) &&
                   !strcmp(text, "Ethernet")) {
                d.kind = CAPO_NET_ROCE;
                snprintf(folder, sizeof folder, "class/infiniband/%s/device/net", name);
                capo_sysfs_each(folder, read_mtu, &i);
                d.mtu = i.mtu;
        }
        keep_device(arg, &d);
}

static void add_slingshot(const char *name, void *arg)
{
        struct capo_network_device d = {.kind = CAPO_NET_CXI, .active = true};

        snprintf(d.name, sizeof d.name, "%s", name);
        keep_device(arg, &d);
}

static void count_efa(const char *busid, void *arg)
{
        long device = capo_sysfs_number(0, "bus/pci/devices/%s/device", busid);

        if (device >= EFA_FIRST && device <= EFA_LAST &&
            capo_sysfs_number(0, "bus/pci/devices/%s/vendor", busid) == AMAZON)
                (*(unsigned *)arg)++;
}

void capo_network_read(struct capo_network *network)
{
        *network = (struct capo_network){0};
        capo_sysfs_each("class/infiniband", add_infiniband, network);
        capo_sysfs_each("class/cxi", add_slingshot, network);
        capo_sysfs_each("bus/pci/devices", count_efa, &network->efa_functions);
}

/* libfabric loads its providers when asked for them, and they open devices: that is done in a child
 * process. */

enum { MOST_SECONDS = 5 };

typedef int get_info(uint32_t version, const char *node, const char *service, uint64_t flags,
                     const struct fi_info *hints, struct fi_info **info);

static int ask_providers(const void *arg, void *result)
{
        static const char *const files[] = {"libfabric.so.1",
                                            "/opt/amazon/efa/lib64/libfabric.so.1",
                                            "/opt/amazon/efa/lib/libfabric.so.1"};
        struct capo_fabric_found *found = result;
        struct fi_info *info = NULL;
        void *library = NULL;
        uint32_t (*version)(void), number;
        get_info *get;
        Dl_info where;

        for (size_t i = 0; i < N_ELEMENTS(files) && !library; i++)
                library = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
        if (!library)
                return ENOENT;
        get = (get_info *)dlsym(library, "fi_getinfo");
        if (!get || get(FI_VERSION(1, 7), NULL, NULL, 0, NULL, &info))
                return EIO;
        for (; info; info = info->next) { /* each name once, of "udp;ofi_rxd" the first */
                const char *name = info->fabric_attr ? info->fabric_attr->prov_name : NULL;
                char word[64];

                snprintf(word, sizeof word, "%.*s", name ? (int)strcspn(name, ";") : 0, name);
                if (*word && !strstr(found->names, word))
                        capo_append(found->names, sizeof found->names, "%s%s",
                                    *found->names ? ", " : "", word);
        }
        version = (uint32_t(*)(void))dlsym(library, "fi_version");
        number = version ? version() : 0;
        snprintf(found->version, sizeof found->version, "%u.%u", FI_MAJOR(number),
                 FI_MINOR(number));
        if (dladdr((void *)(uintptr_t)get, &where))
                snprintf(found->path, sizeof found->path, "%s", where.dli_fname);
        return 0;
}

int capo_fabric_providers(struct capo_fabric_found *found)
{
        int r;

        *found = (struct capo_fabric_found){0};
        r = capo_apart(ask_providers, NULL, found, sizeof *found, MOST_SECONDS);
        return r == ENOENT ? -ENOENT : r ? -EIO : 0;
}
