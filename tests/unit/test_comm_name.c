/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <criterion/criterion.h>

#include "capo/env.h"
#include "tuner/comm_name.h"
#include "tuner/tuner_env.h"

Test(comm_name, newest_of_256)
{
        char name[16], said[16];

        cr_assert(!capo_comm_name_find(1, name, sizeof name));
        cr_assert(!capo_comm_name_find(0, name, sizeof name), "an empty place is no name");
        for (int i = 1; i <= 256; i++) {
                snprintf(said, sizeof said, "c%d", i);
                capo_comm_name_keep((uint64_t)i, said);
        }
        cr_assert(capo_comm_name_find(1, name, sizeof name));
        cr_assert_str_eq(name, "c1");
        capo_comm_name_keep(257, "c257"); /* takes the place of the oldest */
        cr_assert(!capo_comm_name_find(1, name, sizeof name));
        cr_assert(capo_comm_name_find(2, name, sizeof name));
        capo_comm_name_keep(3, "again");
        cr_assert(capo_comm_name_find(3, name, sizeof name));
        cr_assert_str_eq(name, "again");
        capo_comm_name_keep(4, "");
        cr_assert(capo_comm_name_find(4, name, sizeof name), "an empty name hides none");
        cr_assert_str_eq(name, "c4");
        cr_assert(capo_comm_name_find(257, name, 3));
        cr_assert_str_eq(name, "c2");
}

/* A number may come again when its communicator is gone; others may have been named since. */
Test(comm_name, the_newest_of_one_number)
{
        char name[16];

        capo_comm_name_keep(7, "old");
        capo_comm_name_keep(7, "new");
        capo_comm_name_keep(8, "other");
        cr_assert(capo_comm_name_find(7, name, sizeof name));
        cr_assert_str_eq(name, "new");
}

Test(tuner_env, read_once)
{
        setenv("CAPO_PROFILE", "first", 1);
        cr_assert_str_eq(capo_tuner_env()->profile, "first");
        setenv("CAPO_PROFILE", "second", 1);
        cr_assert_str_eq(capo_tuner_env()->profile, "first");
}
