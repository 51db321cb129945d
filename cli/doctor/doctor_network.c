/* SPDX-License-Identifier: Apache-2.0 */
/* Fast network devices of the kernel, and what would leave them unused or slow. */
#include <math.h>

#include "cli/doctor/doctor.h"
#include "cli/doctor/network_devices.h"
#include "core/base/text.h"
#include "core/base/xalloc.h"
#include "profiles/machine/sysfs.h"

#define FOUND(level, ...) capo_finding_add(f, CAPO_FINDING_##level, "network", __VA_ARGS__)

/* RoCE sends packets of 256 * 2^n bytes plus headers in one Ethernet frame: below this MTU packets
 * of 4096 do not fit. */
enum { ROCE_MTU = 4200 };

static bool is_set(const char *name, const char *value)
{
        const char *v = getenv(name);

        return v && !strcmp(v, value);
}

static void check_settings(struct capo_findings *f, const struct capo_network *d)
{
        const char *provider = getenv("FI_PROVIDER"), *net = getenv("NCCL_NET"),
                   *plugin = getenv("NCCL_NET_PLUGIN");
        unsigned infiniband = d->of[CAPO_NET_INFINIBAND] + d->of[CAPO_NET_ROCE];

        if (is_set("NCCL_IB_DISABLE", "1") && infiniband)
                FOUND(WARN, "NCCL_IB_DISABLE=1 leaves %u InfiniBand or RoCE devices unused",
                      infiniband);
        if (net && !strcasecmp(net, "Socket"))
                FOUND(WARN,
                      "NCCL_NET=%s sends everything over TCP although %u fast devices are here",
                      net, d->n);
        if (provider &&
            (strstr(provider, "tcp") || strstr(provider, "sockets") || strstr(provider, "udp")))
                FOUND(WARN,
                      "FI_PROVIDER=%s keeps libfabric off the %u fast devices of this machine",
                      provider, d->n);
        if ((d->of[CAPO_NET_EFA] || d->of[CAPO_NET_CXI]) && plugin && !strcasecmp(plugin, "none"))
                FOUND(WARN,
                      "NCCL_NET_PLUGIN=none: NCCL reaches EFA and Slingshot only through the libfabric plugin");
        if (d->of[CAPO_NET_EFA] && is_set("FI_EFA_USE_DEVICE_RDMA", "0"))
                FOUND(NOTE, "FI_EFA_USE_DEVICE_RDMA=0: EFA without RDMA");
}

static void check_ports(struct capo_findings *f, const struct capo_network *d)
{
        char down[200] = "", slow[200] = "", rates[200] = "";

        for (unsigned i = 0; i < d->n && i < N_ELEMENTS(d->devices); i++) {
                const struct capo_network_device *p = &d->devices[i];

                if (!p->active)
                        capo_append(down, sizeof down, "%s%s", *down ? ", " : "", p->name);
                if (p->mtu && p->mtu < ROCE_MTU)
                        capo_append(slow, sizeof slow, "%s%s (%d)", *slow ? ", " : "", p->name,
                                    p->mtu);
                if (p->active && *p->rate && d->devices[0].active &&
                    d->devices[0].kind == p->kind && strcmp(p->rate, d->devices[0].rate) != 0)
                        capo_append(rates, sizeof rates, "%s%s %s", *rates ? ", " : "", p->name,
                                    p->rate);
        }
        if (*down)
                FOUND(WARN, "first port not active: %s", down);
        if (*slow)
                FOUND(NOTE, "MTU below %d, so that RoCE packets are smaller than 4096 bytes: %s",
                      ROCE_MTU, slow);
        if (*rates)
                FOUND(WARN, "unequal rates: %s has %s, but %s", d->devices[0].name,
                      d->devices[0].rate, rates);
}

/* Of InfiniBand and RoCE devices with unequal rates, the setting that takes the fastest. */
static void suggest_devices(struct capo_findings *f, const struct capo_network *d)
{
        char list[512] = "";
        double most = 0, least = INFINITY;

        for (int pass = 0; pass < 2; pass++) {
                for (unsigned i = 0; i < d->n && i < N_ELEMENTS(d->devices); i++) {
                        const struct capo_network_device *p = &d->devices[i];
                        double rate = strtod(p->rate, NULL);

                        if (!p->active || !(rate > 0) ||
                            (p->kind != CAPO_NET_INFINIBAND && p->kind != CAPO_NET_ROCE))
                                continue;
                        most = fmax(most, rate);
                        least = fmin(least, rate);
                        if (pass && rate == most)
                                capo_append(list, sizeof list, "%s%s", *list ? "," : "", p->name);
                }
        }
        if (least < most && !getenv("NCCL_IB_HCA"))
                FOUND(NOTE,
                      "NCCL_IB_HCA==%s uses only the devices of %.0f Gb/s (=: by exact "
                      "name); try it if NCCL opens a slower one",
                      list, most);
}

/* EFA and Slingshot need a provider of libfabric. */
static void check_providers(struct capo_findings *f, const struct capo_network *d)
{
        const char *wanted = d->of[CAPO_NET_EFA] ? "efa" : d->of[CAPO_NET_CXI] ? "cxi" : NULL;
        struct capo_fabric_found found;
        const char *names = found.names;
        int r;

        if (!wanted)
                return;
        r = capo_fabric_providers(&found);
        if (r == -ENOENT)
                FOUND(WARN, "no libfabric.so.1 is found here: NCCL cannot use the %s devices",
                      wanted);
        else if (r < 0)
                FOUND(WARN, "libfabric does not say which providers it has");
        else if (!strstr(names, wanted))
                FOUND(WARN, "libfabric has no %s provider (it has %s): its devices cannot be used",
                      wanted, *names ? names : "none");
        else
                FOUND(OK, "libfabric providers: %s", names);
}

/* A NIC reads GPU memory through nvidia_peermem or DMA-BUF, which only the open kernel modules
 * export (/proc/driver/nvidia/version names them). */
static void check_gpudirect(struct capo_findings *f, const struct capo_network *d)
{
        _cleanup_fclose_ FILE *in = NULL;
        char line[256] = "";

        if (!(d->of[CAPO_NET_INFINIBAND] + d->of[CAPO_NET_ROCE]) ||
            !capo_sysfs_exists("module/nvidia"))
                return;
        if (capo_sysfs_exists("module/nvidia_peermem") || capo_sysfs_exists("module/nv_peer_mem")) {
                FOUND(OK, "GPUDirect RDMA: the peer memory module is loaded");
                return;
        }
        in = fopen("/proc/driver/nvidia/version", "re");
        if (in && fgets(line, sizeof line, in) && strstr(line, "Open Kernel Module"))
                FOUND(NOTE,
                      "GPUDirect RDMA by DMA-BUF only (open kernel modules; NCCL from 2.13 on): nvidia_peermem is "
                      "not loaded");
        else
                FOUND(WARN,
                      "no GPUDirect RDMA: nvidia_peermem is not loaded, so data goes through host memory; modprobe "
                      "nvidia_peermem");
}

void capo_doctor_network(struct capo_findings *f)
{
        _cleanup_free_ struct capo_network *d = xmalloc(sizeof *d);

        capo_network_read(d);
        capo_doctor_network_settings(f, d);
        if (d->efa_functions > d->of[CAPO_NET_EFA])
                FOUND(WARN,
                      "%u EFA devices are on the PCI bus and %u have a driver: modprobe efa, or give "
                      "/dev/infiniband to this container",
                      d->efa_functions, d->of[CAPO_NET_EFA]);
        if (!d->n) {
                if (!d->efa_functions)
                        FOUND(NOTE,
                              "no EFA, InfiniBand, RoCE or Slingshot device: nodes talk over TCP");
                return;
        }
        FOUND(OK, "%u EFA, %u InfiniBand, %u RoCE, %u Slingshot devices", d->of[CAPO_NET_EFA],
              d->of[CAPO_NET_INFINIBAND], d->of[CAPO_NET_ROCE], d->of[CAPO_NET_CXI]);
        check_settings(f, d);
        check_ports(f, d);
        suggest_devices(f, d);
        check_providers(f, d);
        check_gpudirect(f, d);
}

/* Checks NCCL's lists of devices against this machine. A list has names separated by commas, each
 * of which matches all that begin with it. "=" first: whole names. "^" before either: all but
 * these. A name in NCCL_IB_HCA may be followed by ":PORT". */

struct device_names {
        char name[64][32];
        unsigned n;
};

static void take_name(struct device_names *names, const char *name)
{
        if (names->n < N_ELEMENTS(names->name))
                snprintf(names->name[names->n], sizeof names->name[0], "%s", name);
        names->n++;
}

static void take_interface(const char *name, void *arg)
{
        char state[32];

        if (!capo_sysfs_text(state, sizeof state, "class/net/%s/operstate", name) ||
            strcmp(state, "down") != 0)
                take_name(arg, name);
}

/* Does the item of @n letters match @name? */
static bool item_matches(const char *item, size_t n, bool whole, const char *name)
{
        const char *port = memchr(item, ':', n);

        n = port ? (size_t)(port - item) : n;
        return n && !strncmp(item, name, n) && (!whole || !name[n]);
}

/* Number of @names that the list @value selects; @unknown: its items without a match. */
static unsigned select_devices(const char *value, const struct device_names *names, char *unknown,
                               size_t room)
{
        bool without = *value == '^', whole;
        bool listed[N_ELEMENTS(names->name)] = {0};
        unsigned n_listed = 0;

        value += without;
        whole = *value == '=';
        value += whole;
        for (size_t n; *value; value += n + (value[n] == ',')) {
                bool known = false;

                n = strcspn(value, ",");
                for (unsigned i = 0; i < names->n; i++) {
                        if (item_matches(value, n, whole, names->name[i]))
                                known = listed[i] = true;
                }
                if (n && !known)
                        capo_append(unknown, room, "%s%.*s", *unknown ? ", " : "", (int)n, value);
        }
        for (unsigned i = 0; i < names->n; i++)
                n_listed += listed[i];
        return without ? names->n - n_listed : n_listed;
}

static void check_list(struct capo_findings *f, const char *variable, const char *what,
                       const struct device_names *names)
{
        const char *value = getenv(variable);
        char unknown[200] = "", here[200] = "";
        unsigned selected;

        if (!value || !*value || names->n > N_ELEMENTS(names->name))
                return;
        selected = select_devices(value, names, unknown, sizeof unknown);
        for (unsigned i = 0; i < names->n; i++)
                capo_append(here, sizeof here, "%s%s", i ? ", " : "", names->name[i]);
        if (!selected)
                FOUND(WARN, "%s=%s selects no %s of this machine; it has %s", variable, value, what,
                      *here ? here : "none");
        else if (*unknown && *value != '^')
                FOUND(WARN, "%s=%s: this machine has no %s %s; it has %s", variable, value, what,
                      unknown, here);
}

void capo_doctor_network_settings(struct capo_findings *f, const struct capo_network *d)
{
        struct device_names interfaces = {.n = 0}, devices = {.n = 0};
        unsigned infiniband = d->of[CAPO_NET_INFINIBAND] + d->of[CAPO_NET_ROCE];
        const char *net = getenv("NCCL_NET");

        if (capo_sysfs_each("class/net", take_interface, &interfaces))
                check_list(f, "NCCL_SOCKET_IFNAME", "active network interface", &interfaces);
        for (unsigned i = 0; i < d->n && i < N_ELEMENTS(d->devices); i++) {
                if (d->devices[i].kind == CAPO_NET_INFINIBAND ||
                    d->devices[i].kind == CAPO_NET_ROCE)
                        take_name(&devices, d->devices[i].name);
        }
        if (d->n <= N_ELEMENTS(d->devices))
                check_list(f, "NCCL_IB_HCA", "InfiniBand or RoCE device", &devices);
        if (net && !strcasecmp(net, "IB") && !infiniband)
                FOUND(WARN,
                      "NCCL_NET=%s: this machine has no InfiniBand or RoCE device; "
                      "NCCL then finds no network and ends",
                      net);
}
