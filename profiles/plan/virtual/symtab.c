/* SPDX-License-Identifier: Apache-2.0 */
/* Reads .symtab, the table that the dynamic linker does not need and `strip` removes. libnccl
 * contains its CUDA runtime as local functions, and only this table has their addresses. */
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "core/base/util.h"
#include "capo/msg.h"
#include "profiles/plan/virtual/symtab.h"

#if defined(__x86_64__)
#define MACHINE EM_X86_64
#elif defined(__aarch64__)
#define MACHINE EM_AARCH64
#else
#define MACHINE EM_NONE
#endif

static bool is_inside_file(uint64_t offset, uint64_t size, uint64_t file_size)
{
        return offset <= file_size && size <= file_size - offset;
}

/* Is a table inside the file and aligned to 8? */
static bool table_inside(uint64_t offset, uint64_t size, uint64_t file_size)
{
        return offset % 8 == 0 && is_inside_file(offset, size, file_size);
}

static int walk_symbols(const unsigned char *file, uint64_t size, unsigned type,
                        int (*each)(const char *name, uint64_t value, uint64_t size, void *arg),
                        void *arg, char *why, size_t room)
{
        const Elf64_Ehdr *eh = (const void *)file;

        if (size < sizeof *eh || memcmp(eh->e_ident, ELFMAG, SELFMAG))
                return capo_why(-ENOEXEC, why, room, "not an ELF file");
        if (eh->e_ident[EI_CLASS] != ELFCLASS64 || eh->e_machine != MACHINE ||
            eh->e_type != ET_DYN) {
                return capo_why(
                        -ENOEXEC, why, room,
                        "not a 64-bit shared object for this machine (ELF machine %u, type %u)",
                        eh->e_machine, eh->e_type);
        }
        if (eh->e_shentsize != sizeof(Elf64_Shdr) ||
            !table_inside(eh->e_shoff, (uint64_t)eh->e_shnum * sizeof(Elf64_Shdr), size))
                return capo_why(-ENOEXEC, why, room,
                                "its section table lies outside the file (cut short?)");

        const Elf64_Shdr *sections = (const void *)(file + eh->e_shoff);

        for (unsigned i = 0; i < eh->e_shnum; i++) {
                const Elf64_Shdr *tab = &sections[i];

                if (tab->sh_type != SHT_SYMTAB)
                        continue;
                if (tab->sh_link >= eh->e_shnum ||
                    !table_inside(tab->sh_offset, tab->sh_size, size) ||
                    !is_inside_file(sections[tab->sh_link].sh_offset,
                                    sections[tab->sh_link].sh_size, size))
                        return capo_why(-ENOEXEC, why, room,
                                        "its symbol table lies outside the file (cut short?)");

                const Elf64_Sym *syms = (const void *)(file + tab->sh_offset);
                const char *names = (const char *)file + sections[tab->sh_link].sh_offset;
                uint64_t names_size = sections[tab->sh_link].sh_size;

                for (uint64_t s = 0; s < tab->sh_size / sizeof *syms; s++) {
                        if (ELF64_ST_TYPE(syms[s].st_info) != type || !syms[s].st_value ||
                            syms[s].st_name >= names_size ||
                            !memchr(names + syms[s].st_name, 0, names_size - syms[s].st_name))
                                continue;

                        int r = each(names + syms[s].st_name, syms[s].st_value, syms[s].st_size,
                                     arg);

                        if (r)
                                return r;
                }
                return 0;
        }
        return capo_why(
                -ENODATA, why, room,
                "stripped: it has no .symtab, so the CUDA runtime inside it cannot be found");
}

int capo_elf_symbols(const char *path, unsigned type,
                     int (*each)(const char *name, uint64_t value, uint64_t size, void *arg),
                     void *arg, char *why, size_t why_room)
{
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        struct stat st;

        if (fd < 0 || fstat(fd, &st) < 0) {
                int r = -errno;

                return capo_why(r, why, why_room, "%s", strerror(-r));
        }
        if (!S_ISREG(st.st_mode) || st.st_size == 0)
                return capo_why(-ENOEXEC, why, why_room, "not an ELF file");

        void *file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);

        if (file == MAP_FAILED) {
                int r = -errno;

                return capo_why(r, why, why_room, "cannot be mapped: %s", strerror(-r));
        }

        int r = walk_symbols(file, (uint64_t)st.st_size, type, each, arg, why, why_room);

        munmap(file, (size_t)st.st_size);
        return r;
}
