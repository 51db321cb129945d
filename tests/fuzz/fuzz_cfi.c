/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unwind tables that somebody wrote by hand, or damaged: steps up a stack by them, by registers of
 * any value. An input is
 *
 *      flags u8, entry u8 (where in the table, in fours), registers u16 (of 16: from the stack,
 * else any number), tables
 *
 * The table's head and its only row are made here, as every linker writes them: of chance they
 * would seldom be right.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util.h"
#include "shim/site/cfi.h"
#include "tests/fuzz/fuzz.h"

enum {
        AFTER_CALL = 1,
        ASKED = 2,
        HEAD = 4
}; /* asked: the kernel for each word, as of the stack of another thread; head: from the input, too
    */
enum { ROW = 20, FUNCTION = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct fuzz_bytes b = {data, size};
        uint8_t flags = (uint8_t)fuzz_number(&b, 1), entry = (uint8_t)fuzz_number(&b, 1);
        uint16_t on_stack = (uint16_t)fuzz_number(&b, 2);
        const uint32_t head[5] = {0x3b031b01, 0, 1, FUNCTION, ROW + entry * 4u};
        uint64_t stack[512] = {0};
        struct capo_cfi c = {.known = 0xffff & ~(flags >> 4 << 12)}, before;
        uint8_t *object = malloc(ROW + b.left);
        uintptr_t at = (uintptr_t)object;
        int r = 1;

        must(object);
        memcpy(object, head, ROW);
        memcpy(object + (flags & HEAD ? 0 : ROW), b.at, b.left);
        for (unsigned i = 0; i < N_ELEMENTS(stack); i++)
                stack[i] = i % 3 ? at + FUNCTION + i % 64
                                 : (uintptr_t)&stack[(i + i % 29) % N_ELEMENTS(stack)];
        for (unsigned i = 0; i < CAPO_CFI_PC; i++)
                c.v[i] = on_stack >> i & 1 ? (uintptr_t)&stack[i * 8] : (i % 5 ? at * i : i * 8);
        c.v[CAPO_CFI_SP] = (uintptr_t)stack;
        c.v[CAPO_CFI_PC] = at + FUNCTION + 16;
        if (!(flags & ASKED)) {
                c.begin = at;
                c.end = at + ROW + b.left;
                c.low = (uintptr_t)stack;
                c.high = (uintptr_t)(stack + N_ELEMENTS(stack));
        }
        for (unsigned steps = 0; r == 1 && steps < 32; steps++) {
                before = c;
                r = capo_cfi_step(&c, at, flags & AFTER_CALL);
                must(r == 1 || r == 0 || r == -ENODATA);
                if (r == 1)
                        must(c.v[CAPO_CFI_SP] > before.v[CAPO_CFI_SP] &&
                             c.known & UINT64_C(1) << CAPO_CFI_SP);
                else if (r < 0)
                        must(!memcmp(c.v, before.v, sizeof c.v) && c.known == before.known);
        }
        free(object);
        return 0;
}
