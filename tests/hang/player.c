/* SPDX-License-Identifier: Apache-2.0 */
/*
 * player SCRIPT: a rank of a job that does what the script says, line by line. A line is a rank, a
 * word and numbers:
 *
 *      R split P COLOUR NAME        communicator P (0 the world) is split; the new one has the next
 *                                   number
 *      R coll C KIND COUNT TYPE OP ROOT STREAM
 *      R send|recv C PEER COUNT STREAM
 *      R start | end                of a group
 *      R sync STREAM
 *      R sleep MS
 *      R until WORD                 host code until there is a file SCRIPT.WORD
 *      R mark                       what follows is the last: "place.R" appears in the folder of
 *                                   the script
 *      R hang                       host code for ever
 *      R block STREAM               what comes behind it on the stream does not begin
 *      R capture STREAM | instantiate STREAM | launch STREAM   a CUDA graph, of which there is one
 *      R exit STATUS | kill | stop | abort C | bad C | init
 *
 * What NCCL answers is not looked at: a rank of a broken job goes on until it stands.
 */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "perf_job.h"

enum { COMMS = 16, STREAMS = 4, BYTES = 1 << 22 };

static struct job job;
static ncclComm_t comms[COMMS];
static int n_comms;
static CUstream streams[STREAMS];
static CUdeviceptr from, to;

static void mark(const char *script)
{
        char path[600];
        FILE *f;

        snprintf(path, sizeof path, "%.500s.place.%d", script, job.rank);
        f = fopen(path, "w");
        if (f)
                fclose(f);
}

static void collective(const char *kind, ncclComm_t c, size_t n, ncclDataType_t type,
                       ncclRedOp_t op, int root, CUstream s)
{
        void *in = (void *)from, *out = (void *)to;

        if (!strcmp(kind, "allreduce"))
                ncclAllReduce(in, out, n, type, op, c, s);
        else if (!strcmp(kind, "broadcast"))
                ncclBroadcast(in, out, n, type, root, c, s);
        else if (!strcmp(kind, "reduce"))
                ncclReduce(in, out, n, type, op, root, c, s);
        else if (!strcmp(kind, "allgather"))
                ncclAllGather(in, out, n, type, c, s);
        else
                ncclReduceScatter(in, out, n, type, op, c, s);
}

static void never(void *nothing)
{
        for (;;)
                pause();
}

static void graph(const char *word, CUstream s)
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

static void play(const char *script, char *line)
{
        char word[16], kind[16], name[32];
        int rank, a, b, c, d, e, f, at = 0;

        if (sscanf(line, "%d %15s %n", &rank, word, &at) < 2 || rank != job.rank)
                return;
        line += at;
        if (!strcmp(word, "split") && sscanf(line, "%d %d %31s", &a, &b, name) == 3) {
                ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

                config.commName = name;
                ncclCommSplit(comms[a], b < 0 ? NCCL_SPLIT_NOCOLOR : b, job.rank, &comms[n_comms++],
                              &config);
        } else if (!strcmp(word, "coll") &&
                   sscanf(line, "%d %15s %d %d %d %d %d", &a, kind, &b, &c, &d, &e, &f) == 7) {
                collective(kind, comms[a], (size_t)b, (ncclDataType_t)c, (ncclRedOp_t)d, e,
                           streams[f]);
        } else if (!strcmp(word, "send") && sscanf(line, "%d %d %d %d", &a, &b, &c, &d) == 4) {
                ncclSend((void *)from, (size_t)c, ncclFloat, b, comms[a], streams[d]);
        } else if (!strcmp(word, "recv") && sscanf(line, "%d %d %d %d", &a, &b, &c, &d) == 4) {
                ncclRecv((void *)to, (size_t)c, ncclFloat, b, comms[a], streams[d]);
        } else if (!strcmp(word, "start")) {
                ncclGroupStart();
        } else if (!strcmp(word, "end")) {
                ncclGroupEnd();
        } else if (!strcmp(word, "sync") && sscanf(line, "%d", &a) == 1) {
                cuStreamSynchronize(streams[a]);
        } else if (!strcmp(word, "block") && sscanf(line, "%d", &a) == 1) {
                CU_CHECK(cuLaunchHostFunc(streams[a], never, NULL));
        } else if (strstr("capture instantiate launch", word) && sscanf(line, "%d", &a) == 1) {
                graph(word, streams[a]);
        } else if (!strcmp(word, "sleep") && sscanf(line, "%d", &a) == 1) {
                usleep((useconds_t)a * 1000);
        } else if (!strcmp(word, "until") && sscanf(line, "%31s", name) == 1) {
                char path[600];

                snprintf(path, sizeof path, "%.500s.%s", script, name);
                while (access(path, F_OK))
                        usleep(1000);
        } else if (!strcmp(word, "mark")) {
                mark(script);
        } else if (!strcmp(word, "hang")) {
                for (;;)
                        pause();
        } else if (!strcmp(word, "exit") && sscanf(line, "%d", &a) == 1) {
                a ? _exit(a) : exit(0);
        } else if (!strcmp(word, "kill")) {
                kill(getpid(), SIGKILL);
        } else if (!strcmp(word, "stop")) {
                kill(getpid(), SIGSTOP);
        } else if (!strcmp(word, "abort") && sscanf(line, "%d", &a) == 1) {
                ncclCommAbort(comms[a]);
        } else if (!strcmp(word, "bad") && sscanf(line, "%d", &a) == 1) {
                ncclAllReduce((void *)from, (void *)to, 16, (ncclDataType_t)99, ncclSum, comms[a],
                              streams[0]);
        }
}

int main(int argc, char **argv)
{
        FILE *script = argc == 2 ? fopen(argv[1], "r") : NULL;
        char line[256];

        if (!script)
                return 2;
        job_open(&job, "world");
        comms[n_comms++] = job.comm;
        for (int i = 0; i < STREAMS; i++)
                CU_CHECK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
        CU_CHECK(cuMemAlloc(&from, BYTES));
        CU_CHECK(cuMemAlloc(&to, BYTES));
        while (fgets(line, sizeof line, script))
                play(argv[1], line);
        fclose(script);
        for (int i = n_comms; i-- > 1;)
                if (comms[i])
                        ncclCommDestroy(comms[i]);
        job_close(&job);
        return 0;
}
