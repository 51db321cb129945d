/* SPDX-License-Identifier: Apache-2.0 */
/* Finds what a libnccl has and this capo lacks: exported functions, and plugin interfaces that it
 * would load. */
#include "core/base/nccl_release.h"
#include "cli/doctor/doctor.h"
#include "cli/doctor/elf_file.h"

#define FOUND(level, ...) capo_finding_add(f, CAPO_FINDING_##level, "nccl", __VA_ARGS__)

struct strange {
        char names[600];
};

static void add_strange_name(const char *name, void *arg)
{
        struct strange *s = arg;

        capo_nccl_strange(s->names, sizeof s->names, name);
}

static void say_abi(struct capo_findings *f, const struct capo_elf_file *elf, const char *release,
                    const char *kind, const char *stem, int newest)
{
        int asked = capo_elf_highest(elf, stem);

        if (asked > newest)
                FOUND(NOTE,
                      "NCCL %s looks for %s%d first, which this capo does not have: it is given the %s's v%d, and "
                      "nothing that v%d brought is used",
                      release, stem, asked, kind, newest, asked);
}

void capo_doctor_newer(struct capo_findings *f, const char *path, const char *release)
{
        static const int tuners[] = {
#define CAPO_TUNER_ABI(version, first, last) version,
#include "capo/plugin_abis.def"
        };
        static const int profilers[] = {
#define CAPO_PROFILER_ABI(version, first, last) version,
#include "capo/plugin_abis.def"
        };
        _cleanup_(capo_elf_close) struct capo_elf_file elf = {0};
        struct strange s = {""};

        if (capo_elf_open(path, &elf) < 0)
                return;
        capo_elf_each_export(&elf, add_strange_name, &s);
        if (*s.names)
                FOUND(WARN,
                      "NCCL %s has functions that this capo does not know (%s): calls of them will be in no "
                      "log",
                      release, s.names);
        say_abi(f, &elf, release, "tuner", "ncclTunerPlugin_v", tuners[N_ELEMENTS(tuners) - 1]);
        say_abi(f, &elf, release, "profiler", "ncclProfiler_v",
                profilers[N_ELEMENTS(profilers) - 1]);
}
