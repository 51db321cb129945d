/* SPDX-License-Identifier: Apache-2.0 */
/* usage: gen_job DIR mixed | pattern FILE key=value... | key=value...   a made-up job's logs
 * (gen_log.h), for scripts and by hand. pattern (gen_pattern.h): copies=N rounds=N busy=1
 * late_rank=R late_ns=N, and missing=R or differs=R with at=N. layout=3+5 steps=N sizes=B,B,...
 * trace=1 gpu=1 late_rank=R late_ns=N clock_ns=N drift=D missing=N killed=1 kept=N modelled=R
 * slow_ns=N symk=1 queued=1 bus=1 */
#include <stdlib.h>
#include <string.h>

#include "core/base/layout.h"
#include "core/base/size.h"
#include "tests/golden/gen_log.h"
#include "tests/golden/gen_pattern.h"

static int from_pattern(const char *dir, const char *file, char **word)
{
        struct pattern_job job = {.dir = dir, .copies = 1, .rounds = 1, .late_rank = -1};
        struct pattern p;
        uint64_t written;

        pattern_read(file, &p);
        for (; *word; word++) {
                unsigned long long value =
                        strtoull(*word + strcspn(*word, "=") + !!strchr(*word, '='), NULL, 10);
                size_t n = strcspn(*word, "=");

                if (!strncmp(*word, "copies", n))
                        job.copies = (unsigned)value;
                else if (!strncmp(*word, "rounds", n))
                        job.rounds = (unsigned)value;
                else if (!strncmp(*word, "late_rank", n))
                        job.late_rank = (int)value;
                else if (!strncmp(*word, "late_ns", n))
                        job.late_ns = value;
                else if (!strncmp(*word, "busy", n))
                        job.busy = value;
                else if (!strncmp(*word, "missing", n))
                        job.fault = PATTERN_MISSING, job.fault_rank = (unsigned)value;
                else if (!strncmp(*word, "differs", n))
                        job.fault = PATTERN_DIFFERS, job.fault_rank = (unsigned)value;
                else if (!strncmp(*word, "at", n))
                        job.fault_at = (unsigned)value;
                else
                        return 2;
        }
        if (!job.copies || !job.rounds)
                return 2;
        written = pattern_write(&p, &job);
        printf("%llu\n", (unsigned long long)written);
        pattern_free(&p);
        return 0;
}

int main(int argc, char **argv)
{
        static unsigned nodes[4096];
        static uint64_t sizes[64];
        struct capo_layout layout = {0};
        struct gen_job job = {.layout = nodes, .n_steps = 100, .sizes = sizes};

        if (argc < 2) {
                fputs("usage: gen_job DIR key=value...\n", stderr);
                return 2;
        }
        job.dir = argv[1];
        if (argc == 3 && !strcmp(argv[2], "mixed")) {
                gen_mixed_write(argv[1]);
                return 0;
        }
        if (argc > 3 && !strcmp(argv[2], "pattern"))
                return from_pattern(argv[1], argv[3], argv + 4);
        for (int i = 2; i < argc; i++) {
                char *value = strchr(argv[i], '=');

                if (!value)
                        return 2;
                *value++ = 0;
                if (!strcmp(argv[i], "layout")) {
                        if (capo_layout_parse(value, &layout, NULL) < 0)
                                return 2;
                } else if (!strcmp(argv[i], "sizes")) {
                        for (char *word = strtok(value, ","); word && job.n_sizes < 64;
                             word = strtok(NULL, ","))
                                capo_size_parse(word, &sizes[job.n_sizes++]);
                } else if (!strcmp(argv[i], "steps")) {
                        job.n_steps = (uint32_t)strtoul(value, NULL, 10);
                } else if (!strcmp(argv[i], "trace")) {
                        job.trace = atoi(value);
                } else if (!strcmp(argv[i], "gpu")) {
                        job.gpu = atoi(value);
                } else if (!strcmp(argv[i], "symk")) {
                        job.symk = atoi(value);
                } else if (!strcmp(argv[i], "queued")) {
                        job.queued = atoi(value);
                } else if (!strcmp(argv[i], "modelled")) {
                        job.modelled = (unsigned)atoi(value);
                } else if (!strcmp(argv[i], "late_rank")) {
                        job.late_rank = (unsigned)atoi(value);
                } else if (!strcmp(argv[i], "late_ns")) {
                        job.late_ns = (unsigned)atoi(value);
                } else if (!strcmp(argv[i], "slow_ns")) {
                        job.slow_ns = strtoull(value, NULL, 10);
                } else if (!strcmp(argv[i], "clock_ns")) {
                        job.clock_ns = atoll(value);
                } else if (!strcmp(argv[i], "drift")) {
                        job.drift = atof(value);
                } else if (!strcmp(argv[i], "missing")) {
                        job.missing = (unsigned)atoi(value);
                } else if (!strcmp(argv[i], "killed")) {
                        job.killed = atoi(value);
                } else if (!strcmp(argv[i], "kept")) {
                        job.kept_calls = (unsigned)atoi(value);
                } else if (!strcmp(argv[i], "bus")) {
                        job.bus = atoi(value);
                } else {
                        return 2;
                }
        }
        if (!layout.n_nodes)
                capo_layout_add(&layout, 8, 1);
        for (uint32_t run = 0; run < layout.n_runs; run++) {
                for (uint32_t k = 0; k < layout.runs[run].nodes && job.n_nodes < 4096; k++)
                        nodes[job.n_nodes++] = layout.runs[run].ranks;
        }
        if (!job.n_sizes)
                sizes[job.n_sizes++] = 25 << 20;
        printf("%llu\n", (unsigned long long)gen_job_write(&job));
        return 0;
}
