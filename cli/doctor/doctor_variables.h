/* SPDX-License-Identifier: Apache-2.0 */
/* One variable that looks like NCCL's (nccl_variables.def). */
#pragma once

#include "cli/doctor/doctor.h"
#include "cli/doctor/elf_file.h"

/* Unknown names without a similar known one: printed in one line. */
struct capo_unknown_variables {
        unsigned n;
        char names[400];
};

/**
 * capo_doctor_variable() - is the name known, and its value one that NCCL understands?
 * @nccl: the libnccl that will be used; bytes NULL: not known
 */
void capo_doctor_variable(struct capo_findings *f, struct capo_unknown_variables *unknown,
                          const struct capo_elf_file *nccl, const char *name, const char *value,
                          const char *where);
void capo_doctor_unknown(struct capo_findings *f, const struct capo_unknown_variables *unknown);
