/* SPDX-License-Identifier: Apache-2.0 */
/* How fast a GPU runs, and what holds it back: samples by NVML, what they add up to, and the text
 * of that (INFO gpu.clocks.N). Asked in the job by the drain thread and afterwards by capo hang;
 * judged by analysis/report/late_cause.c. */
#pragma once

#include "core/base/util.h"

/* Room for what holds a GPU back: core/base/clock_reasons.h. */
#define CAPO_CLOCK_REASON_ROOM 16

/* Functions of libnvidia-ml.so.1. */
struct capo_nvml_clocks {
        int (*Init_v2)(void);
        int (*Shutdown)(void);
        int (*DeviceGetHandleByPciBusId_v2)(const char *busid, void **device);
        int (*DeviceGetClockInfo)(void *device, int clock, unsigned *mhz);
        int (*DeviceGetCurrentClocksEventReasons)(void *device, unsigned long long *reasons);
        int (*DeviceGetMaxClockInfo)(void *device, int clock, unsigned *mhz); /* NULL: not there */
        int (*DeviceGetTemperature)(void *device, int sensor,
                                    unsigned *celsius); /* NULL: not there */
};

/** capo_nvml_clocks_find() - the functions of @library, which stays open as long as they are called
 * @symbol: dlsym, or what does its work in a library that has one of its own
 *
 * Return: whether all needed functions are there. The one for reasons has had two names
 * (ThrottleReasons before CUDA 12.2). */
bool capo_nvml_clocks_find(struct capo_nvml_clocks *out, void *library,
                           void *(*symbol)(void *library, const char *name));

/* One moment of one GPU. */
struct capo_clock_sample {
        uint64_t reasons;          /* as NVML has them */
        unsigned sm_mhz;           /* of the multiprocessors */
        unsigned max_mhz, celsius; /* 0 not known */
};

/** capo_clock_sample() - after Init_v2(). @busid: "0000:1b:00.0". Return: 0; -EIO: not known. */
int capo_clock_sample(const struct capo_nvml_clocks *nvml, const char *busid,
                      struct capo_clock_sample *out);

/* The sum of the samples of one GPU. All 0: there was none. */
struct capo_gpu_clocks {
        uint32_t samples,
                busy; /* busy: of them, those at which it was not idle; the rest here is of these */
        uint64_t sm_sum;                         /* of sm_mhz */
        uint32_t sm_least, max_mhz;              /* max_mhz: what it can do at most; 0 not known */
        uint32_t celsius;                        /* the highest seen; 0 not known */
        uint32_t reason[CAPO_CLOCK_REASON_ROOM]; /* in how many samples */
};

void capo_gpu_clocks_add(struct capo_gpu_clocks *to, const struct capo_clock_sample *sample);

static inline double capo_gpu_clocks_sm(const struct capo_gpu_clocks *c)
{
        return c->busy ? (double)c->sm_sum / c->busy : 0;
}

/** capo_gpu_clocks_print() - "looks 12 busy 11 sm 1410 least 345 max 1980 celsius 91 hw_thermal
 * 11". Allocates nothing. */
char *capo_gpu_clocks_print(const struct capo_gpu_clocks *c, char *text, size_t room);

/** capo_gpu_clocks_read() - that text, without unknown words. Return: has it a sample? */
bool capo_gpu_clocks_read(const char *text, struct capo_gpu_clocks *out);
