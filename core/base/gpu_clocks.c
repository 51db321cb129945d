/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "core/base/gpu_clocks.h"
#include "core/base/text.h"
#include "core/base/clock_reasons.h"

static_assert(CAPO_CLOCK_REASONS <= CAPO_CLOCK_REASON_ROOM, "room for each reason");

enum { CLOCK_SM = 1, TEMPERATURE_GPU = 0 }; /* nvmlClockType_t, nvmlTemperatureSensors_t */

static const struct {
        const char *name, *words;
        uint64_t bit;
        enum capo_clock_weight weight;
} reasons[] = {
#define CLOCK_REASON(id, bit, weight, words) {#id, words, bit, CAPO_CLOCK_##weight},
#include "capo/clock_reasons.def"
};

const char *capo_clock_reason_name(enum capo_clock_reason reason) { return reasons[reason].name; }

const char *capo_clock_reason_words(enum capo_clock_reason reason) { return reasons[reason].words; }

enum capo_clock_weight capo_clock_reason_weight(enum capo_clock_reason reason)
{
        return reasons[reason].weight;
}

bool capo_nvml_clocks_find(struct capo_nvml_clocks *out, void *library,
                           void *(*symbol)(void *library, const char *name))
{
        const struct {
                void *where;
                const char *name, *old; /* old: its earlier name */
                bool needed;
        } functions[] = {
                {&out->Init_v2, "nvmlInit_v2", NULL, true},
                {&out->Shutdown, "nvmlShutdown", NULL, true},
                {&out->DeviceGetHandleByPciBusId_v2, "nvmlDeviceGetHandleByPciBusId_v2", NULL,
                 true},
                {&out->DeviceGetClockInfo, "nvmlDeviceGetClockInfo", NULL, true},
                {&out->DeviceGetCurrentClocksEventReasons, "nvmlDeviceGetCurrentClocksEventReasons",
                 "nvmlDeviceGetCurrentClocksThrottleReasons", true},
                {&out->DeviceGetMaxClockInfo, "nvmlDeviceGetMaxClockInfo", NULL, false},
                {&out->DeviceGetTemperature, "nvmlDeviceGetTemperature", NULL, false},
        };

        for (size_t i = 0; i < N_ELEMENTS(functions); i++) {
                void *f = symbol(library, functions[i].name);

                if (!f && functions[i].old)
                        f = symbol(library, functions[i].old);
                if (!f && functions[i].needed)
                        return false;
                *(void **)functions[i].where = f;
        }
        return true;
}

int capo_clock_sample(const struct capo_nvml_clocks *nvml, const char *busid,
                      struct capo_clock_sample *out)
{
        unsigned long long why = 0;
        void *device;

        *out = (struct capo_clock_sample){0};
        if (nvml->DeviceGetHandleByPciBusId_v2(busid, &device) ||
            nvml->DeviceGetCurrentClocksEventReasons(device, &why) ||
            nvml->DeviceGetClockInfo(device, CLOCK_SM, &out->sm_mhz))
                return -EIO;
        out->reasons = why;
        if (!nvml->DeviceGetMaxClockInfo ||
            nvml->DeviceGetMaxClockInfo(device, CLOCK_SM, &out->max_mhz))
                out->max_mhz = 0;
        if (!nvml->DeviceGetTemperature ||
            nvml->DeviceGetTemperature(device, TEMPERATURE_GPU, &out->celsius))
                out->celsius = 0;
        return 0;
}

void capo_gpu_clocks_add(struct capo_gpu_clocks *to, const struct capo_clock_sample *sample)
{
        to->samples++;
        for (size_t i = 0; i < N_ELEMENTS(reasons); i++) {
                if (reasons[i].weight == CAPO_CLOCK_IDLE && sample->reasons & reasons[i].bit) {
                        to->reason[i]++;
                        return;
                }
        }
        if (!to->busy++ || sample->sm_mhz < to->sm_least)
                to->sm_least = sample->sm_mhz;
        to->sm_sum += sample->sm_mhz;
        to->max_mhz = sample->max_mhz > to->max_mhz ? sample->max_mhz : to->max_mhz;
        to->celsius = sample->celsius > to->celsius ? sample->celsius : to->celsius;
        for (size_t i = 0; i < N_ELEMENTS(reasons); i++)
                to->reason[i] += (sample->reasons & reasons[i].bit) != 0;
}

char *capo_gpu_clocks_print(const struct capo_gpu_clocks *c, char *text, size_t room)
{
        snprintf(text, room, "looks %u busy %u sm %.0f least %u max %u celsius %u", c->samples,
                 c->busy, capo_gpu_clocks_sm(c), c->sm_least, c->max_mhz, c->celsius);
        for (size_t i = 0; i < N_ELEMENTS(reasons); i++) {
                if (c->reason[i])
                        capo_append(text, room, " %s %u", reasons[i].name, c->reason[i]);
        }
        return text;
}

bool capo_gpu_clocks_read(const char *text, struct capo_gpu_clocks *out)
{
        uint32_t sm = 0;
        const struct {
                const char *name;
                uint32_t *to;
        } words[] = {
                {"looks", &out->samples},  {"busy", &out->busy},   {"sm", &sm},
                {"least", &out->sm_least}, {"max", &out->max_mhz}, {"celsius", &out->celsius},
        };
        char word[24];
        unsigned value;
        int n;

        *out = (struct capo_gpu_clocks){0};
        for (; sscanf(text, " %23s %9u%n", word, &value, &n) == 2; text += n) {
                for (size_t i = 0; i < N_ELEMENTS(words); i++) {
                        if (!strcmp(word, words[i].name))
                                *words[i].to = value;
                }
                for (size_t i = 0; i < N_ELEMENTS(reasons); i++) {
                        if (!strcmp(word, reasons[i].name))
                                out->reason[i] = value;
                }
        }
        out->busy = out->busy > out->samples ? out->samples : out->busy;
        out->sm_sum = (uint64_t)sm * out->busy;
        return out->samples > 0;
}
