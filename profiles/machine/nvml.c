/* SPDX-License-Identifier: Apache-2.0 */
/* The few NVML functions that are needed, with names and types of nvml.h (CUDA 11 and later; the
 * MIG functions since driver 450). A driver without one group of them has no MIG, or reports no
 * NVLinks. */
#include <dlfcn.h>

#include "capo/msg.h"
#include "core/base/xalloc.h"
#include "profiles/machine/apart.h"
#include "profiles/machine/nvml.h"

#define LIBRARY "libnvidia-ml.so.1"

typedef void *device;

/* nvmlPciInfo_t */
struct pci_info {
        char legacy[16];
        unsigned domain, bus, device, device_id, subsystem_id;
        char busid[32];
};

enum group { NEEDED, LINKS, MIG, GROUPS };

#define FUNCTIONS(F)                                                                      \
        F(Init_v2, NEEDED, int, (void))                                                   \
        F(Shutdown, NEEDED, int, (void))                                                  \
        F(ErrorString, NEEDED, const char *, (int result))                                \
        F(DeviceGetCount_v2, NEEDED, int, (unsigned *n))                                  \
        F(DeviceGetHandleByIndex_v2, NEEDED, int, (unsigned i, device *out))              \
        F(DeviceGetUUID, NEEDED, int, (device d, char *text, unsigned room))              \
        F(DeviceGetPciInfo_v3, NEEDED, int, (device d, struct pci_info * out))            \
        F(DeviceGetCudaComputeCapability, LINKS, int, (device d, int *major, int *minor)) \
        F(DeviceGetNvLinkState, LINKS, int, (device d, unsigned link, int *active))       \
        F(DeviceGetNvLinkRemotePciInfo_v2, LINKS, int,                                    \
          (device d, unsigned link, struct pci_info *out))                                \
        F(DeviceGetMigMode, MIG, int, (device d, unsigned *now, unsigned *pending))       \
        F(DeviceGetMaxMigDeviceCount, MIG, int, (device d, unsigned *n))                  \
        F(DeviceGetMigDeviceHandleByIndex, MIG, int, (device d, unsigned i, device *out)) \
        F(DeviceGetGpuInstanceId, MIG, int, (device d, unsigned *id))                     \
        F(DeviceGetComputeInstanceId, MIG, int, (device d, unsigned *id))

static struct {
#define FUNCTION(name, group, type, parameters) type(*name) parameters;
        FUNCTIONS(FUNCTION)
#undef FUNCTION
} nv;

static const struct {
        void *where;
        const char *name;
        enum group group;
} functions[] = {
#define FUNCTION(name, group, type, parameters) {&nv.name, "nvml" #name, group},
        FUNCTIONS(FUNCTION)
#undef FUNCTION
};

static int report_nvml_error(int result, const char *what, char *why, size_t room)
{
        return capo_why(-EIO, why, room, "NVML: %s: %s", what, nv.ErrorString(result));
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
                if (nv.DeviceGetMigDeviceHandleByIndex(d, i, &slice)) /* indices can have gaps */
                        continue;
                if (!nv.DeviceGetUUID(slice, s->uuid, sizeof s->uuid) &&
                    !nv.DeviceGetGpuInstanceId(slice, &s->gi) &&
                    !nv.DeviceGetComputeInstanceId(slice, &s->ci))
                        out->n_slices++;
        }
}

static void busid_text(const struct pci_info *pci, char out[CAPO_BUSID_ROOM])
{
        const char *dot = strrchr(pci->busid, '.');

        snprintf(out, CAPO_BUSID_ROOM, "%04x:%02x:%02x.%lx", pci->domain, pci->bus & 0xff,
                 pci->device & 0xff, dot ? strtoul(dot + 1, NULL, 16) & 0xf : 0);
}

static void read_links(device d, struct capo_nvml_gpu *gpu)
{
        int major = 0, minor = 0;

        if (nv.DeviceGetCudaComputeCapability(d, &major, &minor) == 0)
                gpu->sm = major * 10 + minor;
        for (unsigned l = 0; l < CAPO_NVML_LINKS; l++) {
                struct pci_info remote = {0};
                char target[CAPO_BUSID_ROOM];
                int active = 0, i = 0;

                if (nv.DeviceGetNvLinkState(d, l, &active) || !active ||
                    nv.DeviceGetNvLinkRemotePciInfo_v2(d, l, &remote))
                        continue;
                busid_text(&remote, target);
                while (i < gpu->n_links && strcmp(gpu->links[i].target, target) != 0)
                        i++;
                if (i == gpu->n_links)
                        memcpy(gpu->links[gpu->n_links++].target, target, sizeof target);
                gpu->links[i].count++;
        }
}

static int read_all(struct capo_nvml *out, const bool *there, char *why, size_t room)
{
        unsigned n = 0;
        int r = nv.DeviceGetCount_v2(&n);

        if (r)
                return report_nvml_error(r, "number of GPUs", why, room);
        for (unsigned i = 0; i < n && out->n_gpus < CAPO_NVML_GPUS; i++) {
                struct capo_nvml_gpu *g = &out->gpus[out->n_gpus];
                struct pci_info pci = {0};
                device d;

                if (nv.DeviceGetHandleByIndex_v2(i, &d)) /* no permission, or lost from the bus:
                                                            CUDA does not see it either */
                        continue;
                r = nv.DeviceGetPciInfo_v3(d, &pci);
                if (!r)
                        r = nv.DeviceGetUUID(d, g->uuid, sizeof g->uuid);
                if (r)
                        return report_nvml_error(r, "bus id and UUID of a GPU", why, room);
                busid_text(&pci, g->busid);
                g->dev = (int)i;
                out->n_gpus++;
                if (there[LINKS])
                        read_links(d, g);
                if (there[MIG])
                        read_slices(d, out->n_gpus - 1, out);
        }
        return 0;
}

/* In the child process: what it opens ends with it. */
static int read_driver(struct capo_nvml *out, char *why, size_t room)
{
        void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
        bool there[GROUPS] = {true, true, true};
        int r;

        if (!library)
                return capo_why(-ENOENT, why, room, "there is no libnvidia-ml.so.1 here");
        for (size_t i = 0; i < N_ELEMENTS(functions); i++) {
                *(void **)functions[i].where = dlsym(library, functions[i].name);
                if (!*(void **)functions[i].where && functions[i].group == NEEDED)
                        return capo_why(-ENOENT, why, room, "libnvidia-ml.so.1 has no %s",
                                        functions[i].name);
                there[functions[i].group] &= *(void **)functions[i].where != NULL;
        }
        r = nv.Init_v2();
        if (r)
                return report_nvml_error(r, "start", why, room);
        r = read_all(out, there, why, room);
        nv.Shutdown();
        return r;
}

static double limit_s = 30; /* without nvidia-persistenced, a first start takes seconds per GPU */

void capo_nvml_limit(double seconds)
{
        if (seconds < limit_s)
                limit_s = seconds;
}

struct answer {
        struct capo_nvml all;
        char why[256];
};

static int ask_driver(const void *arg, void *answer)
{
        struct answer *a = answer;

        return -read_driver(&a->all, a->why, sizeof a->why);
}

int capo_nvml_read(struct capo_nvml *out, char *why, size_t room)
{
        static bool hangs; /* do not ask again */
        _cleanup_free_ struct answer *a = xcalloc(1, sizeof *a);
        int r = hangs ? -ETIMEDOUT : capo_apart(ask_driver, NULL, a, sizeof *a, limit_s);

        *out = a->all;
        if (r == -ETIMEDOUT) {
                capo_why(r, why, room,
                         hangs ? "NVML does not answer" : "NVML does not answer within %.3g s",
                         limit_s);
                hangs = true;
                return r;
        }
        return r ? capo_why(r < 0 ? r : -r, why, room, "%s",
                            r == -EAGAIN ? "no process can be started"
                            : r < 0      ? "NVML ended the process that asked it"
                                         : a->why)
                 : 0;
}

int capo_nvml_clocks(const char *busid, struct capo_clock_sample *out)
{
        static struct capo_nvml_clocks nvml;
        static void *library;
        static bool tried, open;

        if (!tried) {
                tried = true;
                library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
                open = library && capo_nvml_clocks_find(&nvml, library, dlsym) &&
                       nvml.Init_v2() == 0;
        }
        return open ? capo_clock_sample(&nvml, busid, out) : -ENOENT;
}
