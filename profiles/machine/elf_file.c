/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "core/base/among.h"
#include "core/base/util.h"
#include "profiles/machine/elf_file.h"

int capo_elf_open(const char *path, struct capo_elf_file *elf)
{
        _cleanup_close_ int fd =
                open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* a pipe could block */
        const Elf64_Ehdr *head;
        struct stat st;
        void *map;

        if (fd < 0 || fstat(fd, &st))
                return -errno;
        if (!S_ISREG(st.st_mode) || (size_t)st.st_size < sizeof *head)
                return -ENOEXEC;
        map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (map == MAP_FAILED)
                return -errno;
        head = map;
        if (memcmp(head->e_ident, ELFMAG, SELFMAG) || head->e_ident[EI_CLASS] != ELFCLASS64 ||
            head->e_ident[EI_DATA] !=
                    (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB)) {
                munmap(map, (size_t)st.st_size);
                return -ENOEXEC;
        }
        *elf = (struct capo_elf_file){map, (size_t)st.st_size};
        return 0;
}

void capo_elf_close(struct capo_elf_file *elf)
{
        if (elf->bytes)
                munmap((void *)(uintptr_t)elf->bytes, elf->size);
        elf->bytes = NULL;
}

/* Pointer to @n objects of @size bytes at @offset; NULL: not inside the file, or not aligned to 8
 * as ELF tables are. */
static const void *file_range(const struct capo_elf_file *elf, uint64_t offset, uint64_t n,
                              uint64_t size)
{
        if (offset > elf->size || n > (elf->size - offset) / size || (size > 1 && offset % 8))
                return NULL;
        return elf->bytes + offset;
}

bool capo_elf_is_static(const struct capo_elf_file *elf)
{
        const Elf64_Ehdr *head = (const Elf64_Ehdr *)elf->bytes;
        const Elf64_Phdr *ph = file_range(elf, head->e_phoff, head->e_phnum, sizeof *ph);

        if (!ph || (head->e_type != ET_EXEC && head->e_type != ET_DYN))
                return false;
        return !ANY_OF(p, ph, head->e_phnum, p->p_type == PT_INTERP);
}

bool capo_elf_loader(const struct capo_elf_file *elf, char *path, size_t room)
{
        const Elf64_Ehdr *head = (const Elf64_Ehdr *)elf->bytes;
        const Elf64_Phdr *ph = file_range(elf, head->e_phoff, head->e_phnum, sizeof *ph);
        const char *name;

        ph = ph ? FIRST_OF(p, ph, head->e_phnum, p->p_type == PT_INTERP) : NULL;
        name = ph ? file_range(elf, ph->p_offset, ph->p_filesz, 1) : NULL;
        if (!name || ph->p_filesz > room || !memchr(name, 0, ph->p_filesz))
                return false;
        memcpy(path, name, ph->p_filesz);
        return true;
}

static const Elf64_Shdr *sections_of(const struct capo_elf_file *elf, unsigned *n)
{
        const Elf64_Ehdr *head = (const Elf64_Ehdr *)elf->bytes;

        *n = head->e_shnum;
        return file_range(elf, head->e_shoff, head->e_shnum, sizeof(Elf64_Shdr));
}

bool capo_elf_next(const struct capo_elf_file *elf, unsigned table, struct capo_elf_symbol *s)
{
        unsigned n_sections;
        const Elf64_Shdr *sections = sections_of(elf, &n_sections);

        for (; sections && s->section < n_sections; s->section++, s->next = 0) {
                const Elf64_Shdr *of = &sections[s->section], *str;
                const Elf64_Sym *symbols;
                const char *strings;
                uint64_t n = of->sh_size / sizeof *symbols;

                if (of->sh_type != table || of->sh_link >= n_sections)
                        continue;
                str = &sections[of->sh_link];
                symbols = file_range(elf, of->sh_offset, n, sizeof *symbols);
                strings = file_range(elf, str->sh_offset, str->sh_size, 1);
                while (symbols && strings && s->next < n) {
                        s->symbol = &symbols[s->next++];
                        s->name = strings + s->symbol->st_name;
                        if (s->symbol->st_name < str->sh_size &&
                            memchr(s->name, 0, str->sh_size - s->symbol->st_name))
                                return true;
                }
        }
        return false;
}

bool capo_elf_has(const struct capo_elf_file *elf, unsigned table, const char *name, bool defined)
{
        for (struct capo_elf_symbol s = {0}; capo_elf_next(elf, table, &s);) {
                if ((s.symbol->st_shndx != SHN_UNDEF) == defined && !strcmp(s.name, name))
                        return true;
        }
        return false;
}

/* The next read-only data from section *@i on, without code and GPU code, which is most of the
 * file. NULL: no more. */
static const char *next_constants(const struct capo_elf_file *elf, unsigned *i, size_t *size)
{
        unsigned n;
        const Elf64_Shdr *sections = sections_of(elf, &n);

        while (sections && *i < n) {
                const Elf64_Shdr *s = &sections[(*i)++];
                const char *at;

                if (s->sh_type != SHT_PROGBITS || s->sh_flags & (SHF_WRITE | SHF_EXECINSTR) ||
                    !(s->sh_flags & SHF_ALLOC) || s->sh_size > 64 << 20 ||
                    !(at = file_range(elf, s->sh_offset, s->sh_size, 1)))
                        continue;
                *size = s->sh_size;
                return at;
        }
        return NULL;
}

int capo_elf_highest(const struct capo_elf_file *elf, const char *stem)
{
        size_t n_stem = strlen(stem), size;
        const char *at;
        int highest = 0;

        for (unsigned i = 0; (at = next_constants(elf, &i, &size));) {
                const char *end = at + size;

                while ((at = memmem(at, (size_t)(end - at), stem, n_stem))) {
                        int number = 0;

                        for (at += n_stem; at < end && *at >= '0' && *at <= '9' && number < 1000;
                             at++)
                                number = number * 10 + *at - '0';
                        highest = number > highest ? number : highest;
                }
        }
        return highest;
}

bool capo_elf_has_word(const struct capo_elf_file *elf, const char *word)
{
        const char *at;
        size_t size;

        for (unsigned i = 0; (at = next_constants(elf, &i, &size));) {
                if (memmem(at, size, word, strlen(word) + 1))
                        return true;
        }
        return false;
}
