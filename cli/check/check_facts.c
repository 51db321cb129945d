/* SPDX-License-Identifier: Apache-2.0 */
/* Properties that should be equal on all nodes of a job, by name. */
#include <gnu/libc-version.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "cli/base/cli_json.h"
#include "cli/check/check.h"
#include "cli/doctor/network_devices.h"
#include "cli/doctor/sysfs.h"
#include "core/base/nccl_release.h"
#include "core/base/text.h"
#include "core/base/util.h"
#include "profiles/machine/nvml.h"

extern char **environ;

__attribute__((format(printf, 3, 4))) static void put_fact(json_t *facts, const char *name,
                                                           const char *format, ...)
{
        char text[512];
        va_list args;

        va_start(args, format);
        vsnprintf(text, sizeof text, format, args);
        va_end(args);
        if (*text)
                json_object_set_new(facts, name, cli_json_text(text));
}

/* Two digits: equal machines differ in what their firmware reserves. */
static void put_size(json_t *facts, const char *name, double bytes)
{
        double mib = bytes / (1 << 20), step = 1;

        while (mib / step >= 100)
                step *= 10;
        put_fact(facts, name, "about %.0f MiB", round(mib / step) * step);
}

/* The value after "NAME=" or "name :" in the first such line of a file. */
static const char *find_value(const char *path, const char *name, char *text, size_t room)
{
        _cleanup_fclose_ FILE *in = fopen(path, "re");
        char line[512];

        *text = 0;
        while (in && fgets(line, sizeof line, in)) {
                char *value = line + strlen(name);

                if (strncmp(line, name, strlen(name)) != 0)
                        continue;
                value += strspn(value, "\t :=\"");
                value[strcspn(value, "\"\n")] = 0;
                snprintf(text, room, "%s", value);
                break;
        }
        return text;
}

static void put_system(json_t *facts)
{
        struct rlimit limit;
        struct utsname u;
        struct statvfs s;
        char text[256];

        if (!uname(&u)) {
                put_fact(facts, "kernel", "%s", u.release);
                put_fact(facts, "architecture", "%s", u.machine);
        }
        put_fact(facts, "system", "%s",
                 find_value("/etc/os-release", "PRETTY_NAME", text, sizeof text));
        put_fact(facts, "glibc", "%s", gnu_get_libc_version());
        put_fact(facts, "capo", "%s", CAPO_VERSION);
        put_fact(facts, "cpu", "%s", find_value("/proc/cpuinfo", "model name", text, sizeof text));
        put_fact(facts, "cpus", "%ld", sysconf(_SC_NPROCESSORS_ONLN));
        put_size(facts, "memory", (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE));
        if (!statvfs("/dev/shm", &s))
                put_size(facts, "/dev/shm", (double)s.f_blocks * (double)s.f_frsize);
        if (!getrlimit(RLIMIT_MEMLOCK, &limit)) {
                if (limit.rlim_cur == RLIM_INFINITY)
                        put_fact(facts, "ulimit -l", "unlimited");
                else
                        put_fact(facts, "ulimit -l", "%lu KiB",
                                 (unsigned long)limit.rlim_cur >> 10);
        }
        capo_sysfs_text(text, sizeof text, "kernel/iommu_groups/0/type");
        put_fact(facts, "iommu", "%s", text);
        capo_sysfs_text(text, sizeof text, "devices/system/cpu/cpu0/cpufreq/scaling_governor");
        put_fact(facts, "cpu governor", "%s", text);
}

static void put_gpus(json_t *facts)
{
        _cleanup_free_ struct capo_nvml *nvml = malloc(sizeof *nvml);
        char text[256], why[256];

        capo_sysfs_text(text, sizeof text, "module/nvidia/version");
        put_fact(facts, "nvidia driver", "%s", text);
        if (!nvml || capo_nvml_read(nvml, why, sizeof why) < 0) {
                if (capo_doctor_pci_gpus())
                        put_fact(facts, "gpus", "%u", capo_doctor_pci_gpus());
                return;
        }
        *text = 0;
        for (int i = 0; i < nvml->n_gpus && nvml->gpus[i].sm; i++) {
                if (!i || nvml->gpus[i].sm != nvml->gpus[i - 1].sm)
                        capo_append(text, sizeof text, "%s%d", *text ? "," : "", nvml->gpus[i].sm);
        }
        put_fact(facts, "gpus", "%d%s%s", nvml->n_gpus, *text ? ", sm " : "", text);
        *text = 0;
        for (int i = 0; i < nvml->n_gpus; i++) {
                int links = 0;

                for (int k = 0; k < nvml->gpus[i].n_links; k++)
                        links += nvml->gpus[i].links[k].count;
                capo_append(text, sizeof text, "%s%d", i ? "," : "", links);
        }
        put_fact(facts, "nvlinks by gpu", "%s", text);
}

static void put_network(json_t *facts)
{
        _cleanup_free_ struct capo_network *n = malloc(sizeof *n);
        char text[400] = "";

        if (!n)
                return;
        capo_network_read(n);
        for (unsigned i = 0; i < n->n && i < N_ELEMENTS(n->devices); i++) {
                const struct capo_network_device *d = &n->devices[i];

                capo_append(text, sizeof text, "%s%s %s%s%s%s", i ? "; " : "",
                            capo_network_word(d->kind), d->name, *d->rate ? " " : "", d->rate,
                            d->active ? "" : " down");
                if (d->mtu)
                        capo_append(text, sizeof text, " mtu %d", d->mtu);
        }
        put_fact(facts, "network", "%s", text);
}

/* Is the variable expected to be equal in all processes of a job? */
static bool is_alike(const char *var)
{
        static const char *const of_rank[] = {
                "CAPO_DIR=", "CAPO_RUN_PID=", "CAPO_SYSFS=", "CAPO_SHM=", "NCCL_HOSTID="};

        for (size_t i = 0; i < N_ELEMENTS(of_rank); i++) {
                if (!strncmp(var, of_rank[i], strlen(of_rank[i])))
                        return false;
        }
        return !strncmp(var, "NCCL_", 5) || !strncmp(var, "FI_", 3) || !strncmp(var, "UCX_", 4) ||
               !strncmp(var, "CAPO_", 5) || !strncmp(var, "OFI_NCCL_", 9) ||
               !strncmp(var, "LD_PRELOAD=", 11);
}

static void put_settings(json_t *facts)
{
        for (char **e = environ; *e; e++) {
                const char *equals = strchr(*e, '=');
                char name[80];

                if (!equals || !is_alike(*e))
                        continue;
                snprintf(name, sizeof name, "%.*s", (int)(equals - *e), *e);
                put_fact(facts, name, "%s", equals + 1);
        }
}

json_t *check_facts(const struct capo_reach *reach)
{
        json_t *facts = json_object();
        char text[16];

        put_system(facts);
        put_gpus(facts);
        put_network(facts);
        if (reach->version)
                put_fact(facts, "nccl", "%s",
                         capo_nccl_text((uint32_t)reach->version, text, sizeof text));
        put_fact(facts, "libnccl", "%s", reach->library);
        put_settings(facts);
        return facts;
}
