/* SPDX-License-Identifier: Apache-2.0 */
/* The few questions the doctor asks an ELF file; the file is mapped, never run or loaded. */
#ifndef CAPO_ELF_FILE_H
#define CAPO_ELF_FILE_H

#include <stdbool.h>
#include <stddef.h>

struct capo_elf_file {
        const unsigned char *bytes; /* mapped read-only */
        size_t size;
};

/** capo_elf_open() - Return: 0; -errno; -ENOEXEC when it is not a 64-bit ELF file of this machine's
 * byte order. */
int capo_elf_open(const char *path, struct capo_elf_file *elf);
void capo_elf_close(struct capo_elf_file *elf);

/** capo_elf_is_static() - an executable without a dynamic loader: LD_PRELOAD is not looked at. */
bool capo_elf_is_static(const struct capo_elf_file *elf);

/** capo_elf_loader() - the dynamic loader that the program names, into @path. Return: false when it
 * names none. */
bool capo_elf_loader(const struct capo_elf_file *elf, char *path, size_t room);

/** capo_elf_imports() - a dynamic symbol of that name which others have to define. */
bool capo_elf_imports(const struct capo_elf_file *elf, const char *name);

/** capo_elf_exports() - a defined dynamic symbol of that name. */
bool capo_elf_exports(const struct capo_elf_file *elf, const char *name);

/** capo_elf_contains() - a defined symbol of that name in the static symbol table: code linked in,
 * perhaps not exported. */
bool capo_elf_contains(const struct capo_elf_file *elf, const char *name);

/** capo_elf_each_export() - @each is called with the name of every function that is exported. */
void capo_elf_each_export(const struct capo_elf_file *elf,
                          void (*each)(const char *name, void *arg), void *arg);

/** capo_elf_highest() - of the words in its read-only data that are @stem and a number, the highest
 * number; 0: none is. What a library looks for by name stands there. */
int capo_elf_highest(const struct capo_elf_file *elf, const char *stem);

/** capo_elf_has_word() - does a string of its read-only data end in @word? */
bool capo_elf_has_word(const struct capo_elf_file *elf, const char *word);

#endif
