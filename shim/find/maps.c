/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <link.h>

#include "shim/find/maps.h"

enum { HEADERS = 16 }; /* of a program; objects have about ten */

bool capo_read_self_pieces(const struct iovec *to, const struct iovec *from, unsigned n)
{
        size_t size = 0;

        for (unsigned i = 0; i < n; i++)
                size += to[i].iov_len;
        return process_vm_readv(getpid(), to, n, from, n, 0) == (ssize_t)size;
}

bool capo_read_self(uintptr_t from, void *to, size_t size)
{
        struct iovec here = {to, size},
                     there = {(void *)from, size}; /* NOLINT(performance-no-int-to-ptr) */

        return from && capo_read_self_pieces(&here, &there, 1);
}

/* What the headers of the object say whose file is mapped from @start on. */
static bool read_headers(uintptr_t start, struct capo_map *m)
{
        ElfW(Phdr) p[HEADERS];
        ElfW(Ehdr) e;
        bool found = false;

        if (!capo_read_self(start, &e, sizeof e) || memcmp(e.e_ident, ELFMAG, SELFMAG) != 0 ||
            e.e_phnum > HEADERS || e.e_phentsize != sizeof *p ||
            !capo_read_self(start + e.e_phoff, p, e.e_phnum * sizeof *p))
                return false;
        for (unsigned i = 0; i < e.e_phnum && !found; i++) {
                if (p[i].p_type == PT_LOAD && p[i].p_offset == 0) {
                        m->base = start - p[i].p_vaddr;
                        found = true;
                }
        }
        for (unsigned i = 0; i < e.e_phnum && found; i++) {
                if (p[i].p_type == PT_GNU_EH_FRAME)
                        m->eh_frame_hdr = m->base + p[i].p_vaddr;
        }
        return found;
}

/* A line of the list. @start: of its file and lines before. True: the address is in it. */
static bool read_line(const char *line, uintptr_t address, struct capo_map *m, uintptr_t *start)
{
        uint64_t begin, end, offset;
        char rights[5];
        int path = 0;

        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*s %*u %n", &begin, &end, rights,
                   &offset, &path) < 4)
                return false;
        if (offset == 0)
                *start = begin;
        if (address < begin || address >= end)
                return false;
        m->begin = begin;
        m->end = end;
        snprintf(m->path, sizeof m->path, "%s", path ? line + path : "");
        return true;
}

int capo_map_of(uintptr_t address, struct capo_map *out)
{
        _cleanup_close_ int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
        struct capo_map m = {0};
        uintptr_t start = 0;
        char text[8192];
        size_t have = 0;
        ssize_t got;

        if (fd < 0)
                return -errno;
        while ((got = read(fd, text + have, sizeof text - 1 - have)) > 0) {
                char *line = text, *end;

                have += (size_t)got;
                text[have] = 0;
                for (; (end = strchr(line, '\n')); line = end + 1) {
                        *end = 0;
                        if (!read_line(line, address, &m, &start))
                                continue;
                        if (!*m.path || !read_headers(start, &m))
                                return -ENOENT;
                        *out = m;
                        return 0;
                }
                have -= (size_t)(line - text);
                if (have >= sizeof text - 1) /* a line that long is none of ours */
                        have = 0;
                memmove(text, line, have);
        }
        return -ENOENT;
}
