/* SPDX-License-Identifier: Apache-2.0 */
/* What a call asked for by its config (NCCL 2.31). The record has no room for it, and need not
 * have: such calls are made from few places, each of which asks for the same every time. Only the
 * profiler's tag may differ from call to call. The first 64 tags of a process make places of their
 * own; a program that numbers its calls gets one place for the rest, which says that there were
 * many. */

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/base/text.h"
#include "shim/record/recorder.h"

enum { N_TAGS = 64, ALGORITHMS_MAX = 200 };
static _Atomic uint64_t tags[N_TAGS];

/* Is @tag one of the process's first? */
static bool keep_tag(uint64_t tag)
{
        for (unsigned i = 0, at = (unsigned)(tag * 0x9e3779b97f4a7c15u >> 58); i < 4;
             i++, at = (at + 1) % N_TAGS) {
                uint64_t there = atomic_load_explicit(&tags[at], memory_order_relaxed);

                if (!there && atomic_compare_exchange_strong_explicit(&tags[at], &there, tag,
                                                                      memory_order_relaxed,
                                                                      memory_order_relaxed))
                        there = tag;
                if (there == tag)
                        return true;
        }
        return false;
}

/* What of a config can be read: the caller's NCCL may know less of it, or more. */
#define HAS(config, field) \
        ((config)->size >= offsetof(ncclCollConfig_t, field) + sizeof((ncclCollConfig_t *)0)->field)

struct asked {
        int numbers[6]; /* in the order of `names`; INT_MIN not set */
        uint64_t tag;   /* UINT64_MAX: one of many */
        const char *algorithms;
        size_t n_algorithms;
};
static const char *const names[] = {"minCTAs",        "maxCTAs",   "nvlsCTAs",
                                    "cgaClusterSize", "CTAPolicy", "forceAlgSelection"};

static bool read_config(const ncclCollConfig_t *config, struct asked *a)
{
        *a = (struct asked){.numbers = {INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN}};
        if (config->magic != CAPO_NCCL_CONFIG_MAGIC || !HAS(config, userProfilerTag))
                return false; /* 2.31 has all of these */
        a->numbers[0] = config->minCTAs;
        a->numbers[1] = config->maxCTAs;
        a->numbers[2] = config->nvlsCTAs;
        a->numbers[3] = config->cgaClusterSize;
        a->numbers[4] = config->CTAPolicy;
        a->algorithms = config->algSelection;
        a->n_algorithms = a->algorithms ? strnlen(a->algorithms, ALGORITHMS_MAX) : 0;
        if (a->n_algorithms && config->forceAlgSelection != 1)
                a->numbers[5] = config->forceAlgSelection;
        a->tag = config->userProfilerTag;
        if (a->tag && !keep_tag(a->tag))
                a->tag = UINT64_MAX;
        for (size_t i = 0; i < N_ELEMENTS(a->numbers); i++) {
                if (a->numbers[i] != INT_MIN)
                        return true;
        }
        return a->n_algorithms || a->tag;
}

void capo_config_take(struct capo_tls *t, const ncclCollConfig_t *config)
{
        struct asked a;

        if (!read_config(config, &a))
                return;
        t->config = config;
        t->tag = config->userProfilerTag;
        t->config_hash =
                XXH3_64bits_withSeed(a.algorithms, a.n_algorithms,
                                     XXH3_64bits_withSeed(a.numbers, sizeof a.numbers, a.tag));
}

unsigned capo_config_text(const ncclCollConfig_t *config, char *text, unsigned room)
{
        struct asked a;
        size_t n;

        if (!config || !read_config(config, &a))
                return 0;
        snprintf(text, room, "config:");
        if (a.n_algorithms)
                capo_append(text, room, " algSelection=");
        n = strlen(text);
        if (a.n_algorithms)
                capo_append(text, room, "%.*s", (int)a.n_algorithms, a.algorithms);
        for (; text[n]; n++) { /* one line, and words with blanks between */
                if (text[n] <= ' ' || text[n] > '~')
                        text[n] = '_';
        }
        for (size_t i = 0; i < N_ELEMENTS(names); i++) {
                if (a.numbers[i] != INT_MIN)
                        capo_append(text, room, " %s=%d", names[i], a.numbers[i]);
        }
        if (a.tag == UINT64_MAX)
                capo_append(text, room, " userProfilerTag=many");
        else if (a.tag)
                capo_append(text, room, " userProfilerTag=%llu", (unsigned long long)a.tag);
        capo_append(text, room, "\n"); /* fits only if all of it does */
        n = strlen(text);
        return n && text[n - 1] == '\n' ? (unsigned)n : 0;
}
