/* SPDX-License-Identifier: Apache-2.0 */
#include <fenv.h>
#include <criterion/criterion.h>

#include "core/base/fpu.h"

static volatile double one = 1, three = 3, third;

static void in_our_own(void)
{
        CAPO_FPU_OURS;

        third = one / three; /* inexact: a trap would end us */
        cr_assert_eq(third, 1.0 / 3);
}

Test(fpu, traps_and_rounding_stay_the_jobs)
{
        int traps = FE_INEXACT | FE_DIVBYZERO;

        feclearexcept(FE_ALL_EXCEPT);
        cr_assert_eq(fesetround(FE_UPWARD), 0);
        if (feenableexcept(traps) < 0)
                traps = 0; /* most AArch64 processors have none; rounding and flags remain */
        in_our_own();
        cr_assert_eq(fegetexcept(), traps);
        cr_assert_eq(fegetround(), FE_UPWARD);
        cr_assert_eq(fetestexcept(FE_INEXACT), 0);
        fedisableexcept(FE_ALL_EXCEPT);
        fesetround(FE_TONEAREST);
}
