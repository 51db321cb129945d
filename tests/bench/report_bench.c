/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast logs are read: 8 ranks' logs of 10 M traced calls in all, and of 100 k, both in the page
 * cache, one core. read       read(2) of all bytes, the floor check      capo_log_next() over all
 * frames: every checksum verified scan       the same, and all columns of each BLOCK summed up
 *   report     the `capo report` command, start to exit, and its peak memory
 * usage: report-bench BUILD [CALLS]
 */
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "analysis/log/log_read.h"
#include "core/base/util.h"
#include "tests/golden/gen_log.h"
#include "tests/log_numbers.h"

enum { RUNS = 9, RANKS = 8 };

static char dir[] = "/tmp/capo-bench-report-XXXXXX", folder[64], paths[RANKS][128];
static volatile uint64_t sink;

static double now(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void read_bytes(const char *path)
{
        static char buffer[1 << 20];
        int fd = open(path, O_RDONLY | O_CLOEXEC);

        while (read(fd, buffer, sizeof buffer) > 0)
                ;
        close(fd);
}

static uint64_t add_up(const struct capo_log_columns *c)
{
        uint64_t sum = c->base;

        for (uint32_t i = 0; i < c->n; i++)
                sum += c->t_begin[i] + c->host_ns[i] + c->seq[i] + c->shape[i];
        for (uint32_t i = 0; i < c->n && c->gpu_ns; i++)
                sum += c->gpu_ns[i];
        for (uint32_t i = 0; i < c->n && c->aux; i++)
                sum += c->aux[i];
        return sum;
}

static void read_log(const char *path, bool columns)
{
        struct capo_log *log;
        struct capo_log_frame f;
        struct capo_log_columns c;
        char why[256];

        if (capo_log_open(path, &log, why, sizeof why) < 0)
                exit(1);
        while (capo_log_next(log, &f) > 0) {
                if (columns && f.type == CAPO_FRAME_BLOCK && capo_log_block(&f, &c) == 0)
                        sink += add_up(&c);
        }
        capo_log_close(log);
}

static void check(const char *path) { read_log(path, false); }

static void scan(const char *path) { read_log(path, true); }

static int by_value(const void *a, const void *b)
{
        double x = *(const double *)a, y = *(const double *)b;

        return x < y ? -1 : x > y;
}

static double median_of(void (*each)(const char *path))
{
        double t[RUNS];

        for (int i = 0; i < RUNS; i++) {
                double begin = now();

                for (int k = 0; k < RANKS; k++)
                        each(paths[k]);
                t[i] = now() - begin;
        }
        qsort(t, RUNS, sizeof *t, by_value);
        return t[RUNS / 2];
}

static double report(const char *capo, long *peak_kib)
{
        double t[RUNS];

        for (int i = 0; i < RUNS; i++) {
                struct rusage usage;
                double begin = now();
                pid_t pid = fork();
                int status;

                if (pid == 0) {
                        int null = open("/dev/null", O_WRONLY);

                        dup2(null, STDOUT_FILENO);
                        execl(capo, capo, "report", "--no-recover", folder, (char *)NULL);
                        _exit(127);
                }
                wait4(pid, &status, 0, &usage);
                t[i] = now() - begin;
                if (status) {
                        fprintf(stderr, "%s: status %d\n", capo, status);
                        exit(1);
                }
                *peak_kib = usage.ru_maxrss;
        }
        qsort(t, RUNS, sizeof *t, by_value);
        return t[RUNS / 2];
}

static void measure(const char *capo, uint64_t calls)
{
        struct gen_job job = {.dir = folder,
                              .layout = (unsigned[]){3, 5},
                              .n_nodes = 2,
                              .n_steps = (uint32_t)(calls / RANKS / 2),
                              .sizes = (uint64_t[]){25 << 20, 4 << 20},
                              .n_sizes = 2,
                              .trace = true,
                              .gpu = true,
                              .late_rank = 5,
                              .late_ns = 88000};
        double n = (double)gen_job_write(&job) / 1e6, bytes = 0, t;
        long peak = 0;

        for (int k = 0; k < RANKS; k++) {
                FILE *f;

                snprintf(paths[k], sizeof paths[k], "%s/node-%c0.%d.capo", folder,
                         k < 3 ? 'a' : 'b', 3000 + k);
                f = fopen(paths[k], "re");
                fseek(f, 0, SEEK_END);
                bytes += (double)ftell(f);
                fclose(f);
        }
        printf("%.2f M calls, %.1f bytes each on disk\n", n, bytes / n / 1e6);
        t = median_of(read_bytes);
        printf("  read    %8.1f ms  %7.0f M calls/s\n", 1e3 * t, n / t);
        t = median_of(check);
        printf("  check   %8.1f ms  %7.0f M calls/s\n", 1e3 * t, n / t);
        t = median_of(scan);
        printf("  scan    %8.1f ms  %7.0f M calls/s\n", 1e3 * t, n / t);
        t = report(capo, &peak);
        printf("  report  %8.1f ms  %7.0f M calls/s   peak memory %ld KiB\n", 1e3 * t, n / t, peak);
        for (int k = 0; k < RANKS; k++)
                unlink(paths[k]);
}

int main(int argc, char **argv)
{
        const char *build = argc > 1 ? argv[1] : getenv("CAPO_BUILD");
        uint64_t calls = argc > 2 ? strtoull(argv[2], NULL, 10) : 10000000;
        char capo[4096];
        cpu_set_t one;

        snprintf(capo, sizeof capo, "%s/cli/capo", build ? build : "build");
        CPU_ZERO(&one);
        CPU_SET(sched_getcpu(), &one);
        sched_setaffinity(0, sizeof one, &one);
        if (!mkdtemp(dir))
                return 1;
        strcpy(folder, dir);
        printf("medians of %d, one core\n", RUNS);
        measure(capo, calls);
        measure(capo, calls / 100);
        rmdir(dir);
        return 0;
}
