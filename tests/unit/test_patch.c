/* SPDX-License-Identifier: Apache-2.0 */
/* Functions redirected in place: the instructions of this architecture do what they say. */
#include <criterion/criterion.h>
#include <sys/mman.h>

#include "profiles/plan/virtual/patch.h"

static const char *said;

static int say_name(const char *name)
{
        said = name;
        return 801;
}

#if defined __clang__
#define IN_ORDER __attribute__((noinline))
#else
#define IN_ORDER __attribute__((noinline, noclone, no_reorder))
#endif

/* Long enough for a jump, and called as such. */
IN_ORDER static int times_seven(int n)
{
        __asm__ volatile("nop\n\tnop\n\tnop\n\tnop\n\tnop\n\tnop" : "+r"(n));
        return n * 7;
}

static int times_two(int n) { return n * 2; }

static int plus_one(int n)
{
        return times_seven(n) + 1; /* by its address: this call stays as it is */
}

/* Its code becomes a jump. */
IN_ORDER static int spare(int n)
{
        __asm__ volatile("nop\n\tnop\n\tnop\n\tnop\n\tnop\n\tnop" : "+r"(n));
        return n * 3;
}

IN_ORDER static int calls_twice(int n) { return times_seven(n) + times_seven(n + 1); }

IN_ORDER static int end_of_calls(void) { return 0; }

Test(patch, calls)
{
        const char *from = (const char *)calls_twice, *to = (const char *)end_of_calls;
        int calls;

        cr_assert_eq(calls_twice(1), 21);
        cr_assert_eq(spare(1), 3);
        cr_assert(to > from && to - from < 4096, "the compiler keeps the order of these functions");
        calls = capo_patch_calls((char *)calls_twice, (size_t)(to - from), (void *)times_seven,
                                 (void *)plus_one, (void *)spare);
        cr_assert_eq(calls, 2, "%d", calls);
        cr_assert_eq(calls_twice(1), 23);
        cr_assert_eq(times_seven(1), 7);
}

Test(patch, jump)
{
        cr_assert_eq(times_seven(3), 21);
        cr_assert_eq(capo_patch_jump((void *)times_seven, (void *)times_two), 0);
        cr_assert_eq(times_seven(3), 6);
}

Test(patch, stub)
{
        char *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        size_t n = capo_patch_stub(code, 4096, "cudaThis", (void *)say_name);
        int (*stub)(void) = (int (*)(void))(uintptr_t)code;

        cr_assert(n && n % 8 == 0);
        cr_assert_eq(stub(), 801);
        cr_assert_str_eq(said, "cudaThis");
        cr_assert_eq(capo_patch_stub(code, n - 8, "cudaThis", (void *)say_name), 0, "no room");
}
