/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the process does while it is in no NCCL call: some times a second, where its main thread and
 * those that call NCCL are. A sample is a number of a stack; stacks are found by a hash of their
 * places, and their text is made once. The job's threads do nothing for it: the kernel says which
 * system call a thread is in (/proc/self/task/TID/syscall), Python's frames are read through
 * process_vm_readv(), twice, and count only where both readings agree.
 */
#include <fcntl.h>
#include <sys/syscall.h>

#include "capo/env.h"
#include "core/base/text.h"
#include "core/log/machine_frame.h"
#include "core/log/segment_calls.h"
#include "core/log/unfinished.h"
#include "shim/machine/between.h"
#include "shim/machine/machine_source.h"
#include "shim/record/state.h"
#include "shim/site/native.h"
#include "shim/site/site_python.h"

enum { STACKS = 64, WATCHED = 4, TEXT = 400 };

struct stack {
        uint64_t hash;
        enum capo_between_kind kind;
        char text[TEXT];
        bool printed;
        uint32_t samples[WATCHED]; /* since the last frame, by thread: [0] is the main one */
};

static struct {
        struct stack *stack; /* STACKS of them; the last one stands for all that found no room */
        unsigned n;
        int tid[WATCHED], fd[WATCHED]; /* fd: its file "syscall" */
        unsigned n_tids;
        uint32_t taken, inside; /* since the last frame */
        bool printed;
        uint64_t next_tids_ns;
        uint64_t last_ns, waited_ns, stopped_us; /* stopped: since the last frame */
} own;

#define STOP_NS UINT64_C(150000000)

static unsigned sample_rate(void)
{
        int64_t rate = capo_shim_env()->machine_samples;

        return rate < 1 ? 1 : rate > 100 ? 100 : (unsigned)rate;
}

/* System calls by what a thread wants of them. */
static const struct {
        int number;
        enum capo_between_kind kind;
        const char *name;
} calls[] = {
        {SYS_read, CAPO_BETWEEN_READ, "read"},
        {SYS_pread64, CAPO_BETWEEN_READ, "pread"},
        {SYS_readv, CAPO_BETWEEN_READ, "readv"},
        {SYS_preadv, CAPO_BETWEEN_READ, "preadv"},
        {SYS_openat, CAPO_BETWEEN_READ, "open"},
        {SYS_getdents64, CAPO_BETWEEN_READ, "getdents"},
        {SYS_newfstatat, CAPO_BETWEEN_READ, "stat"},
        {SYS_statx, CAPO_BETWEEN_READ, "statx"},
        {SYS_write, CAPO_BETWEEN_WRITE, "write"},
        {SYS_pwrite64, CAPO_BETWEEN_WRITE, "pwrite"},
        {SYS_writev, CAPO_BETWEEN_WRITE, "writev"},
        {SYS_pwritev, CAPO_BETWEEN_WRITE, "pwritev"},
        {SYS_fsync, CAPO_BETWEEN_WRITE, "fsync"},
        {SYS_fdatasync, CAPO_BETWEEN_WRITE, "fdatasync"},
        {SYS_ftruncate, CAPO_BETWEEN_WRITE, "ftruncate"},
        {SYS_fallocate, CAPO_BETWEEN_WRITE, "fallocate"},
        {SYS_msync, CAPO_BETWEEN_WRITE, "msync"},
        {SYS_sync, CAPO_BETWEEN_WRITE, "sync"},
        {SYS_close, CAPO_BETWEEN_WRITE, "close"},
        {SYS_renameat2, CAPO_BETWEEN_WRITE, "rename"},
        {SYS_nanosleep, CAPO_BETWEEN_SLEEP, "sleep"},
        {SYS_clock_nanosleep, CAPO_BETWEEN_SLEEP, "sleep"},
        {SYS_futex, CAPO_BETWEEN_WAIT, "a wait for another thread"},
        {SYS_wait4, CAPO_BETWEEN_WAIT, "a wait for another process"},
        {SYS_waitid, CAPO_BETWEEN_WAIT, "a wait for another process"},
        {SYS_ppoll, CAPO_BETWEEN_WAIT, "poll"},
        {SYS_pselect6, CAPO_BETWEEN_WAIT, "select"},
        {SYS_epoll_pwait, CAPO_BETWEEN_WAIT, "epoll_wait"},
#ifdef SYS_poll
        {SYS_poll, CAPO_BETWEEN_WAIT, "poll"},
        {SYS_select, CAPO_BETWEEN_WAIT, "select"},
        {SYS_epoll_wait, CAPO_BETWEEN_WAIT, "epoll_wait"},
        {SYS_open, CAPO_BETWEEN_READ, "open"},
        {SYS_stat, CAPO_BETWEEN_READ, "stat"},
#endif
        {SYS_recvfrom, CAPO_BETWEEN_WAIT, "recv"},
        {SYS_recvmsg, CAPO_BETWEEN_WAIT, "recvmsg"},
        {SYS_sendto, CAPO_BETWEEN_WAIT, "send"},
        {SYS_sendmsg, CAPO_BETWEEN_WAIT, "sendmsg"},
        {SYS_flock, CAPO_BETWEEN_WAIT, "flock"},
        {SYS_ioctl, CAPO_BETWEEN_DEVICE, "ioctl"},
};

/* What one thread is in. */
struct where {
        long number; /* of the system call; -1: none; -2: it runs */
        uint64_t fd, sp, pc;
};

/* "running"; "-1 SP PC"; "NUMBER six arguments SP PC". */
static bool read_where(unsigned i, struct where *w)
{
        char text[256], *p;
        ssize_t n;

        *w = (struct where){.number = -2};
        if (own.fd[i] < 0)
                return false;
        n = pread(own.fd[i], text, sizeof text - 1, 0);
        if (n <= 0)
                return false;
        text[n] = 0;
        if (!strncmp(text, "running", 7))
                return true;
        w->number = strtol(text, &p, 10);
        if (w->number >= 0) {
                w->fd = strtoull(p, &p, 16);
                for (int a = 1; a < 6; a++)
                        strtoull(p, &p, 16);
        }
        w->sp = strtoull(p, &p, 16);
        w->pc = strtoull(p, &p, 16);
        return true;
}

static int row_of(long number)
{
        for (size_t i = 0; i < N_ELEMENTS(calls); i++) {
                if (calls[i].number == number)
                        return (int)i;
        }
        return -1;
}

/* A file, "" for what is none, of a descriptor of this process. */
static bool name_file(uint64_t fd, char *text, size_t room)
{
        char path[64];
        ssize_t n;

        snprintf(path, sizeof path, "/proc/self/fd/%d", (int)fd);
        n = readlink(path, text, room - 1);
        text[n > 0 ? n : 0] = 0;
        for (char *c = text; *c; c++)
                *c = (unsigned char)*c < ' ' ? '?' : *c;
        return *text == '/' && strncmp(text, "/dev/", 5) && strncmp(text, "/proc/", 6);
}

/* The system call in words, and its kind: reading and writing is of files only. */
static enum capo_between_kind describe_call(const struct where *w, char *text, size_t room)
{
        int row = row_of(w->number);
        enum capo_between_kind kind = row < 0 ? CAPO_BETWEEN_OTHER : calls[row].kind;
        bool by_name = w->number == SYS_openat || w->number == SYS_newfstatat ||
                       w->number == SYS_statx || w->number == SYS_sync ||
                       w->number == SYS_renameat2;
        char file[160];

        *text = 0;
        if (w->number == -2)
                return CAPO_BETWEEN_RUN;
        if (w->number == -1) {
                capo_append(text, room, "in a wait for a page of memory");
                return CAPO_BETWEEN_FAULT;
        }
        if (row < 0)
                capo_append(text, room, "in system call %ld", w->number);
        else
                capo_append(text, room, "in %s", calls[row].name);
        if (kind != CAPO_BETWEEN_READ && kind != CAPO_BETWEEN_WRITE)
                return kind;
        if (by_name)
                return kind;
        if (!name_file(w->fd, file, sizeof file))
                kind = CAPO_BETWEEN_WAIT;
        capo_append(text, room, " of %s", *file == '/' ? file : *file ? "a pipe or socket" : "?");
        return kind;
}

static void put_lines(char *to, size_t room, char *lines)
{
        bool ended = false;
        int n = 0;

        for (char *line; (line = strsep(&lines, "\n")) && *line && !ended;) {
                ended = !strncmp(line, "main+", 5); /* what is above starts every program */
                for (char *c = line; *c; c++)
                        *c = (unsigned char)*c < ' ' ? '?' : *c;
                if (strlen(to) + strlen(line) + 8 > room)
                        return;
                capo_append(to, room, "%s%s", n++ || *to ? " <- " : "", line);
        }
}

static void make_stack(struct stack *s, unsigned thread, const struct where *w, uint64_t place,
                       bool collects)
{
        static char frames[2048];

        s->kind = describe_call(w, s->text, sizeof s->text);
        if (collects) {
                s->kind = CAPO_BETWEEN_GC;
                snprintf(s->text, sizeof s->text, "in garbage collection");
        }
        *frames = 0;
        if (place)
                capo_python_main_text(frames, sizeof frames);
        else if (w->number >= 0)
                capo_native_stack(own.tid[thread], frames, sizeof frames);
        put_lines(s->text, sizeof s->text, frames);
        if (!*s->text)
                snprintf(s->text, sizeof s->text, "on a CPU");
}

static void count_sample(unsigned thread, const struct where *w)
{
        uint64_t place = thread == 0 ? capo_python_main_place() : 0, hash = place;
        bool collects = thread == 0 && place && capo_python_collects();
        struct where key = *w;
        struct stack *s = NULL;

        if (place && place != capo_python_main_place())
                return; /* it went on meanwhile */
        if (place)
                key.pc = key.sp = 0;
        if (row_of(key.number) < 0 || (calls[row_of(key.number)].kind != CAPO_BETWEEN_READ &&
                                       calls[row_of(key.number)].kind != CAPO_BETWEEN_WRITE))
                key.fd = 0;
        if (key.number < 0) /* which instruction it was does not matter */
                key.pc = key.sp = 0;
        hash ^= ((uint64_t)key.number + 3) * 0x9e3779b97f4a7c15u ^ (key.fd << 48) ^
                key.pc * 0x94d049bb133111ebu ^ key.sp ^ collects;
        for (unsigned i = 0; i < own.n && !s; i++)
                s = own.stack[i].hash == hash ? &own.stack[i] : NULL;
        if (!s && own.n < STACKS - 1) {
                s = &own.stack[own.n++];
                s->hash = hash;
                make_stack(s, thread, w, place, collects);
        } else if (!s) {
                own.n = STACKS;
                s = &own.stack[STACKS - 1];
                s->kind = CAPO_BETWEEN_OTHER;
                snprintf(s->text, sizeof s->text, "at other places");
        }
        s->samples[thread]++;
}

static void watch_thread(int tid)
{
        char path[64];

        for (unsigned i = 0; i < own.n_tids; i++) {
                if (own.tid[i] == tid)
                        return;
        }
        if (own.n_tids == WATCHED)
                return;
        snprintf(path, sizeof path, "/proc/self/task/%d/syscall", tid);
        own.fd[own.n_tids] = open(path, O_RDONLY | O_CLOEXEC);
        own.tid[own.n_tids++] = tid;
}

/* Is one of the threads inside an NCCL call? Watches those that have made one. */
static bool is_inside(void)
{
        uint32_t n = atomic_load_explicit(&capo_seg.header->areas[CAPO_AREA_RINGS].used,
                                          memory_order_acquire);
        bool inside = false;

        watch_thread(getpid());
        for (uint32_t i = 0; i < n; i++) {
                const struct capo_ring *r = capo_area_at(&capo_seg, CAPO_AREA_RINGS, i);

                if (atomic_load_explicit(&r->state, memory_order_relaxed) != CAPO_RING_LIVE)
                        continue;
                inside |= capo_unfinished_inside(&capo_seg, r);
                watch_thread((int)r->tid);
        }
        return inside;
}

/* A job that closes what is not its own may have got our descriptor's number. */
static void renew_files(void)
{
        uint64_t now = capo_clock_mono();

        if (now < own.next_tids_ns)
                return;
        own.next_tids_ns = now + 10000000000u;
        for (unsigned i = 0; i < own.n_tids; i++) {
                char link[64], path[64], want[64];
                ssize_t n;

                snprintf(path, sizeof path, "/proc/self/fd/%d", own.fd[i]);
                n = readlink(path, link, sizeof link - 1);
                link[n > 0 ? n : 0] = 0;
                snprintf(want, sizeof want, "/task/%d/syscall", own.tid[i]);
                if (own.fd[i] >= 0 && strstr(link, want))
                        close(own.fd[i]);
        }
        own.n_tids = 0;
}

/* A nap that took much longer than it should, in which this thread waited for no CPU: the process
 * was stopped. */
static void note_stop(uint64_t reading_ns)
{
        uint64_t now = capo_clock_mono(), period = 1000000000u / sample_rate() + reading_ns,
                 gap = own.last_ns && now > own.last_ns ? now - own.last_ns : 0;

        if (gap > period + STOP_NS || own.taken % 16 == 0) {
                uint64_t waited = 1000 * capo_machine_own_wait_us(), more = waited - own.waited_ns;

                if (own.last_ns && gap > period + STOP_NS && gap > period + more + STOP_NS)
                        own.stopped_us += (gap - period - more) / 1000;
                own.waited_ns = waited;
        }
        own.last_ns = now;
}

void capo_between_sample(uint64_t reading_ns)
{
        if (!own.stack)
                own.stack = capo_shim_alloc(STACKS * sizeof *own.stack);
        if (!own.stack)
                return;
        renew_files();
        note_stop(reading_ns);
        own.taken++;
        if (is_inside()) {
                own.inside++;
                return;
        }
        for (unsigned i = 0; i < own.n_tids; i++) {
                struct where w;

                if (read_where(i, &w))
                        count_sample(i, &w);
        }
}

size_t capo_between_print(char *text, size_t room)
{
        size_t n = 0;

        if (!own.taken)
                return 0;
        *text = 0;
        for (unsigned i = 0; i < own.n; i++) {
                struct stack *s = &own.stack[i];

                for (unsigned t = 0; t < WATCHED; t++) {
                        if (!s->samples[t] || room - n < 2 * TEXT)
                                continue;
                        if (!s->printed)
                                n += (size_t)snprintf(text + n, room - n, "stack\t%u\t%s\t%s\n", i,
                                                      capo_between_kinds[s->kind], s->text);
                        s->printed = true;
                        n += (size_t)snprintf(text + n, room - n,
                                              t ? "did\t%u\t%u\t%d\n" : "did\t%u\t%u\n", i,
                                              s->samples[t], own.tid[t]);
                        s->samples[t] = 0;
                }
        }
        n += (size_t)snprintf(text + n, room - n,
                              own.printed && !own.stopped_us ? "samples\t%u\t%u\n"
                                                             : "samples\t%u\t%u\t%u\t%" PRIu64 "\n",
                              own.taken, own.inside, 1000000000u / sample_rate(), own.stopped_us);
        own.printed = true;
        own.taken = own.inside = 0;
        own.stopped_us = 0;
        return n;
}

void capo_between_fork(void)
{
        for (unsigned i = 0; i < own.n_tids; i++) {
                if (own.fd[i] >= 0)
                        close(own.fd[i]);
        }
        memset(&own, 0, sizeof own);
}
