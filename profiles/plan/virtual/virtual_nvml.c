/* SPDX-License-Identifier: Apache-2.0 */
/* NVML for NCCL. This object has SONAME libnvidia-ml.so.1 and is loaded by path before libnccl, so
 * NCCL's dlopen of that name finds it. NVLinks come from the topology file, so all functions about
 * links return "not supported", except the NVLink domain of a GPU. */

#include "core/base/among.h"
#include "profiles/plan/virtual/virtual.h"

enum { INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6 };

/* nvmlPciInfo_t (nvml.h): the legacy id has 16 characters, the extended one 32. */
struct pci_info {
        char legacy[16];
        unsigned domain, bus, device, device_id, subsystem_id;
        char busid[32];
};

/* nvmlGpuFabricInfoV_t (nvml.h); `health` from its version 2 on. */
struct fabric_info {
        unsigned version; /* and the size of the structure, in the lower 24 bits */
        unsigned char cluster[16];
        int status;
        unsigned clique;
        unsigned char state;
        unsigned health;
};

#define NVML(name, ...)                    \
        CAPO_EXPORT int name(__VA_ARGS__); \
        int name(__VA_ARGS__)
/* The same function for older callers. */
#define ALIAS(old, name, ...) CAPO_EXPORT int old(__VA_ARGS__) __attribute__((alias(#name)))

CAPO_EXPORT const char *nvmlErrorString(int e);

const char *nvmlErrorString(int e)
{
        return e == NOT_SUPPORTED ? "not supported by capo's virtual NVML"
               : e                ? "an error of capo's virtual NVML"
                                  : "success";
}

NVML(nvmlDeviceGetCount_v2, unsigned *n)
{
        *n = plan_machine->n_gpus;
        return 0;
}

ALIAS(nvmlDeviceGetCount, nvmlDeviceGetCount_v2, unsigned *n);

NVML(nvmlDeviceGetHandleByIndex_v2, unsigned i, const struct plan_gpu **dev)
{
        if (i >= plan_machine->n_gpus)
                return INVALID_ARGUMENT;
        *dev = &plan_machine->gpus[i];
        return 0;
}

ALIAS(nvmlDeviceGetHandleByIndex, nvmlDeviceGetHandleByIndex_v2, unsigned i,
      const struct plan_gpu **dev);

NVML(nvmlDeviceGetHandleByPciBusId_v2, const char *busid, const struct plan_gpu **dev)
{
        *dev = FIRST_OF(g, plan_machine->gpus, plan_machine->n_gpus, !strcasecmp(g->busid, busid));
        return *dev ? 0 : NOT_FOUND;
}

ALIAS(nvmlDeviceGetHandleByPciBusId, nvmlDeviceGetHandleByPciBusId_v2, const char *busid,
      const struct plan_gpu **dev);

NVML(nvmlDeviceGetIndex, const struct plan_gpu *dev, unsigned *i)
{
        *i = (unsigned)dev->dev;
        return 0;
}

NVML(nvmlDeviceGetCudaComputeCapability, const struct plan_gpu *dev, int *major, int *minor)
{
        *major = dev->sm / 10;
        *minor = dev->sm % 10;
        return 0;
}

NVML(nvmlDeviceGetP2PStatus, const struct plan_gpu *a, const struct plan_gpu *b, int index,
     int *status)
{
        *status = 0;
        return 0;
}

/* Nodes that share an NVLink domain report its common name; other GPUs are in none. */
NVML(nvmlDeviceGetGpuFabricInfoV, const struct plan_gpu *dev, struct fabric_info *info)
{
        enum { COMPLETED = 3, VERSION_2_BYTES = 36 };

        if (!plan_job->domain_nodes)
                return NOT_SUPPORTED;
        memset(info->cluster, 0, sizeof info->cluster);
        snprintf((char *)info->cluster, sizeof info->cluster, "dom %u",
                 plan_node / plan_job->domain_nodes);
        info->status = 0;
        info->clique = 1;
        info->state = COMPLETED;
        if ((info->version & 0xffffff) >= VERSION_2_BYTES)
                info->health = 0;
        return 0;
}

NVML(nvmlDeviceGetPciInfo_v3, const struct plan_gpu *dev, struct pci_info *pci)
{
        memset(pci, 0, sizeof *pci);
        snprintf(pci->legacy, sizeof pci->legacy, "%.15s", dev->busid);
        snprintf(pci->busid, sizeof pci->busid, "%s", dev->busid);
        sscanf(dev->busid, "%x:%x:%x", &pci->domain, &pci->bus, &pci->device);
        return 0;
}

NVML(nvmlInit_v2, void) { return 0; }

ALIAS(nvmlInit, nvmlInit_v2, void);
ALIAS(nvmlShutdown, nvmlInit_v2, void);

/* Whatever the arguments: NVLinks are in the topology file, and the rest is not modelled. */
NVML(nvmlDeviceGetNvLinkState, void) { return NOT_SUPPORTED; }

#define NONE(name) ALIAS(name, nvmlDeviceGetNvLinkState, void)
NONE(nvmlDeviceGetNvLinkRemotePciInfo);
NONE(nvmlDeviceGetNvLinkCapability);
NONE(nvmlDeviceGetFieldValues);
NONE(nvmlDeviceGetPlatformInfo);
NONE(nvmlDeviceGetCurrPcieLinkWidth);
NONE(nvmlDeviceGetCurrPcieLinkGeneration);
NONE(nvmlDeviceGetPcieLinkMaxSpeed);
NONE(nvmlSystemGetConfComputeState);
NONE(nvmlSystemGetConfComputeSettings);
