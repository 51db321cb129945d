/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The functions of test_cfi.c, for each architecture: what they do, and what their tables say. */

#if defined __x86_64__
#define CFI_KEPT "rbx", "r12", "r13", "r14", "r15"
__asm__(".text\n"
        "cfi_by_sp: .globl cfi_by_sp\n .cfi_startproc\n sub $24, %rsp\n .cfi_adjust_cfa_offset 24\n mov %rsp, %rdi\n call cfi_seen\n"
        " add $24, %rsp\n .cfi_adjust_cfa_offset -24\n ret\n .cfi_endproc\n"
        "cfi_by_rbp: .globl cfi_by_rbp\n .cfi_startproc\n push %rbp\n .cfi_def_cfa_offset 16\n .cfi_offset 6, -16\n"
        " mov %rsp, %rbp\n .cfi_def_cfa_register 6\n sub $32, %rsp\n mov %rsp, %rdi\n call cfi_seen\n"
        " leave\n .cfi_def_cfa 7, 8\n ret\n .cfi_endproc\n"
        "cfi_outer: .cfi_startproc\n push %rbp\n .cfi_def_cfa_offset 16\n .cfi_offset 6, -16\n"
        " mov %rsp, %rbp\n .cfi_def_cfa_register 6\n sub $48, %rsp\n call cfi_middle\n leave\n .cfi_def_cfa 7, 8\n ret\n .cfi_endproc\n"
        "cfi_middle: .cfi_startproc\n sub $8, %rsp\n .cfi_def_cfa_offset 16\n call cfi_inner\n add $8, %rsp\n .cfi_def_cfa_offset 8\n ret\n"
        " .cfi_endproc\n"
        "cfi_back: .globl cfi_back\n .cfi_startproc\n sub $24, %rsp\n .cfi_def_cfa_offset 32\n .cfi_remember_state\n nop\n .cfi_def_cfa_offset 8\n nop\n"
        " .cfi_restore_state\n nop\n mov %rsp, %rdi\n call cfi_seen\n add $24, %rsp\n .cfi_def_cfa_offset 8\n ret\n .cfi_endproc\n"
        "cfi_tail: .globl cfi_tail\n .cfi_startproc\n sub $8, %rsp\n .cfi_def_cfa_offset 16\n mov %rsp, %rdi\n call cfi_seen\n .cfi_endproc\n"
        "cfi_behind: .cfi_startproc\n .cfi_def_cfa_offset 64\n add $8, %rsp\n ret\n .cfi_endproc\n"
        "cfi_inner: .cfi_startproc\n push %rbp\n .cfi_def_cfa_offset 16\n .cfi_offset 6, -16\n sub $8, %rsp\n .cfi_def_cfa_offset 24\n"
        " .cfi_remember_state\n add $8, %rsp\n .cfi_def_cfa_offset 16\n sub $8, %rsp\n .cfi_restore_state\n\n"
        " xor %ebp, %ebp\n sub $24, %rsp\n .cfi_def_cfa_offset 48\n mov %rsp, %rdi\n call cfi_seen\n add $32, %rsp\n .cfi_def_cfa_offset 16\n"
        " pop %rbp\n .cfi_restore 6\n .cfi_def_cfa_offset 8\n ret\n .cfi_endproc\n"
        "cfi_keeper: .globl cfi_keeper\n .cfi_startproc\n sub $8, %rsp\n .cfi_def_cfa_offset 16\n call cfi_outer\n add $8, %rsp\n"
        " .cfi_def_cfa_offset 8\n ret\n .cfi_endproc\n"
        "cfi_last: .globl cfi_last\n .cfi_startproc\n .cfi_undefined 16\n sub $8, %rsp\n .cfi_def_cfa_offset 16\n mov %rsp, %rdi\n call cfi_seen\n"
        " add $8, %rsp\n .cfi_def_cfa_offset 8\n ret\n .cfi_endproc\n");
__asm__(".text\ncfi_long: .globl cfi_long\n .cfi_startproc\n sub $8, %rsp\n .rept 700\n nop\n .cfi_def_cfa_offset 16\n .endr\n"
        " call cfi_both_ways\n add $8, %rsp\n .cfi_def_cfa_offset 8\n ret\n .cfi_endproc\n");
__asm__(".text\n"
        "cfi_flags: .globl cfi_flags\n .cfi_startproc\n pushfq\n sub $16, %rsp\n .cfi_adjust_cfa_offset 16\n call cfi_wrong\n"
        " add $24, %rsp\n .cfi_adjust_cfa_offset -16\n ret\n .cfi_endproc\n"
        "cfi_wild: .globl cfi_wild\n .cfi_startproc\n push %rbp\n .cfi_def_cfa 6, 16\n movabs $0x7f1234567890, %rbp\n call cfi_wrong\n"
        " pop %rbp\n .cfi_def_cfa 7, 8\n ret\n .cfi_endproc\n"
        "cfi_fence: .globl cfi_fence\n .cfi_startproc\n push %rbp\n .cfi_def_cfa 6, 16\n mov cfi_fenced@GOTPCREL(%rip), %rbp\n"
        " mov (%rbp), %rbp\n call cfi_wrong\n pop %rbp\n .cfi_def_cfa 7, 8\n ret\n .cfi_endproc\n");
#elif defined __aarch64__
#define CFI_KEPT    "x19", "x20", "x21", "x27", "x28"
#define ENTER(name) name ": .globl " name "\n .cfi_startproc\n"
#define LEAVE       " ret\n .cfi_endproc\n"
#define PUSH_LR(size) \
        " str x30, [sp, #-" size "]!\n .cfi_def_cfa_offset " size "\n .cfi_offset 30, -" size "\n"
#define POP_LR(size) " ldr x30, [sp], #" size "\n .cfi_restore 30\n .cfi_def_cfa_offset 0\n"
#define PUSH_PAIR(size)                                                                            \
        " stp x29, x30, [sp, #-" size "]!\n .cfi_def_cfa_offset " size "\n .cfi_offset 29, -" size \
        "\n .cfi_offset 30, 8-" size "\n"
#define POP_PAIR(size) \
        " ldp x29, x30, [sp], #" size "\n .cfi_restore 29\n .cfi_restore 30\n .cfi_def_cfa 31, 0\n"
#define SEE " mov x0, sp\n bl cfi_seen\n"
__asm__(".text\n" ENTER("cfi_by_sp") PUSH_PAIR("32") SEE POP_PAIR("32") LEAVE ENTER("cfi_by_rbp") PUSH_PAIR(
        "48") " mov x29, sp\n .cfi_def_cfa_register 29\n" SEE POP_PAIR("48") LEAVE ENTER("cfi_outer")
                PUSH_PAIR("64") " mov x29, sp\n .cfi_def_cfa_register 29\n bl cfi_middle\n" POP_PAIR(
                        "64") LEAVE ENTER("cfi_middle") PUSH_LR("16") " bl cfi_inner\n" POP_LR("16")
                        LEAVE ENTER("cfi_back") PUSH_LR(
                                "32") " .cfi_remember_state\n nop\n .cfi_def_cfa_offset 8\n nop\n .cfi_restore_state\n nop\n" SEE
                                POP_LR("32") LEAVE ENTER("cfi_tail") PUSH_LR("16") SEE
        " .cfi_endproc\n" ENTER("cfi_behind") " .cfi_def_cfa_offset 64\n ldr x30, [sp], #16\n" LEAVE ENTER(
                "cfi_inner") PUSH_PAIR("48") " .cfi_remember_state\n nop\n .cfi_def_cfa_offset 16\n nop\n .cfi_restore_state\n mov x29, xzr\n" SEE
                POP_PAIR("48") LEAVE ENTER("cfi_keeper") PUSH_LR("16") " bl cfi_outer\n" POP_LR("16") LEAVE ENTER(
                        "cfi_last") " .cfi_undefined 30\n str x30, [sp, #-16]!\n .cfi_def_cfa_offset 16\n" SEE " ldr x30, [sp], #16\n .cfi_def_cfa_offset 0\n" LEAVE
                        ENTER("cfi_signed") " hint #25\n .cfi_negate_ra_state\n" PUSH_PAIR("32") SEE POP_PAIR(
                                "32") " hint #29\n .cfi_negate_ra_state\n" LEAVE ENTER("cfi_long")
                                PUSH_LR("16") ".rept 700\n nop\n .cfi_def_cfa_offset 16\n .endr\n bl cfi_both_ways\n" POP_LR(
                                        "16") LEAVE ENTER("cfi_flags")
                                        PUSH_LR("16") " mov x9, #0x202\n stp x9, x9, [sp, #-16]!\n bl cfi_wrong\n add sp, sp, #16\n" POP_LR(
                                                "16") LEAVE ENTER("cfi_wild")
                                                PUSH_PAIR("16") " .cfi_def_cfa 29, 16\n ldr x29, =0x7f1234567890\n bl cfi_wrong\n" POP_PAIR(
                                                        "16") LEAVE ENTER("cfi_fence")
                                                        PUSH_PAIR("16") " .cfi_def_cfa 29, 16\n adrp x29, cfi_fenced\n ldr x29, [x29, #:lo12:cfi_fenced]\n bl cfi_wrong\n" POP_PAIR(
                                                                "16") LEAVE);
#endif
