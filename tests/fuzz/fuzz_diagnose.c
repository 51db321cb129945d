/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as what capo diagnose reads: a pickle where they begin like one, else lines of logs.
 * Whatever they are, there is an answer, and its places are in the text.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/util.h"
#include "analysis/diagnose/evidence.h"
#include "analysis/diagnose/known_bugs.h"
#include "analysis/diagnose/page_form.h"
#include "analysis/diagnose/pickle.h"
#include "tests/fuzz/fuzz.h"

static void read_lines(const uint8_t *data, size_t size)
{
        _cleanup_(capo_evidence_finish) struct capo_evidence e = {0};
        char *text = malloc(size + 1);
        uint32_t lines = 1;

        must(text);
        for (size_t i = 0; i < size; i++) {
                text[i] = data[i] ? (char)data[i] : '?';
                lines += data[i] == '\n';
        }
        text[size] = 0;
        must(capo_evidence_add(&e, "-", text) == 0);
        capo_evidence_judge(&e);
        capo_evidence_settle(&e);
        for (uint32_t i = 0; i < e.n_findings; i++) {
                const struct capo_diagnose_finding *f = &e.findings[i];

                must(f->n_marks <= CAPO_DIAGNOSE_MARKS && f->n_ranks <= CAPO_DIAGNOSE_RANKS);
                for (uint32_t k = 0; k < f->n_marks; k++)
                        must(f->marks[k].text == 0 && f->marks[k].line <= lines);
        }
        for (size_t i = 0; i < capo_n_known_bugs; i++)
                capo_bug_match(&capo_known_bugs[i], e.nccl, capo_evidence_has, &e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        char why[200] = "", *json = NULL;

        if (size && data[0] == 0x80) {
                if (capo_pickle_json(data, size, &json, why, sizeof why) == 0)
                        must(json);
                else
                        must(!json && *why);
                free(json);
                return 0;
        }
        read_lines(data, size);
        return 0;
}
