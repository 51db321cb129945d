/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: virtual_memory capo-plan-virtual.so    The virtual driver maps and unmaps device memory
 * while other threads of the process map memory of their own: nobody's memory may change.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { BYTES = 2 << 20, ROUNDS = 4000, THREADS = 2 };

static struct {
        int (*cuMemAddressReserve)(void **p, size_t bytes, size_t align, void *hint,
                                   unsigned long long flags);
        int (*cuMemAddressFree)(void *p, size_t bytes);
        int (*cuMemCreate)(void **handle, size_t bytes, const int *prop, unsigned long long flags);
        int (*cuMemRelease)(void *handle);
        int (*cuMemMap)(void *p, size_t bytes, size_t offset, void *handle,
                        unsigned long long flags);
        int (*cuMemUnmap)(void *p, size_t bytes);
} cu;
static atomic_int failed, working = THREADS;

static void *map_device_memory(void *arg)
{
        const int prop[16] = {1, 1};

        for (int i = 0; i < ROUNDS && !failed; i++) {
                void *p, *handle;

                if (cu.cuMemAddressReserve(&p, BYTES, 0, NULL, 0) ||
                    cu.cuMemCreate(&handle, BYTES, prop, 0) || cu.cuMemMap(p, BYTES, 0, handle, 0))
                        failed = 1;
                memset(p, 1, 4096);
                if (cu.cuMemUnmap(p, BYTES) || cu.cuMemRelease(handle) ||
                    cu.cuMemAddressFree(p, BYTES))
                        failed = 1;
        }
        working--;
        return NULL;
}

static void *map_own_memory(void *arg)
{
        while (working) {
                char *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                               0);

                for (int i = 0; i < 4; i++)
                        p[i * (BYTES / 4)] = (char)(i + 1);
                for (int i = 0; i < 4; i++)
                        failed |= p[i * (BYTES / 4)] != (char)(i + 1);
                munmap(p, BYTES);
        }
        return NULL;
}

int main(int argc, char **argv)
{
        static const struct {
                const char *name;
                void **to;
        } functions[] = {
                {"cuMemAddressReserve", (void **)&cu.cuMemAddressReserve},
                {"cuMemAddressFree", (void **)&cu.cuMemAddressFree},
                {"cuMemCreate", (void **)&cu.cuMemCreate},
                {"cuMemRelease", (void **)&cu.cuMemRelease},
                {"cuMemMap", (void **)&cu.cuMemMap},
                {"cuMemUnmap", (void **)&cu.cuMemUnmap},
        };
        void *driver = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
        int (*find)(const char *, void **, int, uint64_t) =
                driver ? (int (*)(const char *, void **, int, uint64_t))dlsym(driver,
                                                                              "cuGetProcAddress")
                       : NULL;
        pthread_t threads[2 * THREADS];

        for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
                if (!find || find(functions[i].name, functions[i].to, 12000, 0) != 0 ||
                    !*functions[i].to) {
                        fprintf(stderr, "no %s: %s\n", functions[i].name, find ? "" : dlerror());
                        return 1;
                }
        }
        for (int i = 0; i < 2 * THREADS; i++)
                pthread_create(&threads[i], NULL, i < THREADS ? map_device_memory : map_own_memory,
                               NULL);
        for (int i = 0; i < 2 * THREADS; i++)
                pthread_join(threads[i], NULL);
        if (failed)
                fprintf(stderr, "memory of a thread changed, or a call failed\n");
        return failed;
}
