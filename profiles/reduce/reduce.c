/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "capo/msg.h"
#include "profiles/machine/apart.h"
#include "profiles/reduce/reduce.h"
#include "core/base/clock.h"

/* From nccl.h and cuda.h: values that never changed. */
enum { NCCL_FLOAT32 = 7, NCCL_SUM = 0, STREAM_NON_BLOCKING = 1 };
enum { WARM_UP = 2, TIMED = 5, DRIVER_SECONDS = 30 };

static struct {
        int (*init)(unsigned);
        int (*count)(int *);
        int (*device)(int *, int);
        int (*retain)(void **, int);
        int (*current)(void *);
        int (*alloc)(uint64_t *, size_t);
        int (*to_device)(uint64_t, const void *, size_t);
        int (*to_host)(void *, uint64_t, size_t);
        int (*stream)(void **, unsigned);
        int (*wait)(void *);
        int (*unique)(struct reduce_id *);
        int (*join)(void **, int, struct reduce_id, int);
        int (*reduce)(const void *, void *, size_t, int, int, void *, void *);
        int (*leave)(void *);
} call;

static const struct symbol {
        const char *name;
        void *at;
} driver_symbols[] = {{"cuInit", &call.init},
                      {"cuDeviceGetCount", &call.count},
                      {"cuDeviceGet", &call.device},
                      {"cuDevicePrimaryCtxRetain", &call.retain},
                      {"cuCtxSetCurrent", &call.current},
                      {"cuMemAlloc_v2", &call.alloc},
                      {"cuMemcpyHtoD_v2", &call.to_device},
                      {"cuMemcpyDtoH_v2", &call.to_host},
                      {"cuStreamCreate", &call.stream},
                      {"cuStreamSynchronize", &call.wait},
                      {NULL, NULL}},
  nccl_symbols[] = {{"ncclGetUniqueId", &call.unique},
                    {"ncclCommInitRank", &call.join},
                    {"ncclAllReduce", &call.reduce},
                    {"ncclCommDestroy", &call.leave},
                    {NULL, NULL}};

static const char *open_library(const char *path, const struct symbol *symbols)
{
        void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);

        if (!library)
                return dlerror();
        for (; symbols->name; symbols++) {
                void *at = dlsym(library, symbols->name);

                if (!at)
                        return dlerror();
                memcpy(symbols->at, &at, sizeof at);
        }
        return NULL;
}

static int count_gpus(const void *unused, void *n)
{
        return open_library("libcuda.so.1", driver_symbols) || call.init(0) || call.count(n);
}

int reduce_gpus(void)
{
        int n = 0;

        if (capo_apart(count_gpus, NULL, &n, sizeof n, DRIVER_SECONDS))
                return 0;
        return n < REDUCE_GPUS ? n : REDUCE_GPUS;
}

struct child {
        pid_t pid;
        int fd; /* a socket: the id goes in; an id and the answer come out */
};

struct answer {
        double seconds;
        bool id_sent;
        char why[200]; /* "": success */
};

static bool pass_bytes(int fd, void *data, size_t n, bool out)
{
        for (size_t done = 0; done < n;) {
                ssize_t k = out ? write(fd, (char *)data + done, n - done)
                                : read(fd, (char *)data + done, n - done);

                if (k <= 0)
                        return false;
                done += (size_t)k;
        }
        return true;
}

/* One step of a rank: on failure, its name and status are written to @why. */
static bool is_done(struct answer *a, const char *what, int status)
{
        if (status)
                snprintf(a->why, sizeof a->why, "%s returned %d", what, status);
        return !status;
}

static bool time_rank(const struct reduce_ask *ask, int gpu, int fd, struct answer *a)
{
        size_t n = ask->bytes / sizeof(float);
        struct reduce_id id = {{0}};
        uint64_t send, recv, begin = 0;
        void *context, *stream, *comm;
        float *ones = malloc(n * sizeof *ones), first = 0, last = 0;
        int device;

        for (size_t i = 0; ones && i < n; i++)
                ones[i] = 1;
        if (!ones || !is_done(a, "cuInit", call.init(0)) ||
            !is_done(a, "cuDeviceGet", call.device(&device, gpu)) ||
            !is_done(a, "cuDevicePrimaryCtxRetain", call.retain(&context, device)) ||
            !is_done(a, "cuCtxSetCurrent", call.current(context)) ||
            !is_done(a, "cuStreamCreate", call.stream(&stream, STREAM_NON_BLOCKING)) ||
            !is_done(a, "cuMemAlloc", call.alloc(&send, ask->bytes)) ||
            !is_done(a, "cuMemAlloc", call.alloc(&recv, ask->bytes)) ||
            !is_done(a, "cuMemcpyHtoD", call.to_device(send, ones, n * sizeof *ones)))
                return false;
        if (ask->first + gpu == 0) {
                if (!is_done(a, "ncclGetUniqueId", call.unique(&id)))
                        return false;
                a->id_sent = true;
                if (!pass_bytes(fd, &id, sizeof id, true))
                        return false;
        }
        if (!pass_bytes(fd, &id, sizeof id, false) ||
            !is_done(a, "ncclCommInitRank", call.join(&comm, ask->all, id, ask->first + gpu)))
                return false;
        for (int i = 0; i < WARM_UP + TIMED; i++) {
                if (i == WARM_UP) {
                        if (!is_done(a, "cuStreamSynchronize", call.wait(stream)))
                                return false;
                        begin = capo_clock_mono();
                }
                if (!is_done(a, "ncclAllReduce",
                             call.reduce((void *)(uintptr_t)send, (void *)(uintptr_t)recv, n,
                                         NCCL_FLOAT32, NCCL_SUM, comm, stream)))
                        return false;
        }
        if (!is_done(a, "cuStreamSynchronize", call.wait(stream)))
                return false;
        a->seconds = (double)(capo_clock_mono() - begin) / 1e9 / TIMED;
        if (!is_done(a, "cuMemcpyDtoH", call.to_host(&first, recv, sizeof first)) ||
            !is_done(a, "cuMemcpyDtoH",
                     call.to_host(&last, recv + (n - 1) * sizeof last, sizeof last)))
                return false;
        if (first != (float)ask->all || last != (float)ask->all)
                snprintf(a->why, sizeof a->why, "wrong data: %d ones add up to %g and %g", ask->all,
                         (double)first, (double)last);
        call.leave(comm);
        free(ones);
        return true;
}

static void run_rank(const struct reduce_ask *ask, int gpu, int fd)
{
        struct answer a = {.why = ""};
        const char *error = open_library("libcuda.so.1", driver_symbols);

        alarm((unsigned)ask->limit_s + 5); /* in case the parent dies */
        error = error ? error : open_library(ask->libnccl, nccl_symbols);
        if (error)
                snprintf(a.why, sizeof a.why, "%s", error);
        else if (!time_rank(ask, gpu, fd, &a) && !*a.why)
                snprintf(a.why, sizeof a.why, "it could not begin");
        if (ask->first + gpu == 0 && !a.id_sent) { /* an answer in place of the id */
                struct reduce_id none = {{0}};

                pass_bytes(fd, &none, sizeof none, true);
        }
        _exit(!pass_bytes(fd, &a, sizeof a, true));
}

static bool start_child(const struct reduce_ask *ask, int gpu, struct child *c)
{
        int ends[2];

        if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
                return false;
        c->pid = fork();
        if (!c->pid) {
                close(ends[0]);
                run_rank(ask, gpu, ends[1]);
        }
        close(ends[1]);
        c->fd = ends[0];
        if (c->pid < 0)
                close(c->fd);
        return c->pid > 0;
}

/* Read bytes from a child within the remaining time. */
static bool await_bytes(int fd, void *data, size_t n, double until)
{
        for (size_t done = 0; done < n;) {
                struct pollfd p = {fd, POLLIN, 0};
                double left = until - (double)capo_clock_mono() / 1e9;
                ssize_t k;

                if (left <= 0 || poll(&p, 1, (int)(left * 1000) + 1) <= 0)
                        return false;
                k = read(fd, (char *)data + done, n - done);
                if (k <= 0)
                        return false;
                done += (size_t)k;
        }
        return true;
}

static int collect_answers(const struct reduce_ask *ask, struct child *children, double *seconds,
                           char *why, size_t room)
{
        double until = (double)capo_clock_mono() / 1e9 + ask->limit_s, most = 0;
        struct reduce_id id = {{0}}, none = {{0}};

        if (ask->first == 0 && !await_bytes(children[0].fd, &id, sizeof id, until))
                return capo_why(-EIO, why, room, "NCCL made no id within %.0f s", ask->limit_s);
        if (ask->first == 0 && ask->put && memcmp(&id, &none, sizeof id) && ask->put(&id, ask->arg))
                return capo_why(-EIO, why, room, "the id did not reach the other nodes");
        if (ask->first && (!ask->get || ask->get(&id, ask->arg)))
                return capo_why(-EIO, why, room, "no id came from the first node");
        for (int i = 0; i < ask->gpus; i++)
                pass_bytes(children[i].fd, &id, sizeof id, true);
        for (int i = 0; i < ask->gpus; i++) {
                struct answer a;

                if (!await_bytes(children[i].fd, &a, sizeof a, until))
                        return capo_why(-EIO, why, room, "GPU %d did not end within %.0f s", i,
                                        ask->limit_s);
                if (*a.why)
                        return capo_why(-EIO, why, room, "GPU %d: %s", i, a.why);
                most = a.seconds > most ? a.seconds : most;
        }
        *seconds = most;
        return 0;
}

int reduce_run(const struct reduce_ask *ask, double *seconds, char *why, size_t room)
{
        struct child children[REDUCE_GPUS] = {{0}};
        void (*before)(int) = signal(SIGPIPE, SIG_IGN);
        int n = 0, r;

        while (n < ask->gpus && start_child(ask, n, &children[n]))
                n++;
        r = n < ask->gpus ? capo_why(-EIO, why, room, "no process could be started")
                          : collect_answers(ask, children, seconds, why, room);
        for (int i = 0; i < n; i++) {
                kill(children[i].pid, SIGKILL);
                close(children[i].fd);
                waitpid(children[i].pid, NULL, 0);
        }
        signal(SIGPIPE, before);
        return r;
}
