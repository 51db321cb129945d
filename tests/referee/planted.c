/* SPDX-License-Identifier: Apache-2.0 */
/*
 * planted: a job that does what it is told and writes down what it did, so that a page about it can be held against the
 * truth. Every rank runs the same steps:
 *
 *      allreduce:8K:50          so many calls, the stream synchronised after each
 *      allreduce:8K:50:async    all enqueued at once, synchronised after the last
 *      late:2:20                from here on rank 2 comes 20 ms late to every call (late:-1:0 ends it)
 *      sleep:2:3000             rank 2 sleeps once
 *      work:30                  every rank computes for 30 ms on the host
 *      even:allgather:64K:20    the same in a communicator of the even ranks
 *      group:allreduce:8K:20    each call between ncclGroupStart and ncclGroupEnd
 *      bad:1                    rank 1 makes a call with a data type that does not exist, and goes on
 *      kill:2                   rank 2 kills itself with SIGKILL; exit:2 leaves by _exit(3)
 *      stop:2:2000              rank 2 is stopped (SIGSTOP) and continued by a child of its own
 *
 * With PLANTED_TRUTH=FOLDER each rank appends lines to FOLDER/rank.<n> as it goes:
 *
 *      call <comm> <name> <bytes> <begin> <end> <gpu begin> <gpu end>
 *
 * Times are ns of CLOCK_MONOTONIC; those of the GPU come from events of the program's own around the call. They are
 * written when the stream has been synchronised, so a rank that is killed has written whatever it finished.
 */
#include <math.h>
#include <signal.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../jobs/job.h"

enum { MAX_CALLS = 20000 };

static struct job job;
static ncclComm_t even;
static CUdeviceptr from, into;
static size_t room;
static FILE *truth;
static CUevent base;
static double base_s;
static int late_rank = -1;
static double late_s;

static struct call {
        const char *comm, *name;
        uint64_t bytes;
        double begin, end;
        CUevent before, after;
} calls[MAX_CALLS];
static int n_calls, n_written;

static void nap(double s)
{
        usleep((useconds_t)(s * 1e6));
}

static void write_truth(void)
{
        for (; n_written < n_calls; n_written++) {
                const struct call *c = &calls[n_written];
                float before, after;

                CU_CHECK(cuEventElapsedTime(&before, base, c->before));
                CU_CHECK(cuEventElapsedTime(&after, base, c->after));
                CU_CHECK(cuEventDestroy(c->before));
                CU_CHECK(cuEventDestroy(c->after));
                if (truth)
                        fprintf(truth, "call %s %s %lu %.0f %.0f %.0f %.0f\n", c->comm, c->name, c->bytes,
                                c->begin * 1e9, c->end * 1e9, (base_s + before / 1e3) * 1e9,
                                (base_s + after / 1e3) * 1e9);
        }
        if (truth)
                fflush(truth);
}

static void synchronise(void)
{
        CU_CHECK(cuStreamSynchronize(job.stream));
        write_truth();
}

/* One call of @bytes (as the report counts them: the total over ranks for all-gather and reduce-scatter). */
static void issue(const char *name, uint64_t bytes, ncclComm_t comm, int n)
{
        void *a = (void *)from, *b = (void *)into;
        size_t count = bytes / 4, part = count / (size_t)n;

        if (!strcmp(name, "AllReduce"))
                NCCL_CHECK(ncclAllReduce(a, b, count, ncclFloat32, ncclSum, comm, job.stream));
        else if (!strcmp(name, "Broadcast"))
                NCCL_CHECK(ncclBroadcast(a, b, count, ncclFloat32, 0, comm, job.stream));
        else if (!strcmp(name, "Reduce"))
                NCCL_CHECK(ncclReduce(a, b, count, ncclFloat32, ncclSum, 0, comm, job.stream));
        else if (!strcmp(name, "AllGather"))
                NCCL_CHECK(ncclAllGather(a, b, part, ncclFloat32, comm, job.stream));
        else
                NCCL_CHECK(ncclReduceScatter(a, b, part, ncclFloat32, ncclSum, comm, job.stream));
}

static const char *call_name(const char *word)
{
        static const char *const names[] = {"AllReduce", "Broadcast", "Reduce", "AllGather", "ReduceScatter"};

        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
                if (!strcasecmp(word, names[i]))
                        return names[i];
        }
        fprintf(stderr, "planted: no such step: %s\n", word);
        exit(2);
}

static uint64_t size(const char *text)
{
        char *end;
        uint64_t n = strtoull(text, &end, 10);

        return *end == 'K' ? n << 10 : *end == 'M' ? n << 20 : n;
}

static void collective(const char *word, char *rest, bool in_even, bool group)
{
        const char *name = call_name(word), *how;
        uint64_t bytes = size(strtok_r(NULL, ":", &rest));
        int times = atoi(strtok_r(NULL, ":", &rest));
        bool async = (how = strtok_r(NULL, ":", &rest)) && !strcmp(how, "async");
        ncclComm_t comm = in_even ? even : job.comm;

        if (in_even && job.rank % 2)
                return;
        if (bytes > room) {
                if (room) {
                        CU_CHECK(cuMemFree(from));
                        CU_CHECK(cuMemFree(into));
                }
                room = bytes;
                CU_CHECK(cuMemAlloc(&from, room));
                CU_CHECK(cuMemAlloc(&into, room));
        }
        for (int i = 0; i < times; i++) {
                struct call *c = &calls[n_calls];

                if (n_calls == MAX_CALLS) {
                        fprintf(stderr, "planted: more than %d calls\n", MAX_CALLS);
                        exit(2);
                }
                if (job.rank == late_rank)
                        nap(late_s);
                *c = (struct call){.comm = in_even ? "even" : "world", .name = name, .bytes = bytes};
                CU_CHECK(cuEventCreate(&c->before, 0));
                CU_CHECK(cuEventCreate(&c->after, 0));
                CU_CHECK(cuEventRecord(c->before, job.stream));
                c->begin = job_now();
                if (group)
                        NCCL_CHECK(ncclGroupStart());
                issue(name, bytes, comm, in_even ? (job.n + 1) / 2 : job.n);
                if (group)
                        NCCL_CHECK(ncclGroupEnd());
                c->end = job_now();
                CU_CHECK(cuEventRecord(c->after, job.stream));
                n_calls++;
                if (!in_even)
                        job_issued(name, bytes);
                if (!async)
                        synchronise();
        }
        synchronise();
}

static void stop_for(double s)
{
        pid_t me = getpid(), child = fork();

        if (child == 0) {
                nap(s);
                kill(me, SIGCONT);
                _exit(0);
        }
        raise(SIGSTOP);
        waitpid(child, NULL, 0);
}

static void step(char *text)
{
        char *rest, *word = strtok_r(text, ":", &rest);
        bool group = !strcmp(word, "group"), in_even = !strcmp(word, "even");
        int rank;

        if (group || in_even) {
                word = strtok_r(NULL, ":", &rest);
                collective(word, rest, in_even, group);
                return;
        }
        if (!strcmp(word, "work")) {
                double end = job_now() + atof(strtok_r(NULL, ":", &rest)) / 1e3;

                while (job_now() < end)
                        ;
                return;
        }
        if (!strchr("lsbke", *word) || strlen(word) > 5) {
                collective(word, rest, false, false);
                return;
        }
        rank = atoi(strtok_r(NULL, ":", &rest));
        if (!strcmp(word, "late")) {
                late_rank = rank;
                late_s = atof(strtok_r(NULL, ":", &rest)) / 1e3;
                return;
        }
        if (rank != job.rank)
                return;
        if (!strcmp(word, "sleep")) {
                nap(atof(strtok_r(NULL, ":", &rest)) / 1e3);
        } else if (!strcmp(word, "stop")) {
                stop_for(atof(strtok_r(NULL, ":", &rest)) / 1e3);
        } else if (!strcmp(word, "bad")) {
                if (!ncclAllReduce((void *)from, (void *)into, 1, (ncclDataType_t)99, ncclSum, job.comm, job.stream)) {
                        fprintf(stderr, "planted: a data type that does not exist was taken\n");
                        exit(2);
                }
        } else if (!strcmp(word, "kill")) {
                raise(SIGKILL);
        } else if (!strcmp(word, "exit")) {
                _exit(3);
        } else {
                call_name(word);
        }
}

int main(int argc, char **argv)
{
        const char *folder = getenv("PLANTED_TRUTH");
        char path[4096];
        bool split = false;

        job_open(&job, "world");
        for (int i = 1; i < argc; i++)
                split |= !strncmp(argv[i], "even:", 5);
        if (split)
                NCCL_CHECK(ncclCommSplit(job.comm, job.rank % 2 ? NCCL_SPLIT_NOCOLOR : 0, job.rank, &even, NULL));
        if (folder) {
                snprintf(path, sizeof path, "%s/rank.%d", folder, job.rank);
                truth = fopen(path, "we");
        }
        CU_CHECK(cuEventCreate(&base, 0));
        CU_CHECK(cuEventRecord(base, job.stream));
        CU_CHECK(cuEventSynchronize(base));
        base_s = job_now();
        for (int i = 1; i < argc; i++)
                step(strdup(argv[i]));
        if (even)
                NCCL_CHECK(ncclCommDestroy(even));
        job_close(&job);
        if (job.rank == 0)
                job_report(&job, stdout);
        return 0;
}
