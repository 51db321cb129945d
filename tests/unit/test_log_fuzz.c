/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 10,000 damaged logs through reader, statistics and skew, always the same ones. Half have bytes
 * changed anywhere; in the other half the checksums are made right again afterwards, so that the
 * payloads' own lies get through.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <criterion/criterion.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "analysis/job/stats.h"
#include "core/base/util.h"
#include "tests/golden/gen_log.h"
#include "tests/job_add.h"

static uint64_t state = 0x2545f4914f6cdd1d;

static uint64_t next(uint64_t below)
{
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        return (state >> 8) % below;
}

static size_t slurp(const char *path, unsigned char **out)
{
        FILE *f = fopen(path, "re");
        struct stat st;

        cr_assert(f && fstat(fileno(f), &st) == 0);
        *out = malloc((size_t)st.st_size);
        cr_assert_eq(fread(*out, 1, (size_t)st.st_size, f), (size_t)st.st_size);
        fclose(f);
        return (size_t)st.st_size;
}

static void make_sums_right(unsigned char *log, size_t size)
{
        struct capo_frame f;

        for (size_t at = 72; at + sizeof f <= size; at += sizeof f + ((f.size + 7u) & ~7u)) {
                memcpy(&f, log + at, sizeof f);
                if (f.size > size - at - sizeof f)
                        return;
                f.check = XXH3_64bits_withSeed(log + at + sizeof f, f.size,
                                               f.type | (uint64_t)f.flags << 16 |
                                                       (uint64_t)f.size << 32);
                memcpy(log + at, &f, sizeof f);
        }
}

/* Interesting values more often than random ones: that is where the bounds are. */
static void mutate(unsigned char *log, size_t size)
{
        static const uint32_t edges[] = {0,      1,       0x7fffffff, 0x80000000, 0xffffffff,
                                         0xffff, 0x10000, 463,        464};

        for (uint64_t n = 1 + next(6); n--;) {
                size_t at = next(16) ? 72 + next(size - 72) : next(72);

                if (next(2)) {
                        log[at] ^= (unsigned char)(1u << next(8));
                } else if (at + 4 <= size) {
                        memcpy(log + (at & ~(size_t)3), &edges[next(N_ELEMENTS(edges))], 4);
                }
        }
}

Test(log_fuzz, ten_thousand_damaged_logs, .timeout = 300)
{
        char dir[] = "/tmp/capo-test-fuzz-XXXXXX", path[128], why[256];
        unsigned char *seeds[3];
        size_t sizes[3];
        unsigned used = 0, refused = 0;
        int fd = memfd_create("log", 0);

        cr_assert(mkdtemp(dir) && fd >= 0);
        gen_mixed_write(dir);
        gen_job_write(&(struct gen_job){.dir = dir,
                                        .layout = (unsigned[]){2},
                                        .n_nodes = 1,
                                        .n_steps = 40,
                                        .sizes = (uint64_t[]){64, 4096},
                                        .n_sizes = 2,
                                        .trace = true,
                                        .killed = true,
                                        .stale = true,
                                        .gpu = true});
        for (unsigned i = 0; i < 3; i++) {
                static const char *const names[] = {"host0.700.capo", "node-a0.3000.capo",
                                                    "node-a0.3001.capo"};

                snprintf(path, sizeof path, "%s/%s", dir, names[i]);
                sizes[i] = slurp(path, &seeds[i]);
        }
        snprintf(path, sizeof path, "rm -rf %s", dir);
        cr_assert_eq(system(path), 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);

        for (unsigned round = 0; round < 5000; round++) { /* two logs each, so that ranks meet */
                struct capo_job *job = capo_job_new();

                for (unsigned k = 0; k < 2; k++) {
                        unsigned seed = round % 2 ? 1 + k : (unsigned)next(3);
                        _cleanup_free_ unsigned char *log = malloc(sizes[seed]);
                        size_t size = sizes[seed] - (next(8) ? 0 : next(sizes[seed]));

                        memcpy(log, seeds[seed], sizes[seed]);
                        mutate(log, sizes[seed]);
                        if (round % 4 < 2)
                                make_sums_right(log, sizes[seed]);
                        cr_assert_eq(ftruncate(fd, 0), 0);
                        cr_assert_eq(pwrite(fd, log, size, 0), (ssize_t)size);
                        if (add_log(job, path, why, sizeof why) == 0)
                                used++;
                        else
                                refused++;
                }
                capo_job_finish(job);
                for (uint32_t i = 0; i < job->n_rows; i++) {
                        double algbw, busbw;

                        capo_job_row_bandwidth(job, &job->rows[i], &algbw, &busbw);
                        capo_job_row_total_ns(&job->rows[i]);
                }
                capo_job_free(job);
        }
        cr_assert_eq(used + refused, 10000);
        cr_assert_gt(used, 8000, "%u", used);
        for (unsigned i = 0; i < 3; i++)
                free(seeds[i]);
        close(fd);
}
