/* SPDX-License-Identifier: Apache-2.0 */
/* The list of readings: each scope's rows are numbered from 0, fit a word, and have names of their
 * own. */
#include <string.h>
#include <criterion/criterion.h>

#include "core/log/machine_frame.h"

Test(machine_list, rows)
{
        unsigned next[CAPO_MACHINE_SCOPES] = {0};

        for (unsigned i = 0; i < CAPO_MACHINE_READINGS; i++) {
                const struct capo_machine_reading *r = &capo_machine_readings[i];

                cr_assert(r->scope < CAPO_MACHINE_SCOPES);
                cr_assert_eq(r->row, next[r->scope]++, "%s", r->name);
                cr_assert_lt(r->row, 64);
                cr_assert_not(strpbrk(r->name, " \t=\n"), "%s", r->name);
                for (unsigned k = 0; k < i; k++)
                        cr_assert(capo_machine_readings[k].scope != r->scope ||
                                          strcmp(capo_machine_readings[k].name, r->name),
                                  "%s twice", r->name);
        }
        for (unsigned s = 0; s < CAPO_MACHINE_SCOPES; s++)
                cr_assert(next[s] && *capo_machine_scopes[s]);
        for (unsigned k = 0; k < CAPO_BETWEEN_KINDS; k++)
                cr_assert(capo_between_kinds[k] && *capo_between_kinds[k]);
}
