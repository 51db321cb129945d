/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPUs of this process, by the NVML that is in the process already (NCCL and CUDA's programs
 * load it; capo never does). A driver in trouble may not answer: only the thread of
 * machine_thread.c is here, and the drain thread reports it when it stays.
 */
#include <dlfcn.h>

#include "core/base/gpu_clocks.h"
#include "core/log/info.h"
#include "shim/find/loader.h"
#include "shim/find/symbol.h"
#include "shim/machine/machine_gpu.h"
#include "shim/record/start.h"

enum { GPUS = 64, LINKS = 18, LINK_REPLAY = 0, LINK_RECOVERY = 1, LINK_CRC_FLIT = 2, XID = 8 };

/* nvmlFieldValue_t of nvml.h */
struct field_value {
        unsigned field, scope;
        long long timestamp, latency;
        int type, result;
        union {
                double d;
                unsigned u;
                unsigned long long ull;
        } value;
};

/* nvmlEventData_t */
struct event_data {
        void *device;
        unsigned long long type, data;
        unsigned gpu_instance, compute_instance;
};

/* NVML's functions: our name, arguments, NVML's name. */
#define FUNCTIONS(X)                                                                         \
        X(FieldValues, (void *device, int n, struct field_value *values),                    \
          "nvmlDeviceGetFieldValues")                                                        \
        X(PcieWidth, (void *device, unsigned *v), "nvmlDeviceGetCurrPcieLinkWidth")          \
        X(PcieWidthMax, (void *device, unsigned *v), "nvmlDeviceGetMaxPcieLinkWidth")        \
        X(PcieGen, (void *device, unsigned *v), "nvmlDeviceGetCurrPcieLinkGeneration")       \
        X(PcieGenMax, (void *device, unsigned *v), "nvmlDeviceGetMaxPcieLinkGeneration")     \
        X(PcieReplay, (void *device, unsigned *v), "nvmlDeviceGetPcieReplayCounter")         \
        X(LinkState, (void *device, unsigned link, int *active), "nvmlDeviceGetNvLinkState") \
        X(LinkErrors, (void *device, unsigned link, int counter, unsigned long long *n),     \
          "nvmlDeviceGetNvLinkErrorCounter")                                                 \
        X(EccErrors, (void *device, int type, int counter, unsigned long long *n),           \
          "nvmlDeviceGetTotalEccErrors")                                                     \
        X(Remapped,                                                                          \
          (void *device, unsigned *corrected, unsigned *uncorrected, unsigned *pending,      \
           unsigned *failed),                                                                \
          "nvmlDeviceGetRemappedRows")                                                       \
        X(EventSetCreate, (void *set), "nvmlEventSetCreate")                                 \
        X(RegisterEvents, (void *device, unsigned long long types, void *set),               \
          "nvmlDeviceRegisterEvents")                                                        \
        X(EventSetWait, (void *set, struct event_data *data, unsigned timeout_ms),           \
          "nvmlEventSetWait_v2")

static char busids[GPUS][32];
static _Atomic uint64_t watched; /* devices whose busids[] is set */
static struct {
        struct capo_nvml_clocks clocks;
#define MEMBER(name, arguments, nvml) int(*name) arguments;
        FUNCTIONS(MEMBER)
        void *events; /* NULL: not asked for, or not to be had */
        bool found, no_events;
        uint64_t evented; /* devices registered */
        uint32_t xids[GPUS], xid[GPUS];
        struct capo_gpu_clocks sum[GPUS];
        uint32_t logged[GPUS]; /* samples of which INFO knows */
        /* of the device that is read now */
        const struct machine_object *of;
        void *device;
        struct capo_clock_sample sample;
        bool sampled;
} own;

void capo_machine_gpu_watch(int device, const char *busid)
{
        snprintf(busids[device], sizeof busids[device], "%s", busid);
        atomic_fetch_or_explicit(&watched, UINT64_C(1) << device, memory_order_release);
}

const char *capo_machine_gpu_busid(int device)
{
        return device < GPUS && atomic_load_explicit(&watched, memory_order_acquire) >> device & 1
                       ? busids[device]
                       : NULL;
}

static void find_functions(void *library)
{
#define FIND(name, arguments, nvml) *(void **)&own.name = capo_real_dlsym(library, nvml);
        FUNCTIONS(FIND)
        own.no_events = !own.EventSetCreate || !own.RegisterEvents || !own.EventSetWait;
}

static bool find_nvml(void)
{
        void *library;

        if (own.found)
                return true;
        capo_loader_enter();
        library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_NOLOAD);
        if (library && capo_nvml_clocks_find(&own.clocks, library, capo_real_dlsym)) {
                find_functions(library);
                own.found = true; /* and stays open */
        } else if (library) {
                dlclose(library);
        }
        capo_loader_leave();
        return own.found;
}

bool capo_machine_gpus_begin(void)
{
        own.of = NULL;
        return find_nvml() && own.clocks.Init_v2() == 0;
}

/* A set of events lives as long as NVML stays initialized: one start of it is kept for that. */
static void register_events(int device)
{
        if (own.no_events || own.evented >> device & 1)
                return;
        own.evented |= UINT64_C(1) << device;
        if (!own.events && (own.clocks.Init_v2() || own.EventSetCreate(&own.events)))
                own.events = NULL;
        if (!own.events || own.RegisterEvents(own.device, XID, own.events))
                own.no_events = !own.events;
}

static void take_events(void)
{
        struct event_data event;

        while (own.events && own.EventSetWait(own.events, &event, 0) == 0) {
                for (int i = 0; i < GPUS; i++) {
                        void *device;

                        if (!(own.evented >> i & 1) ||
                            own.clocks.DeviceGetHandleByPciBusId_v2(busids[i], &device) ||
                            device != event.device)
                                continue;
                        own.xids[i]++;
                        own.xid[i] = (uint32_t)event.data;
                }
        }
}

static bool begin_device(const struct machine_object *o)
{
        own.of = o;
        own.device = NULL;
        if (own.clocks.DeviceGetHandleByPciBusId_v2(busids[o->device], &own.device)) {
                own.device = NULL;
                return false;
        }
        own.sampled = capo_clock_sample(&own.clocks, busids[o->device], &own.sample) == 0;
        if (own.sampled)
                capo_gpu_clocks_add(&own.sum[o->device], &own.sample);
        register_events(o->device);
        take_events();
        return true;
}

static bool read_field(const char *key, uint64_t *value)
{
        struct field_value v = {.field = (unsigned)strtoul(key, NULL, 10)};

        if (!own.FieldValues || own.FieldValues(own.device, 1, &v) || v.result)
                return false;
        *value = v.value.ull / 1000; /* ns */
        return true;
}

static bool read_unsigned(int (*get)(void *, unsigned *), uint64_t *value)
{
        unsigned v = 0;

        if (!get || get(own.device, &v))
                return false;
        *value = v;
        return true;
}

/* Sums over the links that are up; @counter below 0: how many these are. */
static bool read_links(int counter, uint64_t *value)
{
        bool any = false;

        *value = 0;
        for (unsigned link = 0; own.LinkState && link < LINKS; link++) {
                unsigned long long n = 0;
                int active = 0;

                if (own.LinkState(own.device, link, &active))
                        continue;
                any |= counter < 0 || active;
                if (active && counter >= 0 &&
                    (!own.LinkErrors || own.LinkErrors(own.device, link, counter, &n)))
                        return false;
                *value += counter < 0 ? active != 0 : n;
        }
        return any;
}

bool capo_machine_gpu(struct machine_object *o, unsigned reading, uint64_t *value)
{
        const struct capo_machine_reading *r = &capo_machine_readings[reading];
        unsigned corrected, uncorrected, pending = 0, failed;
        unsigned long long ecc = 0;

        if (own.of != o && !begin_device(o))
                return false;
        if (!own.device)
                return false;
        if (*r->key)
                return read_field(r->key, value);
        switch (reading) {
        case CAPO_M_GPU_SM: *value = own.sample.sm_mhz; return own.sampled;
        case CAPO_M_GPU_SM_MAX: *value = own.sample.max_mhz; return own.sampled && *value;
        case CAPO_M_GPU_CELSIUS: *value = own.sample.celsius; return own.sampled && *value;
        case CAPO_M_GPU_REASONS: *value = own.sample.reasons; return own.sampled;
        case CAPO_M_GPU_PCIE_WIDTH: return read_unsigned(own.PcieWidth, value);
        case CAPO_M_GPU_PCIE_WIDTH_MAX: return read_unsigned(own.PcieWidthMax, value);
        case CAPO_M_GPU_PCIE_GEN: return read_unsigned(own.PcieGen, value);
        case CAPO_M_GPU_PCIE_GEN_MAX: return read_unsigned(own.PcieGenMax, value);
        case CAPO_M_GPU_PCIE_REPLAY: return read_unsigned(own.PcieReplay, value);
        case CAPO_M_GPU_NVLINKS: return read_links(-1, value);
        case CAPO_M_GPU_NVLINK_CRC: return read_links(LINK_CRC_FLIT, value);
        case CAPO_M_GPU_NVLINK_REPLAY: return read_links(LINK_REPLAY, value);
        case CAPO_M_GPU_NVLINK_RECOVERY: return read_links(LINK_RECOVERY, value);
        case CAPO_M_GPU_ECC: /* NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_AGGREGATE_ECC */
                if (!own.EccErrors || own.EccErrors(own.device, 1, 1, &ecc))
                        return false;
                *value = ecc;
                return true;
        case CAPO_M_GPU_REMAP:
                if (!own.Remapped ||
                    own.Remapped(own.device, &corrected, &uncorrected, &pending, &failed))
                        return false;
                *value = pending;
                return true;
        case CAPO_M_GPU_XID: *value = own.xid[o->device]; return own.events && own.xids[o->device];
        case CAPO_M_GPU_XIDS: *value = own.xids[o->device]; return own.events != NULL;
        default: return false;
        }
}

static void report_clocks(void)
{
        for (int i = 0; i < GPUS; i++) {
                char key[32], text[256];

                if (own.sum[i].samples == own.logged[i])
                        continue;
                own.logged[i] = own.sum[i].samples;
                snprintf(key, sizeof key, "%s.%d", CAPO_INFO_GPU_CLOCKS, i);
                capo_shim_info(key, "%s", capo_gpu_clocks_print(&own.sum[i], text, sizeof text));
        }
}

void capo_machine_gpus_end(bool report)
{
        own.clocks.Shutdown(); /* it counts: NCCL's own start of it stays */
        if (report)
                report_clocks();
}

void capo_machine_gpus_fork(void)
{
        atomic_store(&watched, 0);
        memset(&own, 0, sizeof own);
}
