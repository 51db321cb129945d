/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dl_iterate_phdr() rather than dladdr(): dladdr waits for whatever constructor another thread's dlopen is running. And
 * the file's own tables rather than the loaded ones: programs are seldom linked with -rdynamic, so the functions that
 * matter most are only in .symtab.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "core/util.h"
#include "shim/object.h"

struct search {
        uintptr_t address;
        struct capo_object *out;
};

static int look(struct dl_phdr_info *info, size_t size, void *cookie)
{
        struct search *s = cookie;

        for (int i = 0; i < info->dlpi_phnum; i++) {
                const ElfW(Phdr) *p = &info->dlpi_phdr[i];

                if (p->p_type == PT_LOAD && s->address - (info->dlpi_addr + p->p_vaddr) < p->p_memsz) {
                        s->out->base = info->dlpi_addr;
                        snprintf(s->out->path, sizeof s->out->path, "%s", info->dlpi_name ? info->dlpi_name : "");
                        return 1;
                }
        }
        return 0;
}

bool capo_object_of(const void *address, struct capo_object *out)
{
        struct search s = {(uintptr_t)address, out};

        *out = (struct capo_object){0};
        return dl_iterate_phdr(look, &s) == 1;
}

struct map {
        const char *p;
        size_t size;
};

static void unmap(struct map *m)
{
        if (m->p)
                munmap((void *)m->p, m->size);
}

static bool inside(const struct map *m, uint64_t offset, uint64_t size)
{
        return offset <= m->size && size <= m->size - offset;
}

/* One symbol table of the file. */
static int search_table(const struct map *m, const ElfW(Shdr) * table, const ElfW(Shdr) * strings, uint64_t offset,
                        char *name, size_t room, uint64_t *into)
{
        if (!inside(m, table->sh_offset, table->sh_size) || !inside(m, strings->sh_offset, strings->sh_size) ||
            table->sh_entsize != sizeof(ElfW(Sym)))
                return -ENOENT;
        for (uint64_t i = 0; i < table->sh_size / sizeof(ElfW(Sym)); i++) {
                ElfW(Sym) sym;

                memcpy(&sym, m->p + table->sh_offset + i * sizeof sym, sizeof sym);
                if ((sym.st_info & 15) != STT_FUNC || sym.st_shndx == SHN_UNDEF ||
                    offset - sym.st_value >= sym.st_size || sym.st_name >= strings->sh_size)
                        continue;
                snprintf(name, room, "%.*s",
                         (int)(strings->sh_size - sym.st_name < 4096 ? strings->sh_size - sym.st_name : 4096),
                         m->p + strings->sh_offset + sym.st_name);
                *into = offset - sym.st_value;
                return 0;
        }
        return -ENOENT;
}

int capo_object_symbol(const char *path, uint64_t offset, char *name, size_t room, uint64_t *into)
{
        static const uint32_t kinds[] = {SHT_SYMTAB, SHT_DYNSYM};
        _cleanup_close_ int fd = open(*path ? path : "/proc/self/exe", O_RDONLY | O_CLOEXEC);
        _cleanup_(unmap) struct map m = {0};
        const ElfW(Ehdr) * header;
        const ElfW(Shdr) * sections;
        struct stat st;

        if (fd < 0 || fstat(fd, &st))
                return -errno;
        m.size = (size_t)st.st_size;
        m.p = m.size < sizeof *header ? MAP_FAILED : mmap(NULL, m.size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (m.p == MAP_FAILED) {
                m.p = NULL;
                return -ENOENT;
        }
        header = (const ElfW(Ehdr) *)m.p;
        if (memcmp(header->e_ident, ELFMAG, SELFMAG) || header->e_shentsize != sizeof *sections ||
            header->e_shoff % 8 || !inside(&m, header->e_shoff, (uint64_t)header->e_shnum * sizeof *sections))
                return -ENOENT;
        sections = (const ElfW(Shdr) *)(m.p + header->e_shoff);
        for (size_t k = 0; k < N_ELEMENTS(kinds); k++) {
                for (unsigned i = 0; i < header->e_shnum; i++) {
                        if (sections[i].sh_type == kinds[k] && sections[i].sh_link < header->e_shnum &&
                            search_table(&m, &sections[i], &sections[sections[i].sh_link], offset, name, room, into) ==
                                    0)
                                return 0;
                }
        }
        return -ENOENT;
}
