/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The start of every data-parallel program, written once: find rank and size, let rank 0 hand out
 * the unique id, make the communicator. Plain CUDA driver and NCCL calls, so it runs on a real GPU
 * as well as on the stand-in.
 */
#include <arpa/inet.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "perf_job.h"

static int env_int(const char *const *names, int otherwise)
{
        for (; *names; names++) {
                const char *text = getenv(*names);

                if (text && *text)
                        return atoi(text);
        }
        return otherwise;
}

double job_now(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void die(const char *what)
{
        perror(what);
        exit(1);
}

static void move(int fd, void *data, size_t bytes, bool out)
{
        char *p = data;

        while (bytes) {
                ssize_t r = out ? write(fd, p, bytes) : read(fd, p, bytes);

                if (r <= 0)
                        die("rendezvous: connection lost");
                p += r;
                bytes -= (size_t)r;
        }
}

static struct addrinfo *master(bool passive)
{
        struct addrinfo hints = {.ai_family = AF_INET,
                                 .ai_socktype = SOCK_STREAM,
                                 .ai_flags = passive ? AI_PASSIVE : 0},
                        *info;
        const char *host = getenv("MASTER_ADDR"), *port = getenv("MASTER_PORT");
        int r = getaddrinfo(host && *host ? host : "127.0.0.1", port && *port ? port : "29519",
                            &hints, &info);

        if (r) {
                fprintf(stderr, "MASTER_ADDR, MASTER_PORT: %s\n", gai_strerror(r));
                exit(1);
        }
        return info;
}

/* Rank 0 listens and gives each of the others the id. */
static void share_id(const struct job *job, ncclUniqueId *id)
{
        struct addrinfo *at = master(job->rank == 0);
        double t_end = job_now() + 60;
        int fd, one = 1;

        if (job->rank == 0) {
                fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
                setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
                if (fd < 0 || bind(fd, at->ai_addr, at->ai_addrlen) || listen(fd, job->n))
                        die("rendezvous: cannot listen at MASTER_ADDR:MASTER_PORT");
                for (int i = 1; i < job->n; i++) {
                        int peer = accept(fd, NULL, NULL);

                        if (peer < 0)
                                die("rendezvous: accept");
                        move(peer, id, sizeof *id, true);
                        close(peer);
                }
        } else {
                for (;;) {
                        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
                        if (fd >= 0 && !connect(fd, at->ai_addr, at->ai_addrlen))
                                break;
                        if (job_now() > t_end)
                                die("rendezvous: rank 0 does not listen at MASTER_ADDR:MASTER_PORT");
                        close(fd);
                        usleep(10000);
                }
                move(fd, id, sizeof *id, false);
        }
        close(fd);
        freeaddrinfo(at);
}

void job_open_gpus(struct job *jobs, int gpus, const char *name)
{
        static const char *const ranks[] = {"RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK",
                                            "PMI_RANK", NULL};
        static const char *const sizes[] = {"WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE",
                                            "PMI_SIZE", NULL};
        static const char *const locals[] = {"LOCAL_RANK", "SLURM_LOCALID",
                                             "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", NULL};
        struct job process = {.rank = env_int(ranks, 0), .n = env_int(sizes, 1)};
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        int version, count, local = env_int(locals, process.rank);
        ncclUniqueId id;

        CU_CHECK(cuInit(0));
        CU_CHECK(cuDeviceGetCount(&count));
        NCCL_CHECK(ncclGetVersion(&version));
        if (process.rank == 0)
                NCCL_CHECK(ncclGetUniqueId(&id));
        if (process.n > 1)
                share_id(&process, &id);
        config.commName = name;
        if (gpus > 1)
                NCCL_CHECK(ncclGroupStart());
        for (int i = 0; i < gpus; i++) {
                struct job *job = &jobs[i];

                *job = (struct job){.rank = process.rank * gpus + i,
                                    .n = process.n * gpus,
                                    .local = local * gpus + i,
                                    .name = name};
                CU_CHECK(cuDevicePrimaryCtxRetain(&job->ctx, job->local % count));
                CU_CHECK(cuCtxSetCurrent(job->ctx));
                CU_CHECK(cuStreamCreate(&job->stream, CU_STREAM_NON_BLOCKING));
                if (version >= 22703) /* communicators have names since 2.27 */
                        NCCL_CHECK(
                                ncclCommInitRankConfig(&job->comm, job->n, id, job->rank, &config));
                else
                        NCCL_CHECK(ncclCommInitRank(&job->comm, job->n, id, job->rank));
        }
        if (gpus > 1)
                NCCL_CHECK(ncclGroupEnd());
        for (int i = 0; i < gpus; i++) {
                CU_CHECK(cuCtxSetCurrent(jobs[i].ctx));
                jobs[i].truth = truth_open(jobs[i].rank, jobs[i].stream);
        }
}

void job_open(struct job *job, const char *name) { job_open_gpus(job, 1, name); }

void job_close(struct job *job)
{
        CU_CHECK(cuCtxSetCurrent(job->ctx));
        CU_CHECK(cuStreamSynchronize(job->stream));
        truth_close(job->truth);
        NCCL_CHECK(ncclCommDestroy(job->comm));
        CU_CHECK(cuStreamDestroy(job->stream));
}

static struct issued {
        const char *call;
        uint64_t bytes, times;
} * issued;
static size_t n_issued;

static void count_call(const char *call, uint64_t bytes)
{
        for (size_t i = 0; i < n_issued; i++)
                if (issued[i].bytes == bytes && !strcmp(issued[i].call, call)) {
                        issued[i].times++;
                        return;
                }
        issued = realloc(issued, (n_issued + 1) * sizeof *issued);
        if (!issued)
                die("issued");
        issued[n_issued++] = (struct issued){call, bytes, 1};
}

void job_begin(struct job *job, const char *comm, const char *call, uint64_t bytes, CUstream stream)
{
        if (comm == job->name)
                count_call(call, bytes);
        truth_begin(job->truth, comm, call, bytes, stream);
}

void job_end(struct job *job) { truth_end(job->truth); }

void job_report(const struct job *job, FILE *to)
{
        for (size_t i = 0; i < n_issued; i++)
                fprintf(to, "issued call=%s bytes=%lu times=%lu ranks=%d\n", issued[i].call,
                        issued[i].bytes, issued[i].times, job->n);
}

size_t job_type_bytes(ncclDataType_t type)
{
        static const unsigned char bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

        return (unsigned)type < sizeof bytes ? bytes[type] : 0;
}
