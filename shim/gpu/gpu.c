/* SPDX-License-Identifier: Apache-2.0 */
/* GPU time of a call: an event before it and one after it on its own stream. The driver (driver.h)
 * is taken as found in the process: a job without one pays nothing.
 *
 * The pair measures from the end of what was on the stream before to the end of NCCL's kernel,
 * waiting for slow peers included. In a group it is around the group, on the first member's stream.
 *
 * The rules, each of which keeps a job from harm (CUDA 13.0 driver API documentation):
 *   - ask the stream first whether it is being captured; into a capture nothing is recorded, and
 *     the call's record says so. While another stream captures, asking about the legacy stream says
 *     906: treated alike.
 *   - an event belongs to a context: events are pooled per context, made with it current.
 *   - the handles 0, 1, 2 are default streams, which belong to the current context: timed only when
 *     that is on the communicator's device.
 *   - nothing ever waits. cuEventQuery is called on the drain thread alone, in relaxed capture
 *     mode: in the default modes it would invalidate a capture another thread is making.
 *   - a non-blocking communicator launches later, on another thread: not timed.
 *   - events are never destroyed: at exit the driver may be gone before us. */
#include <link.h>

#include "capo/env.h"
#include "capo/msg.h"
#include "core/base/write_signals.h"
#include "core/log/info.h"
#include "shim/find/symbol.h"
#include "shim/gpu/anchor.h"
#include "shim/gpu/draw.h"
#include "shim/gpu/driver.h"
#include "shim/record/recorder.h"
#include "shim/record/start.h"

_Atomic bool capo_gpu_on;

void capo_gpu_switch(bool on)
{
        atomic_store(&capo_gpu_on, on);
        atomic_store(&capo_life.short_way, !on && capo_clock_counter);
}

static const struct {
        size_t at;
        const char *name, *export;
} functions[] = {
#define ROW(name)                                                              \
        {                                                                      \
                offsetof(struct capo_gpu_driver, name), "cu" #name, "cu" #name \
        }
#define ROW_AS(name, as)                                                          \
        {                                                                         \
                offsetof(struct capo_gpu_driver, name), "cu" #name, "cu" #name as \
        }
        ROW(DriverGetVersion),
        ROW(StreamIsCapturing),
        ROW(StreamQuery),
        ROW(StreamGetCtx),
        ROW(CtxGetCurrent),
        ROW(CtxGetDevice),
        ROW_AS(CtxPushCurrent, "_v2"),
        ROW_AS(CtxPopCurrent, "_v2"),
        ROW(EventCreate),
        ROW(EventRecord),
        ROW(EventQuery),
        ROW(EventElapsedTime),
        ROW(ThreadExchangeStreamCaptureMode),
};

/* Return: NULL, or the function that it does not have. */
static const char *find_timing_functions(void *lib, struct capo_gpu_driver *out)
{
        cu_result (*get)(const char *, void **, int, uint64_t) = NULL;
        cu_result (*get2)(const char *, void **, int, uint64_t, int *) = NULL;

        *(void **)&get2 = capo_real_dlsym(lib, "cuGetProcAddress_v2");
        *(void **)&get = capo_real_dlsym(lib, "cuGetProcAddress");
        for (size_t i = 0; i < N_ELEMENTS(functions); i++) {
                void *p = NULL;

                /* legacy default stream (flag 1), as in NCCL's runtime; CUDA 11.3's forms */
                if (get2)
                        get2(functions[i].name, &p, 11030, 1, NULL);
                else if (get)
                        get(functions[i].name, &p, 11030, 1);
                if (!p)
                        p = capo_real_dlsym(lib, functions[i].export);
                if (!p)
                        return functions[i].export;
                *(void **)((char *)out + functions[i].at) = p;
        }
        return NULL;
}

static struct capo_gpu_driver cu;

#define SLOTS  1024u
#define PROBES 64u

/* The events of slot i; made once, for one context. */
static struct {
        void *context, *begin, *end;
        struct anchored *anchor; /* of the context; NULL: there are too many of them */
        uint64_t asked;          /* ticks: before `begin` was recorded */
        bool chosen;             /* the call is timed for what it is (CAPO_RECORD_CHOSEN) */
} events[SLOTS];
/* What the events of a context are placed by: the drain thread's, but for making it. */
static struct anchored {
        void *context;
        void *event; /* the anchor; before it, a spare for the event that becomes it */
        struct capo_anchor anchor;
} anchors[16];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool detected_for_good; /* found, and what `cu` has it keeps */
static _Atomic uint32_t n_slots;       /* made so far; behind them are kernel_stamps.c's */

const struct capo_gpu_driver *capo_gpu_driver(void)
{
        return atomic_load(&capo_gpu_on) ? &cu : NULL;
}

static int how_many(struct dl_phdr_info *info, size_t size, void *adds)
{
        *(unsigned long long *)adds = info->dlpi_adds;
        return 1;
}

/* Loaded anything since this was last asked? dlopen() looks in the file system for what is not. */
static unsigned long long loads_seen;

static bool something_new(void)
{
        unsigned long long adds = 0;

        if (dl_iterate_phdr(how_many, &adds) != 1 || adds == loads_seen)
                return false;
        loads_seen = adds;
        return true;
}

void capo_gpu_detect(void)
{
        const char *missing;
        void *driver;
        int version = 0, saved = errno;

        if (detected_for_good)
                return;
        CAPO_NO_SIGNALS;
        capo_lock(&lock);
        if (detected_for_good || !something_new())
                goto out;
        driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
        if (!driver)
                goto out; /* not yet */
        *(void **)&cu.DeviceGetPCIBusId = capo_real_dlsym(driver, "cuDeviceGetPCIBusId");
        *(void **)&cu.DeviceGetUuid = capo_real_dlsym(driver, "cuDeviceGetUuid");
        *(void **)&cu.DeviceGetUuid_v2 = capo_real_dlsym(driver, "cuDeviceGetUuid_v2");
        if (capo_shim_env()->gpu_sample <= 0 || capo_shim_env()->gpu_sample > UINT32_MAX)
                goto found; /* which GPU a rank has is logged all the same */
        missing = find_timing_functions(driver, &cu);
        if (missing) {
                capo_warn("no GPU times: the CUDA driver has no %s", missing);
                goto found;
        }
        capo_lock(&capo_seg.lock);
        if (capo_area_commit(&capo_seg, CAPO_AREA_SLOTS, SLOTS) == 0) {
                capo_draw_one_in((uint32_t)capo_shim_env()->gpu_sample,
                                 !capo_shim_env()->kernel_time);
                capo_gpu_switch(true);
        }
        capo_unlock(&capo_seg.lock);
        cu.DriverGetVersion(&version);
        capo_shim_info(CAPO_INFO_CUDA_DRIVER, "%d.%d", version / 1000, version % 1000 / 10);
found:
        detected_for_good = true;
out:
        capo_unlock(&lock);
        errno = saved;
}

static bool is_slice(int device)
{
        char gpu[16] = {0}, slice[16] = {0};

        return cu.DeviceGetUuid && cu.DeviceGetUuid_v2 && cu.DeviceGetUuid(gpu, device) == CU_OK &&
               cu.DeviceGetUuid_v2(slice, device) == CU_OK && memcmp(gpu, slice, sizeof gpu) != 0;
}

void capo_gpu_describe(int device)
{
        static _Atomic uint64_t done; /* devices said already */
        int saved = errno;
        char text[32] = "";

        if (!detected_for_good || device < 0 || device > 63 || !cu.DeviceGetPCIBusId ||
            atomic_fetch_or(&done, 1ull << device) >> device & 1)
                return;
        if (cu.DeviceGetPCIBusId(text, sizeof text - 1, device) == CU_OK && *text) {
                char key[32];
                long numa;

                snprintf(key, sizeof key, "%s.%d", CAPO_INFO_GPU_BUSID, device);
                capo_shim_info(key, "%s", text);
                capo_machine_part.watch(device, text);
                if (is_slice(device)) {
                        snprintf(key, sizeof key, "%s.%d", CAPO_INFO_GPU_MIG, device);
                        capo_shim_info(key, "1");
                }
                for (char *c = text; *c;
                     c++) /* the kernel writes the hexadecimal digits small, the driver large */
                        *c = (char)tolower((unsigned char)*c);
                numa = capo_shim_sysfs("bus/pci/devices", text, "numa_node", -1);
                if (numa >= 0) {
                        snprintf(key, sizeof key, "%s.%d", CAPO_INFO_GPU_NUMA, device);
                        capo_shim_info(key, "%ld", numa);
                }
        }
        errno = saved;
}

static struct capo_slot *slot_at(uint32_t i) { return capo_area_at(&capo_seg, CAPO_AREA_SLOTS, i); }

static bool take_slot(uint32_t i)
{
        uint32_t free = CAPO_SLOT_FREE;

        return atomic_compare_exchange_strong_explicit(&slot_at(i)->state, &free, CAPO_SLOT_TAKEN,
                                                       memory_order_acquire, memory_order_relaxed);
}

/* Of @context, which is current; NULL: there is no more room, or no event. */
static struct anchored *anchor_of(void *context)
{
        for (size_t i = 0; i < N_ELEMENTS(anchors); i++) {
                struct anchored *a = &anchors[i];

                if (a->context == context)
                        return a;
                if (a->context)
                        continue;
                if (cu.EventCreate(&a->event, CU_EVENT_DEFAULT) != CU_OK)
                        return NULL;
                a->context = context;
                return a;
        }
        return NULL;
}

/* Events of @context for slot @i. Under the lock. */
static bool slot_fill(uint32_t i, void *context)
{
        void *current = NULL, *popped, *begin, *end;
        cu_result r;

        if (cu.CtxGetCurrent(&current) != CU_OK ||
            (current != context && cu.CtxPushCurrent(context) != CU_OK))
                return false;
        r = cu.EventCreate(&begin, CU_EVENT_DEFAULT);
        if (r == CU_OK)
                r = cu.EventCreate(&end, CU_EVENT_DEFAULT);
        if (r == CU_OK) {
                events[i].begin = begin;
                events[i].end = end;
                events[i].anchor = anchor_of(context);
        }
        if (current != context)
                cu.CtxPopCurrent(&popped);
        return r == CU_OK;
}

/* A new slot for @context; -1 when the pool is at its largest or the driver says no. */
static int32_t slot_new(void *context)
{
        struct capo_area *area = &capo_seg.header->areas[CAPO_AREA_SLOTS];
        int32_t i = -1;

        if (atomic_load_explicit(&n_slots, memory_order_relaxed) >= SLOTS || !capo_trylock(&lock))
                return -1;
        if (n_slots < SLOTS && slot_fill(n_slots, context)) {
                i = (int32_t)n_slots;
                events[i].context = context;
                atomic_store_explicit(&slot_at((uint32_t)i)->state, CAPO_SLOT_TAKEN,
                                      memory_order_relaxed);
                atomic_store_explicit(&n_slots, (uint32_t)i + 1, memory_order_release);
                capo_lock(&capo_seg.lock);
                if (area->used <= (uint32_t)i)
                        atomic_store_explicit(&area->used, (uint32_t)i + 1, memory_order_release);
                capo_unlock(&capo_seg.lock);
        }
        capo_unlock(&lock);
        return i;
}

/* The event before the call of a slot. A context takes its events along when it is reset, and the
 * one after it may have its address. */
static bool slot_begins(uint32_t i, void *context, void *stream)
{
        cu_result r = cu.EventRecord(events[i].begin, stream);
        bool filled;

        if ((r != CU_INVALID_HANDLE && r != CU_CONTEXT_IS_DESTROYED) || !capo_trylock(&lock))
                return r == CU_OK;
        filled = slot_fill(i, context);
        capo_unlock(&lock);
        return filled && cu.EventRecord(events[i].begin, stream) == CU_OK;
}

static int32_t slot_take(void *context)
{
        static __thread uint32_t last __attribute__((tls_model("initial-exec")));
        uint32_t used = atomic_load_explicit(&n_slots, memory_order_acquire);

        for (uint32_t k = 0; k < used && k < PROBES; k++) {
                uint32_t i = (last + k) % used;

                if (events[i].context == context && take_slot(i)) {
                        last = i + 1;
                        return (int32_t)i;
                }
        }
        return slot_new(context);
}

static uint64_t coarse_ms(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
        return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

struct capo_gpu_call capo_gpu_begin(struct capo_comm *comm, void *stream, unsigned id,
                                    uint64_t bytes)
{
        struct capo_gpu_call call = {.slot = -1};
        int status = 0, device = -1, saved = errno;
        uint64_t asked;
        void *context = NULL;
        struct capo_draw draw;
        cu_result r;
        int32_t i;

        r = cu.StreamIsCapturing(stream, &status);
        if (r != CU_OK || status != 0) {
                call.captured = r == CU_OK || r == CU_CAPTURE_IMPLICIT;
                goto out;
        }
        draw = capo_draw_call(comm, id, bytes, coarse_ms());
        if (comm->pending || !draw.timed)
                goto out;
        if ((uintptr_t)stream <= 2) {
                if (cu.CtxGetCurrent(&context) != CU_OK || !context ||
                    cu.CtxGetDevice(&device) != CU_OK || device != comm->device)
                        goto out;
        } else if (cu.StreamGetCtx(stream, &context) != CU_OK || !context) {
                goto out;
        }
        __atomic_store_n(&comm->context, context, __ATOMIC_RELAXED);
        i = slot_take(context);
        asked = capo_clock_ticks();
        if (i < 0 || !slot_begins((uint32_t)i, context, stream)) {
                atomic_fetch_add_explicit(&capo_seg.header->gpu_dropped, 1, memory_order_relaxed);
                if (i >= 0)
                        atomic_store_explicit(&slot_at((uint32_t)i)->state, CAPO_SLOT_FREE,
                                              memory_order_release);
        } else {
                events[i].asked = asked;
                events[i].chosen = draw.chosen;
                call.slot = i;
        }
out:
        errno = saved;
        return call;
}

void capo_gpu_end(struct capo_tls *t, int32_t slot_number, void *stream, struct capo_record r)
{
        struct capo_slot *slot = slot_at((uint32_t)slot_number);
        int saved = errno;

        if (r.result == ncclSuccess && cu.EventRecord(events[slot_number].end, stream) == CU_OK) {
                slot->record = r;
                slot->record.flags |= events[slot_number].chosen ? CAPO_RECORD_CHOSEN : 0;
                slot->thread = t->thread;
                atomic_store_explicit(&slot->state, CAPO_SLOT_ARMED, memory_order_release);
        } else {
                atomic_store_explicit(&slot->state, CAPO_SLOT_FREE, memory_order_release);
                capo_record_put(t, r);
        }
        errno = saved;
}

/* When the GPU began with the call of a slot, which it has ended, took @ms and was seen to at
 * @seen: what capo_record_gpu_begin() reads. From time to time its event becomes the anchor and the
 * old anchor the slot's event, so that no event is made for that. */
static uint32_t slot_begin(uint32_t i, double ms, uint64_t seen)
{
        struct anchored *a = events[i].anchor;
        double per_ms = 1e6 / capo_seg.header->clock.ns_per_tick, tenths_us;
        const struct capo_record *r = &slot_at(i)->record;
        float since = 0;
        uint64_t begin;
        bool first;

        if (!a || !(per_ms > 0))
                return 0;
        if (a->anchor.set && cu.EventElapsedTime(&since, a->event, events[i].begin) != CU_OK) {
                a->anchor = (struct capo_anchor){
                        0}; /* gone with its context: this one takes its place */
                since = 0;
        }
        first = !a->anchor.set;
        begin = capo_anchor_place(&a->anchor, since * per_ms, ms * per_ms, events[i].asked, seen);
        if (first || since > CAPO_ANCHOR_MS) {
                void *event = a->event;

                a->event = events[i].begin;
                events[i].begin = event;
                capo_anchor_move(&a->anchor, since * per_ms);
        }
        tenths_us = begin > r->t_begin ? (double)(begin - r->t_begin) / per_ms * 1e4 : 0;
        return tenths_us < UINT32_MAX - 1 ? 1 + (uint32_t)tenths_us : 0;
}

/* Says with the communicator that the GPU ended a call of it: a host that waits for a long queue
 * makes no call, and is not stuck while this goes on. Slots are not looked at in the calls' order.
 */
static void note_ended(const struct capo_record *r, uint64_t seen)
{
        struct capo_area *area = &capo_seg.header->areas[CAPO_AREA_COMMS];
        struct capo_seg_comm *c;

        if (!r->comm || r->comm > atomic_load_explicit(&area->used, memory_order_acquire))
                return;
        c = capo_area_at(&capo_seg, CAPO_AREA_COMMS, r->comm - 1u);
        c->ended_ns = c->ended_at ? (3 * c->ended_ns + r->gpu_ns) / 4 : r->gpu_ns;
        c->ended_at = seen;
        if (r->t_begin < c->ended_begin)
                return;
        c->ended_begin = r->t_begin;
        c->ended_seq = r->seq;
        c->ended_stream = r->stream;
}

/* The GPU time of an armed slot, if it is there. */
static void slot_poll(uint32_t i)
{
        struct capo_slot *slot = slot_at(i);
        cu_result r = cu.EventQuery(events[i].end);
        uint64_t seen = capo_clock_ticks();
        float ms = 0;

        if (r == CU_NOT_READY)
                return;
        if (r == CU_OK && cu.EventElapsedTime(&ms, events[i].begin, events[i].end) == CU_OK) {
                double ns = (double)ms * 1e6;

                slot->record.clock = CAPO_CLOCK_EVENT;
                slot->record.gpu_ns = (uint64_t)(ns + 0.5);
                slot->record.group = slot_begin(i, ms, seen);
                note_ended(&slot->record, seen);
        } else if (r == CU_DEINITIALIZED) {
                capo_gpu_switch(false);
        }
        atomic_store_explicit(&slot->state, CAPO_SLOT_DONE, memory_order_release);
}

void capo_gpu_poll(void)
{
        uint32_t used, waiting = 0;
        int mode = CU_CAPTURE_MODE_RELAXED;
        bool relaxed = false;

        if (!atomic_load(&capo_gpu_on))
                return;
        used = atomic_load_explicit(&n_slots, memory_order_acquire);
        for (uint32_t i = 0; i < used && waiting < 256; i++) {
                if (atomic_load_explicit(&slot_at(i)->state, memory_order_acquire) !=
                    CAPO_SLOT_ARMED)
                        continue;
                if (!relaxed && cu.ThreadExchangeStreamCaptureMode(&mode) != CU_OK)
                        return;
                relaxed = true;
                slot_poll(i);
                waiting += atomic_load_explicit(&slot_at(i)->state, memory_order_relaxed) ==
                           CAPO_SLOT_ARMED;
        }
        if (relaxed)
                cu.ThreadExchangeStreamCaptureMode(&mode);
}

void capo_gpu_stop(void)
{
        uint32_t used = atomic_load_explicit(&n_slots, memory_order_acquire);

        capo_gpu_switch(false);
        for (uint32_t i = 0; i < used; i++) {
                uint32_t armed = CAPO_SLOT_ARMED; /* its host time stands */

                atomic_compare_exchange_strong(&slot_at(i)->state, &armed, CAPO_SLOT_DONE);
        }
}

void capo_gpu_fork(void)
{
        pthread_mutex_init(&lock, NULL);
        memset(events, 0, sizeof events);
        memset(anchors, 0, sizeof anchors);
        detected_for_good = false;
        loads_seen = 0;
        n_slots = 0;
}
