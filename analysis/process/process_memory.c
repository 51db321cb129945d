/* SPDX-License-Identifier: Apache-2.0 */
#include <elf.h>
#include <sys/uio.h>

#include "capo/msg.h"
#include "analysis/process/process_memory.h"
#include "core/base/clock.h"
#include "core/base/xalloc.h"

enum { READS = 1 << 20, AT_ONCE = 1024 /* IOV_MAX */, PAUSE_NS = 100000 };

struct process_memory *process_memory_new(int pid)
{
        struct process_memory *m = xmalloc(sizeof *m);

        memset(m, 0, offsetof(struct process_memory, pieces));
        m->pid = pid;
        m->most = READS;
        m->fetch = process_memory_fetch;
        return m;
}

bool process_memory_fetch(struct process_memory *m, uint64_t from, void *to, size_t size)
{
        struct iovec here = {to, size}, there = {(void *)(uintptr_t)from,
                                                 size}; /* NOLINT(performance-no-int-to-ptr) */
        ssize_t n = process_vm_readv(m->pid, &here, 1, &there, 1, 0);

        if (n < 0 && errno != EFAULT)
                m->error = -errno;
        return n == (ssize_t)size;
}

bool process_memory_read(void *arg, uint64_t from, void *to, size_t size)
{
        struct process_memory *m = arg;

        if (m->error || m->n_read >= m->most || m->n >= PROCESS_MEMORY_PIECES ||
            size > PROCESS_MEMORY_BYTES - m->used || (m->end_ns && capo_clock_mono() >= m->end_ns))
                return false;
        m->n_read++;
        if (!m->fetch(m, from, to, size))
                return false;
        m->pieces[m->n].from = from;
        m->pieces[m->n].size = (uint32_t)size;
        m->pieces[m->n++].at = m->used;
        memcpy(m->bytes + m->used, to, size);
        m->used += (uint32_t)size;
        return true;
}

void process_memory_forget(struct process_memory *m, uint32_t n)
{
        if (n < m->n) {
                m->used = m->pieces[n].at;
                m->n = n;
        }
}

/* Read the pieces before @end again, downwards to @first, as many as one call takes. Return: how
 * many were readable. */
static uint32_t reread_pieces(struct process_memory *m, uint32_t first, uint32_t end)
{
        struct iovec here[AT_ONCE], there[AT_ONCE];
        uint32_t n = 0, done = 0;
        ssize_t got;

        if (m->fetch != process_memory_fetch)
                return m->n_read++ < m->most &&
                       m->fetch(m, m->pieces[end - 1].from, m->again + m->pieces[end - 1].at,
                                m->pieces[end - 1].size);
        do {
                uint32_t i = end - ++n;

                here[n - 1] = (struct iovec){m->again + m->pieces[i].at, m->pieces[i].size};
                there[n - 1] = (struct iovec){(void *)(uintptr_t)m->pieces[i]
                                                      .from, /* NOLINT(performance-no-int-to-ptr) */
                                              m->pieces[i].size};
        } while (n < AT_ONCE && end - n > first);
        got = process_vm_readv(m->pid, here, n, there, n, 0);
        if (got < 0 && errno != EFAULT)
                m->error = -errno;
        for (; done < n && got >= (ssize_t)here[done].iov_len; done++)
                got -= (ssize_t)here[done].iov_len;
        return done;
}

uint32_t process_memory_changed(struct process_memory *m, uint32_t first)
{
        uint32_t changed = first;

        for (uint32_t end = m->n; end > first;) {
                uint32_t n = reread_pieces(m, first, end);

                for (uint32_t k = 0; k < n && changed == first; k++) {
                        uint32_t i = end - k - 1;

                        if (memcmp(m->bytes + m->pieces[i].at, m->again + m->pieces[i].at,
                                   m->pieces[i].size) != 0)
                                changed = i + 1;
                }
                end -= n;
                if (n && (n == AT_ONCE || m->fetch != process_memory_fetch || end == first))
                        continue;
                if (changed == first) /* this one is no longer readable */
                        changed = end;
                end--;
        }
        return changed;
}

void process_memory_pause(const struct process_memory *m)
{
        if (m->fetch == process_memory_fetch)
                nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
}

void process_not_allowed(int pid, const char *done, char *why, size_t room)
{
        snprintf(
                why, room,
                "pid %d may not be %s: as its user, with /proc/sys/kernel/yama/ptrace_scope 0 where there is that file, or with "
                "CAP_SYS_PTRACE, which a container has to be given",
                pid, done);
}

int process_memory_refused(const struct process_memory *m, char *why, size_t room)
{
        if (m->error == -ESRCH || m->error == -ENOENT)
                return capo_why(m->error, why, room, "pid %d has ended", m->pid);
        process_not_allowed(m->pid, "read", why, room);
        return m->error;
}

/* ---- symbols ---- */

struct object {
        uint64_t bias, hash, symbols, names;
};

/* Read the object's headers from memory, which also works if its file was deleted or is in another
 * container. */
static bool open_object(struct process_memory *m, uint64_t start, struct object *o)
{
        Elf64_Phdr p[32];
        Elf64_Ehdr e;
        uint64_t dynamic = 0;
        bool found = false;

        if (!process_memory_read(m, start, &e, sizeof e) ||
            memcmp(e.e_ident, ELFMAG, SELFMAG) != 0 || e.e_ident[EI_CLASS] != ELFCLASS64 ||
            e.e_phnum > N_ELEMENTS(p) || e.e_phentsize != sizeof *p ||
            !process_memory_read(m, start + e.e_phoff, p, e.e_phnum * sizeof *p))
                return false;
        *o = (struct object){0};
        for (unsigned i = 0; i < e.e_phnum; i++) {
                if (p[i].p_type == PT_LOAD && p[i].p_offset == 0 && !found) {
                        o->bias = start - p[i].p_vaddr;
                        found = true;
                } else if (p[i].p_type == PT_DYNAMIC) {
                        dynamic = p[i].p_vaddr;
                }
        }
        for (unsigned i = 0; found && dynamic && i < 128; i++) {
                Elf64_Dyn d;
                uint64_t at;

                if (!process_memory_read(m, o->bias + dynamic + i * sizeof d, &d, sizeof d) ||
                    d.d_tag == DT_NULL)
                        break;
                at = d.d_un.d_ptr < o->bias ? d.d_un.d_ptr + o->bias
                                            : d.d_un.d_ptr; /* some loaders write the sum there */
                if (d.d_tag == DT_GNU_HASH)
                        o->hash = at;
                else if (d.d_tag == DT_SYMTAB)
                        o->symbols = at;
                else if (d.d_tag == DT_STRTAB)
                        o->names = at;
        }
        return o->hash && o->symbols && o->names;
}

uint64_t process_memory_symbol(struct process_memory *m, uint64_t start, const char *name)
{
        uint32_t head[4], hash = 5381, i = 0,
                          link = 0; /* buckets, first symbol, words of the filter, unused */
        size_t n = strlen(name) + 1;
        struct object o;
        uint64_t chain;

        for (const char *c = name; *c; c++)
                hash = hash * 33 + (uint8_t)*c;
        if (!open_object(m, start, &o) || !process_memory_read(m, o.hash, head, sizeof head) ||
            !head[0])
                return 0;
        chain = o.hash + sizeof head + 8 * (uint64_t)head[2];
        if (!process_memory_read(m, chain + 4 * (uint64_t)(hash % head[0]), &i, sizeof i) ||
            i < head[1])
                return 0;
        chain += 4 * (uint64_t)head[0];
        for (unsigned tried = 0; !(link & 1) && tried < 1000; tried++, i++) {
                char there[64];
                Elf64_Sym s;

                if (!process_memory_read(m, chain + 4 * (uint64_t)(i - head[1]), &link,
                                         sizeof link))
                        return 0;
                if ((link | 1) != (hash | 1) || n > sizeof there ||
                    !process_memory_read(m, o.symbols + i * sizeof s, &s, sizeof s) ||
                    s.st_shndx == SHN_UNDEF ||
                    !process_memory_read(m, o.names + s.st_name, there, n) ||
                    memcmp(there, name, n) != 0)
                        continue;
                return o.bias + s.st_value;
        }
        return 0;
}
