/* SPDX-License-Identifier: Apache-2.0 */
/* Looks at a GPU's clocks: by which of NVML's functions, what they add up to, and the text of that.
 */
#include <errno.h>
#include <string.h>
#include <criterion/criterion.h>

#include "core/base/gpu_clocks.h"
#include "core/base/clock_reasons.h"

static const char *lacks[3]; /* names that this driver does not have */
static int fails;            /* what its clock function answers */

static int init(void) { return 0; }

static int handle(const char *busid, void **device)
{
        *device = (void *)busid;
        return strcmp(busid, "0000:1b:00.0") ? 6 : 0;
}

static int clock(void *device, int which, unsigned *mhz)
{
        *mhz = which == 1 ? 345 : 0;
        return fails;
}

static int max_clock(void *device, int which, unsigned *mhz)
{
        *mhz = which == 1 ? 1980 : 0;
        return 0;
}

static int temperature(void *device, int sensor, unsigned *celsius)
{
        *celsius = sensor == 0 ? 91 : 0;
        return 0;
}

static int reasons(void *device, unsigned long long *why)
{
        *why = 0x48;
        return 0;
}

static void *symbol(void *library, const char *name)
{
        static const struct {
                const char *name;
                void *f;
        } all[] = {
                {"nvmlInit_v2", init},
                {"nvmlShutdown", init},
                {"nvmlDeviceGetHandleByPciBusId_v2", handle},
                {"nvmlDeviceGetClockInfo", clock},
                {"nvmlDeviceGetMaxClockInfo", max_clock},
                {"nvmlDeviceGetTemperature", temperature},
                {"nvmlDeviceGetCurrentClocksEventReasons", reasons},
                {"nvmlDeviceGetCurrentClocksThrottleReasons", reasons},
        };

        for (size_t i = 0; i < 3; i++) {
                if (lacks[i] && !strcmp(lacks[i], name))
                        return NULL;
        }
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
                if (!strcmp(all[i].name, name))
                        return all[i].f;
        }
        return NULL;
}

static void driver_without(const char *a, const char *b)
{
        lacks[0] = a;
        lacks[1] = b;
        fails = 0;
}

Test(gpu_clocks, reasons_have_had_two_names)
{
        struct capo_nvml_clocks nvml = {0};

        driver_without("nvmlDeviceGetCurrentClocksEventReasons", NULL);
        cr_assert(capo_nvml_clocks_find(&nvml, NULL, symbol), "before CUDA 12.2");
        driver_without("nvmlDeviceGetCurrentClocksThrottleReasons", NULL);
        cr_assert(capo_nvml_clocks_find(&nvml, NULL, symbol), "should the old name go one day");
        driver_without("nvmlDeviceGetCurrentClocksThrottleReasons",
                       "nvmlDeviceGetCurrentClocksEventReasons");
        cr_assert_not(capo_nvml_clocks_find(&nvml, NULL, symbol));
        driver_without("nvmlInit_v2", NULL);
        cr_assert_not(capo_nvml_clocks_find(&nvml, NULL, symbol));
}

Test(gpu_clocks, one_sample)
{
        struct capo_nvml_clocks nvml = {0};
        struct capo_clock_sample at;

        driver_without(NULL, NULL);
        cr_assert(capo_nvml_clocks_find(&nvml, NULL, symbol));
        cr_assert_eq(capo_clock_sample(&nvml, "0000:1b:00.0", &at), 0);
        cr_assert(at.reasons == 0x48 && at.sm_mhz == 345 && at.max_mhz == 1980 && at.celsius == 91);
        cr_assert_eq(capo_clock_sample(&nvml, "0000:1c:00.0", &at), -EIO, "no such GPU");
        fails = 3;
        cr_assert_eq(capo_clock_sample(&nvml, "0000:1b:00.0", &at), -EIO, "not supported");
}

Test(gpu_clocks, what_may_be_missing_is_not_known)
{
        struct capo_nvml_clocks nvml = {0};
        struct capo_clock_sample at;

        driver_without("nvmlDeviceGetMaxClockInfo", "nvmlDeviceGetTemperature");
        cr_assert(capo_nvml_clocks_find(&nvml, NULL, symbol));
        cr_assert_eq(capo_clock_sample(&nvml, "0000:1b:00.0", &at), 0);
        cr_assert(at.sm_mhz == 345 && at.max_mhz == 0 && at.celsius == 0);
}

Test(gpu_clocks, of_an_idle_moment_only_that_it_was_one_counts)
{
        struct capo_gpu_clocks sum = {0};

        capo_gpu_clocks_add(
                &sum, &(struct capo_clock_sample){.reasons = 0x041, .sm_mhz = 210, .celsius = 99});
        cr_assert(sum.samples == 1 && sum.busy == 0 && sum.sm_sum == 0 && sum.celsius == 0);
        cr_assert(sum.reason[CAPO_CLOCK_REASON_idle] == 1 &&
                  sum.reason[CAPO_CLOCK_REASON_hw_thermal] == 0);
        cr_assert_eq(capo_gpu_clocks_sm(&sum), 0);
}

Test(gpu_clocks, a_sum_of_samples_is_a_line_and_back)
{
        struct capo_gpu_clocks sum = {0}, read;
        char text[256];

        capo_gpu_clocks_add(
                &sum, &(struct capo_clock_sample){.sm_mhz = 1980, .max_mhz = 1980, .celsius = 60});
        capo_gpu_clocks_add(
                &sum, &(struct capo_clock_sample){
                              .reasons = 0x48, .sm_mhz = 345, .max_mhz = 1980, .celsius = 91});
        capo_gpu_clocks_add(
                &sum, &(struct capo_clock_sample){
                              .reasons = 0x40, .sm_mhz = 345, .max_mhz = 1980, .celsius = 90});
        capo_gpu_clocks_add(
                &sum, &(struct capo_clock_sample){
                              .reasons = 0x01, .sm_mhz = 210, .max_mhz = 1980, .celsius = 50});
        cr_assert_str_eq(
                capo_gpu_clocks_print(&sum, text, sizeof text),
                "looks 4 busy 3 sm 890 least 345 max 1980 celsius 91 idle 1 hw_slowdown 1 hw_thermal 2");
        cr_assert(capo_gpu_clocks_read(text, &read));
        cr_assert_eq(memcmp(&read, &sum, sizeof sum), 0);
}

Test(gpu_clocks, words_of_a_later_release_are_left_out)
{
        struct capo_gpu_clocks read;

        cr_assert(capo_gpu_clocks_read("looks 2 busy 9 sm 100 melting 2 hw_thermal 1 and", &read));
        cr_assert(read.samples == 2 && read.busy == 2 && read.sm_sum == 200 &&
                  read.reason[CAPO_CLOCK_REASON_hw_thermal] == 1);
        cr_assert_not(capo_gpu_clocks_read("", &read));
        cr_assert_not(capo_gpu_clocks_read("looks", &read));
        cr_assert_not(capo_gpu_clocks_read("looks 0 busy 0", &read));
        cr_assert_not(capo_gpu_clocks_read("sm 1980", &read));
}

/* As nvml.h has them: a row that is lost or renumbered would be a wrong reason. */
Test(gpu_clocks, the_reasons)
{
        static const char *const names[] = {
                "idle",       "application", "power_cap", "hw_slowdown", "sync_boost", "sw_thermal",
                "hw_thermal", "power_brake", "display",   "board_limit", "reliability"};

        cr_assert_eq(CAPO_CLOCK_REASONS, 11);
        for (unsigned i = 0; i < 11; i++) {
                struct capo_gpu_clocks sum = {0};

                cr_assert_str_eq(capo_clock_reason_name(i), names[i]);
                cr_assert(*capo_clock_reason_words(i));
                cr_assert_eq(capo_clock_reason_weight(i), i == 0   ? CAPO_CLOCK_IDLE
                                                          : i == 2 ? CAPO_CLOCK_CAP
                                                                   : CAPO_CLOCK_SLOW);
                capo_gpu_clocks_add(&sum,
                                    &(struct capo_clock_sample){.reasons = 1u << i, .sm_mhz = 1});
                cr_assert_eq(sum.reason[i], 1);
        }
}
