/* SPDX-License-Identifier: Apache-2.0 */
/* What plugins report of communicators, and which communicator it was. */
#pragma once

#include "capo/seam.h"
#include "shim/record/recorder.h"

/** capo_comm_reported() - struct capo_seam's comm. */
void capo_comm_reported(const struct capo_seam_comm *reported);

/** capo_comm_claim() - @comm has just been added: take what was reported of it. */
void capo_comm_claim(struct capo_comm *comm);

void capo_reported_fork(void);
