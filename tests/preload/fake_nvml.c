/* SPDX-License-Identifier: Apache-2.0 */
/* A libnvidia-ml.so.1 whose GPU N is at 0000:0N:00.0, or with FAKE_NVML_SHIFT one number lower. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT int nvmlInit_v2(void);
EXPORT int nvmlShutdown(void);
EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *busid, void **device);
EXPORT int nvmlDeviceGetIndex(void *device, unsigned *index);

int nvmlInit_v2(void)
{
        return 0;
}

int nvmlShutdown(void)
{
        return 0;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *busid, void **device)
{
        unsigned bus;

        if (sscanf(busid, "0000:%2x:00.0", &bus) != 1 || bus > 7)
                return 6; /* NVML_ERROR_NOT_FOUND */
        *device = (void *)(uintptr_t)(bus + 1);
        return 0;
}

int nvmlDeviceGetIndex(void *device, unsigned *index)
{
        *index = (unsigned)(uintptr_t)device - 1 - (getenv("FAKE_NVML_SHIFT") ? 1 : 0);
        return 0;
}
