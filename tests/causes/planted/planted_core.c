/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank of a small job in which a cause is planted. A plan is a list of lines:
 *
 *      RANKS WORD [ARGS...] [@ BEGIN END [EVERY]]
 *
 * RANKS: *, 2, or 0,3. BEGIN and END are seconds after the first call of the world (t0). EVERY: only
 * in one turn of so many. Each turn does, in order, what the plan has for this rank and this moment,
 * then the calls of the world. Words of the host, before the calls:
 *
 *      sleep MS | burn MS           burn: until the thread has used so much CPU time
 *      threads N MS                 N threads burn MS each
 *      pingpong N MS                N times: a helper thread burns MS, then this one; the other spins
 *      read PATH BYTES              open, read all in 64 KiB, close
 *      write PATH BYTES             create, write in 256 KiB, fsync, close
 *      touch PATH MB                maps a file and reads one byte of each of its pages
 *      upload BYTES                 to PLANTED_SERVER (ADDR:PORT), and waits for one byte of answer
 *      group COUNT                  an all-reduce on the communicator of PLANTED_GROUP's ranks
 * Words of the stream:
 *      gpudelay MS                  the stream sleeps before the calls
 *      network MS                   the stream waits until the thread "NCCL Progress" has burned MS
 * Once, before t0 (no window but for workers):
 *      pin CPU                      the whole process
 *      pinnet CPU                   the thread "NCCL Progress"
 *      namestream CPU               the stream's thread, which moves the data, is called
 *                                   "NCCL Progress" and pinned
 *      workers N BURN SLEEP         N threads that burn and sleep so many ms in turns (has a window)
 *      calls COUNT N                the world's calls of a turn: N all-reduces of COUNT floats
 *      second MS                    a second all-reduce per turn, so much sleep after the first
 *
 * times.RANK gets a line per turn: number, CLOCK_MONOTONIC seconds of: begin of the turn, first call
 * entered, stream ready for it, stream past the last one, all done; ms in the plan's words; ms that
 * threads of this process waited for a CPU in the turn.
 * The ranks meet by a file. Used as a program (C) and as a library of planted_job.py.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <cuda.h>
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <nccl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { LINES = 64, BYTES = 1 << 22 };

struct line {
        char word[16], path[400];
        double arg[3], begin, end;
        long every;
        bool windowed;
};

static struct line lines[LINES];
static int n_lines, rank, n_ranks;
static char folder[400];
static ncclComm_t world, group;
static CUcontext ctx;
static CUstream stream;
static CUdeviceptr from, to;
static long count = 4096, calls = 1, turn;
static double second_ms, seconds;
static volatile double t0;
static double t_begin, t_enter, act_ms, wait_begin_ms;
static double t_gpu_begin, t_gpu_end;
static FILE *times;
static pthread_t net_thread;
static bool has_net;
static pthread_mutex_t net_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t net_more = PTHREAD_COND_INITIALIZER, net_done = PTHREAD_COND_INITIALIZER;
static double net_ms;
static long net_asked, net_ended;

double pc_now(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double cpu_ms(void)
{
        struct timespec t;

        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void die(const char *what)
{
        fprintf(stderr, "planted rank %d: %s\n", rank, what);
        exit(1);
}

static void check(int r, const char *what)
{
        if (r) {
                fprintf(stderr, "planted rank %d: %s: error %d\n", rank, what, r);
                exit(1);
        }
}

static void nap_ms(double ms)
{
        struct timespec t = {(time_t)(ms / 1e3),
                             (long)((ms - 1e3 * (double)(long)(ms / 1e3)) * 1e6)};

        nanosleep(&t, NULL);
}

static void burn_ms(double ms)
{
        double end = cpu_ms() + ms;

        while (cpu_ms() < end)
                for (volatile int i = 0; i < 2000; i++)
                        ;
}

/* What the threads of this process have waited for a CPU, as the kernel counts. */
static double waited_ms(void)
{
        DIR *d = opendir("/proc/self/task");
        double sum = 0;

        for (struct dirent *e; d && (e = readdir(d));) {
                char path[300];
                unsigned long long ran, waited;
                FILE *f;

                if (e->d_name[0] == '.')
                        continue;
                snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", e->d_name);
                f = fopen(path, "r");
                if (!f)
                        continue;
                if (fscanf(f, "%llu %llu", &ran, &waited) == 2)
                        sum += (double)waited / 1e6;
                fclose(f);
        }
        if (d)
                closedir(d);
        return sum;
}

static void pin(pid_t tid, int cpu)
{
        cpu_set_t set;

        CPU_ZERO(&set);
        CPU_SET(cpu, &set);
        check(sched_setaffinity(tid, sizeof set, &set), "sched_setaffinity");
}

static void name_stream(int cpu)
{
        DIR *d = opendir("/proc/self/task");

        for (struct dirent *e; d && (e = readdir(d));) {
                char path[300], name[32] = "";
                FILE *f;

                if (e->d_name[0] == '.')
                        continue;
                snprintf(path, sizeof path, "/proc/self/task/%s/comm", e->d_name);
                f = fopen(path, "r+");
                if (!f)
                        continue;
                if (fgets(name, sizeof name, f) && !strcmp(name, "cuda-stream\n")) {
                        rewind(f);
                        fputs("NCCL Progress", f);
                        pin(atoi(e->d_name), cpu);
                }
                fclose(f);
        }
        if (d)
                closedir(d);
}

static void *net_main(void *nothing)
{
        prctl(PR_SET_NAME, "NCCL Progress");
        pthread_mutex_lock(&net_lock);
        for (;;) {
                while (net_ended == net_asked)
                        pthread_cond_wait(&net_more, &net_lock);
                pthread_mutex_unlock(&net_lock);
                burn_ms(net_ms);
                pthread_mutex_lock(&net_lock);
                net_ended++;
                pthread_cond_broadcast(&net_done);
        }
        return nothing;
}

static void net_start(int cpu)
{
        if (!has_net && pthread_create(&net_thread, NULL, net_main, NULL))
                die("no thread");
        has_net = true;
        if (cpu >= 0) {
                cpu_set_t set;

                CPU_ZERO(&set);
                CPU_SET(cpu, &set);
                check(pthread_setaffinity_np(net_thread, sizeof set, &set), "affinity");
        }
}

static void on_stream_net(void *arg)
{
        long mine;

        pthread_mutex_lock(&net_lock);
        net_ms = *(double *)arg;
        mine = ++net_asked;
        pthread_cond_signal(&net_more);
        while (net_ended < mine)
                pthread_cond_wait(&net_done, &net_lock);
        pthread_mutex_unlock(&net_lock);
}

static void on_stream_nap(void *arg) { nap_ms(*(double *)arg); }

static void on_stream_stamp(void *arg) { *(double *)arg = pc_now(); }

static void *burn_thread(void *arg)
{
        burn_ms(*(double *)arg);
        return NULL;
}

static void burn_in_threads(int n, double ms)
{
        pthread_t t[64];

        if (n > 64)
                n = 64;
        for (int i = 0; i < n; i++)
                if (pthread_create(&t[i], NULL, burn_thread, &ms))
                        die("no thread");
        for (int i = 0; i < n; i++)
                pthread_join(t[i], NULL);
}

struct ball {
        atomic_long at;
        long n;
        double ms;
};

static void play_side(struct ball *b, long side)
{
        for (long i = side; i < b->n; i += 2) {
                while (atomic_load(&b->at) != i)
                        ;
                burn_ms(b->ms);
                atomic_store(&b->at, i + 1);
        }
}

static void *play_other(void *arg)
{
        play_side(arg, 1);
        return NULL;
}

static void pingpong(long n, double ms)
{
        struct ball b = {.n = 2 * n, .ms = ms};
        pthread_t t;

        if (pthread_create(&t, NULL, play_other, &b))
                die("no thread");
        play_side(&b, 0);
        pthread_join(t, NULL);
}

static void read_all(const char *path, long bytes)
{
        static char room[1 << 16];
        int fd = open(path, O_RDONLY | O_CLOEXEC);

        if (fd < 0)
                die(path);
        while (bytes > 0) {
                ssize_t r = read(fd, room, bytes < (long)sizeof room ? (size_t)bytes : sizeof room);

                if (r <= 0)
                        break;
                bytes -= r;
        }
        close(fd);
}

static void write_all(const char *path, long bytes)
{
        static char room[1 << 18];
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);

        if (fd < 0)
                die(path);
        memset(room, (int)turn, sizeof room);
        while (bytes > 0) {
                ssize_t r =
                        write(fd, room, bytes < (long)sizeof room ? (size_t)bytes : sizeof room);

                if (r <= 0)
                        die("write");
                bytes -= r;
        }
        fsync(fd);
        close(fd);
}

static void touch_file(const char *path, long mb)
{
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        volatile char sum = 0;
        char *p;

        if (fd < 0)
                die(path);
        p = mmap(NULL, (size_t)mb << 20, PROT_READ, MAP_SHARED, fd, 0);
        close(fd);
        if (p == MAP_FAILED)
                die("mmap");
        for (long i = 0; i < mb << 20; i += 4096)
                sum += p[i];
        munmap(p, (size_t)mb << 20);
}

static int server = -1;

static void upload(long bytes)
{
        static char room[1 << 16];
        const char *where = getenv("PLANTED_SERVER");
        long told = bytes;

        if (server < 0) {
                struct sockaddr_in a = {.sin_family = AF_INET};
                char host[64];
                int port;

                if (!where || sscanf(where, "%63[^:]:%d", host, &port) != 2)
                        die("PLANTED_SERVER");
                a.sin_port = htons((uint16_t)port);
                inet_pton(AF_INET, host, &a.sin_addr);
                server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
                if (connect(server, (struct sockaddr *)&a, sizeof a))
                        die("no connection to PLANTED_SERVER");
        }
        if (send(server, &told, sizeof told, MSG_NOSIGNAL) != sizeof told)
                die("send");
        while (bytes > 0) {
                ssize_t r =
                        send(server, room, bytes < (long)sizeof room ? (size_t)bytes : sizeof room,
                             MSG_NOSIGNAL);

                if (r <= 0)
                        die("send");
                bytes -= r;
        }
        if (recv(server, room, 1, 0) != 1)
                die("recv");
}

/* ------------------------------------------------------------------ the plan */

static bool is_for_me(const char *ranks)
{
        if (!strcmp(ranks, "*"))
                return true;
        for (const char *p = ranks; *p;) {
                char *end;

                if (strtol(p, &end, 10) == rank && end > p)
                        return true;
                if (end == p)
                        return false;
                p = end + (*end == ',');
        }
        return false;
}

static bool read_line(char *text, struct line *l)
{
        char *save, *w = strtok_r(text, " \n", &save);
        int n = 0;

        *l = (struct line){.end = 1e9, .every = 1};
        if (!w || *w == '#' || !is_for_me(w))
                return false;
        w = strtok_r(NULL, " \n", &save);
        if (!w)
                return false;
        snprintf(l->word, sizeof l->word, "%s", w);
        while ((w = strtok_r(NULL, " \n", &save))) {
                if (!strcmp(w, "@")) {
                        l->windowed = true;
                        w = strtok_r(NULL, " \n", &save);
                        l->begin = w ? atof(w) : 0;
                        w = strtok_r(NULL, " \n", &save);
                        l->end = w ? atof(w) : 1e9;
                        w = strtok_r(NULL, " \n", &save);
                        l->every = w ? atol(w) : 1;
                        return true;
                }
                if (*w == '/')
                        snprintf(l->path, sizeof l->path, "%s", w);
                else if (n < 3)
                        l->arg[n++] = atof(w);
        }
        return true;
}

static void *work_and_sleep(void *arg)
{
        const struct line *l = arg;

        while (t0 == 0 || pc_now() < t0 + l->begin)
                nap_ms(20);
        while (pc_now() < t0 + l->end && pc_now() < t0 + seconds) {
                burn_ms(l->arg[1]);
                nap_ms(l->arg[2]);
        }
        return NULL;
}

static void start_workers(const struct line *l)
{
        pthread_t t;

        for (int i = 0; i < (int)l->arg[0]; i++)
                if (pthread_create(&t, NULL, work_and_sleep, (void *)l) || pthread_detach(t))
                        die("no thread");
}

static void do_once(const struct line *l)
{
        if (!strcmp(l->word, "pin"))
                pin(0, (int)l->arg[0]);
        else if (!strcmp(l->word, "pinnet"))
                net_start((int)l->arg[0]);
        else if (!strcmp(l->word, "namestream"))
                name_stream((int)l->arg[0]);
        else if (!strcmp(l->word, "workers"))
                start_workers(l);
        else if (!strcmp(l->word, "calls")) {
                count = (long)l->arg[0];
                calls = (long)l->arg[1];
        } else if (!strcmp(l->word, "second"))
                second_ms = l->arg[0];
}

static bool is_once(const char *word)
{
        return strstr("pin pinnet namestream calls second workers", word) != NULL;
}

/* pc_act() - one line of the plan, by number, if it is a word of C. */
void pc_act(int i)
{
        struct line *l = &lines[i];

        if (!strcmp(l->word, "sleep"))
                nap_ms(l->arg[0]);
        else if (!strcmp(l->word, "burn"))
                burn_ms(l->arg[0]);
        else if (!strcmp(l->word, "threads"))
                burn_in_threads((int)l->arg[0], l->arg[1]);
        else if (!strcmp(l->word, "pingpong"))
                pingpong((long)l->arg[0], l->arg[1]);
        else if (!strcmp(l->word, "read"))
                read_all(l->path, (long)l->arg[0]);
        else if (!strcmp(l->word, "write"))
                write_all(l->path, (long)l->arg[0]);
        else if (!strcmp(l->word, "touch"))
                touch_file(l->path, (long)l->arg[0]);
        else if (!strcmp(l->word, "upload"))
                upload((long)l->arg[0]);
        else if (!strcmp(l->word, "gpudelay"))
                check(cuLaunchHostFunc(stream, on_stream_nap, &l->arg[0]), "cuLaunchHostFunc");
        else if (!strcmp(l->word, "network")) {
                net_start(-1);
                check(cuLaunchHostFunc(stream, on_stream_net, &l->arg[0]), "cuLaunchHostFunc");
        } else if (!strcmp(l->word, "group") && group) {
                check(ncclAllReduce((void *)from, (void *)to, (size_t)l->arg[0], ncclFloat, ncclSum,
                                    group, stream),
                      "ncclAllReduce");
                check(cuStreamSynchronize(stream), "cuStreamSynchronize");
        }
}

/* pc_due() - is line @i for this turn? pc_word(): its word. pc_arg(), pc_path(): its arguments. */
int pc_due(int i)
{
        double t = pc_now() - t0;

        return i < n_lines && !is_once(lines[i].word) && t >= lines[i].begin && t < lines[i].end &&
               turn % lines[i].every == 0;
}
int pc_lines(void) { return n_lines; }
const char *pc_word(int i) { return lines[i].word; }
double pc_arg(int i, int k) { return lines[i].arg[k]; }
const char *pc_path(int i) { return lines[i].path; }

/* ------------------------------------------------------------------ the job */

static void meet(ncclUniqueId *id)
{
        char path[500], part[500];
        FILE *f;

        snprintf(path, sizeof path, "%s/id", folder);
        snprintf(part, sizeof part, "%s/id.part", folder);
        if (rank == 0) {
                check(ncclGetUniqueId(id), "ncclGetUniqueId");
                f = fopen(part, "w");
                if (!f || fwrite(id, sizeof *id, 1, f) != 1 || fclose(f) || rename(part, path))
                        die("id");
                return;
        }
        for (int i = 0; i < 6000; i++) {
                f = fopen(path, "r");
                if (f && fread(id, sizeof *id, 1, f) == 1) {
                        fclose(f);
                        return;
                }
                nap_ms(10);
        }
        die("no id within 60 s");
}

static void write_file(const char *name, int number, double value)
{
        char path[500], part[520];
        FILE *f;

        if (number < 0)
                snprintf(path, sizeof path, "%s/%s", folder, name);
        else
                snprintf(path, sizeof path, "%s/%s.%d", folder, name, number);
        snprintf(part, sizeof part, "%s.part", path);
        f = fopen(part, "w");
        if (!f)
                die(path);
        fprintf(f, "%.6f\n", value);
        fclose(f);
        rename(part, path);
}

/* The sum of what the ranks give. */
static float agree(float mine)
{
        float sum = 0;

        check(cuMemcpyHtoD(from, &mine, sizeof mine), "cuMemcpyHtoD");
        check(ncclAllReduce((void *)from, (void *)to, (size_t)count, ncclFloat, ncclSum, world,
                            stream),
              "ncclAllReduce");
        check(cuStreamSynchronize(stream), "cuStreamSynchronize");
        check(cuMemcpyDtoH(&sum, to, sizeof sum), "cuMemcpyDtoH");
        return sum;
}

static bool in_group(void)
{
        const char *g = getenv("PLANTED_GROUP");

        return g && *g && is_for_me(g);
}

/* pc_open() - make the communicator, read the plan, meet. */
void pc_open(const char *in, double secs)
{
        const char *text = getenv("PLANTED_NVML");
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        ncclUniqueId id;
        char path[500], buffer[600];
        int n_devices = 1, local = atoi(getenv("LOCAL_RANK") ?: "0");
        FILE *f;

        rank = atoi(getenv("RANK") ?: "0");
        n_ranks = atoi(getenv("WORLD_SIZE") ?: "1");
        seconds = secs;
        snprintf(folder, sizeof folder, "%s", in);
        snprintf(path, sizeof path, "%s/plan", folder);
        f = fopen(path, "r");
        if (!f)
                die("no plan");
        while (n_lines < LINES && fgets(buffer, sizeof buffer, f))
                n_lines += read_line(buffer, &lines[n_lines]);
        fclose(f);
        if (text && *text) {
                void *nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW); /* as NCCL does */
                int (*init)(void) = nvml ? (int (*)(void))dlsym(nvml, "nvmlInit_v2") : NULL;

                if (!init || init())
                        die("no libnvidia-ml.so.1");
        }
        write_file("pid", rank, getpid());
        check(cuInit(0), "cuInit");
        check(cuDeviceGetCount(&n_devices), "cuDeviceGetCount");
        check(cuDevicePrimaryCtxRetain(&ctx, local % n_devices), "context");
        check(cuCtxSetCurrent(ctx), "context");
        check(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "stream");
        meet(&id);
        config.commName = "world";
        check(ncclCommInitRankConfig(&world, n_ranks, id, rank, &config), "ncclCommInitRankConfig");
        if (getenv("PLANTED_GROUP")) {
                config.commName = "pair";
                check(ncclCommSplit(world, in_group() ? 1 : NCCL_SPLIT_NOCOLOR, rank, &group,
                                    &config),
                      "ncclCommSplit");
        }
        check(cuMemAlloc(&from, BYTES), "cuMemAlloc");
        check(cuMemAlloc(&to, BYTES), "cuMemAlloc");
        check(cuMemsetD8(from, 0, BYTES), "cuMemsetD8");
        for (int i = 0; i < n_lines; i++)
                if (is_once(lines[i].word))
                        do_once(&lines[i]);
        if (count > BYTES / 4)
                count = BYTES / 4;
        snprintf(path, sizeof path, "%s/times.%d", folder, rank);
        times = fopen(path, "w");
        agree(0);
        agree(0);
        /* One t0 for all: rank 0's, by a file, as a float is too coarse. */
        snprintf(path, sizeof path, "%s/t0", folder);
        if (rank == 0)
                write_file("t0", -1, pc_now() + 0.05);
        for (t0 = 0; t0 == 0;) {
                f = fopen(path, "r");
                if (f) {
                        double read;

                        if (fscanf(f, "%lf", &read) == 1)
                                t0 = read;
                        fclose(f);
                }
                if (t0 == 0)
                        nap_ms(5);
        }
        while (pc_now() < t0)
                nap_ms(5);
}

/* pc_begin() - a turn begins. pc_spent(): its host words are done. */
void pc_begin(void)
{
        wait_begin_ms = waited_ms();
        t_begin = pc_now();
        act_ms = 0;
}

void pc_spent(double ms) { act_ms += ms; }

/* pc_calls() - the calls of a turn. 0: that was the last one. */
int pc_calls(void)
{
        float stop = rank == 0 && pc_now() - t0 > seconds ? 1 : 0, sum;
        double t_done;

        t_enter = pc_now();
        check(cuMemcpyHtoD(from, &stop, sizeof stop), "cuMemcpyHtoD");
        check(cuLaunchHostFunc(stream, on_stream_stamp, &t_gpu_begin), "cuLaunchHostFunc");
        for (long i = 0; i < calls; i++)
                check(ncclAllReduce((void *)from, (void *)to, (size_t)count, ncclFloat, ncclSum,
                                    world, stream),
                      "ncclAllReduce");
        check(cuLaunchHostFunc(stream, on_stream_stamp, &t_gpu_end), "cuLaunchHostFunc");
        check(cuStreamSynchronize(stream), "cuStreamSynchronize");
        t_done = pc_now();
        check(cuMemcpyDtoH(&sum, to, sizeof sum), "cuMemcpyDtoH");
        fprintf(times, "%ld %.6f %.6f %.6f %.6f %.6f %.3f %.3f\n", turn, t_begin, t_enter,
                t_gpu_begin, t_gpu_end, t_done, act_ms, waited_ms() - wait_begin_ms);
        if (second_ms > 0) {
                nap_ms(second_ms);
                check(ncclAllReduce((void *)from, (void *)to, 1024, ncclFloat, ncclSum, world,
                                    stream),
                      "ncclAllReduce");
                check(cuStreamSynchronize(stream), "cuStreamSynchronize");
        }
        turn++;
        return sum < 0.5f;
}

void pc_close(void)
{
        if (times)
                fclose(times);
        if (group)
                ncclCommDestroy(group);
        ncclCommDestroy(world);
        cuStreamDestroy(stream);
        write_file("done", rank, pc_now());
}

#ifndef PLANTED_LIBRARY
int main(int argc, char **argv)
{
        if (argc != 3)
                return 2;
        pc_open(argv[1], atof(argv[2]));
        do {
                pc_begin();
                for (int i = 0; i < n_lines; i++)
                        if (pc_due(i)) {
                                double t = pc_now();

                                pc_act(i);
                                pc_spent((pc_now() - t) * 1e3);
                        }
        } while (pc_calls());
        pc_close();
        return 0;
}
#endif
