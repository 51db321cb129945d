/* SPDX-License-Identifier: Apache-2.0 */
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "core/base/util.h"
#include "cli/doctor/elf_file.h"

int capo_elf_open(const char *path, struct capo_elf_file *elf)
{
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
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
        for (unsigned i = 0; i < head->e_phnum; i++) {
                if (ph[i].p_type == PT_INTERP)
                        return false;
        }
        return true;
}

bool capo_elf_loader(const struct capo_elf_file *elf, char *path, size_t room)
{
        const Elf64_Ehdr *head = (const Elf64_Ehdr *)elf->bytes;
        const Elf64_Phdr *ph = file_range(elf, head->e_phoff, head->e_phnum, sizeof *ph);
        const char *name;

        for (unsigned i = 0; ph && i < head->e_phnum; i++) {
                if (ph[i].p_type != PT_INTERP)
                        continue;
                name = file_range(elf, ph[i].p_offset, ph[i].p_filesz, 1);
                if (!name || ph[i].p_filesz > room || !memchr(name, 0, ph[i].p_filesz))
                        return false;
                memcpy(path, name, ph[i].p_filesz);
                return true;
        }
        return false;
}

/* Visit every symbol of the tables of that kind; a function that returns true stops. */
static bool each_symbol(const struct capo_elf_file *elf, unsigned table,
                        bool (*each)(const Elf64_Sym *symbol, const char *name, size_t room,
                                     void *arg),
                        void *arg)
{
        const Elf64_Ehdr *head = (const Elf64_Ehdr *)elf->bytes;
        const Elf64_Shdr *sections =
                file_range(elf, head->e_shoff, head->e_shnum, sizeof *sections);

        for (unsigned i = 0; sections && i < head->e_shnum; i++) {
                const Elf64_Shdr *s = &sections[i], *str;
                const Elf64_Sym *symbols;
                const char *strings;
                size_t n = s->sh_size / sizeof *symbols;

                if (s->sh_type != table || s->sh_link >= head->e_shnum)
                        continue;
                str = &sections[s->sh_link];
                symbols = file_range(elf, s->sh_offset, n, sizeof *symbols);
                strings = file_range(elf, str->sh_offset, str->sh_size, 1);
                if (!symbols || !strings)
                        continue;
                for (size_t k = 0; k < n; k++) {
                        if (symbols[k].st_name < str->sh_size &&
                            each(&symbols[k], strings + symbols[k].st_name,
                                 str->sh_size - symbols[k].st_name, arg))
                                return true;
                }
        }
        return false;
}

struct wanted_symbol {
        const char *name;
        bool defined;
};

static bool is_wanted(const Elf64_Sym *symbol, const char *name, size_t room, void *arg)
{
        const struct wanted_symbol *wanted = arg;

        return (symbol->st_shndx != SHN_UNDEF) == wanted->defined &&
               !strncmp(name, wanted->name, room);
}

static bool has_symbol(const struct capo_elf_file *elf, unsigned table, const char *name,
                       bool defined)
{
        return each_symbol(elf, table, is_wanted, &(struct wanted_symbol){name, defined});
}

bool capo_elf_exports(const struct capo_elf_file *elf, const char *name)
{
        return has_symbol(elf, SHT_DYNSYM, name, true);
}

bool capo_elf_imports(const struct capo_elf_file *elf, const char *name)
{
        return has_symbol(elf, SHT_DYNSYM, name, false);
}

bool capo_elf_contains(const struct capo_elf_file *elf, const char *name)
{
        return has_symbol(elf, SHT_SYMTAB, name, true);
}

struct each_export {
        void (*each)(const char *name, void *arg);
        void *arg;
};

static bool pass_on(const Elf64_Sym *symbol, const char *name, size_t room, void *arg)
{
        const struct each_export *e = arg;

        if (symbol->st_shndx != SHN_UNDEF && ELF64_ST_TYPE(symbol->st_info) == STT_FUNC &&
            memchr(name, 0, room))
                e->each(name, e->arg);
        return false;
}

void capo_elf_each_export(const struct capo_elf_file *elf,
                          void (*each)(const char *name, void *arg), void *arg)
{
        each_symbol(elf, SHT_DYNSYM, pass_on, &(struct each_export){each, arg});
}

/* The next read-only data from section *@i on, without code and GPU code, which is most of the
 * file. NULL: no more. */
static const char *next_constants(const struct capo_elf_file *elf, unsigned *i, size_t *size)
{
        const Elf64_Ehdr *head = (const Elf64_Ehdr *)elf->bytes;
        const Elf64_Shdr *sections =
                file_range(elf, head->e_shoff, head->e_shnum, sizeof *sections);

        while (sections && *i < head->e_shnum) {
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
