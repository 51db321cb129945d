/* SPDX-License-Identifier: Apache-2.0 */
/* A record is stored by words (shim/record/recorder.h): what comes to lie in each is the struct's
 * own layout. */
#include <criterion/criterion.h>
#include <string.h>

#include "shim/record/recorder.h"

static void store_all(struct capo_record *to, struct capo_record r)
{
        for (size_t offset = 0; offset < sizeof r; offset += 8)
                capo_record_store(to, offset, r);
}

Test(record, words_are_the_struct)
{
        struct capo_record r, stored;

        for (unsigned round = 0; round < 256;
             round++) { /* every byte once with each value, sign bits among them */
                for (size_t i = 0; i < sizeof r; i++)
                        ((unsigned char *)&r)[i] = (unsigned char)(round + 37 * i);
                memset(&stored, 0xa5, sizeof stored);
                store_all(&stored, r);
#define CAPO_FIELD(type, name, kept) cr_assert(stored.name == r.name, #name);
#include "capo/record_fields.def"
                cr_assert_eq(memcmp(&stored, &r, sizeof r), 0, "a field is not in the list");
        }
}

Test(record, a_negative_field_spills_into_no_other)
{
        struct capo_record stored, r = {.peer = -1, .result = -1};

        store_all(&stored, r);
        cr_assert(stored.peer == -1 && stored.group == 0);
        cr_assert(stored.result == -1 && stored.op == 0 && stored.clock == 0);
}

Test(record, sizes_of_types)
{
        static const struct {
                int type;
                unsigned bytes;
        } types[] = {{0, 1}, {1, 1}, {2, 4}, {3, 4}, {4, 8},  {5, 8},
                     {6, 2}, {7, 4}, {8, 8}, {9, 2}, {10, 1}, {NO_TYPE, 1}};

        for (size_t i = 0; i < N_ELEMENTS(types); i++) {
                struct capo_what what = {.count = 1000, .type = types[i].type};

                cr_assert_eq(capo_bytes(&what, 8), 1000 * types[i].bytes, "type %d", types[i].type);
                what.per_rank = true;
                cr_assert_eq(capo_bytes(&what, 8), 8000 * types[i].bytes, "type %d", types[i].type);
        }
}
