/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <criterion/criterion.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "core/log/number_index.h"

/* A bad hash: four things want each place. */
static uint32_t *place_of(const struct capo_number_index *x, uint32_t thing)
{
        uint32_t i = capo_index_first(x, thing / 4 * 9);

        while (x->at[i] && x->at[i] != thing)
                i = capo_index_next(x, i);
        return &x->at[i];
}

Test(number_index, grows_with_what_it_holds)
{
        struct capo_number_index x = {0};
        uint32_t begin, most = CAPO_NO_NUMBER;
        int grown = 0;

        cr_assert(capo_index_new(&x));
        begin = x.size;
        cr_expect_leq(begin * sizeof *x.at, 16 << 10);
        for (uint32_t n = 1; n <= most; n++) {
                int r = capo_index_grow(&x, n);

                cr_assert_geq(r, 0);
                cr_assert_eq(r, n == begin / 2 + 1 || (n > begin && !((n - 1) & (n - 2))));
                for (uint32_t k = 1; r && k < n; k++)
                        *place_of(&x, k) = k;
                grown += r;
                cr_assert_eq(*place_of(&x, n), 0, "%u", n);
                *place_of(&x, n) = n;
                cr_assert_leq(n, x.size / 2);
        }
        cr_expect_eq(grown, 5);
        for (uint32_t n = 1; n <= most; n++)
                cr_assert_eq(*place_of(&x, n), n);
        capo_index_clear(&x);
        for (uint32_t n = 1; n <= most; n++)
                cr_assert_eq(*place_of(&x, n), 0);
        capo_index_free(&x);
        capo_index_free(&x);
}

Test(number_index, stays_as_it_is_without_memory)
{
        struct capo_number_index x = {0};
        struct rlimit before, none = {0, RLIM_INFINITY};
        void *page;

        cr_assert(capo_index_new(&x));
        *place_of(&x, 7) = 7;
        cr_assert_eq(getrlimit(RLIMIT_AS, &before), 0);
        none.rlim_max = before.rlim_max;
        cr_assert_eq(setrlimit(RLIMIT_AS, &none), 0);
        page = mmap(NULL, 1, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (page != MAP_FAILED) {
                munmap(page, 1);
                cr_skip_test("this limit holds nobody here: qemu-user leaves it out");
        }
        cr_expect_eq(capo_index_grow(&x, 60000), -ENOMEM);
        cr_assert_eq(setrlimit(RLIMIT_AS, &before), 0);
        cr_expect_eq(*place_of(&x, 7), 7);
        capo_index_free(&x);
}
