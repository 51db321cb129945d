/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a program or a library on disk, as capo doctor, capo run and the virtual GPUs look
 * into one. */
#include <elf.h>
#include <string.h>

#include "cli/doctor/elf_file.h"
#include "profiles/plan/virtual/symtab.h"
#include "tests/fuzz/fuzz.h"

static int symbol(const char *name, uint64_t value, uint64_t size, void *arg)
{
        *(size_t *)arg += strlen(name);
        return 0;
}

static void export(const char *name, void *arg) { *(size_t *)arg += strlen(name); }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        const char *path = fuzz_file(0, data, size);
        struct capo_elf_file elf;
        char why[256] = "";
        size_t n = 0;

        if (capo_elf_open(path, &elf) == 0) {
                capo_elf_is_static(&elf);
                capo_elf_exports(&elf, "ncclAllReduce");
                capo_elf_contains(&elf, "ncclAllReduce");
                capo_elf_each_export(&elf, export, &n);
                must(capo_elf_highest(&elf, "ncclTunerPlugin_v") >= 0);
                capo_elf_close(&elf);
        }
        if (capo_elf_symbols(path, STT_FUNC, symbol, &n, why, sizeof why) < 0)
                must(*why);
        return 0;
}
