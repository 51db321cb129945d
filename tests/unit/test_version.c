/* SPDX-License-Identifier: Apache-2.0 */
/* Which NCCL a logger belongs to; real ones: tests/tuner/real_nccl.sh. */
#include <criterion/criterion.h>

#include "tuner/version.h"

static void logger(int level, unsigned long flags, const char *file, int line, const char *format,
                   ...)
{
}

Test(version, of_what_is_not_nccl)
{
        cr_assert_eq(capo_nccl_version(NULL), 0, "no libnccl.so.2 is loaded here");
        cr_assert_eq(capo_nccl_version((capo_nccl_log)logger), 0,
                     "a logger of a program without ncclGetVersion");
        cr_assert_eq(capo_nccl_version((capo_nccl_log)logger), 0, "and again, from memory");
        cr_assert_eq(capo_nccl_version((capo_nccl_log)(uintptr_t)8), 0,
                     "no library is at that address");
}
