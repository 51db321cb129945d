/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "cli/doctor/doctor.h"

/** capo_doctor_extensions() - do the libraries of @reach fit its NCCL, and what do they need here? */
void capo_doctor_extensions(struct capo_findings *f, const struct capo_reach *reach);
