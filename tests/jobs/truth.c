/* SPDX-License-Identifier: Apache-2.0 */
#include "perf_job.h"
#include "truth.h"

enum { MAX_CALLS = 100000 };

struct truth {
        FILE *out;
        CUevent base;
        double base_s;
        int n, n_ended, n_written;
        struct call {
                const char *comm, *name;
                uint64_t bytes;
                double begin, end;
                CUstream stream;
                CUevent before, after;
        } calls[MAX_CALLS];
};

struct truth *truth_open(int rank, CUstream stream)
{
        const char *folder = getenv("JOB_TRUTH");
        struct truth *t;
        char path[4096];

        if (!folder)
                return NULL;
        t = calloc(1, sizeof *t);
        snprintf(path, sizeof path, "%s/rank.%d", folder, rank);
        if (!t || !(t->out = fopen(path, "we"))) {
                perror(path);
                exit(1);
        }
        CU_CHECK(cuEventCreate(&t->base, 0));
        CU_CHECK(cuEventRecord(t->base, stream));
        CU_CHECK(cuEventSynchronize(t->base));
        t->base_s = job_now();
        return t;
}

void truth_begin(struct truth *t, const char *comm, const char *name, uint64_t bytes,
                 CUstream stream)
{
        struct call *c;

        if (!t)
                return;
        if (t->n == MAX_CALLS) {
                fprintf(stderr, "truth: more than %d calls\n", MAX_CALLS);
                exit(2);
        }
        c = &t->calls[t->n++];
        *c = (struct call){.comm = comm, .name = name, .bytes = bytes, .stream = stream};
        CU_CHECK(cuEventCreate(&c->before, 0));
        CU_CHECK(cuEventCreate(&c->after, 0));
        CU_CHECK(cuEventRecord(c->before, stream));
        c->begin = job_now();
}

void truth_end(struct truth *t)
{
        double now = job_now();

        for (; t && t->n_ended < t->n; t->n_ended++) {
                t->calls[t->n_ended].end = now;
                CU_CHECK(cuEventRecord(t->calls[t->n_ended].after, t->calls[t->n_ended].stream));
        }
}

void truth_write(struct truth *t)
{
        for (; t && t->n_written < t->n_ended; t->n_written++) {
                struct call *c = &t->calls[t->n_written];
                float before, after;

                if (cuEventQuery(c->after) == CUDA_ERROR_NOT_READY)
                        break;
                CU_CHECK(cuEventElapsedTime(&before, t->base, c->before));
                CU_CHECK(cuEventElapsedTime(&after, t->base, c->after));
                CU_CHECK(cuEventDestroy(c->before));
                CU_CHECK(cuEventDestroy(c->after));
                fprintf(t->out, "call %s %s %lu %.0f %.0f %.0f %.0f\n", c->comm, c->name, c->bytes,
                        c->begin * 1e9, c->end * 1e9, (t->base_s + before / 1e3) * 1e9,
                        (t->base_s + after / 1e3) * 1e9);
        }
        if (t)
                fflush(t->out);
}

void truth_close(struct truth *t)
{
        if (!t)
                return;
        truth_write(t);
        if (t->n_written < t->n) {
                fprintf(stderr, "truth: %d calls are not done at the end\n", t->n - t->n_written);
                exit(1);
        }
        fclose(t->out);
        free(t);
}
