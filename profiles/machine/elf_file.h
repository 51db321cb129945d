/* SPDX-License-Identifier: Apache-2.0 */
/* Reads an ELF file; it is mapped, never run or loaded. */
#pragma once

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>

struct capo_elf_file {
        const unsigned char *bytes; /* mapped read-only */
        size_t size;
};

/** capo_elf_open() - Return: 0; -errno; -ENOEXEC: not a 64-bit ELF file with this machine's byte
 * order. */
int capo_elf_open(const char *path, struct capo_elf_file *elf);
void capo_elf_close(struct capo_elf_file *elf);

/** capo_elf_is_static() - is it an executable without a dynamic loader, which ignores LD_PRELOAD?
 */
bool capo_elf_is_static(const struct capo_elf_file *elf);

/** capo_elf_loader() - the dynamic loader that the program names. Return: false: none. */
bool capo_elf_loader(const struct capo_elf_file *elf, char *path, size_t room);

/** capo_elf_has() - does a table of a kind have a symbol of that name, @defined or not? What its
 * static table defines is linked in, perhaps not exported. */
bool capo_elf_has(const struct capo_elf_file *elf, unsigned table, const char *name, bool defined);
#define capo_elf_imports(elf, name)  capo_elf_has(elf, SHT_DYNSYM, name, false)
#define capo_elf_exports(elf, name)  capo_elf_has(elf, SHT_DYNSYM, name, true)
#define capo_elf_contains(elf, name) capo_elf_has(elf, SHT_SYMTAB, name, true)

/* Where a walk along symbols is; {0}: at the begin. */
struct capo_elf_symbol {
        const char *name;
        const Elf64_Sym *symbol;
        uint64_t section, next;
};

/** capo_elf_next() - the next named symbol of the tables of a kind (SHT_SYMTAB, SHT_DYNSYM). Return:
 * is there one? */
bool capo_elf_next(const struct capo_elf_file *elf, unsigned table, struct capo_elf_symbol *s);

/** capo_elf_highest() - the highest number that follows @stem in its read-only strings; 0: none.
 * Names that a library looks up are there. */
int capo_elf_highest(const struct capo_elf_file *elf, const char *stem);

/** capo_elf_has_word() - does a read-only string end in @word? */
bool capo_elf_has_word(const struct capo_elf_file *elf, const char *word);
