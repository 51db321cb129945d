/* SPDX-License-Identifier: Apache-2.0 */
/* A preloaded library comes first in the global scope. A library opened with RTLD_DEEPBIND searches
 * its own dependencies before that, and one opened by dlmopen() has its own global scope. The flags
 * are not in the file: only a program that links NCCL itself is certainly unaffected. */
#include "core/base/file.h"
#include "cli/doctor/doctor.h"
#include "profiles/machine/elf_file.h"

#define FOUND(level, ...) capo_finding_add(f, CAPO_FINDING_##level, "nccl", __VA_ARGS__)

void capo_doctor_loading(struct capo_findings *f, char *const *command)
{
        _cleanup_(capo_elf_close) struct capo_elf_file elf = {0};
        char program[4096];

        if (!command ||
            !capo_file_find(getenv("PATH"), command[0], X_OK, program, sizeof program) ||
            capo_elf_open(program, &elf) < 0)
                return;
        if (capo_elf_imports(&elf, "dlmopen"))
                FOUND(WARN, "%s opens libraries by dlmopen(): their calls of NCCL are not seen",
                      program);
        else if (strncmp(capo_base_name(program), "python", 6) && /* it sets no RTLD_DEEPBIND */
                 capo_elf_imports(&elf, "dlopen") && !capo_elf_imports(&elf, "ncclCommInitRank"))
                FOUND(NOTE,
                      "%s opens libraries as it runs: calls of NCCL by those that it opens "
                      "with RTLD_DEEPBIND are not seen",
                      program);
}
