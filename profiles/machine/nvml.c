/* SPDX-License-Identifier: Apache-2.0 */
/* The few NVML functions that are needed, with names and types of nvml.h (CUDA 11 and later; the
 * MIG functions since driver 450). A driver without one group of them has no MIG, or reports no
 * NVLinks. */
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "capo/msg.h"
#include "core/base/clock.h"
#include "profiles/machine/nvml.h"

#define LIBRARY "libnvidia-ml.so.1"

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
        int (*DeviceGetCudaComputeCapability)(device d, int *major, int *minor);
        int (*DeviceGetNvLinkState)(device d, unsigned link, int *active);
        int (*DeviceGetNvLinkRemotePciInfo_v2)(device d, unsigned link, struct pci_info *out);
        int (*DeviceGetMigMode)(device d, unsigned *now, unsigned *pending);
        int (*DeviceGetMaxMigDeviceCount)(device d, unsigned *n);
        int (*DeviceGetMigDeviceHandleByIndex)(device d, unsigned i, device *out);
        int (*DeviceGetGpuInstanceId)(device d, unsigned *id);
        int (*DeviceGetComputeInstanceId)(device d, unsigned *id);
} nv;
enum group { NEEDED, LINKS, MIG, GROUPS };

static const struct {
        void *where;
        const char *name;
        enum group group;
} functions[] = {
#define FUNCTION(name, group)                 \
        {                                     \
                &nv.name, "nvml" #name, group \
        }
        FUNCTION(Init_v2, NEEDED),
        FUNCTION(Shutdown, NEEDED),
        FUNCTION(ErrorString, NEEDED),
        FUNCTION(DeviceGetCount_v2, NEEDED),
        FUNCTION(DeviceGetHandleByIndex_v2, NEEDED),
        FUNCTION(DeviceGetUUID, NEEDED),
        FUNCTION(DeviceGetPciInfo_v3, NEEDED),
        FUNCTION(DeviceGetCudaComputeCapability, LINKS),
        FUNCTION(DeviceGetNvLinkState, LINKS),
        FUNCTION(DeviceGetNvLinkRemotePciInfo_v2, LINKS),
        FUNCTION(DeviceGetMigMode, MIG),
        FUNCTION(DeviceGetMaxMigDeviceCount, MIG),
        FUNCTION(DeviceGetMigDeviceHandleByIndex, MIG),
        FUNCTION(DeviceGetGpuInstanceId, MIG),
        FUNCTION(DeviceGetComputeInstanceId, MIG),
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

static int read_driver(struct capo_nvml *out, char *why, size_t room)
{
        void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
        bool there[GROUPS] = {true, true, true};
        int r;

        memset(out, 0, sizeof *out);
        if (!library)
                return capo_why(-ENOENT, why, room, "there is no libnvidia-ml.so.1 here");
        for (size_t i = 0; i < N_ELEMENTS(functions); i++) {
                *(void **)functions[i].where = dlsym(library, functions[i].name);
                if (!*(void **)functions[i].where && functions[i].group == NEEDED) {
                        dlclose(library);
                        return capo_why(-ENOENT, why, room, "libnvidia-ml.so.1 has no %s",
                                        functions[i].name);
                }
                there[functions[i].group] &= *(void **)functions[i].where != NULL;
        }
        r = nv.Init_v2();
        if (r) {
                r = report_nvml_error(r, "start", why, room);
        } else {
                r = read_all(out, there, why, room);
                nv.Shutdown();
        }
        dlclose(library);
        return r;
}

static double limit_s = 30; /* without nvidia-persistenced, a first start takes seconds per GPU */

void capo_nvml_limit(double seconds)
{
        if (seconds < limit_s)
                limit_s = seconds;
}

/* Does @child end within the limit? A child stuck in the kernel does not end even when killed; it
 * is not waited for. */
static bool await_end(int end, pid_t child)
{
        struct pollfd p = {.fd = end};
        const uint64_t until = capo_clock_mono() + (uint64_t)(limit_s * 1e9);
        int r;

        do {
                const uint64_t now = capo_clock_mono();

                r = poll(&p, 1, now < until ? (int)((until - now) / 1000000) + 1 : 0);
        } while (r < 0 && errno == EINTR);
        close(end);
        if (r <= 0)
                kill(child, SIGKILL);
        waitpid(child, NULL, r > 0 ? 0 : WNOHANG);
        return r > 0;
}

/* The child's result. */
struct answer {
        struct capo_nvml all;
        char why[256];
        int r;
};

/* In a child process, because the driver of a failed GPU may never return. */
int capo_nvml_read(struct capo_nvml *out, char *why, size_t room)
{
        static bool hangs; /* do not ask again */
        struct answer *a;
        int ends[2], r = -EIO;
        bool ended = false;
        pid_t child;

        memset(out, 0, sizeof *out);
        if (hangs)
                return capo_why(-ETIMEDOUT, why, room, "NVML does not answer");
        a = mmap(NULL, sizeof *a, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (a == MAP_FAILED)
                return capo_why(-ENOMEM, why, room, "out of memory");
        snprintf(a->why, sizeof a->why, "NVML ended the process that asked it");
        a->r = -EIO;
        child = pipe2(ends, O_CLOEXEC) ? -1 : fork();
        if (!child) {
                close(ends[0]);
                a->r = read_driver(&a->all, a->why, sizeof a->why);
                _exit(0);
        }
        if (child > 0) {
                close(ends[1]);
                ended = await_end(ends[0], child);
        }
        if (child < 0) {
                capo_why(-EIO, why, room, "no process can be started: %s", strerror(errno));
        } else if (!ended) {
                hangs = true;
                r = capo_why(-ETIMEDOUT, why, room, "NVML does not answer within %.3g s", limit_s);
        } else {
                *out = a->all;
                r = a->r;
                if (r)
                        capo_why(r, why, room, "%s", a->why);
        }
        munmap(a, sizeof *a);
        return r;
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
