/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <unistd.h>

#include "analysis/process/process_memory.h"
#include "core/base/clock.h"

/* Each limit ends the reading: the number of pieces, the bytes that are kept, the time. */
Test(process_memory, limits)
{
        static char large[PROCESS_MEMORY_BYTES];
        struct process_memory *m = process_memory_new(getpid());
        uintptr_t from = (uintptr_t)large;
        char to[4];

        m->most = 3;
        large[0] = 'a';
        cr_assert(process_memory_read(m, from, to, 4) && to[0] == 'a' && m->n == 1);
        cr_expect(!process_memory_read(m, 8, to, 4), "no memory of it");
        cr_assert_eq(m->error, 0);
        cr_assert(process_memory_read(m, from, to, 4) && m->n == 2);
        cr_expect(!process_memory_read(m, from, to, 4), "three were tried");
        m->most = 100;
        cr_expect(!process_memory_read(m, from, large, sizeof large),
                  "no room beside what is kept");
        m->end_ns = capo_clock_mono() + 1000000000000;
        cr_expect(process_memory_read(m, from, to, 4));
        m->end_ns = capo_clock_mono();
        cr_expect(!process_memory_read(m, from, to, 4), "its time is over");
        free(m);
}
