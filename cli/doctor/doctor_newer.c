/* SPDX-License-Identifier: Apache-2.0 */
/* Finds what a libnccl has and this capo lacks: exported functions, and plugin interfaces that it
 * would load. */
#include "core/base/nccl_release.h"
#include "cli/doctor/doctor.h"
#include "profiles/machine/elf_file.h"

#define FOUND(level, ...) capo_finding_add(f, CAPO_FINDING_##level, "nccl", __VA_ARGS__)

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
        char names[600] = "";

        if (capo_elf_open(path, &elf) < 0)
                return;
        for (struct capo_elf_symbol s = {0}; capo_elf_next(&elf, SHT_DYNSYM, &s);) {
                if (s.symbol->st_shndx != SHN_UNDEF && ELF64_ST_TYPE(s.symbol->st_info) == STT_FUNC)
                        capo_nccl_strange(names, sizeof names, s.name);
        }
        if (*names)
                FOUND(WARN,
                      "NCCL %s has functions that this capo does not know (%s): calls of them will be in no "
                      "log",
                      release, names);
        say_abi(f, &elf, release, "tuner", "ncclTunerPlugin_v", tuners[N_ELEMENTS(tuners) - 1]);
        say_abi(f, &elf, release, "profiler", "ncclProfiler_v",
                profilers[N_ELEMENTS(profilers) - 1]);
}
