/* SPDX-License-Identifier: Apache-2.0 */
/*
 * planted: a job that runs a script of steps and writes down what it did (../jobs/truth.h), so that
 * a page about it can be held against the truth. Every process runs the same steps:
 *
 *      gpus:2                   first: every process has two GPUs, each a rank; their calls are
 *                               made in one group
 *      allreduce:8K:50          so many calls, the stream synchronised after each
 *      allreduce:8K:50:async    all enqueued at once, synchronised after the last
 *      late:2:20                from here on process 2 comes 20 ms late to every call (late:-1:0
 *                               ends it)
 *      sleep:2:3000             process 2 sleeps once; -1 is all of them
 *      work:30                  every process computes for 30 ms on the host
 *      even:allgather:64K:20    the same in a communicator of the even ranks
 *      twin:allreduce:64K:20    the same in a second communicator of all ranks, on a stream of its
 *                               own
 *      both:allreduce:64K:20    each call in the world, and in the twin while that one runs
 *      group:allreduce:8K:20    each call between ncclGroupStart and ncclGroupEnd
 *      bad:1                    process 1 makes a call with a data type that does not exist, and
 *                               goes on
 *      kill:2                   process 2 kills itself with SIGKILL; exit:2 leaves by _exit(3)
 *      stop:2:2000              process 2 is stopped (SIGSTOP) and continued by a child of its own
 */
#include <math.h>
#include <signal.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../jobs/perf_job.h"

enum { MAX_GPUS = 4 };

/* Communicators a step can be in; bits, since "both" is two. */
enum { WORLD = 1, EVEN = 2, TWIN = 4 };

static struct gpu {
        struct job job;
        ncclComm_t even, twin;
        CUstream second;        /* the twin's */
        CUdeviceptr from, into; /* into: one part for each stream */
} gpus[MAX_GPUS];
static int n_gpus = 1, me; /* me: of the processes */
static size_t room;
static int late = -1;
static double late_s;

static void nap(double s) { usleep((useconds_t)(s * 1e6)); }

static void synchronise(void)
{
        for (int g = 0; g < n_gpus; g++) {
                CU_CHECK(cuCtxSetCurrent(gpus[g].job.ctx));
                CU_CHECK(cuStreamSynchronize(gpus[g].job.stream));
                if (gpus[g].second)
                        CU_CHECK(cuStreamSynchronize(gpus[g].second));
                truth_write(gpus[g].job.truth);
        }
}

/* One call of @bytes (as the report counts them: the total over ranks for all-gather and
 * reduce-scatter). */
static void issue(const struct gpu *gpu, const char *name, uint64_t bytes, int in)
{
        ncclComm_t comm = in == EVEN ? gpu->even : in == TWIN ? gpu->twin : gpu->job.comm;
        CUstream stream = in == TWIN ? gpu->second : gpu->job.stream;
        void *a = (void *)gpu->from, *b = (void *)(gpu->into + (in == TWIN ? room : 0));
        size_t count = bytes / 4, part;
        int n;

        NCCL_CHECK(ncclCommCount(comm, &n));
        part = count / (size_t)n;
        if (!strcmp(name, "AllReduce"))
                NCCL_CHECK(ncclAllReduce(a, b, count, ncclFloat32, ncclSum, comm, stream));
        else if (!strcmp(name, "Broadcast"))
                NCCL_CHECK(ncclBroadcast(a, b, count, ncclFloat32, 0, comm, stream));
        else if (!strcmp(name, "Reduce"))
                NCCL_CHECK(ncclReduce(a, b, count, ncclFloat32, ncclSum, 0, comm, stream));
        else if (!strcmp(name, "AllGather"))
                NCCL_CHECK(ncclAllGather(a, b, part, ncclFloat32, comm, stream));
        else
                NCCL_CHECK(ncclReduceScatter(a, b, part, ncclFloat32, ncclSum, comm, stream));
}

static bool takes_part(const struct gpu *gpu, int in) { return in != EVEN || gpu->even; }

/* One call in one communicator, by each GPU of this process that is in it. */
static void call(const char *name, uint64_t bytes, int in, bool group)
{
        static const char *const names[] = {
                [WORLD] = "world", [EVEN] = "world/0", [TWIN] = "world/7"};

        for (int g = 0; g < n_gpus; g++) {
                struct gpu *gpu = &gpus[g];

                if (!takes_part(gpu, in))
                        continue;
                CU_CHECK(cuCtxSetCurrent(gpu->job.ctx));
                job_begin(&gpu->job, in == WORLD ? gpu->job.name : names[in], name, bytes,
                          in == TWIN ? gpu->second : gpu->job.stream);
        }
        if (group)
                NCCL_CHECK(ncclGroupStart());
        for (int g = 0; g < n_gpus; g++) {
                if (!takes_part(&gpus[g], in))
                        continue;
                CU_CHECK(cuCtxSetCurrent(gpus[g].job.ctx));
                issue(&gpus[g], name, bytes, in);
        }
        if (group)
                NCCL_CHECK(ncclGroupEnd());
        for (int g = 0; g < n_gpus; g++) {
                CU_CHECK(cuCtxSetCurrent(gpus[g].job.ctx));
                job_end(&gpus[g].job);
        }
}

static const char *call_name(const char *word)
{
        static const char *const names[] = {"AllReduce", "Broadcast", "Reduce", "AllGather",
                                            "ReduceScatter"};

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

static void make_room(size_t bytes)
{
        for (int g = 0; bytes > room && g < n_gpus; g++) {
                CU_CHECK(cuCtxSetCurrent(gpus[g].job.ctx));
                if (room) {
                        CU_CHECK(cuMemFree(gpus[g].from));
                        CU_CHECK(cuMemFree(gpus[g].into));
                }
                CU_CHECK(cuMemAlloc(&gpus[g].from, bytes));
                CU_CHECK(cuMemAlloc(&gpus[g].into, 2 * bytes));
        }
        room = bytes > room ? bytes : room;
}

static void collective(const char *word, char *rest, int in, bool group)
{
        const char *name = call_name(word), *how;
        uint64_t bytes = size(strtok_r(NULL, ":", &rest));
        int times = atoi(strtok_r(NULL, ":", &rest));
        bool async = in == (WORLD | TWIN) ||
                     ((how = strtok_r(NULL, ":", &rest)) && !strcmp(how, "async"));

        if (in == EVEN && n_gpus == 1 && !gpus[0].even)
                return;
        make_room(bytes);
        for (int i = 0; i < times; i++) {
                if (me == late)
                        nap(late_s);
                for (int one = WORLD; one <= TWIN; one *= 2) {
                        if (in & one)
                                call(name, bytes, one, group || n_gpus > 1);
                }
                if (!async)
                        synchronise();
        }
        synchronise();
}

static void stop_for(double s)
{
        pid_t pid = getpid(), child = fork();

        if (child == 0) {
                nap(s);
                kill(pid, SIGCONT);
                _exit(0);
        }
        raise(SIGSTOP);
        waitpid(child, NULL, 0);
}

/* What one process does, or all (@who -1). */
static bool deed(const char *word, int who, double s)
{
        bool mine = who < 0 || who == me;

        if (!strcmp(word, "late")) {
                late = who;
                late_s = s;
        } else if (!strcmp(word, "sleep")) {
                if (mine)
                        nap(s);
        } else if (!strcmp(word, "stop")) {
                if (mine)
                        stop_for(s);
        } else if (!strcmp(word, "bad")) {
                if (mine && !ncclAllReduce((void *)gpus[0].from, (void *)gpus[0].into, 1,
                                           (ncclDataType_t)99, ncclSum, gpus[0].job.comm,
                                           gpus[0].job.stream)) {
                        fprintf(stderr, "planted: a data type that does not exist was taken\n");
                        exit(2);
                }
        } else if (!strcmp(word, "kill")) {
                if (mine)
                        raise(SIGKILL);
        } else if (!strcmp(word, "exit")) {
                if (mine)
                        _exit(3);
        } else {
                return false;
        }
        return true;
}

static void step(char *text)
{
        char *rest, *word = strtok_r(text, ":", &rest), *saved;
        bool group = !strcmp(word, "group");
        int in = !strcmp(word, "even")   ? EVEN
                 : !strcmp(word, "twin") ? TWIN
                 : !strcmp(word, "both") ? WORLD | TWIN
                                         : WORLD;

        if (!strcmp(word, "gpus"))
                return;
        if (group || in != WORLD) {
                word = strtok_r(NULL, ":", &rest);
                collective(word, rest, in, group);
                return;
        }
        if (!strcmp(word, "work")) {
                double end = job_now() + atof(rest) / 1e3;

                while (job_now() < end)
                        ;
                return;
        }
        saved = strchr(rest, ':');
        if (!deed(word, atoi(rest), saved ? atof(saved + 1) / 1e3 : 0))
                collective(word, rest, WORLD, false);
}

/* A communicator of @color made of the world's; of all ranks, or of the even ones. */
static void split(int color, bool only_even)
{
        if (n_gpus > 1)
                NCCL_CHECK(ncclGroupStart());
        for (int g = 0; g < n_gpus; g++) {
                struct gpu *gpu = &gpus[g];
                int rank = gpu->job.rank;

                CU_CHECK(cuCtxSetCurrent(gpu->job.ctx));
                if (!only_even)
                        CU_CHECK(cuStreamCreate(&gpu->second, CU_STREAM_NON_BLOCKING));
                NCCL_CHECK(ncclCommSplit(gpu->job.comm,
                                         only_even && rank % 2 ? NCCL_SPLIT_NOCOLOR : color, rank,
                                         only_even ? &gpu->even : &gpu->twin, NULL));
        }
        if (n_gpus > 1)
                NCCL_CHECK(ncclGroupEnd());
}

int main(int argc, char **argv)
{
        struct job jobs[MAX_GPUS];
        bool even = false, twin = false;

        if (argc > 1 && !strncmp(argv[1], "gpus:", 5))
                n_gpus = atoi(argv[1] + 5);
        for (int i = 1; i < argc; i++) {
                even |= !strncmp(argv[i], "even:", 5);
                twin |= !strncmp(argv[i], "twin:", 5) || !strncmp(argv[i], "both:", 5);
        }
        job_open_gpus(jobs, n_gpus, "world");
        me = jobs[0].rank / n_gpus;
        for (int g = 0; g < n_gpus; g++)
                gpus[g].job = jobs[g];
        if (even)
                split(0, true);
        if (twin)
                split(7, false);
        for (int i = 1; i < argc; i++)
                step(strdup(argv[i]));
        for (int g = 0; g < n_gpus; g++) {
                CU_CHECK(cuCtxSetCurrent(gpus[g].job.ctx));
                if (gpus[g].even)
                        NCCL_CHECK(ncclCommDestroy(gpus[g].even));
                if (gpus[g].twin)
                        NCCL_CHECK(ncclCommDestroy(gpus[g].twin));
        }
        for (int g = 0; g < n_gpus; g++)
                job_close(&gpus[g].job);
        if (me == 0)
                job_report(&jobs[0], stdout);
        return 0;
}
