/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libnvidia-ml.so.1 of a machine that is written down in CAPO_TEST_NVML, a line per device in
 * NVML's order: gpu BUSID UUID           gpu BUSID UUID mig        slice UUID GI CI   (of the GPU
 * above) link BUSID               one NVLink of the GPU above, to that device. All GPUs are V100.
 *   clocks MHZ MAX CELSIUS REASONS   of the GPU above; REASONS in hexadecimal, as nvml.h has them.
 *                                    Without such a line that is
 *                            not supported. Of a machine without CAPO_TEST_NVML nothing is.
 *   pcie WIDTH MAX GEN MAXGEN REPLAYS   of the GPU above
 *   throttled FIELD NS       field value FIELD of the GPU above (74 power cap, 251 software thermal,
 *                            252 hardware thermal, 253 power brake): ns held back so far
 *   nvlink CRC REPLAYS RECOVERIES       counters of link 0 of the GPU above; it needs a line link
 *   ecc UNCORRECTED PENDING  memory errors, rows that wait to be remapped
 *   xid N                    an Xid error happened, told once
 *   hang                     the driver never answers.     hang MS: it takes so long
 * The file is read again at each nvmlInit_v2(): counters grow by writing a new one in its place.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/util.h"

enum { INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, DRIVER_NOT_LOADED = 9 };

struct made {
        char busid[32], uuid[96];
        int mig, gpu; /* gpu: of a slice, index of its GPU; -1 a GPU */
        unsigned gi, ci;
        char links[18][32];
        int n_links;
        bool has_clocks;
        unsigned mhz, max_mhz, celsius;
        unsigned long long reasons;
        unsigned pcie[5];
        bool has_pcie, has_link_errors, has_ecc;
        unsigned long long field[512], link_errors[3], ecc;
        bool has_field[512];
        unsigned pending, xid;
};

struct pci_info { /* nvmlPciInfo_t */
        char legacy[16];
        unsigned domain, bus, device, device_id, subsystem_id;
        char busid[32];
};

static struct made devices[64];
static int n_devices;

#define NVML CAPO_EXPORT int

NVML nvmlInit_v2(void);
NVML nvmlShutdown(void);
CAPO_EXPORT const char *nvmlErrorString(int e);
NVML nvmlDeviceGetCount_v2(unsigned *n);
NVML nvmlDeviceGetHandleByIndex_v2(unsigned i, struct made **dev);
NVML nvmlDeviceGetUUID(const struct made *dev, char *text, unsigned room);
NVML nvmlDeviceGetPciInfo_v3(const struct made *dev, struct pci_info *pci);
NVML nvmlDeviceGetMigMode(const struct made *dev, unsigned *now, unsigned *pending);
NVML nvmlDeviceGetMaxMigDeviceCount(const struct made *dev, unsigned *n);
NVML nvmlDeviceGetMigDeviceHandleByIndex(const struct made *dev, unsigned i, struct made **out);
NVML nvmlDeviceGetGpuInstanceId(const struct made *dev, unsigned *id);
NVML nvmlDeviceGetComputeInstanceId(const struct made *dev, unsigned *id);

NVML nvmlDeviceGetHandleByPciBusId_v2(const char *busid, struct made **dev);
NVML nvmlDeviceGetClockInfo(const struct made *dev, int clock, unsigned *mhz);
NVML nvmlDeviceGetMaxClockInfo(const struct made *dev, int clock, unsigned *mhz);
NVML nvmlDeviceGetTemperature(const struct made *dev, int sensor, unsigned *celsius);
NVML nvmlDeviceGetCurrentClocksThrottleReasons(const struct made *dev, unsigned long long *reasons);

NVML nvmlDeviceGetCudaComputeCapability(const struct made *dev, int *major, int *minor);
NVML nvmlDeviceGetNvLinkState(const struct made *dev, unsigned link, int *active);
NVML nvmlDeviceGetNvLinkRemotePciInfo_v2(const struct made *dev, unsigned link,
                                         struct pci_info *pci);

struct field_value { /* nvmlFieldValue_t */
        unsigned field, scope;
        long long timestamp, latency;
        int type, result;
        unsigned long long value;
};
struct event { /* nvmlEventData_t */
        const struct made *device;
        unsigned long long type, data;
        unsigned gi, ci;
};
NVML nvmlDeviceGetFieldValues(const struct made *dev, int n, struct field_value *v);
NVML nvmlDeviceGetCurrPcieLinkWidth(const struct made *dev, unsigned *v);
NVML nvmlDeviceGetMaxPcieLinkWidth(const struct made *dev, unsigned *v);
NVML nvmlDeviceGetCurrPcieLinkGeneration(const struct made *dev, unsigned *v);
NVML nvmlDeviceGetMaxPcieLinkGeneration(const struct made *dev, unsigned *v);
NVML nvmlDeviceGetPcieReplayCounter(const struct made *dev, unsigned *v);
NVML nvmlDeviceGetNvLinkErrorCounter(const struct made *dev, unsigned link, int counter,
                                     unsigned long long *v);
NVML nvmlDeviceGetTotalEccErrors(const struct made *dev, int type, int counter,
                                 unsigned long long *v);
NVML nvmlDeviceGetRemappedRows(const struct made *dev, unsigned *correctable,
                               unsigned *uncorrectable, unsigned *pending, unsigned *failed);
NVML nvmlEventSetCreate(void **set);
NVML nvmlDeviceRegisterEvents(const struct made *dev, unsigned long long types, void *set);
NVML nvmlEventSetWait_v2(void *set, struct event *event, unsigned timeout_ms);

static void read_errors(const char *line, struct made *d)
{
        unsigned long long ns;
        unsigned field;

        d->has_pcie |= sscanf(line, "pcie %u %u %u %u %u", &d->pcie[0], &d->pcie[1], &d->pcie[2],
                              &d->pcie[3], &d->pcie[4]) == 5;
        d->has_link_errors |= sscanf(line, "nvlink %llu %llu %llu", &d->link_errors[2],
                                     &d->link_errors[0], &d->link_errors[1]) == 3;
        d->has_ecc |= sscanf(line, "ecc %llu %u", &d->ecc, &d->pending) == 2;
        sscanf(line, "xid %u", &d->xid);
        if (sscanf(line, "throttled %u %llu", &field, &ns) == 2 && field < 512) {
                d->field[field] = ns;
                d->has_field[field] = true;
        }
}

NVML nvmlInit_v2(void)
{
        const char *path = getenv("CAPO_TEST_NVML");
        _cleanup_fclose_ FILE *f = path ? fopen(path, "re") : NULL;
        char line[256], flag[8];
        unsigned ms;
        int gpu = -1;

        n_devices = 0;
        if (!f)
                return DRIVER_NOT_LOADED;
        while (fgets(line, sizeof line, f) && n_devices < 64) {
                struct made *d = &devices[n_devices];

                *d = (struct made){.gpu = -1};
                *flag = 0;
                if (!strcmp(line, "hang\n"))
                        pause();
                if (sscanf(line, "hang %u", &ms) == 1)
                        usleep(ms * 1000);
                if (sscanf(line, "gpu %31s %95s %7s", d->busid, d->uuid, flag) >= 2) {
                        d->mig = !strcmp(flag, "mig");
                        gpu = n_devices++;
                } else if (gpu >= 0 && devices[gpu].n_links < 18 &&
                           sscanf(line, "link %31s", devices[gpu].links[devices[gpu].n_links]) ==
                                   1) {
                        devices[gpu].n_links++;
                } else if (gpu >= 0 && sscanf(line, "clocks %u %u %u %llx", &devices[gpu].mhz,
                                              &devices[gpu].max_mhz, &devices[gpu].celsius,
                                              &devices[gpu].reasons) == 4) {
                        devices[gpu].has_clocks = true;
                } else if (gpu >= 0 && strncmp(line, "slice", 5)) {
                        read_errors(line, &devices[gpu]);
                } else if (sscanf(line, "slice %95s %u %u", d->uuid, &d->gi, &d->ci) == 3 &&
                           gpu >= 0) {
                        d->gpu = gpu;
                        n_devices++;
                }
        }
        return 0;
}

NVML nvmlShutdown(void) { return 0; }

const char *nvmlErrorString(int e)
{
        return e == DRIVER_NOT_LOADED ? "Driver Not Loaded" : "an error";
}

NVML nvmlDeviceGetCount_v2(unsigned *n)
{
        *n = 0;
        for (int i = 0; i < n_devices; i++)
                *n += devices[i].gpu < 0;
        return 0;
}

NVML nvmlDeviceGetHandleByIndex_v2(unsigned i, struct made **dev)
{
        for (int k = 0; k < n_devices; k++) {
                if (devices[k].gpu < 0 && !i--) {
                        *dev = &devices[k];
                        return 0;
                }
        }
        return INVALID_ARGUMENT;
}

NVML nvmlDeviceGetUUID(const struct made *dev, char *text, unsigned room)
{
        snprintf(text, room, "%s", dev->uuid);
        return 0;
}

static int pci_info(const char *busid, struct pci_info *pci)
{
        memset(pci, 0, sizeof *pci);
        snprintf(pci->busid, sizeof pci->busid, "%.*s", (int)sizeof pci->busid - 1, busid);
        return sscanf(busid, "%x:%x:%x", &pci->domain, &pci->bus, &pci->device) == 3
                       ? 0
                       : INVALID_ARGUMENT;
}

NVML nvmlDeviceGetPciInfo_v3(const struct made *dev, struct pci_info *pci)
{
        return dev->gpu >= 0 ? INVALID_ARGUMENT : pci_info(dev->busid, pci);
}

NVML nvmlDeviceGetCudaComputeCapability(const struct made *dev, int *major, int *minor)
{
        *major = 7;
        *minor = 0;
        return dev->gpu >= 0 ? INVALID_ARGUMENT : 0;
}

/* With a gap: link 1 is never up. */
NVML nvmlDeviceGetNvLinkState(const struct made *dev, unsigned link, int *active)
{
        *active = link != 1 && (int)(link - (link > 1)) < dev->n_links;
        return 0;
}

NVML nvmlDeviceGetNvLinkRemotePciInfo_v2(const struct made *dev, unsigned link,
                                         struct pci_info *pci)
{
        return pci_info(dev->links[link - (link > 1)], pci);
}

NVML nvmlDeviceGetMigMode(const struct made *dev, unsigned *now, unsigned *pending)
{
        *now = *pending = (unsigned)dev->mig;
        return 0;
}

NVML nvmlDeviceGetMaxMigDeviceCount(const struct made *dev, unsigned *n)
{
        *n = 7;
        return 0;
}

/* With a gap: number 0 is never there. */
NVML nvmlDeviceGetMigDeviceHandleByIndex(const struct made *dev, unsigned i, struct made **out)
{
        for (int k = 0; k < n_devices && i; k++) {
                if (devices[k].gpu == dev - devices && !--i) {
                        *out = &devices[k];
                        return 0;
                }
        }
        return NOT_FOUND;
}

NVML nvmlDeviceGetGpuInstanceId(const struct made *dev, unsigned *id)
{
        *id = dev->gi;
        return dev->gpu < 0 ? NOT_SUPPORTED : 0;
}

NVML nvmlDeviceGetComputeInstanceId(const struct made *dev, unsigned *id)
{
        *id = dev->ci;
        return dev->gpu < 0 ? NOT_SUPPORTED : 0;
}

/* "0000:1B:00.0" and "00000000:1b:00.0" are one device. */
static bool same_bus(const char *a, const char *b)
{
        struct pci_info x, y;

        return !pci_info(a, &x) && !pci_info(b, &y) && x.domain == y.domain && x.bus == y.bus &&
               x.device == y.device;
}

NVML nvmlDeviceGetHandleByPciBusId_v2(const char *busid, struct made **dev)
{
        for (int k = 0; k < n_devices; k++) {
                if (devices[k].gpu < 0 && same_bus(devices[k].busid, busid)) {
                        *dev = &devices[k];
                        return 0;
                }
        }
        return NOT_FOUND;
}

static int tell(const struct made *dev, bool known, unsigned value, unsigned *to)
{
        if (!known)
                return INVALID_ARGUMENT;
        *to = value;
        return dev->has_clocks ? 0 : NOT_SUPPORTED;
}

NVML nvmlDeviceGetClockInfo(const struct made *dev, int clock, unsigned *mhz)
{
        return tell(dev, clock == 1, dev->mhz, mhz);
}

NVML nvmlDeviceGetMaxClockInfo(const struct made *dev, int clock, unsigned *mhz)
{
        return tell(dev, clock == 1, dev->max_mhz, mhz);
}

NVML nvmlDeviceGetTemperature(const struct made *dev, int sensor, unsigned *celsius)
{
        return tell(dev, sensor == 0, dev->celsius, celsius);
}

/* The name of before CUDA 12.2, which every driver has. */
NVML nvmlDeviceGetCurrentClocksThrottleReasons(const struct made *dev, unsigned long long *reasons)
{
        *reasons = dev->reasons;
        return dev->has_clocks ? 0 : NOT_SUPPORTED;
}

static int tell_pcie(const struct made *dev, int which, unsigned *to)
{
        *to = dev->pcie[which];
        return dev->has_pcie ? 0 : NOT_SUPPORTED;
}

NVML nvmlDeviceGetCurrPcieLinkWidth(const struct made *dev, unsigned *v)
{
        return tell_pcie(dev, 0, v);
}

NVML nvmlDeviceGetMaxPcieLinkWidth(const struct made *dev, unsigned *v)
{
        return tell_pcie(dev, 1, v);
}

NVML nvmlDeviceGetCurrPcieLinkGeneration(const struct made *dev, unsigned *v)
{
        return tell_pcie(dev, 2, v);
}

NVML nvmlDeviceGetMaxPcieLinkGeneration(const struct made *dev, unsigned *v)
{
        return tell_pcie(dev, 3, v);
}

NVML nvmlDeviceGetPcieReplayCounter(const struct made *dev, unsigned *v)
{
        return tell_pcie(dev, 4, v);
}

NVML nvmlDeviceGetFieldValues(const struct made *dev, int n, struct field_value *v)
{
        for (int i = 0; i < n; i++) {
                bool known = v[i].field < 512 && dev->has_field[v[i].field];

                v[i].result = known ? 0 : NOT_SUPPORTED;
                v[i].value = known ? dev->field[v[i].field] : 0;
        }
        return 0;
}

NVML nvmlDeviceGetNvLinkErrorCounter(const struct made *dev, unsigned link, int counter,
                                     unsigned long long *v)
{
        if (!dev->has_link_errors || counter < 0 || counter > 2)
                return NOT_SUPPORTED;
        *v = link ? 0 : dev->link_errors[counter];
        return 0;
}

NVML nvmlDeviceGetTotalEccErrors(const struct made *dev, int type, int counter,
                                 unsigned long long *v)
{
        *v = type == 1 ? dev->ecc : 0;
        return dev->has_ecc ? 0 : NOT_SUPPORTED;
}

NVML nvmlDeviceGetRemappedRows(const struct made *dev, unsigned *correctable,
                               unsigned *uncorrectable, unsigned *pending, unsigned *failed)
{
        *correctable = *uncorrectable = *failed = 0;
        *pending = dev->pending;
        return dev->has_ecc ? 0 : NOT_SUPPORTED;
}

NVML nvmlEventSetCreate(void **set)
{
        *set = &n_devices;
        return 0;
}

NVML nvmlDeviceRegisterEvents(const struct made *dev, unsigned long long types, void *set)
{
        return types & 8 ? 0 : NOT_SUPPORTED;
}

NVML nvmlEventSetWait_v2(void *set, struct event *event, unsigned timeout_ms)
{
        static unsigned told[64];

        for (int k = 0; k < n_devices; k++) {
                if (devices[k].xid == told[k])
                        continue;
                told[k] = devices[k].xid;
                *event = (struct event){.device = &devices[k], .type = 8, .data = devices[k].xid};
                return 0;
        }
        return 10; /* NVML_ERROR_TIMEOUT */
}
