/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The few functions of NVML that are needed, by their names and types in nvml.h (CUDA 11 and later; the MIG functions
 * since driver 450). One that is missing means a driver that knows no MIG.
 */
#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/base/util.h"
#include "profiles/machine/nvml.h"

typedef void *device;

/* nvmlPciInfo_t */
struct pci_info {
        char legacy[16];
        unsigned domain, bus, device, device_id, subsystem_id;
        char busid[32];
};

static struct {
        int (*Init_v2)(void);
        int (*Shutdown)(void);
        const char *(*ErrorString)(int result);
        int (*DeviceGetCount_v2)(unsigned *n);
        int (*DeviceGetHandleByIndex_v2)(unsigned i, device *out);
        int (*DeviceGetUUID)(device d, char *text, unsigned room);
        int (*DeviceGetPciInfo_v3)(device d, struct pci_info *out);
        int (*DeviceGetMigMode)(device d, unsigned *now, unsigned *pending);
        int (*DeviceGetMaxMigDeviceCount)(device d, unsigned *n);
        int (*DeviceGetMigDeviceHandleByIndex)(device d, unsigned i, device *out);
        int (*DeviceGetGpuInstanceId)(device d, unsigned *id);
        int (*DeviceGetComputeInstanceId)(device d, unsigned *id);
} nv;
static const struct {
        void *where;
        const char *name;
        bool mig;
} functions[] = {
#define FUNCTION(name, mig)                 \
        {                                   \
                &nv.name, "nvml" #name, mig \
        }
        FUNCTION(Init_v2, false),
        FUNCTION(Shutdown, false),
        FUNCTION(ErrorString, false),
        FUNCTION(DeviceGetCount_v2, false),
        FUNCTION(DeviceGetHandleByIndex_v2, false),
        FUNCTION(DeviceGetUUID, false),
        FUNCTION(DeviceGetPciInfo_v3, false),
        FUNCTION(DeviceGetMigMode, true),
        FUNCTION(DeviceGetMaxMigDeviceCount, true),
        FUNCTION(DeviceGetMigDeviceHandleByIndex, true),
        FUNCTION(DeviceGetGpuInstanceId, true),
        FUNCTION(DeviceGetComputeInstanceId, true),
#undef FUNCTION
};

static int failed(int result, const char *what, char *why, size_t room)
{
        snprintf(why, room, "NVML: %s: %s", what, nv.ErrorString(result));
        return -EIO;
}

static void read_slices(device d, int gpu, struct capo_nvml *out)
{
        unsigned now = 0, pending, n = 0;

        if (nv.DeviceGetMigMode(d, &now, &pending) || !now)
                return;
        out->gpus[gpu].mig = true;
        if (nv.DeviceGetMaxMigDeviceCount(d, &n))
                return;
        for (unsigned i = 0; i < n && out->n_slices < CAPO_NVML_SLICES; i++) {
                struct capo_nvml_slice *s = &out->slices[out->n_slices];
                device slice;

                *s = (struct capo_nvml_slice){.gpu = gpu};
                if (nv.DeviceGetMigDeviceHandleByIndex(d, i, &slice)) /* numbers may have gaps */
                        continue;
                if (!nv.DeviceGetUUID(slice, s->uuid, sizeof s->uuid) && !nv.DeviceGetGpuInstanceId(slice, &s->gi) &&
                    !nv.DeviceGetComputeInstanceId(slice, &s->ci))
                        out->n_slices++;
        }
}

static int read_all(struct capo_nvml *out, bool mig, char *why, size_t room)
{
        unsigned n = 0;
        int r = nv.DeviceGetCount_v2(&n);

        if (r)
                return failed(r, "number of GPUs", why, room);
        for (unsigned i = 0; i < n && out->n_gpus < CAPO_NVML_GPUS; i++) {
                struct capo_nvml_gpu *g = &out->gpus[out->n_gpus];
                struct pci_info pci = {0};
                device d;

                if (nv.DeviceGetHandleByIndex_v2(i, &d)) /* no permission, or lost from the bus: CUDA has it no more */
                        continue;
                r = nv.DeviceGetPciInfo_v3(d, &pci);
                if (!r)
                        r = nv.DeviceGetUUID(d, g->uuid, sizeof g->uuid);
                if (r)
                        return failed(r, "bus id and UUID of a GPU", why, room);
                snprintf(g->busid, sizeof g->busid, "%04x:%02x:%02x.0", pci.domain, pci.bus, pci.device);
                out->n_gpus++;
                if (mig)
                        read_slices(d, out->n_gpus - 1, out);
        }
        return 0;
}

int capo_nvml_read(struct capo_nvml *out, char *why, size_t room)
{
        void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
        bool mig = true;
        int r;

        memset(out, 0, sizeof *out);
        if (!library) {
                snprintf(why, room, "there is no libnvidia-ml.so.1 here");
                return -ENOENT;
        }
        for (size_t i = 0; i < N_ELEMENTS(functions); i++) {
                *(void **)functions[i].where = dlsym(library, functions[i].name);
                if (!*(void **)functions[i].where && !functions[i].mig) {
                        snprintf(why, room, "libnvidia-ml.so.1 has no %s", functions[i].name);
                        dlclose(library);
                        return -ENOENT;
                }
                mig &= *(void **)functions[i].where != NULL;
        }
        r = nv.Init_v2();
        if (r) {
                r = failed(r, "start", why, room);
        } else {
                r = read_all(out, mig, why, room);
                nv.Shutdown();
        }
        dlclose(library);
        return r;
}
