/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One reading of everything in the list, and the frame of it. A frame has what changed since the
 * last one: of a quiet machine a few lines.
 */
#include <sys/socket.h>
#include <sys/un.h>

#include "capo/env.h"
#include "capo/frame_types.h"
#include "core/log/segment_calls.h"
#include "shim/machine/between.h"
#include "shim/machine/beside.h"
#include "shim/machine/machine_cgroup.h"
#include "shim/machine/machine_gpu.h"
#include "shim/machine/machine_read.h"
#include "shim/record/state.h"

enum { OBJECTS = 192, THREADS = 16, NICS = 64, NETIFS = 16, PIECE = 24000, SELDOM = 3, WHOLE = 32 };
#define SLOW_NS UINT64_C(100000000)

static struct {
        struct machine_object *object; /* OBJECTS of them; NULL: no memory yet */
        unsigned n;
        char text[PIECE + 8192];
        size_t size, at;
        int node; /* a socket by whose name this process is the one that reads the node; -1: it is
                     not */
        uint64_t waited_us; /* of this thread, when the reading began */
        unsigned readings;
        int others[128]; /* threads that are not read; found anew now and then */
        unsigned n_others, numbers;
} own = {.node = -1};

/* ---- the frame ---- */

static void begin_text(void)
{
        uint64_t now = capo_clock_mono(), t0 = capo_seg.header->clock.t0_mono_ns;

        own.size = (size_t)snprintf(own.text, sizeof own.text, "at\t%llu\n",
                                    (unsigned long long)(now > t0 ? now - t0 : 0));
        own.at = own.size;
}

static void flush_text(void)
{
        if (own.size > own.at)
                capo_shim_text(CAPO_FRAME_MACHINE, own.text, own.size);
        begin_text();
}

/* ---- objects ---- */

static struct machine_object *get_object(enum capo_machine_scope scope, const char *name)
{
        struct machine_object *o = NULL;

        for (unsigned i = 0; i < own.n; i++) {
                if (own.object[i].used && own.object[i].scope == scope &&
                    !strncmp(own.object[i].name, name, sizeof own.object[i].name - 1))
                        o = &own.object[i];
        }
        for (unsigned i = 0; !o && i < OBJECTS; i++) {
                if (own.object[i].used)
                        continue;
                o = &own.object[i];
                *o = (struct machine_object){.scope = scope, .used = true, .device = -1};
                snprintf(o->name, sizeof o->name, "%s", name);
                own.n = i >= own.n ? i + 1 : own.n;
        }
        if (o)
                o->seen = true;
        return o;
}

static unsigned count_objects(enum capo_machine_scope scope)
{
        unsigned n = 0;

        for (unsigned i = 0; i < own.n; i++)
                n += own.object[i].used && own.object[i].seen && !own.object[i].left &&
                     own.object[i].scope == scope;
        return n;
}

static struct machine_object *add_object(enum capo_machine_scope scope, const char *name,
                                         const char *format, ...)
        __attribute__((format(printf, 3, 4)));
static struct machine_object *add_object(enum capo_machine_scope scope, const char *name,
                                         const char *format, ...)
{
        static const unsigned most[CAPO_MACHINE_SCOPES] = {[CAPO_MACHINE_THREAD] = THREADS,
                                                           [CAPO_MACHINE_NIC] = NICS,
                                                           [CAPO_MACHINE_NETIF] = NETIFS};
        struct machine_object *o =
                most[scope] && count_objects(scope) >= most[scope] ? NULL : get_object(scope, name);
        va_list args;

        va_start(args, format);
        if (o && vsnprintf(o->dir, sizeof o->dir, format, args) >= (int)sizeof o->dir)
                o->left = "its path is too long";
        va_end(args);
        return o;
}

/* Does the thread call NCCL? The main thread counts as one that does. */
static bool is_caller(int tid)
{
        uint32_t n = atomic_load_explicit(&capo_seg.header->areas[CAPO_AREA_RINGS].used,
                                          memory_order_acquire);

        if (tid == getpid())
                return true;
        for (uint32_t i = 0; i < n; i++) {
                const struct capo_ring *r = capo_area_at(&capo_seg, CAPO_AREA_RINGS, i);

                if (atomic_load(&r->state) == CAPO_RING_LIVE && (int)r->tid == tid)
                        return true;
        }
        return false;
}

/* Is the thread known, and what it was? Then its name need not be read. */
static bool is_known(int tid, bool caller)
{
        for (unsigned i = 0; i < own.n_others; i++) {
                if (own.others[i] == tid)
                        return !caller;
        }
        for (unsigned i = 0; i < own.n; i++) {
                struct machine_object *o = &own.object[i];

                if (!o->used || o->scope != CAPO_MACHINE_THREAD || o->tid != tid ||
                    o->caller != caller)
                        continue;
                o->seen = true;
                return true;
        }
        return false;
}

static void add_thread(const char *name, void *unused)
{
        char path[320], comm[20], label[48];
        int tid = atoi(name);
        bool caller = is_caller(tid);
        struct machine_object *o;

        if (tid <= 0 || is_known(tid, caller))
                return;
        capo_machine_path(path, sizeof path, "%s/self/task/%d/comm", capo_machine_proc, tid);
        if (!capo_machine_text(path, comm, sizeof comm))
                return;
        comm[strcspn(comm, "\n")] = 0;
        for (char *c = comm; *c; c++)
                *c = (unsigned char)*c < ' ' || *c == '=' ? ' ' : *c;
        if (!caller && strncasecmp(comm, "nccl", 4)) {
                if (own.n_others < N_ELEMENTS(own.others))
                        own.others[own.n_others++] = tid;
                return;
        }
        capo_machine_path(label, sizeof label, "%d:%s:%s", tid, caller ? "calls" : "nccl", comm);
        o = add_object(CAPO_MACHINE_THREAD, label, "%s/self/task/%d", capo_machine_proc, tid);
        if (!o)
                return;
        o->tid = tid;
        o->caller = caller;
}

/* An abstract name that the kernel gives once in a network namespace and takes back when its
 * process has gone: the processes of one job agree on it by the folder of their logs. */
static bool own_node(void)
{
        struct sockaddr_un name = {.sun_family = AF_UNIX};
        const char *path = capo_seg.header->log_path, *slash = strrchr(path, '/');
        uint64_t h = capo_machine_hash(0, path, slash ? (size_t)(slash - path) : 0);
        int fd, n;

        if (own.node >= 0)
                return true;
        h = capo_machine_hash(h, capo_machine_sys, SIZE_MAX); /* another root is another node */
        fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
                return false;
        n = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "capo-node-%d-%016llx",
                     (int)getuid(), (unsigned long long)h);
        if (bind(fd, (struct sockaddr *)&name,
                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) == 0)
                own.node = fd;
        else
                close(fd);
        return own.node >= 0;
}

static void add_port(const char *port, void *nic)
{
        char label[48];

        capo_machine_path(label, sizeof label, "%.38s/%.8s", (const char *)nic, port);
        add_object(CAPO_MACHINE_NIC, label, "%s/class/infiniband/%s/ports/%s", capo_machine_sys,
                   (const char *)nic, port);
}

static void add_nic(const char *name, void *unused)
{
        char folder[320];

        capo_machine_path(folder, sizeof folder, "%s/class/infiniband/%.60s/ports",
                          capo_machine_sys, name);
        capo_machine_names(folder, add_port, (void *)name);
}

static void add_cxi(const char *name, void *unused)
{
        add_object(CAPO_MACHINE_NIC, name, "%s/class/cxi/%s/device", capo_machine_sys, name);
}

/* Interfaces of hardware first: a node may have hundreds of others. */
static void add_netif(const char *name, void *hardware)
{
        char path[320];

        capo_machine_path(path, sizeof path, "%s/class/net/%.60s/device", capo_machine_sys, name);
        if (strcmp(name, "lo") != 0 && (hardware != NULL) == (access(path, F_OK) == 0))
                add_object(CAPO_MACHINE_NETIF, name, "%s/class/net/%s", capo_machine_sys, name);
}

static void find_node(void)
{
        char folder[320];

        if (!own_node())
                return;
        add_object(CAPO_MACHINE_NODE, "-", "%s", capo_machine_proc);
        capo_machine_path(folder, sizeof folder, "%s/class/infiniband", capo_machine_sys);
        capo_machine_names(folder, add_nic, NULL);
        capo_machine_path(folder, sizeof folder, "%s/class/cxi", capo_machine_sys);
        capo_machine_names(folder, add_cxi, NULL);
        capo_machine_path(folder, sizeof folder, "%s/class/net", capo_machine_sys);
        capo_machine_names(folder, add_netif, folder);
        capo_machine_names(folder, add_netif, NULL);
}

static void find_gpus(void)
{
        for (int i = 0; capo_shim_env()->gpu_sample > 0 && i < OBJECTS / 3; i++) {
                const char *busid = capo_machine_gpu_busid(i);
                struct machine_object *o;
                char label[48];

                if (!busid)
                        continue;
                capo_machine_path(label, sizeof label, "%d:%s", i, busid);
                o = get_object(CAPO_MACHINE_GPU, label);
                if (o)
                        o->device = i;
        }
}

static void find_objects(void)
{
        char folder[320];

        for (unsigned i = 0; i < own.n; i++)
                own.object[i].seen = false;
        add_object(CAPO_MACHINE_PROCESS, "-", "%s", capo_machine_proc);
        capo_machine_path(folder, sizeof folder, "%s/self/task", capo_machine_proc);
        capo_machine_names(folder, add_thread, NULL);
        find_node();
        find_gpus();
}

/* ---- reading ---- */

static bool read_row(struct machine_object *o, unsigned reading, uint64_t *value)
{
        const struct capo_machine_reading *r = &capo_machine_readings[reading];

        if (o->scope == CAPO_MACHINE_GPU)
                return capo_machine_gpu(o, reading, value);
        if (!strcmp(r->source, "CPU") || !strcmp(r->source, "MEM"))
                return capo_machine_cgroup(r->source, r->key, value);
        return capo_machine_number(o, r->source, r->key, value);
}

static void put_text(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void put_text(const char *format, ...)
{
        va_list args;

        va_start(args, format);
        own.size +=
                (size_t)vsnprintf(own.text + own.size, sizeof own.text - own.size, format, args);
        va_end(args);
}

/* A counter as its growth, but for now and then: a reader may have lost what was between. */
static void put_row(const struct capo_machine_reading *r, struct machine_object *o, bool there,
                    uint64_t value, bool *begun)
{
        uint64_t bit = UINT64_C(1) << r->row, before = o->value[r->row];

        if (!o->number)
                put_text("%s\t%s\t#%u", capo_machine_scopes[o->scope], o->name,
                         o->number = ++own.numbers);
        else if (!*begun)
                put_text("#%u", o->number);
        *begun = true;
        if (!there)
                put_text("\t%u=-", r->row);
        else if (!(o->told & bit))
                put_text("\t%u:%s=%" PRIu64, r->row, r->name, value);
        else if (r->kind != CAPO_MACHINE_GAUGE && value > before && own.readings % WHOLE)
                put_text("\t%u+%" PRIu64, r->row, value - before);
        else
                put_text("\t%u=%" PRIu64, r->row, value);
        o->told |= bit;
}

/* A source that takes so long, though this thread had a CPU, is not asked again. */
static void check_time(struct machine_object *o, uint64_t began_ns)
{
        uint64_t took = capo_clock_mono() - began_ns, waited;

        if (took <= SLOW_NS)
                return;
        waited = (capo_machine_own_wait_us() - own.waited_us) * 1000;
        if (took > waited + SLOW_NS)
                o->left = "slow to answer";
        if (o->left)
                put_text("left\t%s\t%s\tit took %" PRIu64 " ms to answer\n",
                         capo_machine_scopes[o->scope], o->name, took / 1000000);
}

static void read_object(struct machine_object *o)
{
        uint64_t began = capo_clock_mono();
        bool begun = false;

        capo_machine_forget();
        for (unsigned i = 0; i < CAPO_MACHINE_READINGS && !o->left; i++) {
                const struct capo_machine_reading *r = &capo_machine_readings[i];
                uint64_t bit = UINT64_C(1) << r->row, value = 0;
                bool there;

                if (r->scope != o->scope || o->missing & bit)
                        continue;
                there = o->seen && read_row(o, i, &value);
                if (there && (!(o->known & bit) || o->value[r->row] != value))
                        put_row(r, o, true, value, &begun);
                else if (!there && o->known & bit)
                        put_row(r, o, false, 0, &begun);
                if (there)
                        o->known |= bit;
                else if (o->known & bit || o->scope == CAPO_MACHINE_NIC)
                        o->missing |= bit, o->known &= ~bit; /* and not tried again */
                o->value[r->row] = value;
        }
        if (begun)
                own.text[own.size++] = '\n';
        check_time(o, began);
        if (!o->seen)
                o->used = false;
        if (own.size > PIECE)
                flush_text();
}

static bool begin_gpus(void)
{
        uint64_t began = capo_clock_mono();
        bool begun = capo_machine_gpus_begin();

        for (unsigned i = 0; i < own.n; i++) {
                if (own.object[i].used && own.object[i].scope == CAPO_MACHINE_GPU)
                        check_time(&own.object[i], began);
        }
        return begun;
}

void capo_machine_read(bool report, void (*busy)(const char *what))
{
        bool gpus = false;

        if (!own.object)
                own.object = capo_shim_alloc(OBJECTS * sizeof *own.object);
        if (!own.object)
                return;
        busy("the folders of /proc and /sys");
        own.waited_us = capo_machine_own_wait_us();
        begin_text();
        if (report || own.readings % SELDOM == 0) /* a thread may have got its name since */
                own.n_others = 0;
        capo_machine_cgroups();
        find_objects();
        for (unsigned i = 0; i < own.n; i++) {
                struct machine_object *o = &own.object[i];

                if (!o->used || o->scope == CAPO_MACHINE_GPU)
                        continue;
                busy(o->name);
                read_object(o);
        }
        if (count_objects(CAPO_MACHINE_GPU)) {
                busy("the GPU driver (NVML)");
                gpus = begin_gpus();
        }
        for (unsigned i = 0; gpus && i < own.n; i++) {
                if (own.object[i].used && own.object[i].scope == CAPO_MACHINE_GPU)
                        read_object(&own.object[i]);
        }
        own.readings++;
        if (gpus)
                capo_machine_gpus_end(report || (own.readings & (own.readings - 1)) == 0);
        busy(NULL);
        if (report || (own.readings & (own.readings - 1)) == 0) /* rarely: they are loaded early */
                capo_beside_look();
        own.size += capo_between_print(own.text + own.size, sizeof own.text - own.size);
        flush_text();
}

void capo_machine_read_fork(void)
{
        capo_beside_fork();
        if (own.node >= 0)
                close(own.node);
        own.node = -1;
        own.n = own.n_others = own.numbers = own.readings = 0;
        own.object = NULL;
}
