/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stranger_player SCRIPT: the words of scene_player.c, and some more; one process of a job, with one
 * or several GPUs (SCENE_GPUS), driven by a thread each or by one thread (SCENE_DRIVE=one).
 *
 * The communicator of all ranks gets its id from a file, so no rank waits for another outside NCCL.
 * As first words: early, noinit, later MS (before NCCL is called at all), nb (non-blocking world).
 * More words:
 *      init NAME SIZE RANK [NB]     another communicator by ncclCommInitRankConfig, next number
 *      shrink P FLAGS EXCLUDED...   ncclCommShrink of P, next number
 *      ready C MS                   asks a non-blocking C until it is ready (MS 0: for ever)
 *      syncfor STREAM MS            as sync, and gives up after MS (a watchdog's time)
 *      onerror C N MS               if the last answer or C has an error: after MS exit(N)
 *      finalize C | revoke C
 *      badroot C | badnull C | badpeer C    calls that NCCL refuses
 *      freeze MS                    stopped by SIGSTOP; a child continues it after MS
 *      burn MS                      computes
 *      drift FROM STEP MOST         sleeps FROM ms, STEP ms more each time it is played, up to MOST
 *      every N K MS                 sleeps MS in play K, K + N, K + 2N, ... of all "every" of the rank
 *      jitter LEAST MOST            sleeps a time between the two, another one for each rank and time
 *      gate                         a barrier over files, as often as it is played: no NCCL
 *      lock | unlock                a lock of all ranks on a file
 *      readpipe                     reads a pipe that nobody writes
 *      poll                         looks for a file every 2 ms, for ever
 *      gone RANK MS                 until the launcher noted the end of RANK, then MS more
 *      syncgone STREAM RANK MS      as sync, or as gone: whichever comes first
 *      deadlock                     locks a mutex that another thread never unlocks
 *      grow NAME P SIZE RANK       ncclCommGrow of P, next number; RANK -1: of P, else a new rank
 *      onterm MS CODE               from now on SIGTERM means: save for MS, then exit(CODE)
 *      kill RANK SIG | segv
 *      meet NAME                    a barrier over files: no NCCL
 *      kinds of coll: allreduce allreduce16 allreduce64 allreduceint allreducemax allgather
 *                     broadcast reduce reducescatter alltoall gather
 * clock.RANK (binary): where each thread is, calls per communicator, ms in host code, turns, ms in sync.
 */
#include <cuda.h>
#include <errno.h>
#include <fcntl.h>
#include <nccl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { COMMS = 24, STREAMS = 4, BYTES = 1 << 22, STEPS = 400, THREADS = 4, GPUS = 8, ARGS = 8 };

struct step {
        char line[56], word[16], kind[16];
        long arg[ARGS];
        int n_args, partner;
        unsigned mask; /* of the ranks of this process */
};

struct clock {
        struct {
                char step[56];
                double begin;
                int64_t active;
        } slot[6];
        int64_t calls[COMMS];
        double host_ms;
        int64_t turns, errors, last;
        double sync_ms;
};

struct list {
        struct step steps[STEPS];
        int n;
};

struct me {
        int rank, n;
        CUcontext ctx;
        ncclComm_t comms[COMMS];
        int n_comms, opened;
        CUstream streams[STREAMS];
        CUdeviceptr from, to;
        struct clock *clock;
        struct list *list;
        ncclResult_t last;
        bool nb, nbs[COMMS];
};

static struct me all[GPUS];
static int gpus = 1;
static bool one;
static __thread struct me *my;
static __thread int slot;
static char folder[480];
static pthread_mutex_t stuck = PTHREAD_MUTEX_INITIALIZER;

static void play_block(struct list *l, int begin, int end);

#define CU_CHECK(call)                                                          \
        do {                                                                    \
                CUresult r_ = (call);                                           \
                if (r_) {                                                       \
                        fprintf(stderr, "%s: CUDA error %d\n", #call, (int)r_); \
                        exit(90);                                               \
                }                                                               \
        } while (0)

static double now(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static char *make_path(char *path, const char *name, int number)
{
        if (number < 0)
                snprintf(path, 600, "%s/%s", folder, name);
        else
                snprintf(path, 600, "%s/%s.%d", folder, name, number);
        return path;
}

static void write_file(const char *path, const void *data, size_t bytes)
{
        char part[640];
        FILE *f;

        snprintf(part, sizeof part, "%s.%d.part", path, (int)getpid());
        f = fopen(part, "w");
        if (!f)
                return;
        fwrite(data, 1, bytes, f);
        fclose(f);
        rename(part, path);
}

static void write_number(const char *name, int number, long content)
{
        char path[600], text[32];

        snprintf(text, sizeof text, "%ld\n", content);
        write_file(make_path(path, name, number), text, strlen(text));
}

static long read_number(const char *name, int number)
{
        char path[600];
        long content = -1;
        FILE *f = fopen(make_path(path, name, number), "r");

        if (!f)
                return -1;
        if (fscanf(f, "%ld", &content) != 1)
                content = -1;
        fclose(f);
        return content;
}

/* --- NCCL --- */

static void note(ncclResult_t r, int c)
{
        ncclResult_t state = ncclInProgress;

        while (c >= 0 && my->nbs[c] && r == ncclInProgress && state == ncclInProgress) {
                ncclCommGetAsyncError(my->comms[c], &state);
                if (state == ncclInProgress)
                        usleep(200);
                else
                        r = state;
        }
        my->last = r;
        my->clock->last = r;
        if (r && r != ncclInProgress)
                my->clock->errors++;
}

/* The first rank of a communicator makes the id, the others wait for its file. */
static ncclUniqueId share_id(const char *name, int rank)
{
        char path[600], file[64];
        ncclUniqueId id;
        int fd;

        memset(&id, 0, sizeof id);
        snprintf(file, sizeof file, "id.%s", name);
        make_path(path, file, -1);
        if (rank == 0) {
                ncclGetUniqueId(&id);
                write_file(path, &id, sizeof id);
                return id;
        }
        while ((fd = open(path, O_RDONLY | O_CLOEXEC)) < 0)
                usleep(5000);
        if (read(fd, &id, sizeof id) != (ssize_t)sizeof id)
                exit(91);
        close(fd);
        return id;
}

static void init_comm(const struct step *s)
{
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        ncclUniqueId id = share_id(s->kind, (int)s->arg[1]);
        int c = my->n_comms++;

        config.commName = s->kind;
        if (s->n_args > 2)
                config.blocking = 0;
        my->last =
                ncclCommInitRankConfig(&my->comms[c], (int)s->arg[0], id, (int)s->arg[1], &config);
        my->nbs[c] = s->n_args > 2;
        my->clock->last = my->last;
}

static void shrink_comm(const struct step *s)
{
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        int out[ARGS], n = 0;

        for (int i = 2; i < s->n_args; i++)
                out[n++] = (int)s->arg[i];
        config.commName = "shrunk";
        note(ncclCommShrink(my->comms[s->arg[0]], out, n, &my->comms[my->n_comms++], &config,
                            (int)s->arg[1]),
             -1);
}

/* The first rank of P makes the id, as ncclCommGrow wants it; the new ranks wait for its file. */
static void grow_comm(const struct step *s)
{
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        int c = my->n_comms++, rank = (int)s->arg[2], old = 0;
        ncclComm_t parent = rank < 0 ? my->comms[s->arg[0]] : NULL;
        char path[600], file[64];
        ncclUniqueId id;

        config.commName = s->kind;
        if (parent)
                ncclCommUserRank(parent, &old);
        if (!parent) {
                id = share_id(s->kind, rank);
        } else if (old == 0) {
                note(ncclCommGetUniqueId(parent, &id), -1);
                snprintf(file, sizeof file, "id.%s", s->kind);
                write_file(make_path(path, file, -1), &id, sizeof id);
        }
        note(ncclCommGrow(parent, (int)s->arg[1], !parent || old == 0 ? &id : NULL, rank,
                          &my->comms[c], &config),
             -1);
}

static void split_comm(const struct step *s)
{
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        char name[24];

        snprintf(name, sizeof name, "part%ld", s->arg[1]);
        config.commName = name;
        int c = my->n_comms++;
        ncclResult_t r = ncclCommSplit(
                my->comms[s->arg[0]], s->arg[1] < 0 ? NCCL_SPLIT_NOCOLOR : (int)s->arg[1],
                s->n_args > 2 ? my->n - my->rank : my->rank, &my->comms[c], &config);

        my->nbs[c] = my->nbs[s->arg[0]] && my->comms[c];
        note(r, c);
}

static void wait_ready(const struct step *s)
{
        double end = now() + (double)s->arg[1] / 1e3;
        ncclResult_t state = ncclInProgress;

        while (s->arg[1] == 0 || now() < end) {
                ncclCommGetAsyncError(my->comms[s->arg[0]], &state);
                if (state != ncclInProgress)
                        break;
                usleep(2000);
        }
        my->last = state;
        my->clock->last = state;
        if (state && state != ncclInProgress)
                my->clock->errors++;
}

static void leave_on_error(const struct step *s)
{
        ncclResult_t state = my->last;

        if ((!state || state == ncclInProgress) && my->comms[s->arg[0]])
                ncclCommGetAsyncError(my->comms[s->arg[0]], &state);
        if (!state || state == ncclInProgress)
                return;
        fprintf(stderr, "rank %d: NCCL error %d\n", my->rank, (int)state);
        usleep((useconds_t)s->arg[2] * 1000);
        exit((int)s->arg[1]);
}

static void call_collective(const struct step *s, int c, size_t n, CUstream stream, int root)
{
        void *in = (void *)my->from, *out = (void *)my->to;
        ncclComm_t comm = my->comms[c];
        const char *k = s->kind;
        ncclResult_t r = ncclInvalidUsage;

        my->clock->calls[c]++;
        if (!strncmp(k, "allreduce", 9))
                r = ncclAllReduce(in, out, n,
                                  !strcmp(k + 9, "16")    ? ncclFloat16
                                  : !strcmp(k + 9, "64")  ? ncclFloat64
                                  : !strcmp(k + 9, "int") ? ncclInt32
                                                          : ncclFloat,
                                  !strcmp(k + 9, "max") ? ncclMax : ncclSum, comm, stream);
        else if (!strcmp(k, "broadcast"))
                r = ncclBroadcast(in, out, n, ncclFloat, root, comm, stream);
        else if (!strcmp(k, "reduce"))
                r = ncclReduce(in, out, n, ncclFloat, ncclSum, root, comm, stream);
        else if (!strcmp(k, "allgather"))
                r = ncclAllGather(in, out, n, ncclFloat, comm, stream);
        else if (!strcmp(k, "alltoall"))
                r = ncclAlltoAll(in, out, n, ncclFloat, comm, stream);
        else if (!strcmp(k, "gather"))
                r = ncclGather(in, out, n, ncclFloat, root, comm, stream);
        else if (!strcmp(k, "reducescatter"))
                r = ncclReduceScatter(in, out, n, ncclFloat, ncclSum, comm, stream);
        note(r, c);
}

static void pass_ring(int c, size_t n, bool everybody)
{
        ncclComm_t comm = my->comms[c];
        int me = 0, size = 1;

        ncclCommUserRank(comm, &me);
        ncclCommCount(comm, &size);
        my->clock->calls[c]++;
        ncclGroupStart();
        for (int i = 0; everybody && i < size; i++) {
                size_t count = n * (size_t)(1 + (me + i) % 3);

                ncclSend((void *)my->from, count, ncclFloat, i, comm, my->streams[0]);
                ncclRecv((void *)my->to, count, ncclFloat, i, comm, my->streams[0]);
        }
        if (!everybody) {
                ncclSend((void *)my->from, n, ncclFloat, (me + 1) % size, comm, my->streams[0]);
                ncclRecv((void *)my->to, n, ncclFloat, (me + size - 1) % size, comm,
                         my->streams[0]);
        }
        note(ncclGroupEnd(), c);
}

static void call_refused(const struct step *s, int c)
{
        void *in = (void *)my->from, *out = (void *)my->to;
        ncclComm_t comm = my->comms[c];
        CUstream stream = my->streams[0];

        if (!strcmp(s->word, "bad"))
                note(ncclAllReduce(in, out, 16, (ncclDataType_t)99, ncclSum, comm, stream), c);
        else if (!strcmp(s->word, "badroot"))
                note(ncclBroadcast(in, out, 16, ncclFloat, my->n, comm, stream), c);
        else if (!strcmp(s->word, "badnull"))
                note(ncclAllReduce(NULL, out, 16, ncclFloat, ncclSum, comm, stream), c);
        else
                note(ncclSend(in, 16, ncclFloat, my->n + 3, comm, stream), c);
}

static void call_nccl(const struct step *s)
{
        int c = (int)s->arg[0];
        ncclComm_t comm = my->comms[c];

        if (!strcmp(s->word, "coll"))
                call_collective(s, c, (size_t)s->arg[1], my->streams[s->arg[2]], (int)s->arg[3]);
        else if (!strcmp(s->word, "send") || !strcmp(s->word, "recv")) {
                my->clock->calls[c]++;
                note((*s->word == 's' ? ncclSend((void *)my->from, (size_t)s->arg[2], ncclFloat,
                                                 (int)s->arg[1], comm, my->streams[s->arg[3]])
                                      : ncclRecv((void *)my->to, (size_t)s->arg[2], ncclFloat,
                                                 (int)s->arg[1], comm, my->streams[s->arg[3]])),
                     c);
        } else if (!strcmp(s->word, "ring") || !strcmp(s->word, "exchange"))
                pass_ring(c, (size_t)s->arg[1], *s->word == 'e');
        else if (!strcmp(s->word, "abort")) {
                note(ncclCommAbort(comm), -1);
                my->comms[c] = NULL;
        } else if (!strcmp(s->word, "destroy")) {
                note(ncclCommDestroy(comm), -1);
                my->comms[c] = NULL;
        } else if (!strcmp(s->word, "revoke"))
                note(ncclCommRevoke(comm, 0), -1);
        else if (!strcmp(s->word, "finalize"))
                note(ncclCommFinalize(comm), -1);
        else
                call_refused(s, c);
}

/* --- the host and the GPU --- */

static void sleep_then_go_on(void *ms) { usleep((useconds_t)(long)ms * 1000); }

static void sleep_for_ever(void *nothing)
{
        for (;;)
                pause();
}

static void burn(long ms)
{
        double end = now() + (double)ms / 1e3;

        while (now() < end)
                for (volatile int i = 0; i < 20000; i++)
                        ;
}

static void freeze(long ms)
{
        pid_t parent = getpid();

        if (fork() == 0) {
                usleep((useconds_t)ms * 1000);
                kill(parent, SIGCONT);
                _exit(0);
        }
        raise(SIGSTOP);
        wait(NULL);
}

static void use_lock(bool take)
{
        static int fd = -1;
        char path[600];

        if (fd < 0)
                fd = open(make_path(path, "lock", -1), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        flock(fd, take ? LOCK_EX : LOCK_UN);
}

static void *hold_for_ever(void *nothing)
{
        pthread_mutex_lock(&stuck);
        sleep_for_ever(NULL);
        return nothing;
}

static sem_t told;
static long save_ms, save_code;

static void on_term(int signal_number) { sem_post(&told); }

static void *save_and_exit(void *nothing)
{
        while (sem_wait(&told))
                ;
        usleep((useconds_t)save_ms * 1000);
        exit((int)save_code);
}

static void save_at_term(long ms, long code)
{
        pthread_t thread;

        save_ms = ms;
        save_code = code;
        sem_init(&told, 0, 0);
        pthread_create(&thread, NULL, save_and_exit, NULL);
        signal(SIGTERM, on_term);
}

static void meet(const char *name)
{
        char path[600], file[40];

        snprintf(file, sizeof file, "meet-%s", name);
        write_number(file, my->rank, 1);
        for (int r = 0; r < my->n; r++)
                while (access(make_path(path, file, r), F_OK))
                        usleep(2000);
}

/* The counts are of the rank: no scene has two of these words in two threads. */
static long vary_length(const struct step *s)
{
        static long drifts, everies, jitters;
        unsigned long seed;

        if (*s->word == 'd') {
                long ms = s->arg[0] + s->arg[1] * drifts++;

                return ms < s->arg[2] ? ms : s->arg[2];
        }
        if (*s->word == 'e')
                return everies++ % s->arg[0] == s->arg[1] ? s->arg[2] : 0;
        seed = (unsigned long)(my->rank + 1) * 2654435761UL + (unsigned long)jitters++ * 40503UL;
        seed ^= seed >> 13;
        seed *= 2246822519UL;
        seed ^= seed >> 16;
        return s->arg[0] + (long)(seed % (unsigned long)(s->arg[1] - s->arg[0] + 1));
}

static void wait_at_gate(void)
{
        static long passed;

        write_number("gate", my->rank, ++passed);
        for (int r = 0; r < my->n; r++)
                while (read_number("gate", r) < passed)
                        usleep(2000);
}

static bool has_gone(long rank)
{
        char path[600];

        return !access(make_path(path, "ended", (int)rank), F_OK);
}

static void wait_gone(long rank, long ms)
{
        while (!has_gone(rank))
                usleep(2000);
        usleep((useconds_t)ms * 1000);
}

static void poll_for_ever(void)
{
        char path[600];

        make_path(path, "never-there", -1);
        while (access(path, F_OK))
                usleep(2000);
}

static void use_host(const struct step *s)
{
        double begin = now();
        pthread_t thread;
        int pipes[2];
        char byte;

        if (!strcmp(s->word, "sleep"))
                usleep((useconds_t)s->arg[0] * 1000);
        else if (!strcmp(s->word, "burn"))
                burn(s->arg[0]);
        else if (strstr("drift every jitter", s->word))
                usleep((useconds_t)vary_length(s) * 1000);
        else if (!strcmp(s->word, "freeze"))
                freeze(s->arg[0]);
        else if (!strcmp(s->word, "lock") || !strcmp(s->word, "unlock"))
                use_lock(*s->word == 'l');
        else if (!strcmp(s->word, "pause"))
                sleep_for_ever(NULL);
        else if (!strcmp(s->word, "poll"))
                poll_for_ever();
        else if (!strcmp(s->word, "gone"))
                wait_gone(s->arg[0], s->arg[1]);
        else if (!strcmp(s->word, "readpipe")) {
                if (!pipe(pipes) && read(pipes[0], &byte, 1) == 1)
                        exit(92);
        } else if (!strcmp(s->word, "deadlock")) {
                pthread_create(&thread, NULL, hold_for_ever, NULL);
                usleep(200000);
                pthread_mutex_lock(&stuck);
        } else if (!strcmp(s->word, "spin"))
                for (volatile unsigned long turns = 0;; turns++)
                        ;
        my->clock->host_ms += (now() - begin) * 1e3;
}

static bool use_process(const struct step *s)
{
        if (!strcmp(s->word, "exit"))
                exit((int)s->arg[0]);
        else if (!strcmp(s->word, "leave"))
                _exit((int)s->arg[0]);
        else if (!strcmp(s->word, "raise"))
                raise((int)s->arg[0]);
        else if (!strcmp(s->word, "segv"))
                *(volatile int *)(uintptr_t)(my->rank < 0) = 1;
        else if (!strcmp(s->word, "kill")) {
                long pid = read_number("place", (int)s->arg[0]);

                if (pid > 0)
                        kill((pid_t)pid, (int)s->arg[1]);
        } else if (!strcmp(s->word, "deaf"))
                signal(SIGTERM, SIG_IGN);
        else if (!strcmp(s->word, "onterm"))
                save_at_term(s->arg[0], s->arg[1]);
        else if (!strcmp(s->word, "mark"))
                write_number("place", my->rank, getpid());
        else if (!strcmp(s->word, "meet"))
                meet(s->kind);
        else if (!strcmp(s->word, "gate"))
                wait_at_gate();
        else
                return false;
        return true;
}

static void sync_for(const struct step *s)
{
        double end = now() + (double)s->arg[1] / 1e3;

        while (now() < end && cuStreamQuery(my->streams[s->arg[0]]) == CUDA_ERROR_NOT_READY)
                usleep(5000);
}

static void sync_gone(const struct step *s)
{
        while (cuStreamQuery(my->streams[s->arg[0]]) == CUDA_ERROR_NOT_READY) {
                if (has_gone(s->arg[1])) {
                        usleep((useconds_t)s->arg[2] * 1000);
                        return;
                }
                usleep(2000);
        }
}

/* --- life --- */

static void open_clock(struct me *m)
{
        char path[600];
        int fd = open(make_path(path, "clock", m->rank), O_RDWR | O_CREAT | O_CLOEXEC, 0600);

        if (fd < 0 || ftruncate(fd, sizeof *m->clock))
                exit(93);
        m->clock = mmap(NULL, sizeof *m->clock, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        close(fd);
}

static void open_comms(void)
{
        int count = 1, local = atoi(getenv("LOCAL_RANK") ?: "0");
        char name[32];
        ncclUniqueId id;

        CU_CHECK(cuInit(0));
        CU_CHECK(cuDeviceGetCount(&count));
        snprintf(name, sizeof name, "world%d", all[0].opened);
        id = share_id(name, all[0].rank);
        if (gpus > 1)
                ncclGroupStart();
        for (int i = 0; i < gpus; i++) {
                ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
                struct me *m = &all[i];

                config.commName = "world";
                if (m->nb)
                        config.blocking = 0;
                CU_CHECK(cuDevicePrimaryCtxRetain(&m->ctx, (local * gpus + i) % count));
                CU_CHECK(cuCtxSetCurrent(m->ctx));
                if (!m->opened++) {
                        for (int k = 0; k < STREAMS; k++)
                                CU_CHECK(cuStreamCreate(&m->streams[k], CU_STREAM_NON_BLOCKING));
                        CU_CHECK(cuMemAlloc(&m->from, BYTES));
                        CU_CHECK(cuMemAlloc(&m->to, BYTES));
                }
                snprintf(m->clock->slot[0].step, sizeof m->clock->slot[0].step, "init world");
                m->clock->slot[0].active = 1;
                m->nbs[0] = m->nb;
                m->n_comms = 1;
                my = m;
                note(ncclCommInitRankConfig(&m->comms[0], m->n, id, m->rank, &config),
                     m->nb ? 0 : -1);
                if (gpus == 1)
                        m->clock->slot[0].active = 0;
        }
        if (gpus > 1)
                ncclGroupEnd();
        for (int i = 0; i < gpus; i++)
                all[i].clock->slot[0].active = 0;
        my = &all[0];
}

static void close_comms(struct me *m)
{
        CU_CHECK(cuCtxSetCurrent(m->ctx));
        for (int i = 0; i < STREAMS; i++)
                cuStreamSynchronize(m->streams[i]);
        while (m->n_comms) {
                ncclComm_t c = m->comms[--m->n_comms];

                if (c)
                        ncclCommDestroy(c);
        }
}

static void play_one(const struct step *s)
{
        const char *w = s->word;

        if (!strcmp(w, "split"))
                split_comm(s);
        else if (!strcmp(w, "init"))
                init_comm(s);
        else if (!strcmp(w, "shrink"))
                shrink_comm(s);
        else if (!strcmp(w, "grow"))
                grow_comm(s);
        else if (!strcmp(w, "ready"))
                wait_ready(s);
        else if (!strcmp(w, "onerror"))
                leave_on_error(s);
        else if (!strcmp(w, "sync")) {
                double begin = now();

                cuStreamSynchronize(my->streams[s->arg[0]]);
                my->clock->sync_ms += (now() - begin) * 1e3;
        } else if (!strcmp(w, "syncfor"))
                sync_for(s);
        else if (!strcmp(w, "syncgone"))
                sync_gone(s);
        else if (!strcmp(w, "delay"))
                CU_CHECK(cuLaunchHostFunc(my->streams[s->arg[0]], sleep_then_go_on,
                                          (void *)s->arg[1]));
        else if (!strcmp(w, "block"))
                CU_CHECK(cuLaunchHostFunc(my->streams[s->arg[0]], sleep_for_ever, NULL));
        else if (!strcmp(w, "start"))
                ncclGroupStart();
        else if (!strcmp(w, "end"))
                note(ncclGroupEnd(), -1);
        else if (!strcmp(w, "reopen")) {
                close_comms(my);
                open_comms();
        } else if (
                strstr("sleep burn drift every jitter freeze lock unlock pause readpipe deadlock spin poll gone",
                       w))
                use_host(s);
        else if (!use_process(s))
                call_nccl(s);
}

static void play_step(const struct step *s)
{
        bool grouping = !strcmp(s->word, "start") || !strcmp(s->word, "end");

        for (int i = 0; i < gpus; i++) {
                if (one) {
                        if (!(s->mask >> i & 1))
                                continue;
                        my = &all[i];
                        cuCtxSetCurrent(my->ctx);
                }
                struct clock *c = my->clock;

                snprintf(c->slot[slot].step, sizeof c->slot[slot].step, "%s", s->line);
                c->slot[slot].begin = now();
                c->slot[slot].active = 1;
                play_one(s);
                c->slot[slot].active = 0;
                if (!one || grouping)
                        break;
        }
        if (one)
                my = &all[0];
}

static void play_until_stopped(struct list *l, int begin, int end)
{
        char stop[600];
        long last = -1;

        make_path(stop, "stop", -1);
        for (long turn = 0; last < 0 || turn <= last; turn++) {
                if (last < 0 && my->rank == 0 && !access(stop, F_OK))
                        write_number("last", -1, turn + 1);
                if (last < 0)
                        last = read_number("last", -1);
                play_block(l, begin, end);
                my->clock->turns++;
        }
}

struct block {
        struct me *me;
        int begin, end, slot;
};

static void *play_thread(void *arg)
{
        const struct block *b = arg;

        my = b->me;
        slot = b->slot;
        cuCtxSetCurrent(my->ctx);
        play_block(my->list, b->begin, b->end);
        return NULL;
}

static void play_block(struct list *l, int begin, int end)
{
        pthread_t threads[THREADS];
        struct block blocks[THREADS];
        int n_threads = 0;

        for (int i = begin; i < end; i++) {
                const struct step *s = &l->steps[i];

                if (!strcmp(s->word, "loop")) {
                        for (long turn = 0; turn < s->arg[0]; turn++)
                                play_block(l, i + 1, s->partner);
                        i = s->partner;
                } else if (!strcmp(s->word, "forever")) {
                        play_until_stopped(l, i + 1, s->partner);
                        i = s->partner;
                } else if (!strcmp(s->word, "thread") && n_threads < THREADS) {
                        blocks[n_threads] = (struct block){my, i + 1, s->partner, n_threads + 1};
                        if (!pthread_create(&threads[n_threads], NULL, play_thread,
                                            &blocks[n_threads]))
                                n_threads++;
                        i = s->partner;
                } else if (!strcmp(s->word, "join")) {
                        while (n_threads)
                                pthread_join(threads[--n_threads], NULL);
                } else {
                        play_step(s);
                }
        }
}

static bool is_for_rank(const char *ranks, int rank)
{
        bool but = *ranks == '!', found = false;

        if (!strcmp(ranks, "*"))
                return true;
        for (const char *p = ranks + but; *p;) {
                char *end;

                found |= strtol(p, &end, 10) == rank;
                if (end == p)
                        return false;
                p = end + (*end == ',');
        }
        return found != but;
}

static bool read_step(struct list *l, char *line, int first, int n)
{
        char ranks[64], *rest;
        struct step *s = &l->steps[l->n];
        int at = 0, start = 0;

        if (sscanf(line, "%63s %n%15s %n", ranks, &start, s->word, &at) < 2)
                return true;
        s->mask = 0;
        for (int i = 0; i < n; i++)
                s->mask |= (unsigned)is_for_rank(ranks, first + i) << i;
        if (!s->mask)
                return true;
        if (l->n == STEPS - 1)
                return false;
        line[strcspn(line, "\n")] = 0;
        snprintf(s->line, sizeof s->line, "%s", line + start);
        rest = line + at;
        for (char *w = strtok(rest, " \n"); w; w = strtok(NULL, " \n")) {
                char *end;
                long value = strtol(w, &end, 10);

                if (*end)
                        snprintf(s->kind, sizeof s->kind, "%s", w);
                else if (s->n_args < ARGS)
                        s->arg[s->n_args++] = value;
        }
        l->n++;
        return true;
}

static bool match_blocks(struct list *l)
{
        int open[16], depth = 0;

        for (int i = 0; i < l->n; i++) {
                bool opens = strstr("loop forever thread", l->steps[i].word) != NULL;

                if (opens && depth < 16)
                        open[depth++] = i;
                else if (!strcmp(l->steps[i].word, "done") && depth)
                        l->steps[open[--depth]].partner = i;
                else if (opens || !strcmp(l->steps[i].word, "done"))
                        return false;
        }
        return depth == 0;
}

static struct list *read_script(const char *path, int first, int n)
{
        struct list *l = calloc(1, sizeof *l);
        FILE *f = fopen(path, "r");
        char line[256];
        bool good = f != NULL;

        while (good && fgets(line, sizeof line, f))
                good = read_step(l, line, first, n);
        if (f)
                fclose(f);
        if (!good || !match_blocks(l)) {
                fprintf(stderr, "stranger_player: %s is not understood\n", path);
                exit(2);
        }
        return l;
}

/* Words before the communicator is made; how many there are. */
static int play_first(struct list *l)
{
        int i = 0;

        for (; i < l->n; i++) {
                const struct step *s = &l->steps[i];

                snprintf(my->clock->slot[0].step, 56, "%s", s->line);
                my->clock->slot[0].active = 1;
                if (!strcmp(s->word, "nb"))
                        my->nb = true;
                else if (!strcmp(s->word, "early") || !strcmp(s->word, "noinit"))
                        for (int k = 0; k < gpus; k++)
                                write_number("place", all[k].rank, getpid());
                else if (!strcmp(s->word, "later"))
                        usleep((useconds_t)s->arg[0] * 1000);
                else
                        break;
                if (!strcmp(s->word, "noinit"))
                        sleep_for_ever(NULL);
        }
        my->clock->slot[0].active = 0;
        return i;
}

static void *play_gpu(void *arg)
{
        struct block *b = arg;

        my = b->me;
        slot = 0;
        cuCtxSetCurrent(my->ctx);
        play_block(my->list, b->begin, my->list->n);
        close_comms(my);
        return NULL;
}

int main(int argc, char **argv)
{
        const char *rank = getenv("RANK"), *size = getenv("WORLD_SIZE"), *g = getenv("SCENE_GPUS"),
                   *drive = getenv("SCENE_DRIVE");
        pthread_t threads[GPUS];
        struct block blocks[GPUS];
        char *slash;
        int begin;

        if (argc != 2 || !rank || !size)
                return 2;
        snprintf(folder, sizeof folder, "%s", argv[1]);
        slash = strrchr(folder, '/');
        if (!slash)
                return 2;
        *slash = 0;
        gpus = g ? atoi(g) : 1;
        one = gpus > 1 && drive && !strcmp(drive, "one");
        for (int i = 0; i < gpus; i++) {
                all[i].rank = atoi(rank) * gpus + i;
                all[i].n = atoi(size) * gpus;
                open_clock(&all[i]);
                all[i].list =
                        one && i ? all[0].list : read_script(argv[1], all[i].rank, one ? gpus : 1);
        }
        my = &all[0];
        begin = play_first(my->list);
        open_comms();
        if (gpus == 1 || one) {
                play_block(my->list, begin, my->list->n);
                for (int i = 0; i < gpus; i++)
                        close_comms(&all[i]);
                return 0;
        }
        for (int i = 0; i < gpus; i++) {
                blocks[i] = (struct block){&all[i], begin, 0, 0};
                if (pthread_create(&threads[i], NULL, play_gpu, &blocks[i]))
                        return 94;
        }
        for (int i = 0; i < gpus; i++)
                pthread_join(threads[i], NULL);
        return 0;
}
