/* SPDX-License-Identifier: Apache-2.0 */
/* What the threads of this process are in, without stopping one. /proc/self/task/TID/syscall has
 * stack pointer and program counter of a thread that waits in the kernel; a thread's own process
 * may read it, whatever ptrace is allowed. It is read once more when the way up is known: where it
 * has changed, the thread was not there all the time. */
#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "shim/find/maps.h"
#include "shim/record/start.h"
#include "shim/site/cfi.h"
#include "shim/site/native.h"

enum { THREADS = 64, FRAMES = 16, MAPS = 32 };
#define MOST_NS UINT64_C(500000000)

struct where {
        uint64_t sp, pc;
};

/* Objects that were asked for, so that the kernel's list is not read for each frame. One of the drain
 * thread, one of the thread that reads the machine. */
static struct maps {
        struct capo_map v[MAPS];
        unsigned n;
} drain_maps, machine_maps;

static const struct capo_map *map_of(struct maps *maps, uint64_t pc)
{
        for (unsigned i = 0; i < maps->n; i++) {
                if (pc >= maps->v[i].begin && pc < maps->v[i].end)
                        return &maps->v[i];
        }
        if (maps->n == MAPS)
                maps->n = 0;
        return capo_map_of(pc, &maps->v[maps->n]) == 0 ? &maps->v[maps->n++] : NULL;
}

/* The first line of a file of the thread. "" where it cannot be read. */
static void read_file(int tid, const char *file, char *text, size_t room)
{
        char path[64];
        ssize_t n = -1;
        int fd;

        snprintf(path, sizeof path, "/proc/self/task/%d/%s", tid, file);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0) {
                n = read(fd, text, room - 1);
                close(fd);
        }
        text[n > 0 ? n : 0] = 0;
        text[strcspn(text, "\n")] = 0;
}

/* Of a thread that waits in the kernel. False: it runs, has ended, or the kernel does not say. */
static bool read_where(int tid, struct where *w)
{
        char text[256], *last;

        read_file(tid, "syscall", text,
                  sizeof text); /* NUMBER, six arguments, SP, PC; -1, SP, PC */
        last = strrchr(text, ' ');
        if (!last || sscanf(last, "%" SCNx64, &w->pc) != 1)
                return false;
        *last = 0;
        last = strrchr(text, ' ');
        return last && sscanf(last, "%" SCNx64, &w->sp) == 1 && w->pc;
}

static unsigned put_frame(const struct capo_map *m, uint64_t pc, bool after_call, bool name,
                          char *text, unsigned room)
{
        int n;

        if (!m)
                n = snprintf(text, room, "0x%" PRIx64 "\n", pc);
        else if (name)
                n = capo_site_line(m->path, pc - m->base, pc - m->base - after_call, text, room);
        else
                n = snprintf(text, room, "%s+0x%" PRIx64 "\n", capo_base_name(m->path),
                             pc - m->base);
        return n > 0 && (unsigned)n < room ? (unsigned)n : 0;
}

/* From where it stands upwards. */
static unsigned put_stack(struct maps *maps, const struct where *w, uint64_t began_ns, char *text,
                          unsigned room)
{
        struct capo_cfi c = {.known = UINT64_C(1) << CAPO_CFI_SP};
        unsigned n = 0;
        int r = 1;

        c.v[CAPO_CFI_SP] = w->sp;
        c.v[CAPO_CFI_PC] = w->pc;
        for (unsigned i = 0; i < FRAMES && r > 0; i++) {
                bool after_call = i > 0, name = capo_clock_mono() - began_ns < MOST_NS / 2;
                const struct capo_map *m = map_of(maps, c.v[CAPO_CFI_PC] - after_call);
                unsigned more =
                        put_frame(m, c.v[CAPO_CFI_PC], after_call, name, text + n, room - 5 - n);

                n += more;
                r = !more                  ? -ENOSPC
                    : m && m->eh_frame_hdr ? capo_cfi_step(&c, m->eh_frame_hdr, after_call)
                                           : -ENODATA;
        }
        if (r != 0)
                n += (unsigned)snprintf(text + n, room - n, "...\n");
        return n;
}

struct printed_stack {
        uint64_t hash;
        int tid;
};

static bool one_thread(int tid, uint64_t began_ns, struct printed_stack *printed, char *text,
                       unsigned room,
                       bool (*found)(const struct capo_native *thread, char *text, void *arg),
                       void *arg)
{
        struct capo_native t = {.tid = tid};
        struct where w = {0}, again;
        unsigned n = 0;

        read_file(tid, "comm", t.name, sizeof t.name);
        if (!*t.name) /* it has ended */
                return true;
        read_file(tid, "wchan", t.wait, sizeof t.wait);
        if (read_where(tid, &w)) {
                n = put_stack(&drain_maps, &w, began_ns, text, room);
                t.running = !read_where(tid, &again) || again.sp != w.sp || again.pc != w.pc;
        } else {
                t.running = true;
        }
        if (t.running || !strcmp(t.wait, "0"))
                *t.wait = 0;
        text[t.running ? 0 : n] = 0;
        if (!t.running) {
                uint64_t hash = XXH3_64bits(text, n);
                struct printed_stack *same = printed;

                while (same->tid && same->hash != hash)
                        same++;
                if (same->tid)
                        snprintf(text, room, "as %d\n", same->tid);
                else
                        *same = (struct printed_stack){hash, tid};
        }
        return found(&t, text, arg);
}

unsigned capo_native_stack(int tid, char *text, unsigned room)
{
        struct where w;
        unsigned n;

        machine_maps.n = 0;
        n = read_where(tid, &w) ? put_stack(&machine_maps, &w, capo_clock_mono(), text, room) : 0;

        text[n] = 0;
        return n;
}

unsigned capo_native_threads(char *text, unsigned room,
                             bool (*found)(const struct capo_native *thread, char *text, void *arg),
                             void *arg)
{
        int fd = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC),
            self = (int)syscall(SYS_gettid), reads = capo_machine_part.tid();
        struct printed_stack printed[THREADS + 1] = {0};
        uint64_t began_ns = capo_clock_mono();
        bool more = true;
        unsigned n = 0;
        char list[2048] __attribute__((aligned(8)));
        long got;

        if (fd < 0)
                return 0;
        drain_maps.n = 0;
        while ((got = syscall(SYS_getdents64, fd, list, sizeof list)) >
               0) { /* readdir() would allocate */
                for (long at = 0; at < got;) {
                        struct dirent64 *e = (struct dirent64 *)(void *)(list + at);
                        int tid = atoi(e->d_name);

                        at += e->d_reclen;
                        n += tid > 0;
                        if (tid > 0 && tid != self && tid != reads && n <= THREADS && more &&
                            capo_clock_mono() - began_ns < MOST_NS)
                                more = one_thread(tid, began_ns, printed, text, room, found, arg);
                }
        }
        close(fd);
        return n;
}
