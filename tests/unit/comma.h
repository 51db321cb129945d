/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <criterion/criterion.h>
#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/** comma_locale() - from here on a number of this process has a comma, as in a job that asked for
 * its user's locale. Made for the purpose, since no machine has one for certain; skips the test
 * where even that cannot be done. */
static inline void comma_locale(void)
{
        char folder[] = "/tmp/capo-comma-XXXXXX", command[160];
        bool made;

        cr_assert(mkdtemp(folder));
        snprintf(command, sizeof command, "localedef -f UTF-8 -i de_DE %s/de_DE.UTF-8 2>/dev/null",
                 folder);
        made = system(command) == 0 && setenv("LOCPATH", folder, 1) == 0 &&
               setlocale(LC_NUMERIC, "de_DE.UTF-8");
        snprintf(command, sizeof command, "rm -rf %s", folder);
        cr_assert_eq(system(command), 0);
        if (!made)
                cr_skip_test(
                        "no locale with a comma could be made: the package locales is missing");
        cr_assert_eq(*localeconv()->decimal_point, ',');
}
