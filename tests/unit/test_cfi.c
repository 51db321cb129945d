/* SPDX-License-Identifier: Apache-2.0 */
/* Up a stack of which stack pointer and program counter are known: functions whose tables are
 * written here, word for word. */
#include <criterion/criterion.h>
#include <errno.h>
#include <gnu/libc-version.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unwind.h>

#include "shim/find/maps.h"
#include "shim/find/object.h"
#include "shim/site/cfi.h"
#include "tests/unit/cfi_code.h"

Test(maps, whose_address_it_is)
{
        struct capo_map m;
        char word[4];
        int on_stack = 0;

        cr_assert_eq(capo_map_of((uintptr_t)&capo_map_of, &m), 0);
        cr_assert(strstr(m.path, "test_cfi") && m.begin <= (uintptr_t)&capo_map_of &&
                  (uintptr_t)&capo_map_of < m.end);
        cr_assert(m.eh_frame_hdr && capo_read_self(m.base, word, 4) && !memcmp(word, "\177ELF", 4));
        cr_assert_eq(capo_map_of((uintptr_t)&gnu_get_libc_version, &m), 0);
        cr_assert(strstr(m.path, "libc"), "%s", m.path);
        cr_assert_eq(capo_map_of((uintptr_t)&on_stack, &m), -ENOENT, "code of no object");
        cr_assert_eq(capo_map_of(8, &m), -ENOENT);
        cr_assert(!capo_read_self(8, word, 4) && !capo_read_self(0, word, 4));
}

/* Each comes to cfi_seen(stack pointer): of by_sp() the frame hangs on the stack pointer, of
 * by_rbp() on rbp, which nobody has kept; keeper() calls one like that, which calls one that leaves
 * rbp alone, which calls one that keeps it; last() has no caller, as the first function of a
 * thread; back() is in a state that it has gone back to; tail() ends with its call, and what stands
 * behind it says another thing. */
void cfi_by_sp(void);
void cfi_by_rbp(void);
void cfi_keeper(void);
void cfi_last(void);
void cfi_back(void);
void cfi_tail(void);
void cfi_seen(uintptr_t sp);

static struct capo_cfi at[8];
static int steps, ended;

/* Up from the function that called, as far as it goes or to the eighth. */
__attribute__((noinline, used)) void cfi_seen(uintptr_t sp)
{
        struct capo_cfi c = {.known = UINT64_C(1) << CAPO_CFI_SP};
        struct capo_map m;

        c.v[CAPO_CFI_SP] = sp;
        c.v[CAPO_CFI_PC] = (uintptr_t)__builtin_return_address(0);
        for (steps = 0, ended = 1; steps < 8; steps++) {
                ended = capo_map_of(c.v[CAPO_CFI_PC] - 1, &m)
                                ?: capo_cfi_step(&c, m.eh_frame_hdr, true);
                if (ended <= 0)
                        break;
                at[steps] = c;
        }
}

/* Does address @pc lie in @function, a small one? */
static bool is_in(uint64_t pc, void (*function)(void)) { return pc - (uintptr_t)function < 64; }

static void (*volatile called)(void);

__attribute__((noinline)) static void calls_it(void)
{
        called();
        __asm__ volatile("");
}

static void calls(void (*function)(void))
{
        called = function;
        calls_it();
}

Test(cfi, by_the_stack_pointer)
{
        calls(cfi_by_sp);
        cr_assert_geq(steps, 1);
        cr_assert(at[0].v[CAPO_CFI_PC] - (uintptr_t)&calls_it < 256, "who called it");
        calls(cfi_keeper);
        cr_assert_geq(steps, 4, "%d", steps);
        cr_assert(at[0].known & UINT64_C(1) << CAPO_CFI_FP, "kept further in");
        cr_assert(at[1].known & UINT64_C(1) << CAPO_CFI_FP &&
                          at[1].v[CAPO_CFI_FP] == at[0].v[CAPO_CFI_FP],
                  "left alone on the way");
        cr_assert(is_in(at[2].v[CAPO_CFI_PC], cfi_keeper), "over the one whose frame hangs on rbp");
        cr_assert(at[3].v[CAPO_CFI_PC] - (uintptr_t)&calls_it < 256);
        cr_assert_eq(at[3].v[CAPO_CFI_SP], at[2].v[CAPO_CFI_SP] + 16);
}

Test(cfi, which_row_counts)
{
        calls(cfi_back);
        cr_assert_geq(steps, 1);
        cr_assert(at[0].v[CAPO_CFI_PC] - (uintptr_t)&calls_it < 256,
                  "the state that it went back to");
        calls(cfi_tail);
        cr_assert_geq(steps, 1);
        cr_assert(at[0].v[CAPO_CFI_PC] - (uintptr_t)&calls_it < 256,
                  "of the call, not of what stands behind it");
}

#ifdef __aarch64__
/* Its return address is signed, where the processor does that. */
void cfi_signed(void);

Test(cfi, signed_address)
{
        calls(cfi_signed);
        cr_assert_geq(steps, 1);
        cr_assert(at[0].v[CAPO_CFI_PC] - (uintptr_t)&calls_it < 256);
}
#endif

Test(cfi, no_guess)
{
        calls(cfi_by_rbp);
        cr_assert(steps == 0 && ended == -ENODATA, "nobody knows rbp: %d steps, %d", steps, ended);
        calls(cfi_last);
        cr_assert(steps == 0 && ended == 0, "there is no caller: %d steps, %d", steps, ended);
}

/* ---- our own stack, as far as it goes: libgcc's unwinder is the judge where tables are right ----
 */

struct way {
        uint64_t pc[64];
        unsigned n;
};

static struct way ours, theirs;

static int up(struct capo_cfi *c, bool after_call)
{
        struct capo_tables tables;

        if (!capo_object_tables(c->v[CAPO_CFI_PC] - after_call, &tables))
                return -ENOENT;
        c->begin = tables.begin;
        c->end = tables.end;
        return capo_cfi_step(c, tables.eh_frame_hdr, after_call);
}

static _Unwind_Reason_Code note(struct _Unwind_Context *context, void *cookie)
{
        if (theirs.n < 64 && _Unwind_GetIP(context))
                theirs.pc[theirs.n++] = _Unwind_GetIP(context);
        return _URC_NO_REASON;
}

/* Both begin in this function, so all but the first are the same. */
void cfi_both_ways(void);
__attribute__((noinline, used)) void cfi_both_ways(void)
{
        struct capo_cfi c = {0};

        theirs.n = 0;
        _Unwind_Backtrace(note, NULL);
        capo_cfi_here(&c);
        for (ours.n = 0, ended = 1; ended == 1 && ours.n < 64;) {
                ours.pc[ours.n++] = c.v[CAPO_CFI_PC];
                ended = up(&c, ours.n > 1);
        }
}

static void same_way(void)
{
        cr_assert_geq(theirs.n, 5);
        cr_assert_eq(ours.n, theirs.n, "%u frames, and %u by libgcc", ours.n, theirs.n);
        for (unsigned i = 1; i < ours.n; i++)
                cr_assert_eq(ours.pc[i], theirs.pc[i], "frame %u: %lx, and %lx by libgcc", i,
                             ours.pc[i], theirs.pc[i]);
}

static int compare(const void *a, const void *b)
{
        cfi_both_ways();
        return (a > b) - (a < b);
}

/* A frame whose size is known when it runs, of more than a page. */
static __attribute__((noinline)) void of_a_size(size_t size)
{
        char *room = __builtin_alloca(size);

        __asm__ volatile("" : : "r"(room) : "memory");
        cfi_both_ways();
        __asm__ volatile("" : : "r"(room) : "memory");
}

/* One that is aligned to more than a stack is: its table has a block. */
static __attribute__((noinline)) void aligned(size_t size)
{
        char room[64] __attribute__((aligned(256))), *more = __builtin_alloca(size);

        __asm__ volatile("" : : "r"(room), "r"(more) : "memory", CFI_KEPT);
        cfi_both_ways();
        __asm__ volatile("" : : "r"(room), "r"(more) : "memory");
}

/* A table of 2 KB. */
void cfi_long(void);

Test(cfi, as_libgcc)
{
        int two[2] = {0};

        cfi_both_ways();
        same_way();
        qsort(two, 2, sizeof *two, compare);
        same_way();
        of_a_size(100);
        same_way();
        of_a_size(300000);
        same_way();
        aligned(100);
        same_way();
        calls(cfi_long);
        same_way();
}

/* Tables that are wrong: cfi_flags() has more on the stack than its table says, so that the flags
 * pass for who called it; of cfi_wild() the frame hangs on an rbp that is a number, of cfi_fence()
 * on one that points to a page that must not be read. */
void cfi_flags(void);
void cfi_wild(void);
void cfi_fence(void);
void cfi_wrong(void);
extern char *cfi_fenced;
char *cfi_fenced;

__attribute__((noinline, used)) void cfi_wrong(void)
{
        struct capo_cfi c = {0};

        capo_cfi_here(&c);
        for (steps = 0, ended = 1; ended == 1 && steps < 64; steps++)
                ended = up(&c, steps > 0);
}

Test(cfi, wrong_tables)
{
        char *fence = mmap(NULL, 8 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        cr_assert_neq(fence, MAP_FAILED);
        called = cfi_flags;
        calls_it();
        cr_assert(steps == 3 && ended == -ENOENT, "flags are no code: %d steps, %d", steps, ended);
        called = cfi_wild;
        calls_it();
        cr_assert(steps == 2 && ended == -ENODATA, "nothing is there: %d steps, %d", steps, ended);
        cfi_fenced = fence + 4096;
        called = cfi_fence;
        calls_it();
        cr_assert(steps == 2 && ended == -ENODATA, "it must not be read: %d steps, %d", steps,
                  ended);
        munmap(fence, 8 * 4096);
}

/* What is no table is none. */
Test(cfi, damaged)
{
        struct capo_cfi c = {.v = {[CAPO_CFI_PC] = (uintptr_t)&calls_it},
                             .known = UINT64_C(1) << CAPO_CFI_SP},
                        before = c;
        static const uint8_t other[64] = {1, 0x1b, 0x03, 0x3a}, empty[64] = {1, 0x1b, 0x03, 0x3b};

        cr_assert_eq(capo_cfi_step(&c, 8, false), -ENODATA);
        cr_assert_eq(capo_cfi_step(&c, (uintptr_t)other, false), -ENODATA);
        cr_assert_eq(capo_cfi_step(&c, (uintptr_t)empty, false), -ENODATA);
        cr_assert(!memcmp(&c, &before, sizeof c));
}
