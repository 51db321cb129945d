/* SPDX-License-Identifier: Apache-2.0 */
/* Call sites. Walking a stack costs microseconds, so it is done once per place: recorder.h keeps,
 * per thread, a small cache from (return address, stack depth) to the number of the site. Two ways
 * to one wrapper call that have the same return address and the same depth pass for one site; ways
 * that differ mostly differ in depth. In a process with Python the depth is mixed with where Python
 * is (site_python.h).
 *
 * The walk reads DWARF's unwind tables, which everything NCCL is called from has (cfi.h). It is our
 * own since libgcc's unwinder believes them: where they are wrong - assembly by hand, code that a
 * signal interrupted between two instructions - it reads wherever they lead, or calls abort(), and
 * the job is dead. Debian's and Ubuntu's static libunwind is not position-independent, and a
 * preload library should bring no shared library along.
 *
 * Names are found later, on the drain thread (object.c). Python frames are read here, at the time
 * of the call. */

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/base/demangle.h"
#include "core/base/write_signals.h"
#include "shim/find/loader.h"
#include "shim/find/object.h"
#include "shim/site/cfi.h"
#include "shim/site/native.h"
#include "shim/site/pyobject.h"
#include "shim/site/site_python.h"
#include "shim/record/recorder.h"
#include "shim/record/start.h"

#define TABLE 32768u
#define MISSES_FREE \
        4096u /* per thread; after that a place that never repeats is walked only now and then */
#define MISSES_RATE 256u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
        uint64_t hash;
        uint32_t site;
} table[TABLE];

/* The return addresses of who called us, the innermost first. What called us may lie in no object
 * (code made when it runs); what is further out and in none may be no code at all. The walk ends at
 * the object that @interpreter lies in: its Python frames say more, and its unwind tables are then
 * not brought into memory. 0: it has no Python frames. */
static uint32_t walk_stack(uint64_t *pc, uintptr_t interpreter)
{
        struct capo_cfi c = {0};
        uint32_t n = 0;
        int r = 1;

        capo_cfi_here(&c);
        for (bool after_call = false; r == 1 && n < CAPO_SITE_FRAMES; after_call = true) {
                uint64_t at = c.v[CAPO_CFI_PC];
                struct capo_tables tables;
                bool in = capo_object_tables(at - after_call, &tables);

                if (n > 0 && interpreter >= tables.begin && interpreter < tables.end)
                        break;
                if ((in || n == 0) &&
                    !capo_own((const void *)at)) /* NOLINT(performance-no-int-to-ptr) */
                        pc[n++] = at;
                c.begin = tables.begin;
                c.end = tables.end;
                r = tables.eh_frame_hdr ? capo_cfi_step(&c, tables.eh_frame_hdr, after_call)
                                        : -ENODATA;
        }
        return n;
}

bool capo_site_through(bool (*is)(const void *code, const void *arg), const void *arg)
{
        enum { FRAMES = 16 };
        struct capo_cfi c = {0};
        bool outside = false; /* out of the functions that lead here */
        int r = 1;

        if (capo_on_signal_stack())
                return false;
        capo_cfi_here(&c);
        for (unsigned n = 0; r == 1 && n < FRAMES; n++) {
                const void *at =
                        (const void *)c.v[CAPO_CFI_PC]; /* NOLINT(performance-no-int-to-ptr) */
                struct capo_tables tables;

                if (!capo_own(at))
                        outside = true;
                else if (outside)
                        return true;
                if (outside && is(at, arg))
                        return true;
                capo_object_tables(c.v[CAPO_CFI_PC] - (n > 0), &tables);
                c.begin = tables.begin;
                c.end = tables.end;
                r = tables.eh_frame_hdr ? capo_cfi_step(&c, tables.eh_frame_hdr, n > 0) : -ENODATA;
        }
        return false;
}

static uint32_t add_site(uint64_t hash, const uint64_t *pc, uint32_t n, const char *py,
                         unsigned py_size)
{
        struct capo_area *area = &capo_seg.header->areas[CAPO_AREA_SITES];
        uint32_t i = (uint32_t)hash % TABLE, site = 0;

        capo_lock(&lock);
        for (; table[i].site && table[i].hash != hash; i = (i + 1) % TABLE)
                ;
        site = table[i].site;
        if (!site) {
                capo_lock(&capo_seg.lock);
                if (capo_area_commit(&capo_seg, CAPO_AREA_SITES, area->used + 1) == 0) {
                        struct capo_seg_site *s =
                                capo_area_at(&capo_seg, CAPO_AREA_SITES, area->used);

                        memcpy(s->pc, pc, n * sizeof *pc);
                        s->n_pc = n;
                        memcpy(s->py, py, py_size);
                        s->py_size = (uint16_t)py_size;
                        atomic_store_explicit(&s->ready, 1, memory_order_release);
                        atomic_store_explicit(&area->used, area->used + 1, memory_order_release);
                        site = area->used;
                        table[i].hash = hash;
                        table[i].site = site;
                }
                capo_unlock(&capo_seg.lock);
        }
        capo_unlock(&lock);
        return site;
}

uint32_t capo_site_find(struct capo_tls *t, const void *caller, const void *frame)
{
        struct capo_site_entry *e = capo_site_entry(t, caller, frame);
        uint64_t pc[CAPO_SITE_FRAMES];
        char py[sizeof((struct capo_seg_site *)0)->py];
        unsigned py_size = 0;
        uint64_t began = capo_clock_ticks();
        int saved = errno;
        uint32_t site = 0, n;

        if (t->site_misses == UINT32_MAX) { /* measuring ourselves (own_cost.c) */
                *e = (struct capo_site_entry){caller, frame, 0};
                return 0;
        }
        if (t->site_misses++ > MISSES_FREE && t->site_misses % MISSES_RATE)
                return e->caller == caller ? e->site : 0;
        py_size = t->asked ? t->asked->text(t->asked, py, sizeof py)
                           : capo_config_text(t->config, py, sizeof py);
        if (capo_on_signal_stack()) {
                pc[0] = (uintptr_t)caller;
                n = 1;
        } else {
                unsigned frames = capo_python_frames(py + py_size, (unsigned)sizeof py - py_size);

                py_size += frames;
                n = walk_stack(pc, frames ? (uintptr_t)capo_py.Py_IsInitialized : 0);
        }
        if (n)
                site = add_site(XXH3_64bits_withSeed(pc, n * sizeof *pc, XXH3_64bits(py, py_size)),
                                pc, n, py, py_size);
        *e = (struct capo_site_entry){caller, frame, site};
        if (t->group_depth) /* this time is ours, not the open group's */
                t->group_begin += capo_clock_ticks() - began;
        errno = saved;
        return site;
}

int capo_site_line(const char *path, uint64_t at, uint64_t in, char *line, unsigned room)
{
        const char *file = capo_base_name(path);
        char symbol[4096], name[300];
        uint64_t into;

        if (capo_object_symbol(path, in, symbol, sizeof symbol, &into) == 0)
                return snprintf(line, room, "%.299s+0x%llx %s+0x%llx\n",
                                capo_demangle(symbol, name, sizeof name) ? name : symbol,
                                (unsigned long long)(into + (at - in)), *file ? file : "(program)",
                                (unsigned long long)at);
        return snprintf(line, room, "%s+0x%llx\n", *file ? file : "(program)",
                        (unsigned long long)at);
}

unsigned capo_site_text(const struct capo_seg_site *site, char *text, unsigned room)
{
        unsigned n = 0;

        for (uint32_t i = 0; i < site->n_pc; i++) {
                uint64_t pc = site->pc[i] - 1; /* a return address may lie behind its function */
                struct capo_object object;
                char line[700];
                bool in;
                int m;

                capo_segment_step(capo_seg.header); /* a large library takes a while */
                capo_loader_enter();
                in = capo_object_of((const void *)(uintptr_t)pc, &object);
                capo_loader_leave();
                if (!in)
                        m = snprintf(line, sizeof line, "0x%llx\n",
                                     (unsigned long long)site->pc[i]);
                else
                        m = capo_site_line(object.path, site->pc[i] - object.base, pc - object.base,
                                           line, sizeof line);
                if (m < 0 || n + (unsigned)m > room)
                        break;
                memcpy(text + n, line, (size_t)m);
                n += (unsigned)m;
        }
        return n;
}

void capo_site_fork(void)
{
        pthread_mutex_init(&lock, NULL);
        memset(table, 0, sizeof table);
}
