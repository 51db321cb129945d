/* SPDX-License-Identifier: Apache-2.0 */
/* dl_iterate_phdr() rather than dladdr(): dladdr waits for whatever constructor another thread's
 * dlopen is running. And the file's own tables rather than the loaded ones: programs are seldom
 * linked with -rdynamic, so the functions that matter most are only in .symtab. */
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "shim/find/object.h"

/* libcapo.so itself, from ld's own symbols. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));

CAPO_UNSANITIZED bool capo_own(const void *address)
{
        return (const char *)address >= __ehdr_start && (const char *)address < _end;
}

struct search {
        uintptr_t address;
        struct capo_object *out;
};

static int match_address(struct dl_phdr_info *info, size_t size, void *cookie)
{
        struct search *s = cookie;

        for (int i = 0; i < info->dlpi_phnum; i++) {
                const ElfW(Phdr) *p = &info->dlpi_phdr[i];

                if (p->p_type == PT_LOAD &&
                    s->address - (info->dlpi_addr + p->p_vaddr) < p->p_memsz) {
                        s->out->base = info->dlpi_addr;
                        s->out->begin = info->dlpi_addr + p->p_vaddr;
                        s->out->size = p->p_memsz;
                        snprintf(s->out->path, sizeof s->out->path, "%s",
                                 info->dlpi_name ? info->dlpi_name : "");
                        return 1;
                }
        }
        return 0;
}

bool capo_object_of(const void *address, struct capo_object *out)
{
        struct search s = {(uintptr_t)address, out};

        *out = (struct capo_object){0};
#ifdef DLFO_STRUCT_HAS_EH_DBASE /* as below: no lock */
        struct dl_find_object o = {0};

        if (_dl_find_object((void *)(uintptr_t)address, &o) == 0 && o.dlfo_link_map) {
                out->base = o.dlfo_link_map->l_addr;
                out->begin = (uintptr_t)o.dlfo_map_start;
                out->size = (uintptr_t)o.dlfo_map_end - out->begin;
                snprintf(out->path, sizeof out->path, "%s",
                         o.dlfo_link_map->l_name ? o.dlfo_link_map->l_name : "");
                return true;
        }
#endif
        return dl_iterate_phdr(match_address, &s) == 1;
}

#ifdef DLFO_STRUCT_HAS_EH_DBASE /* 2.35: no lock, no walk; core/base/old_glibc.c has it for \
                                   processes with an older one */
bool capo_object_tables(uintptr_t address, struct capo_tables *out)
{
        struct dl_find_object o;

        *out = (struct capo_tables){0};
        if (_dl_find_object((void *)address, &o) != 0) /* NOLINT(performance-no-int-to-ptr) */
                return false;
        *out = (struct capo_tables){(uintptr_t)o.dlfo_map_start, (uintptr_t)o.dlfo_map_end,
                                    (uintptr_t)o.dlfo_eh_frame};
        return true;
}
#else
struct in_object {
        uintptr_t address;
        struct capo_tables *out;
};

static int find_tables(struct dl_phdr_info *info, size_t size, void *cookie)
{
        struct capo_tables t = {UINTPTR_MAX, 0, 0};
        struct in_object *s = cookie;
        bool in = false;

        for (int i = 0; i < info->dlpi_phnum; i++) {
                const ElfW(Phdr) *p = &info->dlpi_phdr[i];
                uintptr_t begin = info->dlpi_addr + p->p_vaddr;

                if (p->p_type == PT_GNU_EH_FRAME)
                        t.eh_frame_hdr = begin;
                if (p->p_type != PT_LOAD)
                        continue;
                t.begin = begin < t.begin ? begin : t.begin;
                t.end = begin + p->p_memsz > t.end ? begin + p->p_memsz : t.end;
                in |= s->address - begin < p->p_memsz;
        }
        if (in)
                *s->out = t;
        return in;
}

bool capo_object_tables(uintptr_t address, struct capo_tables *out)
{
        struct in_object s = {address, out};

        *out = (struct capo_tables){0};
        return dl_iterate_phdr(find_tables, &s) == 1;
}
#endif

struct map {
        const char *p;
        size_t size;
};

static void unmap_file(struct map *m)
{
        if (m->p)
                munmap((void *)m->p, m->size);
}

static bool map_contains(const struct map *m, uint64_t offset, uint64_t size)
{
        return offset <= m->size && size <= m->size - offset;
}

/* One symbol table of the file. */
static int search_table(const struct map *m, const ElfW(Shdr) * table, const ElfW(Shdr) * strings,
                        uint64_t offset, char *name, size_t room, uint64_t *into)
{
        if (!map_contains(m, table->sh_offset, table->sh_size) ||
            !map_contains(m, strings->sh_offset, strings->sh_size) ||
            table->sh_entsize != sizeof(ElfW(Sym)))
                return -ENOENT;
        for (uint64_t i = 0; i < table->sh_size / sizeof(ElfW(Sym)); i++) {
                ElfW(Sym) sym;

                memcpy(&sym, m->p + table->sh_offset + i * sizeof sym, sizeof sym);
                if ((sym.st_info & 15) != STT_FUNC || sym.st_shndx == SHN_UNDEF ||
                    offset - sym.st_value >= sym.st_size || sym.st_name >= strings->sh_size)
                        continue;
                snprintf(name, room, "%.*s",
                         (int)(strings->sh_size - sym.st_name < 4096
                                       ? strings->sh_size - sym.st_name
                                       : 4096),
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
        _cleanup_(unmap_file) struct map m = {0};
        const ElfW(Ehdr) * header;
        const ElfW(Shdr) * sections;
        struct stat st;

        if (fd < 0 || fstat(fd, &st))
                return -errno;
        m.size = (size_t)st.st_size;
        m.p = m.size < sizeof *header ? MAP_FAILED
                                      : mmap(NULL, m.size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (m.p == MAP_FAILED) {
                m.p = NULL;
                return -ENOENT;
        }
        header = (const ElfW(Ehdr) *)m.p;
        if (memcmp(header->e_ident, ELFMAG, SELFMAG) || header->e_shentsize != sizeof *sections ||
            header->e_shoff % 8 ||
            !map_contains(&m, header->e_shoff, (uint64_t)header->e_shnum * sizeof *sections))
                return -ENOENT;
        sections = (const ElfW(Shdr) *)(m.p + header->e_shoff);
        for (size_t k = 0; k < N_ELEMENTS(kinds); k++) {
                for (unsigned i = 0; i < header->e_shnum; i++) {
                        if (sections[i].sh_type == kinds[k] &&
                            sections[i].sh_link < header->e_shnum &&
                            search_table(&m, &sections[i], &sections[sections[i].sh_link], offset,
                                         name, room, into) == 0)
                                return 0;
                }
        }
        return -ENOENT;
}

/* ---- names ----
 * ld.so's own look-up in one object, by the tables that it maps: glibc's <link.h> and the ELF
 * specification, and for DT_GNU_HASH https://flapenguin.me/elf-dt-gnu-hash. Nothing is called,
 * sanitizers' replacements included. */

struct tables {
        const ElfW(Sym) * symbols;
        const char *strings;
        const uint32_t *gnu, *sysv; /* hash tables; NULL where there is none */
};

CAPO_UNSANITIZED static bool names_equal(const char *a, const char *b)
{
        while (*a && *a == *b)
                a++, b++;
        return *a == *b;
}

/* ld.so adds the load address to most of these pointers in place; the kernel's vdso keeps it apart.
 */
CAPO_UNSANITIZED static const void *resolve_pointer(uintptr_t base, ElfW(Addr) value)
{
        return (const void *)(value < base ? base + value : value);
}

CAPO_UNSANITIZED static struct tables tables_of(uintptr_t base, const ElfW(Dyn) * dynamic)
{
        struct tables t = {0};

        for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
                const void *at = resolve_pointer(base, dynamic->d_un.d_ptr);

                if (dynamic->d_tag == DT_SYMTAB)
                        t.symbols = at;
                else if (dynamic->d_tag == DT_STRTAB)
                        t.strings = at;
                else if (dynamic->d_tag == DT_GNU_HASH)
                        t.gnu = at;
                else if (dynamic->d_tag == DT_HASH)
                        t.sysv = at;
        }
        return t;
}

CAPO_UNSANITIZED static bool is_it(const struct tables *t, uint32_t i, const char *name)
{
        const ElfW(Sym) *s = &t->symbols[i];

        return s->st_shndx != SHN_UNDEF && s->st_value &&
               names_equal(t->strings + s->st_name, name);
}

/* The number of the symbol @name that the object defines, 0 when it defines none. */
CAPO_UNSANITIZED static uint32_t symbol_of(const struct tables *t, const char *name)
{
        if (!t->symbols || !t->strings)
                return 0;
        if (t->gnu) {
                uint32_t n_buckets = t->gnu[0], first = t->gnu[1], bloom_words = t->gnu[2],
                         hash = 5381, i;
                const uint32_t *buckets = t->gnu + 4 + bloom_words * (sizeof(ElfW(Addr)) / 4),
                               *chain = buckets + n_buckets;

                for (const char *c = name; *c; c++)
                        hash = hash * 33 + (unsigned char)*c;
                i = n_buckets ? buckets[hash % n_buckets] : 0;
                for (; i >= first && i; i++) {
                        if ((chain[i - first] | 1) == (hash | 1) && is_it(t, i, name))
                                return i;
                        if (chain[i - first] & 1)
                                break;
                }
        } else if (t->sysv) {
                for (uint32_t i = 1; i < t->sysv[1]; i++) {
                        if (is_it(t, i, name))
                                return i;
                }
        }
        return 0;
}

/* The first function @name in the list from @m on. */
CAPO_UNSANITIZED static void *first_function(const struct link_map *m, const char *name)
{
        for (; m; m = m->l_next) {
                struct tables t = tables_of(m->l_addr, m->l_ld);
                uint32_t i = capo_own(m->l_ld) ? 0 : symbol_of(&t, name);

                if (i && (t.symbols[i].st_info & 15) == STT_FUNC)
                        return (void *)(m->l_addr + t.symbols[i].st_value);
        }
        return NULL;
}

CAPO_UNSANITIZED void *capo_object_next_function(const char *name)
{
        const struct link_map *us = _r_debug.r_map;
        void *f;

        while (us && !capo_own(us->l_ld))
                us = us->l_next;
        f = first_function(us, name);
        return f ? f : first_function(_r_debug.r_map, name);
}

static int defines_symbol(struct dl_phdr_info *info, size_t size, void *name)
{
        for (int i = 0; i < info->dlpi_phnum; i++) {
                const ElfW(Phdr) *p = &info->dlpi_phdr[i];

                if (p->p_type == PT_DYNAMIC) {
                        const ElfW(Dyn) *dynamic =
                                (const ElfW(Dyn) *)(info->dlpi_addr + p->p_vaddr);
                        struct tables t = tables_of(info->dlpi_addr, dynamic);

                        return !capo_own(dynamic) && symbol_of(&t, name);
                }
        }
        return 0;
}

bool capo_object_defined(const char *name)
{
        return dl_iterate_phdr(defines_symbol, (void *)name) != 0;
}

struct bound_search {
        bool (*wanted)(const char *name);
        const struct capo_object *to;
        char *path;
        size_t room;
};

/* One table of relocations of an object. */
static bool leads_there(const struct bound_search *s, const struct tables *t, uintptr_t base,
                        const ElfW(Rela) * relocations, size_t n)
{
        for (size_t i = 0; relocations && i < n; i++) {
                const ElfW(Sym) *symbol = &t->symbols[relocations[i].r_info >> 32];
                uintptr_t value;

                if (!(relocations[i].r_info >> 32) || !s->wanted(t->strings + symbol->st_name))
                        continue;
                memcpy(&value, (const void *)(base + relocations[i].r_offset), sizeof value);
                if (value - s->to->begin < s->to->size)
                        return true;
        }
        return false;
}

static int find_bound(struct dl_phdr_info *info, size_t size, void *cookie)
{
        const struct bound_search *s = cookie;
        const ElfW(Rela) *calls = NULL, *data = NULL;
        const ElfW(Dyn) *dynamic = NULL;
        size_t n_calls = 0, n_data = 0, n_relative = 0; /* the first of the data name no symbol */
        struct tables t;

        for (int i = 0; i < info->dlpi_phnum; i++) {
                if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
                        dynamic = (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
        }
        t = tables_of(info->dlpi_addr, dynamic);
        if (!dynamic || !t.symbols || !t.strings || capo_own(dynamic) ||
            info->dlpi_addr == s->to->base)
                return 0;
        for (; dynamic->d_tag != DT_NULL; dynamic++) {
                const void *at = resolve_pointer(info->dlpi_addr, dynamic->d_un.d_ptr);

                if (dynamic->d_tag == DT_JMPREL)
                        calls = at;
                else if (dynamic->d_tag == DT_PLTRELSZ)
                        n_calls = dynamic->d_un.d_val / sizeof *calls;
                else if (dynamic->d_tag == DT_RELA)
                        data = at;
                else if (dynamic->d_tag == DT_RELASZ)
                        n_data = dynamic->d_un.d_val / sizeof *data;
                else if (dynamic->d_tag == DT_RELACOUNT)
                        n_relative = dynamic->d_un.d_val;
        }
        if (!data || n_relative > n_data)
                n_relative = n_data = 0;
        if (!leads_there(s, &t, info->dlpi_addr, calls, n_calls) &&
            !leads_there(s, &t, info->dlpi_addr, data + n_relative, n_data - n_relative))
                return 0;
        snprintf(s->path, s->room, "%s", info->dlpi_name ? info->dlpi_name : "");
        return 1;
}

bool capo_object_bound(bool (*wanted)(const char *name), const struct capo_object *to, char *path,
                       size_t room)
{
        struct bound_search s = {wanted, to, path, room};

        return dl_iterate_phdr(find_bound, &s) == 1;
}

struct each_function {
        uintptr_t base;
        void (*each)(const char *name, void *arg);
        void *arg;
};

static void visit_function(const struct tables *t, uint32_t i, const struct each_function *e)
{
        if (t->symbols[i].st_shndx != SHN_UNDEF && (t->symbols[i].st_info & 15) == STT_FUNC)
                e->each(t->strings + t->symbols[i].st_name, e->arg);
}

static int functions_of(struct dl_phdr_info *info, size_t size, void *cookie)
{
        const struct each_function *e = cookie;
        struct tables t = {0};

        if (info->dlpi_addr != e->base)
                return 0;
        for (int i = 0; i < info->dlpi_phnum; i++) {
                if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
                        t = tables_of(e->base,
                                      (const ElfW(Dyn) *)(e->base + info->dlpi_phdr[i].p_vaddr));
        }
        if (!t.symbols || !t.strings)
                return 1;
        if (t.gnu) {
                uint32_t n_buckets = t.gnu[0], first = t.gnu[1], bloom_words = t.gnu[2];
                const uint32_t *buckets = t.gnu + 4 + bloom_words * (sizeof(ElfW(Addr)) / 4);
                const uint32_t *chain = buckets + n_buckets;

                for (uint32_t b = 0; b < n_buckets; b++) {
                        for (uint32_t i = buckets[b]; i >= first && i; i++) {
                                visit_function(&t, i, e);
                                if (chain[i - first] & 1)
                                        break;
                        }
                }
        } else if (t.sysv) {
                for (uint32_t i = 1; i < t.sysv[1]; i++)
                        visit_function(&t, i, e);
        }
        return 1;
}

void capo_object_functions(uintptr_t base, void (*each)(const char *name, void *arg), void *arg)
{
        dl_iterate_phdr(functions_of, &(struct each_function){base, each, arg});
}
