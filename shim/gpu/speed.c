/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast the GPUs of this process run: a sample now and then on the drain thread, by the NVML
 * that is in the process already (NCCL and CUDA's programs load it; capo never does). Who is late
 * because of a GPU that is throttled is found from it afterwards.
 *
 * A driver in trouble may let a sample take long, so no lock that the job or the end of the
 * process wants is held meanwhile: what ends the process waits for a sample for one second at most,
 * and one that took long is the last.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "capo/env.h"
#include "core/base/gpu_clocks.h"
#include "core/base/util.h"
#include "core/log/info.h"
#include "shim/find/loader.h"
#include "shim/find/symbol.h"
#include "shim/record/start.h"

#define EVERY_NS UINT64_C(10000000000)
#define LONG_NS  UINT64_C(1000000000)

enum { GPUS = 64, BUSID_ROOM = 32 };

static char busids[GPUS][BUSID_ROOM];
static _Atomic uint64_t watched; /* devices whose busids[] is set */
/* Of whoever holds it: the drain thread, and for the last words the one that ends the process. */
static pthread_mutex_t sample_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
        struct capo_nvml_clocks nvml;
        bool found, over;
        uint64_t next_ns;
        struct capo_gpu_clocks sum[GPUS];
        uint32_t logged[GPUS]; /* samples of which the log knows */
} own;

void capo_speed_watch(int device, const char *busid)
{
        snprintf(busids[device], sizeof busids[device], "%s", busid);
        atomic_fetch_or_explicit(&watched, UINT64_C(1) << device, memory_order_release);
}

static bool find_nvml(void)
{
        void *library;

        if (own.found)
                return true;
        capo_loader_enter();
        library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_NOLOAD);
        if (library && capo_nvml_clocks_find(&own.nvml, library, capo_real_dlsym))
                own.found = true; /* and stays open */
        else if (library)
                own.over = true;
        capo_loader_leave();
        return own.found;
}

static void sample_clocks(uint64_t devices)
{
        for (int i = 0; i < GPUS; i++) {
                struct capo_clock_sample at;

                if (devices >> i & 1 && capo_clock_sample(&own.nvml, busids[i], &at) == 0)
                        capo_gpu_clocks_add(&own.sum[i], &at);
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

void capo_speed_poll(bool now)
{
        uint64_t devices = atomic_load_explicit(&watched, memory_order_acquire), begin_ns;

        if (!devices || capo_shim_env()->gpu_sample <= 0 || !capo_trylock(&sample_lock))
                return;
        begin_ns = capo_clock_mono();
        if (!own.next_ns)
                own.next_ns = begin_ns + EVERY_NS;
        if (!own.over && (now || begin_ns >= own.next_ns) && find_nvml() &&
            own.nvml.Init_v2() == 0) {
                sample_clocks(devices);
                own.nvml.Shutdown(); /* it counts: NCCL's own start of it stays */
                own.over |= capo_clock_mono() - begin_ns > LONG_NS;
                if (now)
                        report_clocks();
        }
        if (begin_ns >= own.next_ns)
                own.next_ns = begin_ns + EVERY_NS;
        capo_unlock(&sample_lock);
}

void capo_speed_tell(void)
{
        if (!capo_trylock(&sample_lock))
                return;
        report_clocks();
        capo_unlock(&sample_lock);
}

bool capo_speed_stop(void)
{
        struct timespec until;

        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec++;
        if (pthread_mutex_timedlock(&sample_lock, &until))
                return false;
        own.over = true;
        pthread_mutex_unlock(&sample_lock);
        return true;
}

void capo_speed_fork(void)
{
        pthread_mutex_init(&sample_lock, NULL);
        atomic_store(&watched, 0);
        memset(&own, 0, sizeof own);
}
