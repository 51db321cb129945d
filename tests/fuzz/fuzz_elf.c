/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a program or a library on disk, as capo doctor, capo run and the virtual GPUs look
 * into one. */
#include <string.h>

#include "profiles/machine/elf_file.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static const unsigned tables[] = {SHT_DYNSYM, SHT_SYMTAB};
        const char *path = fuzz_file(0, data, size);
        struct capo_elf_file elf;

        if (capo_elf_open(path, &elf) < 0)
                return 0;
        capo_elf_is_static(&elf);
        capo_elf_exports(&elf, "ncclAllReduce");
        capo_elf_contains(&elf, "ncclAllReduce");
        must(capo_elf_highest(&elf, "ncclTunerPlugin_v") >= 0);
        for (int i = 0; i < 2; i++) {
                for (struct capo_elf_symbol s = {0}; capo_elf_next(&elf, tables[i], &s);)
                        must(strlen(s.name) < size && s.symbol);
        }
        capo_elf_close(&elf);
        return 0;
}
