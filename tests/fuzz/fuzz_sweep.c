/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as CAPO_SWEEP: what is taken is a plan that picks what the cost table offers, and
 * nothing else. */
#include <stdlib.h>
#include <string.h>

#include "core/base/util.h"
#include "tests/fuzz/fuzz.h"
#include "tuner/sweep_plan.h"
#include "tests/log_numbers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static struct capo_sweep_plan plan;
        struct fuzz_bytes b = {data, size};
        float table[7 * 3];
        struct capo_sweep_ask ask = {.table = table, .n_algos = 7, .n_protos = 3};
        char why[128] = "", rules[2048], *text;

        for (unsigned i = 0; i < N_ELEMENTS(table); i++)
                table[i] = i % 5 == 3 ? -1.0f : (float)(i + 1);
        ask.call = (struct capo_seam_call){.comm_uid = fuzz_number(&b, 1),
                                           .seq = (uint32_t)fuzz_number(&b, 1)};
        ask.question.coll = (uint8_t)fuzz_number(&b, 1) % (CAPO_NCCL_COLLS + 1);
        ask.question.bytes = 1ull << (fuzz_number(&b, 1) & 63);
        text = fuzz_text(b.at, b.left);
        if (capo_sweep_plan_parse(text, &plan, why, sizeof why) < 0) {
                must(*why);
        } else {
                must(plan.n <= CAPO_SWEEP_CANDIDATES && plan.min_bytes <= plan.max_bytes &&
                     plan.slower >= 0);
                must(capo_sweep_plan_rules(&plan, rules, sizeof rules) < sizeof rules);
                for (unsigned i = 0; i < 8; i++, ask.call.seq++) {
                        struct capo_choice c = capo_sweep_pick(&plan, &ask);

                        must(!c.algo ||
                             (c.rule >= 1 && c.rule <= plan.n && c.algo <= 7 && c.proto <= 3));
                        must(!c.algo || table[(c.algo - 1) * 3 + c.proto - 1] >= 0);
                }
        }
        free(text);
        return 0;
}
