/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tuner and profiler plugin cost, opened as NCCL opens them: one decision through each
 * interface at 10, 100 and 1,000 profile rows; init of the first and of a further communicator;
 * profiler start + stop.
 *
 *   hot         one question after the other, sizes drawn beforehand, nothing kept apart:
 *               throughput
 *   serialised  the size asked for depends on the answer before it: latency
 *
 * The loop that restores the table and reads the sizes is measured by itself, with a plugin that
 * does nothing, and printed as "floor"; the plugin's figure is over all, the floor is not
 * subtracted. Median of 15 rounds.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tuner/nccl_plugin.h"
#include "tuner/nccl_profiler.h"

enum { ROUNDS = 15, QUESTIONS = 1 << 14, ALLREDUCE = 4 };

static uint64_t sizes[QUESTIONS];
static double results[ROUNDS];

static double now_ns(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
        double x = *(const double *)a, y = *(const double *)b;

        return x < y ? -1 : x > y;
}

static double median(void)
{
        qsort(results, ROUNDS, sizeof *results, by_value);
        return results[ROUNDS / 2];
}

/* One signature for all versions: the table is always offered. */
typedef int (*ask_fn)(const void *object, void *context, size_t bytes, float *table, int *channels);

static int ask_v1(const void *o, void *context, size_t bytes, float *table, int *channels)
{
        int algo = -1, proto = -1;

        return ((const struct capo_tuner_v1 *)o)
                ->get_coll_info(ALLREDUCE, bytes, 0, 1, 1, &algo, &proto, channels);
}
static int ask_v2(const void *o, void *context, size_t bytes, float *table, int *channels)
{
        int algo = -1, proto = -1;

        return ((const struct capo_tuner_v2 *)o)
                ->get_coll_info(context, ALLREDUCE, bytes, 0, 1, 1, &algo, &proto, channels);
}
static int ask_v3(const void *o, void *context, size_t bytes, float *table, int *channels)
{
        return ((const struct capo_tuner_v3 *)o)
                ->get_coll_info(context, ALLREDUCE, bytes, 1, (float **)table, 7, 3, channels);
}
static int ask_v4(const void *o, void *context, size_t bytes, float *table, int *channels)
{
        return ((const struct capo_tuner_v4 *)o)
                ->get_coll_info(context, ALLREDUCE, bytes, 1, (float **)table, 7, 3, 0, channels);
}
static int ask_v5(const void *o, void *context, size_t bytes, float *table, int *channels)
{
        return ((const struct capo_tuner_v5 *)o)
                ->get_coll_info(context, ALLREDUCE, bytes, 1, (float **)table, 7, 3, 0, channels);
}
static int ask_v6(const void *o, void *context, size_t bytes, float *table, int *channels)
{
        return ((const struct capo_tuner_v6 *)o)
                ->get_coll_info(context, ALLREDUCE, bytes, 1, (float **)table, 7, 3, 0, channels);
}

static capo_nccl_result nothing(void *context, int func, size_t bytes, int pipe, float **table,
                                int a, int p, int reg, int *channels)
{
        return 0;
}
static const struct capo_tuner_v6 floor_plugin = {"floor", NULL, nothing, NULL, NULL};

/* The least that can be called a decision: one answer per power of two, written without a look at
 * anything. */
static struct {
        uint8_t at, channels;
} least_table[64] = {{5, 1}};
static capo_nccl_result least(void *context, int func, size_t bytes, int pipe, float **table, int a,
                              int p, int reg, int *channels)
{
        unsigned e = 63 ^ (unsigned)__builtin_clzll(bytes | 1);

        ((float *)table)[least_table[e].at] = 0;
        *channels = least_table[e].channels;
        return 0;
}
static const struct capo_tuner_v6 least_plugin = {"least", NULL, least, NULL, NULL};

/* So that the compiler does not look through the pointers. */
static const void *hidden(const void *object)
{
        __asm__("" : "+r"(object));
        return object;
}

/* always_inline: the indirect call of `ask` goes away, the one NCCL makes stays. */
static inline __attribute__((always_inline)) double loop_hot(ask_fn ask, const void *object,
                                                             void *context)
{
        float table[24];
        int channels = 0;
        double begin;

        for (int i = 0; i < 24; i++)
                table[i] = 5;
        begin = now_ns();
        for (int i = 0; i < QUESTIONS; i++) {
                table[3] = table[4] = table[5] = 5; /* NCCL fills it anew */
                channels = 0;
                ask(object, context, sizes[i], table, &channels);
                __asm__ volatile("" : : "r"(table), "r"(&channels) : "memory");
        }
        return (now_ns() - begin) / QUESTIONS;
}

static inline __attribute__((always_inline)) double loop_serial(ask_fn ask, const void *object,
                                                                void *context)
{
        uint64_t none = 0;
        float table[24];
        int channels = 0;
        double begin;

        for (int i = 0; i < 24; i++)
                table[i] = 5;
        __asm__("" : "+r"(none)); /* 0, but the compiler does not know */
        begin = now_ns();
        for (int i = 0; i < QUESTIONS; i++) {
                uint64_t bytes = sizes[i] + ((uint64_t)(unsigned)channels & none);

                table[3] = table[4] = table[5] = 5;
                ask(object, context, bytes, table, &channels);
                __asm__ volatile("" : : "r"(table), "r"(&channels) : "memory");
        }
        return (now_ns() - begin) / QUESTIONS;
}

#define MEASURE(out, loop, ask, object, context)                  \
        do {                                                      \
                for (int r_ = 0; r_ < ROUNDS; r_++)               \
                        results[r_] = loop(ask, object, context); \
                out = median();                                   \
        } while (0)

static void both(int abi, const void *object, void *context, double *hot, double *serial)
{
        switch (abi) {
#define CASE(n)                                                           \
        case n:                                                           \
                MEASURE(*hot, loop_hot, ask_v##n, object, context);       \
                MEASURE(*serial, loop_serial, ask_v##n, object, context); \
                break;
                CASE(1)
                CASE(2) CASE(3) CASE(4) CASE(5) CASE(6)
#undef CASE
        }
}

/* @rows rows between 1 KiB and 4 GiB, evenly in log size; @more: further keys of each. */
static void write_profile(int rows, const char *more, char *path)
{
        int fd = memfd_create("profile", 0);
        FILE *f = fdopen(fd, "w");

        fprintf(f, "{\"capo_profile\": 1, \"rules\": [{\"when\": {}, \"allreduce\": [\n");
        for (int i = 0; i < rows; i++) {
                fprintf(f, i + 1 < rows ? "{\"upto\": %.0f, " : "{\"upto\": \"max\", ",
                        1024 * __builtin_exp2(22.0 * i / rows) + i);
                fprintf(f,
                        "\"algo\": \"%s\", \"proto\": \"simple\", \"channels\": %d%s, \"us\": 11.9, \"spread_us\": 0.2, "
                        "\"gain\": 0.12, \"samples\": 40}%s\n",
                        "ring", 1 + i % 16, more, i + 1 < rows ? "," : "]}]}");
        }
        fflush(f);
        snprintf(path, 64, "/proc/self/fd/%d", fd);
}

static void no_log(int level, unsigned long flags, const char *file, int line, const char *format,
                   ...)
{
}

static int open_comm(const void *object, int abi, void **context)
{
        static struct capo_nvl_info nvl = {2, 4, 4};
        static struct capo_nccl_constants constants;

        switch (abi) {
        case 1: return ((const struct capo_tuner_v1 *)object)->init(8, 2, no_log);
        case 2:
        case 3:
        case 4: return ((const struct capo_tuner_v4 *)object)->init(8, 2, no_log, context);
        default:
                return ((const struct capo_tuner_v5 *)object)
                        ->init(context, 1, 8, 2, no_log, &nvl, &constants);
        }
}

static const void *object_of(void *library, int abi)
{
        char symbol[32];

        snprintf(symbol, sizeof symbol, "ncclTunerPlugin_v%d", abi);
        return dlsym(library, symbol);
}

static void *load(const char *path)
{
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

        if (!library) {
                fprintf(stderr, "%s\n", dlerror());
                exit(1);
        }
        return library;
}

/* A process of its own: settings and profile are read once per process. */
static void decisions(const char *plugin, int rows, const char *more)
{
        char path[64];
        void *library;

        write_profile(rows, more, path);
        setenv("CAPO_PROFILE", path, 1);
        library = load(plugin);
        for (int abi = *more ? 6 : 1; abi <= 6; abi++) {
                const void *object = object_of(library, abi);
                void *context = NULL;
                double hot, serial;

                if (open_comm(object, abi, &context))
                        exit(1);
                both(abi, object, context, &hot, &serial);
                printf("decision   v%d  %5d rows   hot %6.2f ns   serialised %6.2f ns%s\n", abi,
                       rows, hot, serial, *more ? "   with chunks" : "");
        }
}

static void inits(const char *plugin, int rows, double *first)
{
        const struct capo_tuner_v6 *v6;
        char path[64];
        void *context;
        double begin;

        write_profile(rows, "", path);
        setenv("CAPO_PROFILE", path, 1);
        v6 = object_of(load(plugin), 6);
        begin = now_ns();
        open_comm(v6, 6, &context);
        *first = now_ns() - begin;
        for (int r = 0; r < ROUNDS; r++) {
                begin = now_ns();
                for (int i = 0; i < 200; i++) {
                        open_comm(v6, 6, &context);
                        v6->finalize(context);
                }
                results[r] = (now_ns() - begin) / 200;
        }
        first[1] = median();
}

/* @work in a child, its two numbers back through shared memory. */
static void in_child(void (*work)(const char *, int, double *), const char *plugin, int rows,
                     double *out)
{
        double *shared =
                mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

        if (!fork()) {
                work(plugin, rows, shared);
                _exit(0);
        }
        wait(NULL);
        out[0] = shared[0];
        out[1] = shared[1];
        munmap(shared, 4096);
}

static void profiler_events(const char *plugin, int unused, double *out)
{
        const struct capo_profiler_v4 *v4 = dlsym(load(plugin), "ncclProfiler_v4");
        const struct capo_profiler_v5 *v5 = dlsym(load(plugin), "ncclProfiler_v5");
        int mask = 0;
        void *context = NULL, *handle;

        setenv("CAPO_PROFILER", "on", 1);
        v4->init(&context, &mask, "bench", 1, 1, 8, 0, NULL);
        for (int r = 0; r < ROUNDS; r++) {
                struct capo_event_v4 e = {.type = CAPO_EVENT_COLL,
                                          .coll = {.func = "AllReduce",
                                                   .count = 1024,
                                                   .datatype = "ncclFloat32",
                                                   .n_channels = 2,
                                                   .algo = "RING",
                                                   .proto = "SIMPLE"}};
                double begin = now_ns();

                for (int i = 0; i < QUESTIONS; i++) {
                        handle = NULL;
                        v4->start_event(context, &handle, &e);
                        if (handle)
                                v4->stop_event(handle);
                }
                results[r] = (now_ns() - begin) / QUESTIONS;
        }
        out[0] = median();
        for (int r = 0; r < ROUNDS; r++) {
                struct capo_event_v5 e = {.type = CAPO_EVENT_COLL,
                                          .coll = {.func = "AllReduce",
                                                   .count = 1024,
                                                   .datatype = "ncclFloat32",
                                                   .n_channels = 2,
                                                   .algo = "RING",
                                                   .proto = "SIMPLE"}};
                double begin = now_ns();

                for (int i = 0; i < QUESTIONS; i++) {
                        handle = NULL;
                        v5->start_event(context, &handle, &e);
                        v5->stop_event(handle);
                }
                results[r] = (now_ns() - begin) / QUESTIONS;
        }
        out[1] = median();
}

int main(int argc, char **argv)
{
        char plugin[4096];
        double pair[2], firsts[ROUNDS], further = 0;
        uint64_t x = 88172645463325252ull;

        if (argc != 2) {
                fputs("usage: tuner-bench BUILD\n", stderr);
                return 2;
        }
        snprintf(plugin, sizeof plugin, "%s/tuner/libnccl-tuner-capo.so", argv[1]);
        unsetenv("CAPO_PROFILE_DIGEST");
        setenv("CAPO_TUNER", "only", 1);
        for (int i = 0; i < QUESTIONS; i++) { /* evenly in log size, 512 B to 8 GiB */
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                sizes[i] = (uint64_t)(512 * __builtin_exp2(24.0 * (double)(x >> 11) /
                                                           9007199254740992.0));
        }
        MEASURE(pair[0], loop_hot, ask_v6, hidden(&floor_plugin), NULL);
        MEASURE(pair[1], loop_serial, ask_v6, hidden(&floor_plugin), NULL);
        printf("floor      a plugin that does nothing   hot %6.2f ns   serialised %6.2f ns\n",
               pair[0], pair[1]);
        for (int i = 0; i < 64; i++)
                least_table[i] = least_table[0];
        MEASURE(pair[0], loop_hot, ask_v6, hidden(&least_plugin), NULL);
        MEASURE(pair[1], loop_serial, ask_v6, hidden(&least_plugin), NULL);
        printf("floor      an answer per power of two   hot %6.2f ns   serialised %6.2f ns\n",
               pair[0], pair[1]);
        fflush(stdout);
        for (int rows = 10; rows <= 1000; rows *= 10) {
                if (!fork()) {
                        decisions(plugin, rows, "");
                        fflush(stdout);
                        _exit(0);
                }
                wait(NULL);
                if (!fork()) {
                        decisions(plugin, rows, ", \"chunk\": 65536");
                        fflush(stdout);
                        _exit(0);
                }
                wait(NULL);
        }
        for (int i = 0; i < ROUNDS; i++) {
                in_child(inits, plugin, 1000, pair);
                firsts[i] = pair[0];
                further = pair[1];
        }
        memcpy(results, firsts, sizeof firsts);
        printf("init       1000 rows   first communicator %.0f us   further %.2f us (with its finalize)\n",
               median() / 1e3, further / 1e3);
        in_child(profiler_events, plugin, 0, pair);
        printf("profiler   Coll start + stop, without a recorder   v4 %.2f ns   v5 %.2f ns\n",
               pair[0], pair[1]);
        return 0;
}
