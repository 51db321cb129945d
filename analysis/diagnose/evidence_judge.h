/* SPDX-License-Identifier: Apache-2.0 */
/* The verdict over all evidence: evidence_judge.c calls the readers in their order. */
#pragma once

#include "analysis/diagnose/evidence.h"
#include "analysis/diagnose/known_bugs.h"

/** capo_evidence_judge() - read all texts; call it after the last one was added. */
void capo_evidence_judge(struct capo_evidence *e);

/** capo_evidence_verdict() - the strongest finding; NULL: there is none. */
const struct capo_diagnose_finding *capo_evidence_verdict(const struct capo_evidence *e);

/** capo_evidence_bug() - does the bug fit? One without its symptom only if it has the effect that the
 * verdict shows. */
enum capo_bug_match capo_evidence_bug(struct capo_evidence *e, const struct capo_known_bug *bug);
