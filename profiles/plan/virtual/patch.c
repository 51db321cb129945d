/* SPDX-License-Identifier: Apache-2.0 */
/* Overwrites the begin of a function with a jump. libnccl contains its CUDA runtime and calls it
 * directly, so symbols cannot be interposed: the code itself must be redirected. Only worker
 * processes do this, in their private copy of the pages; the file is never changed. */
#include <assert.h>
#include <sys/mman.h>

#include "core/base/util.h"
#include "profiles/plan/virtual/patch.h"

#if defined(__x86_64__)
static const uint8_t jump[6] = {0xff, 0x25, 0, 0, 0, 0}; /* jmp *0(%rip) */
static_assert(sizeof jump + sizeof(void *) == CAPO_PATCH_BYTES, "patch.h");
/* mov $argument, %rdi; movabs $function, %rax; jmp *%rax */
static const uint8_t stub[] = {0x48, 0xbf, 0, 0, 0, 0, 0, 0, 0, 0,    0x48,
                               0xb8, 0,    0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0};
enum { STUB_ARGUMENT = 2, STUB_FUNCTION = 12, CODE_STEP = 1 };
#elif defined(__aarch64__)
static const uint32_t jump[2] = {0x58000050, 0xd61f0200}; /* ldr x16, . + 8; br x16 */
static_assert(sizeof jump + sizeof(void *) == CAPO_PATCH_BYTES, "patch.h");
/* ldr x0, . + 16; ldr x16, . + 20; br x16; nop; argument; function */
static const uint32_t stub[] = {0x58000080, 0x580000b0, 0xd61f0200, 0xd503201f, 0, 0, 0, 0};
enum { STUB_ARGUMENT = 16, STUB_FUNCTION = 24, CODE_STEP = 4 };
#else
#error "redirecting a function needs a few instructions for this architecture"
#endif

/* Instruction caches of other cores are not flushed: no thread may run there. */
static void code_written(void *at, size_t n)
{
        __builtin___clear_cache((char *)at, (char *)at + n);
}

int capo_patch_jump(void *from, const void *to)
{
        unsigned char *at = from;
        uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
        uintptr_t first = (uintptr_t)from & ~(page - 1);
        uintptr_t last = ((uintptr_t)from + CAPO_PATCH_BYTES - 1) & ~(page - 1);
        static uintptr_t open_first, open_last; /* functions come in address order, many per page */

        if (first < open_first || last > open_last || !open_first) {
                if (mprotect((void *)first, last - first + page,
                             PROT_READ | PROT_WRITE | PROT_EXEC) < 0)
                        return -errno;
                open_first = first;
                open_last = last;
        }
        memcpy(at, jump, sizeof jump);
        memcpy(at + sizeof jump, &to, sizeof to);
        code_written(at, CAPO_PATCH_BYTES);
        return 0;
}

size_t capo_patch_stub(void *at, size_t room, const void *argument, const void *function)
{
        char *code = at;

        if (room < sizeof stub)
                return 0;
        memcpy(code, stub, sizeof stub);
        memcpy(code + STUB_ARGUMENT, &argument, sizeof argument);
        memcpy(code + STUB_FUNCTION, &function, sizeof function);
        code_written(code, sizeof stub);
        return (sizeof stub + 7) & ~(size_t)7;
}

/* The target of a call, or of the jump that ends a function, at @code; NULL: it is neither. */
static const unsigned char *call_target(const unsigned char *code)
{
        int32_t distance;

#if defined(__x86_64__)
        if ((*code & 0xfe) != 0xe8)
                return NULL;
        memcpy(&distance, code + 1, sizeof distance);
        return code + 5 + distance;
#else
        uint32_t word;

        memcpy(&word, code, sizeof word);
        if ((word & 0x7c000000) != 0x14000000)
                return NULL;
        distance = (int32_t)(word << 6) >> 4; /* 26 bits, of words */
        return code + distance;
#endif
}

/* Return: false: @to is too far away. */
static bool set_target(unsigned char *code, const unsigned char *to)
{
#if defined(__x86_64__)
        const int64_t distance = to - (code + 5);
        const int32_t kept = (int32_t)distance;

        memcpy(code + 1, &kept, sizeof kept);
        return kept == distance;
#else
        const int64_t distance = to - code;
        uint32_t word;

        memcpy(&word, code, sizeof word);
        word = (word & 0xfc000000) | ((uint32_t)(distance >> 2) & 0x03ffffff);
        memcpy(code, &word, sizeof word);
        return distance >= -(1 << 27) && distance < 1 << 27;
#endif
}

int capo_patch_calls(char *code, size_t n, const void *callee, const void *to, void *spare)
{
        uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
        int calls = capo_patch_jump(spare, to);

        for (size_t i = 0; calls >= 0 && i + 5 <= n; i += CODE_STEP) {
                unsigned char *at = (unsigned char *)code + i;
                uintptr_t first = (uintptr_t)at & ~(page - 1);

                if (call_target(at) != callee)
                        continue;
                if (mprotect((void *)first, 2 * page, PROT_READ | PROT_WRITE | PROT_EXEC) < 0)
                        return -errno;
                if (!set_target(at, spare))
                        return -ERANGE;
                code_written(at, 8);
                calls++;
        }
        return calls;
}
