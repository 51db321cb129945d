/* SPDX-License-Identifier: Apache-2.0 */
/* Checks NCCL's lists of devices against this machine. A list has names separated by commas, each
 * of which matches all that begin with it. "=" first: whole names. "^" before either: all but
 * these. A name in NCCL_IB_HCA may be followed by ":PORT". */

#include "core/base/text.h"
#include "cli/doctor/network_settings.h"
#include "profiles/machine/sysfs.h"

#define FOUND(level, ...) capo_finding_add(f, CAPO_FINDING_##level, "network", __VA_ARGS__)

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
