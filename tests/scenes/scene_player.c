/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scene_player SCRIPT: one rank of a scene. A line of the script is a set of ranks (*, 2, 0,3 or
 * !1: all but 1), a word, and its arguments:
 *
 *      split P COLOUR [REVERSED]    communicator P (0: the world) is split; the new one has the
 *                                   next number; with a third argument the ranks are reversed
 *      coll C KIND COUNT [STREAM [ROOT]]
 *      send|recv C PEER COUNT [STREAM]
 *      ring C COUNT | exchange C COUNT   a group: with both neighbours; an uneven all-to-all
 *      start | end                  of a group
 *      sync STREAM | destroy C | abort C | bad C | reopen
 *      capture S | instantiate S | launch S      one CUDA graph
 *      delay STREAM MS | block STREAM            the GPU is slow; it stalls
 *      sleep MS | pause | spin      host code: for some time, asleep for ever, busy for ever
 *      exit N | leave N (_exit) | raise N | deaf (to SIGTERM)
 *      handle N                     a handler of signal N that never returns
 *      lastly                       a handler at exit that never returns
 *      forsake                      the main thread ends, the others go on
 *      spawn | fork                 another program, and its end; a child that only sleeps
 *      mark                         place.RANK appears beside the script; it holds the pid
 *      early                        as a first word: that mark before the communicator is made
 *      noinit                       the same, and the rank never makes its communicator
 *      loop N | forever | thread    what follows up to `done`; forever ends once there is a file
 *                                   `stop`, at the same turn on all ranks
 *      join                         waits for the threads
 *
 * NCCL's answers are ignored: a rank of a broken job goes on until it stands.
 */
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "perf_job.h"

enum { COMMS = 16, STREAMS = 4, BYTES = 1 << 22, STEPS = 400, THREADS = 4 };

struct step {
        char word[16], kind[16];
        long arg[5];
        int n_args, partner; /* partner: of a block the step behind its `done` */
};

struct block {
        int begin, end;
};

static struct job job;
static ncclComm_t comms[COMMS];
static int n_comms;
static CUstream streams[STREAMS];
static CUdeviceptr from, to;
static struct step steps[STEPS];
static int n_steps;
static char folder[512];

static void play_block(int begin, int end);

static void make_path(char *path, size_t room, const char *name, int number)
{
        if (number < 0)
                snprintf(path, room, "%.480s/%s", folder, name);
        else
                snprintf(path, room, "%.480s/%s.%d", folder, name, number);
}

/* A file that is there with all of its content, or not at all. */
static void write_number(const char *name, int number, long content)
{
        char path[600], part[640];
        FILE *f;

        make_path(path, sizeof path, name, number);
        snprintf(part, sizeof part, "%s.part", path);
        f = fopen(part, "w");
        if (!f)
                return;
        fprintf(f, "%ld\n", content);
        fclose(f);
        rename(part, path);
}

static long read_number(const char *name)
{
        char path[600];
        long content = -1;
        FILE *f;

        make_path(path, sizeof path, name, -1);
        f = fopen(path, "r");
        if (!f)
                return -1;
        if (fscanf(f, "%ld", &content) != 1)
                content = -1;
        fclose(f);
        return content;
}

static void call_collective(const char *kind, ncclComm_t c, size_t n, CUstream s, int root)
{
        void *in = (void *)from, *out = (void *)to;

        if (!strcmp(kind, "allreduce16"))
                ncclAllReduce(in, out, n, ncclFloat16, ncclSum, c, s);
        else if (!strcmp(kind, "allreduce"))
                ncclAllReduce(in, out, n, ncclFloat, ncclSum, c, s);
        else if (!strcmp(kind, "broadcast"))
                ncclBroadcast(in, out, n, ncclFloat, root, c, s);
        else if (!strcmp(kind, "reduce"))
                ncclReduce(in, out, n, ncclFloat, ncclSum, root, c, s);
        else if (!strcmp(kind, "allgather"))
                ncclAllGather(in, out, n, ncclFloat, c, s);
        else if (!strcmp(kind, "reducescatter"))
                ncclReduceScatter(in, out, n, ncclFloat, ncclSum, c, s);
}

static void exchange_uneven(ncclComm_t c, size_t n)
{
        int me = 0, size = 0;

        ncclCommUserRank(c, &me);
        ncclCommCount(c, &size);
        ncclGroupStart();
        for (int peer = 0; peer < size; peer++) {
                size_t count = n * (size_t)(1 + (me + peer) % 3);

                ncclSend((void *)from, count, ncclFloat, peer, c, streams[0]);
                ncclRecv((void *)to, count, ncclFloat, peer, c, streams[0]);
        }
        ncclGroupEnd();
}

static void pass_ring(ncclComm_t c, size_t n)
{
        int me = 0, size = 1;

        ncclCommUserRank(c, &me);
        ncclCommCount(c, &size);
        ncclGroupStart();
        ncclSend((void *)from, n, ncclFloat, (me + 1) % size, c, streams[0]);
        ncclRecv((void *)to, n, ncclFloat, (me + size - 1) % size, c, streams[0]);
        ncclGroupEnd();
}

static void split_comm(const struct step *s)
{
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        char name[24];

        snprintf(name, sizeof name, "part%ld", s->arg[1]);
        config.commName = name;
        ncclCommSplit(comms[s->arg[0]], s->arg[1] < 0 ? NCCL_SPLIT_NOCOLOR : (int)s->arg[1],
                      s->n_args > 2 ? job.n - job.rank : job.rank, &comms[n_comms++], &config);
}

static void sleep_then_go_on(void *ms) { usleep((useconds_t)(long)ms * 1000); }

static void sleep_for_ever(void *nothing)
{
        for (;;)
                pause();
}

static void handle_for_ever(int sig) { sleep_for_ever(NULL); }

static void exit_for_ever(void) { sleep_for_ever(NULL); }

static void spawn_program(void)
{
        pid_t pid = fork();

        if (pid == 0) {
                execlp("true", "true", (char *)NULL);
                _exit(127);
        }
        waitpid(pid, NULL, 0);
}

/* It ends with its parent. */
static void fork_child(void)
{
        if (fork() == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                sleep_for_ever(NULL);
        }
}

static void use_process(const struct step *s)
{
        if (!strcmp(s->word, "handle"))
                signal((int)s->arg[0], handle_for_ever);
        else if (!strcmp(s->word, "lastly"))
                atexit(exit_for_ever);
        else if (!strcmp(s->word, "forsake"))
                pthread_exit(NULL);
        else if (!strcmp(s->word, "spawn"))
                spawn_program();
        else
                fork_child();
}

static void use_graph(const char *word, CUstream s)
{
        static CUgraphExec exec;
        CUgraph made;

        if (!strcmp(word, "capture"))
                CU_CHECK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        else if (!strcmp(word, "launch"))
                CU_CHECK(cuGraphLaunch(exec, s));
        else
                CU_CHECK(cuStreamEndCapture(s, &made) ?: cuGraphInstantiate(&exec, made, 0));
}

static void close_comms(void)
{
        while (n_comms > 1) {
                ncclComm_t c = comms[--n_comms];

                if (c)
                        ncclCommDestroy(c);
        }
        job_close(&job);
}

static void open_comms(void)
{
        job_open(&job, "world");
        n_comms = 0;
        comms[n_comms++] = job.comm;
}

static void end_process(const struct step *s)
{
        if (!strcmp(s->word, "exit"))
                exit((int)s->arg[0]);
        if (!strcmp(s->word, "leave"))
                _exit((int)s->arg[0]);
        raise((int)s->arg[0]);
}

static void call_nccl(const struct step *s)
{
        ncclComm_t c = comms[s->arg[0]];
        size_t n = (size_t)s->arg[1];

        if (!strcmp(s->word, "coll"))
                call_collective(s->kind, c, n, streams[s->arg[2]], (int)s->arg[3]);
        else if (!strcmp(s->word, "send"))
                ncclSend((void *)from, (size_t)s->arg[2], ncclFloat, (int)s->arg[1], c,
                         streams[s->arg[3]]);
        else if (!strcmp(s->word, "recv"))
                ncclRecv((void *)to, (size_t)s->arg[2], ncclFloat, (int)s->arg[1], c,
                         streams[s->arg[3]]);
        else if (!strcmp(s->word, "ring"))
                pass_ring(c, n);
        else if (!strcmp(s->word, "exchange"))
                exchange_uneven(c, n);
        else if (!strcmp(s->word, "abort"))
                ncclCommAbort(c);
        else if (!strcmp(s->word, "bad"))
                ncclAllReduce((void *)from, (void *)to, 16, (ncclDataType_t)99, ncclSum, c,
                              streams[0]);
        else if (!strcmp(s->word, "destroy")) {
                ncclCommDestroy(c);
                comms[s->arg[0]] = NULL;
        }
}

static void use_host(const struct step *s)
{
        if (!strcmp(s->word, "sleep"))
                usleep((useconds_t)s->arg[0] * 1000);
        else if (!strcmp(s->word, "pause"))
                sleep_for_ever(NULL);
        else if (!strcmp(s->word, "spin"))
                for (volatile unsigned long turns = 0;; turns++)
                        ;
        else if (!strcmp(s->word, "deaf"))
                signal(SIGTERM, SIG_IGN);
        else if (!strcmp(s->word, "mark"))
                write_number("place", job.rank, getpid());
}

static void play_step(const struct step *s)
{
        if (!strcmp(s->word, "split"))
                split_comm(s);
        else if (!strcmp(s->word, "start"))
                ncclGroupStart();
        else if (!strcmp(s->word, "end"))
                ncclGroupEnd();
        else if (!strcmp(s->word, "sync"))
                cuStreamSynchronize(streams[s->arg[0]]);
        else if (!strcmp(s->word, "delay"))
                CU_CHECK(cuLaunchHostFunc(streams[s->arg[0]], sleep_then_go_on, (void *)s->arg[1]));
        else if (!strcmp(s->word, "block"))
                CU_CHECK(cuLaunchHostFunc(streams[s->arg[0]], sleep_for_ever, NULL));
        else if (strstr("capture instantiate launch", s->word))
                use_graph(s->word, streams[s->arg[0]]);
        else if (strstr("handle lastly forsake spawn fork", s->word))
                use_process(s);
        else if (strstr("exit leave raise", s->word))
                end_process(s);
        else if (strstr("sleep pause spin deaf mark", s->word))
                use_host(s);
        else if (!strcmp(s->word, "reopen")) {
                close_comms();
                open_comms();
        } else
                call_nccl(s);
}

/* Rank 0 decides which turn is the last. A turn has a call that waits for rank 0, so nobody is
 * more than one turn ahead of it, and everybody sees the file in time. */
static void play_until_stopped(int begin, int end)
{
        char stop[600];
        long last = -1;

        make_path(stop, sizeof stop, "stop", -1);
        for (long turn = 0; last < 0 || turn <= last; turn++) {
                if (last < 0 && job.rank == 0 && !access(stop, F_OK))
                        write_number("last", -1, turn + 1);
                if (last < 0)
                        last = read_number("last");
                play_block(begin, end);
        }
}

static void *play_thread(void *arg)
{
        const struct block *b = arg;

        cuCtxSetCurrent(job.ctx);
        play_block(b->begin, b->end);
        return NULL;
}

static void play_block(int begin, int end)
{
        pthread_t threads[THREADS];
        struct block blocks[THREADS];
        int n_threads = 0;

        for (int i = begin; i < end; i++) {
                const struct step *s = &steps[i];

                if (!strcmp(s->word, "loop")) {
                        for (long turn = 0; turn < s->arg[0]; turn++)
                                play_block(i + 1, s->partner);
                        i = s->partner;
                } else if (!strcmp(s->word, "forever")) {
                        play_until_stopped(i + 1, s->partner);
                        i = s->partner;
                } else if (!strcmp(s->word, "thread") && n_threads < THREADS) {
                        blocks[n_threads] = (struct block){i + 1, s->partner};
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

static bool read_step(char *line, int rank)
{
        char ranks[64], *rest;
        struct step *s = &steps[n_steps];
        int at = 0;

        if (sscanf(line, "%63s %15s %n", ranks, s->word, &at) < 2 || !is_for_rank(ranks, rank))
                return true;
        if (n_steps == STEPS - 1)
                return false;
        rest = line + at;
        for (char *w = strtok(rest, " \n"); w; w = strtok(NULL, " \n")) {
                char *end;
                long value = strtol(w, &end, 10);

                if (*end)
                        snprintf(s->kind, sizeof s->kind, "%s", w);
                else if (s->n_args < 5)
                        s->arg[s->n_args++] = value;
        }
        n_steps++;
        return true;
}

static bool match_blocks(void)
{
        int open[16], depth = 0;

        for (int i = 0; i < n_steps; i++) {
                bool opens = strstr("loop forever thread", steps[i].word) != NULL;

                if (opens && depth < 16)
                        open[depth++] = i;
                else if (!strcmp(steps[i].word, "done") && depth)
                        steps[open[--depth]].partner = i;
                else if (opens || !strcmp(steps[i].word, "done"))
                        return false;
        }
        return depth == 0;
}

static bool read_script(const char *path, int rank)
{
        FILE *f = fopen(path, "r");
        char line[256];
        bool good = f != NULL;

        while (good && fgets(line, sizeof line, f))
                good = read_step(line, rank);
        if (f)
                fclose(f);
        return good && match_blocks();
}

int main(int argc, char **argv)
{
        const char *rank = getenv("RANK");
        char *slash;

        if (argc != 2 || !rank)
                return 2;
        snprintf(folder, sizeof folder, "%s", argv[1]);
        slash = strrchr(folder, '/');
        if (!slash)
                return 2;
        *slash = 0;
        job.rank = atoi(rank);
        if (!read_script(argv[1], job.rank)) {
                fprintf(stderr, "scene_player: %s: a line is not understood, or a block is open\n",
                        argv[1]);
                return 2;
        }
        if (n_steps && strstr("early noinit", steps[0].word))
                write_number("place", job.rank, getpid());
        if (n_steps && !strcmp(steps[0].word, "noinit"))
                sleep_for_ever(NULL);
        open_comms();
        for (int i = 0; i < STREAMS; i++)
                CU_CHECK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
        CU_CHECK(cuMemAlloc(&from, BYTES));
        CU_CHECK(cuMemAlloc(&to, BYTES));
        play_block(n_steps && !strcmp(steps[0].word, "early"), n_steps);
        close_comms();
        return 0;
}
