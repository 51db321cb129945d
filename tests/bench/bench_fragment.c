/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long allocations take to analyse: all subsets of a DGX-1V, one allocation, naming all
 * classes, and a rack of 72 GPUs behind one switch. Medians of several rounds; nothing is asserted.
 *
 *      fragment-bench BUILD [ROUNDS]
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/base/util.h"
#include "profiles/fragment/fragment.h"

#define ROUNDS_MAX 101

static double now_ms(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int by_value(const void *a, const void *b)
{
        double x = *(const double *)a, y = *(const double *)b;

        return (x > y) - (x < y);
}

static double median(double *v, int n)
{
        qsort(v, (size_t)n, sizeof *v, by_value);
        return v[n / 2];
}

enum { CEILINGS = 1, NAMES = 2 };

static void analyse(const struct capo_topology *t, const int *gpus, int n, unsigned what, int jobs)
{
        struct capo_alloc a;
        struct capo_ceilings c;
        char name[CAPO_CLASS_ROOM];

        capo_alloc_gpus(gpus, n, &a);
        if (jobs & CEILINGS) {
                if (capo_ceilings(t, &a, what, &c) < 0)
                        exit(1);
        }
        if (jobs & NAMES)
                capo_class_name(t, &a, name, sizeof name);
        capo_alloc_free(&a);
}

static int subsets(const struct capo_topology *t, unsigned what, int jobs)
{
        int done = 0;

        for (unsigned set = 1; set < 1u << t->n_gpus; set++) {
                int gpus[16], n = 0;

                for (int g = 0; g < (int)t->n_gpus; g++) {
                        if (set >> g & 1)
                                gpus[n++] = g;
                }
                if (n >= 2) {
                        analyse(t, gpus, n, what, jobs);
                        done++;
                }
        }
        return done;
}

int main(int argc, char **argv)
{
        const unsigned all = CAPO_CEILING_RINGS | CAPO_CEILING_HYBRID;
        struct capo_topology *dgx, *h100, *rack;
        double ms[ROUNDS_MAX];
        char why[512], dgx_path[4096], h100_path[4096];
        int rounds = argc > 2 ? atoi(argv[2]) : 11, gpus[72], n = 0;

        if (argc < 2 || rounds < 1 || rounds > ROUNDS_MAX) {
                fputs("usage: fragment-bench BUILD [ROUNDS]\n", stderr);
                return 2;
        }
        snprintf(dgx_path, sizeof dgx_path, "%s/profiles/data/dgx1v.xml", argv[1]);
        snprintf(h100_path, sizeof h100_path, "%s/profiles/data/hgxh100.xml", argv[1]);
        if (capo_topology_read(dgx_path, 0, 0, &dgx, why, sizeof why) < 0 ||
            capo_topology_read(h100_path, 0, 0, &h100, why, sizeof why) < 0 ||
            capo_topology_made("gb200-nvl72", 0, &rack, why, sizeof why) < 0) {
                fprintf(stderr, "%s\n", why);
                return 1;
        }
        for (int g = 0; g < 72; g++)
                gpus[g] = g;
        printf("fragment analysis, median of %d rounds, ms (CLOCK_MONOTONIC)\n", rounds);
#define ROW(text, call)                    \
        for (int i = 0; i < rounds; i++) { \
                double t0 = now_ms();      \
                                           \
                call;                      \
                ms[i] = now_ms() - t0;     \
        }                                  \
        printf("  %-58s %9.3f\n", text, median(ms, rounds))
        ROW("247 subsets of a DGX-1V: ceilings over NVLink", n = subsets(dgx, 0, CEILINGS));
        ROW("the same with rings, chains and hybrid ceilings", subsets(dgx, all, CEILINGS));
        ROW("247 subsets named by class", subsets(dgx, 0, NAMES));
        ROW("full DGX-1V: everything", analyse(dgx, gpus, 8, all, CEILINGS | NAMES));
        ROW("8 H100 behind NVSwitch with PCIe and NICs: everything",
            analyse(h100, gpus, 8, all, CEILINGS | NAMES));
        ROW("72 GPUs of an NVSwitch rack: everything",
            analyse(rack, gpus, 72, all, CEILINGS | NAMES));
        if (n != 247)
                printf("  (%d subsets)\n", n);
        capo_topology_free(dgx);
        capo_topology_free(h100);
        capo_topology_free(rack);
        return 0;
}
