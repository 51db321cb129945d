/* SPDX-License-Identifier: Apache-2.0 */
/* What a page may tell of the findings. */
#pragma once

#include "analysis/diagnose/evidence.h"

/** capo_verdict_decides() - does it name a cause, not only what happened? */
bool capo_verdict_decides(const struct capo_diagnose_finding *v);

/** capo_evidence_settle() - give the findings the form that a page may have; call it last. */
void capo_evidence_settle(struct capo_evidence *e);
