/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long `capo report`, `capo hang`, `capo export` and `capo diff` take, start to exit, from the
 * logs of a job of 10,000 ranks with 100 traced calls each (8 on a node, all timed on the GPU), in
 * the page cache: wall-clock time, processor time, peak memory. Then the same of the packed logs.
 * usage: hang-bench BUILD [RANKS]
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/golden/gen_log.h"

enum { RUNS = 5, PER_NODE = 8 };

static int by_value(const void *a, const void *b)
{
        double x = *(const double *)a, y = *(const double *)b;

        return x < y ? -1 : x > y;
}

static double seconds(const struct timeval *t)
{
        return (double)t->tv_sec + (double)t->tv_usec / 1e6;
}

static void ask(const char *capo, const char *verb, const char *folder, const char *other)
{
        double wall[RUNS], cpu[RUNS];
        struct rusage usage = {{0}};

        for (int i = 0; i < RUNS; i++) {
                struct timespec begin, end;
                pid_t pid;
                int status;

                clock_gettime(CLOCK_MONOTONIC, &begin);
                pid = fork();
                if (pid == 0) {
                        int null = open("/dev/null", O_WRONLY);

                        dup2(null, STDOUT_FILENO);
                        execl(capo, capo, verb, folder, other, (char *)NULL);
                        _exit(127);
                }
                wait4(pid, &status, 0, &usage);
                clock_gettime(CLOCK_MONOTONIC, &end);
                wall[i] = (double)(end.tv_sec - begin.tv_sec) +
                          (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
                cpu[i] = seconds(&usage.ru_utime) + seconds(&usage.ru_stime);
        }
        qsort(wall, RUNS, sizeof *wall, by_value);
        qsort(cpu, RUNS, sizeof *cpu, by_value);
        printf("  %-6s %.2f s, %.2f s of processor time, peak memory %ld MB (median of %d)\n", verb,
               wall[RUNS / 2], cpu[RUNS / 2], usage.ru_maxrss / 1000, RUNS);
}

static void ask_all(const char *capo, const char *folder)
{
        ask(capo, "report", folder, NULL);
        ask(capo, "hang", folder, NULL);
        ask(capo, "export", folder, NULL);
        ask(capo, "diff", folder, folder);
}

int main(int argc, char **argv)
{
        unsigned ranks = argc > 2 ? (unsigned)atoi(argv[2]) : 10000, n_nodes = ranks / PER_NODE;
        unsigned *layout = calloc(n_nodes, sizeof *layout);
        char folder[] = "/tmp/capo-bench-hang-XXXXXX", capo[4096], command[4352];
        struct gen_job job = {.dir = folder,
                              .layout = layout,
                              .n_nodes = n_nodes,
                              .n_steps = 50,
                              .sizes = (uint64_t[]){25 << 20, 4 << 20},
                              .n_sizes = 2,
                              .trace = true,
                              .gpu = true,
                              .late_rank = 5,
                              .late_ns = 88000};

        snprintf(capo, sizeof capo, "%s/cli/capo", argc > 1 ? argv[1] : "build");
        if (!layout || !mkdtemp(folder))
                return 1;
        for (unsigned i = 0; i < n_nodes; i++)
                layout[i] = PER_NODE;
        printf("%u logs, %.1f M calls\n", n_nodes * PER_NODE, (double)gen_job_write(&job) / 1e6);
        ask_all(capo, folder);
        snprintf(command, sizeof command, "%s pack --all %s >/dev/null", capo, folder);
        if (system(command) != 0)
                return 1;
        puts("packed, a file for each node");
        ask_all(capo, folder);
        snprintf(command, sizeof command, "rm -rf %s", folder);
        free(layout);
        return system(command) != 0;
}
