/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>

#include "core/base/xalloc.h"

Test(xalloc, gives)
{
        char *made = xprintf("%d of %s", 7, "eight"), *text;
        int *list = NULL;
        size_t size;
        FILE *f = xmemstream(&text, &size);

        cr_assert_str_eq(made, "7 of eight");
        fputs(made, f);
        xmemclose(f);
        cr_assert(size == 10 && !strcmp(text, made));
        free(text);
        free(made);
        for (int i = 0; i < 9; i++) {
                xarray_room(&list, (size_t)i, sizeof *list);
                list[i] = i;
        }
        cr_assert(list[0] == 0 && list[8] == 8);
        free(list);
        free(xcalloc(0, 0));
        free(xmalloc(0));
}

Test(xalloc, ends_with_one_line, .exit_code = 1, .init = cr_redirect_stderr)
{
        volatile size_t most = SIZE_MAX / 2;

        setenv("ASAN_OPTIONS", "allocator_may_return_null=1", 1);
        xcalloc(most, 4);
}
