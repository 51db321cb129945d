/* SPDX-License-Identifier: Apache-2.0 */
/* Properties that should be equal on all nodes of a job, by name. */
#include <gnu/libc-version.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "cli/base/cli_fields.h"
#include "cli/base/cli_json.h"
#include "cli/check/check.h"
#include "cli/doctor/doctor_plugins.h"
#include "cli/doctor/network_devices.h"
#include "profiles/machine/sysfs.h"
#include "core/base/among.h"
#include "core/base/file.h"
#include "core/base/nccl_release.h"
#include "profiles/machine/nvml.h"

extern char **environ;

enum { LIBRARY_MOST = 256 << 20 };

/* Two digits: equal machines differ in what their firmware reserves. */
static const char *about_text(double bytes, char *room)
{
        double mib = bytes / (1 << 20), step = 1;

        while (mib / step >= 100)
                step *= 10;
        snprintf(room, CLI_ROOM, "about %.0f MiB", round(mib / step) * step);
        return room;
}

/* The value after "NAME=" or "name :" in the first such line of a file. */
static const char *find_value(const char *path, const char *name, char *room)
{
        _cleanup_fclose_ FILE *in = fopen(path, "re");
        char line[512];

        *room = 0;
        while (in && fgets(line, sizeof line, in)) {
                char *value = line + strlen(name);

                if (strncmp(line, name, strlen(name)) != 0)
                        continue;
                value += strspn(value, "\t :=\"");
                value[strcspn(value, "\"\n")] = 0;
                snprintf(room, CLI_ROOM, "%s", value);
                break;
        }
        return room;
}

static const char *shm_text(char *room)
{
        struct statvfs s;

        return statvfs("/dev/shm", &s) ? NULL
                                       : about_text((double)s.f_blocks * (double)s.f_frsize, room);
}

static const char *limit_text(int resource, unsigned shift, const char *unit, char *room)
{
        struct rlimit limit;

        if (getrlimit((__rlimit_resource_t)resource, &limit))
                return NULL;
        if (limit.rlim_cur == RLIM_INFINITY)
                return "unlimited";
        snprintf(room, CLI_ROOM, "%lu%s", (unsigned long)limit.rlim_cur >> shift, unit);
        return room;
}

/* "PATH, a digest of the file": equal paths can be different builds. */
static const char *file_text(const char *path, char *room)
{
        _cleanup_free_ char *bytes = NULL, *real = *path ? realpath(path, NULL) : NULL;
        size_t n;

        *room = 0;
        if (!real)
                return room;
        if (capo_file_read(real, LIBRARY_MOST, &bytes, &n) < 0)
                snprintf(room, CLI_ROOM, "%s, cannot be read", real);
        else
                snprintf(room, CLI_ROOM, "%s, %zu bytes, %08x", real, n,
                         (unsigned)XXH3_64bits(bytes, n));
        return room;
}

static const char *net_plugin_text(const struct capo_reach *reach, char *room)
{
        char path[4096];

        capo_doctor_net_plugin(reach->version, path, sizeof path);
        return file_text(path, room);
}

static const char *sysfs_value(const char *path, char *room)
{
        capo_sysfs_text(room, CLI_ROOM, "%s", path);
        return room;
}

/* "8, sm 90"; without NVML only the number of GPUs. */
static const char *gpus_text(const struct capo_nvml *nvml, char *room)
{
        const char *before = ", sm ";

        if (!nvml) {
                unsigned n = capo_doctor_pci_gpus();

                snprintf(room, CLI_ROOM, "%.0u", n); /* nothing for 0 */
                return room;
        }
        snprintf(room, CLI_ROOM, "%d", nvml->n_gpus);
        for (int i = 0; i < nvml->n_gpus && nvml->gpus[i].sm; i++) {
                if (!i || nvml->gpus[i].sm != nvml->gpus[i - 1].sm) {
                        capo_append(room, CLI_ROOM, "%s%d", before, nvml->gpus[i].sm);
                        before = ",";
                }
        }
        return room;
}

static const char *nvlinks_text(const struct capo_nvml *nvml, char *room)
{
        *room = 0;
        for (int i = 0; nvml && i < nvml->n_gpus; i++) {
                int links = 0;

                for (int k = 0; k < nvml->gpus[i].n_links; k++)
                        links += nvml->gpus[i].links[k].count;
                capo_append(room, CLI_ROOM, "%s%d", i ? "," : "", links);
        }
        return room;
}

static const char *network_text(char *room)
{
        static struct capo_network n;

        capo_network_read(&n);
        *room = 0;
        for (unsigned i = 0; i < n.n && i < N_ELEMENTS(n.devices); i++) {
                const struct capo_network_device *d = &n.devices[i];

                capo_append(room, CLI_ROOM, "%s%s %s%s%s%s", i ? "; " : "",
                            capo_network_word(d->kind), d->name, *d->rate ? " " : "", d->rate,
                            d->active ? "" : " down");
                if (d->mtu)
                        capo_append(room, CLI_ROOM, " mtu %d", d->mtu);
        }
        return room;
}

struct node {
        struct utsname u;
        struct capo_nvml *nvml; /* NULL: no such library */
        const struct capo_reach *reach;
        char cpus[16];
        struct capo_fabric_found fabric;
};

#define FACT_FIELDS(F)                                                                       \
        F("?kernel", TEXT, of->u.release)                                                    \
        F("?architecture", TEXT, of->u.machine)                                              \
        F("?system", TEXT, find_value("/etc/os-release", "PRETTY_NAME", room))               \
        F("?glibc", TEXT, gnu_get_libc_version())                                            \
        F("?capo", TEXT, CAPO_VERSION)                                                       \
        F("?cpu", TEXT, find_value("/proc/cpuinfo", "model name", room))                     \
        F("?cpus", TEXT, of->cpus)                                                           \
        F("?memory", TEXT,                                                                   \
          about_text((double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE), room)) \
        F("?/dev/shm", TEXT, shm_text(room))                                                 \
        F("?ulimit -l", TEXT, limit_text(RLIMIT_MEMLOCK, 10, " KiB", room))                  \
        F("?ulimit -n", TEXT, limit_text(RLIMIT_NOFILE, 0, "", room))                        \
        F("?iommu", TEXT, sysfs_value("kernel/iommu_groups/0/type", room))                   \
        F("?cpu governor", TEXT,                                                             \
          sysfs_value("devices/system/cpu/cpu0/cpufreq/scaling_governor", room))             \
        F("?nvidia driver", TEXT, sysfs_value("module/nvidia/version", room))                \
        F("?gpus", TEXT, gpus_text(of->nvml, room))                                          \
        F("?nvlinks by gpu", TEXT, nvlinks_text(of->nvml, room))                             \
        F("?network", TEXT, network_text(room))                                              \
        F("?nccl", TEXT,                                                                     \
          of->reach->version ? capo_nccl_text((uint32_t)of->reach->version, room, CLI_ROOM)  \
                             : NULL)                                                         \
        F("?libnccl", TEXT, of->reach->library)                                              \
        F("?nccl ep", TEXT, file_text(of->reach->extensions[0], room))                       \
        F("?nccl m2n", TEXT, file_text(of->reach->extensions[1], room))                      \
        F("?net plugin", TEXT, net_plugin_text(of->reach, room))                             \
        F("?libfabric", TEXT, of->fabric.version)                                            \
        F("?libfabric.so", TEXT, file_text(of->fabric.path, room))                           \
        F("?fabric providers", TEXT, of->fabric.names)
CLI_ENTITY(node_facts, struct node, void, FACT_FIELDS);

/* The variables that are expected to be equal in all processes of a job. */
static void put_settings(json_t *facts)
{
        static const char *const alike[] = {"NCCL_", "FI_",       "UCX_",
                                            "CAPO_", "OFI_NCCL_", "LD_PRELOAD="},
                                 *const of_rank[] = {"CAPO_DIR=", "CAPO_RUN_PID=", "CAPO_SYSFS=",
                                                     "CAPO_SHM=", "NCCL_HOSTID="};

        for (char **e = environ; *e; e++) {
                const char *equals = strchr(*e, '=');
                char name[80];

                if (!equals || !equals[1] ||
                    !ANY_OF(word, alike, N_ELEMENTS(alike), !strncmp(*e, *word, strlen(*word))) ||
                    ANY_OF(word, of_rank, N_ELEMENTS(of_rank), !strncmp(*e, *word, strlen(*word))))
                        continue;
                snprintf(name, sizeof name, "%.*s", (int)(equals - *e), *e);
                json_object_set_new(facts, name, cli_json_text(equals + 1));
        }
}

json_t *check_facts(const struct capo_reach *reach)
{
        static struct capo_nvml nvml;
        struct node node = {.reach = reach};
        char why[256];
        json_t *facts;

        uname(&node.u);
        capo_fabric_providers(&node.fabric);
        snprintf(node.cpus, sizeof node.cpus, "%ld", sysconf(_SC_NPROCESSORS_ONLN));
        if (capo_nvml_read(&nvml, why, sizeof why) == 0)
                node.nvml = &nvml;
        facts = cli_entity_json(&node_facts, NULL, &node);
        put_settings(facts);
        return facts;
}
