/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How ranks find each other: a unique id is the address of a listening thread in the process that
 * made it. Every rank tells that thread where it listens itself, gets everybody's address back, and
 * then joins a ring of TCP connections that carries the few small messages of communicator
 * creation. Ranks may be processes or threads; nothing here can tell.
 *
 * Addresses are those of CAPO_STANDIN_ADDR, by default the loopback one: one machine. Every wait
 * looks at the communicator's abort flag and at CAPO_STANDIN_TIMEOUT, so a rank that never comes
 * cannot hang the others for ever.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "std.h"

#define ID_MAGIC 0x64692d6f70616361ull

struct id { /* what the 128 bytes hold */
        uint64_t magic;
        uint64_t nonce;
        struct sockaddr_in at;
};

struct hello {
        uint64_t tag;
        int rank, n;
        struct sockaddr_in at;
};

struct boot {
        int listen_fd, next_fd, prev_fd;
        struct sockaddr_in at, *peers;
        pthread_mutex_t lock;
        int n_early; /* connections for a later ring of this communicator's ranks */
        struct {
                int fd;
                struct hello hello;
        } early[64];
};

static int listen_any(struct sockaddr_in *at)
{
        const char *text = getenv("CAPO_STANDIN_ADDR");
        socklen_t room = sizeof *at;
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        memset(at, 0, sizeof *at);
        at->sin_family = AF_INET;
        if (inet_pton(AF_INET, text && *text ? text : "127.0.0.1", &at->sin_addr) != 1)
                inet_pton(AF_INET, "127.0.0.1", &at->sin_addr);
        if (fd < 0 || bind(fd, (struct sockaddr *)at, sizeof *at) || listen(fd, 4096) ||
            getsockname(fd, (struct sockaddr *)at, &room)) {
                if (fd >= 0)
                        close(fd);
                return -1;
        }
        return fd;
}

static bool give_up(struct comm *comm, uint64_t t_start)
{
        if (comm && comm->abort)
                return true;
        if (comm && comm->linger) { /* a peer may still need this rank's endpoints to finish */
                for (int i = 0; i < MAX_CHANNELS; i++)
                        if (comm->chans[i].open)
                                net_progress(&comm->chans[i]);
                if (comm->t_linger_ns && std_now_ns() > comm->t_linger_ns)
                        return true;
        }
        return std_timeout_s() > 0 && (double)(std_now_ns() - t_start) / 1e9 > std_timeout_s();
}

/* Moves `bytes` over a socket; false when the peer is gone, the communicator aborted, or time is
 * up. */
static bool transfer(struct comm *comm, int fd, void *data, size_t bytes, bool write)
{
        uint64_t t_start = std_now_ns();
        char *p = data;

        while (bytes) {
                ssize_t r = write ? send(fd, p, bytes, MSG_NOSIGNAL | MSG_DONTWAIT)
                                  : recv(fd, p, bytes, MSG_DONTWAIT);

                if (r > 0) {
                        p += r;
                        bytes -= (size_t)r;
                } else if (r < 0 && (errno == EAGAIN || errno == EINTR)) {
                        struct pollfd pfd = {.fd = fd, .events = write ? POLLOUT : POLLIN};

                        if (give_up(comm, t_start))
                                return false;
                        poll(&pfd, 1, comm && comm->linger ? 1 : 50);
                } else {
                        return false;
                }
        }
        return true;
}

static int dial(const struct sockaddr_in *at)
{
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

        if (fd >= 0 && connect(fd, (const struct sockaddr *)at, sizeof *at)) {
                close(fd);
                return -1;
        }
        if (fd >= 0)
                setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        return fd;
}

/* --- the root: a thread of the process that called ncclGetUniqueId --- */

struct root {
        int fd;
        uint64_t nonce;
};

static void *root_thread(void *arg)
{
        struct root root = *(struct root *)arg;
        struct sockaddr_in *all = NULL;
        int *fds = NULL, n = 0, seen = 0;

        free(arg);
        while (!n || seen < n) {
                struct hello h;
                int fd = accept4(root.fd, NULL, NULL, SOCK_CLOEXEC);

                if (fd < 0)
                        continue;
                if (!transfer(NULL, fd, &h, sizeof h, false) || h.tag != root.nonce || h.n < 1 ||
                    h.n > MAX_RANKS || h.rank < 0 || h.rank >= h.n || (n && h.n != n)) {
                        close(fd); /* the rank sees the end and reports */
                        continue;
                }
                if (!n) {
                        n = h.n;
                        all = calloc((size_t)n, sizeof *all);
                        fds = malloc((size_t)n * sizeof *fds);
                        for (int i = 0; i < n; i++)
                                fds[i] = -1;
                }
                if (fds[h.rank] >= 0) { /* two ranks with one number */
                        close(fd);
                        continue;
                }
                fds[h.rank] = fd;
                all[h.rank] = h.at;
                seen++;
        }
        for (int i = 0; i < n; i++) {
                transfer(NULL, fds[i], all, (size_t)n * sizeof *all, true);
                close(fds[i]);
        }
        close(root.fd);
        free(all);
        free(fds);
        return NULL;
}

ncclResult_t boot_make_id(ncclUniqueId *out)
{
        struct id id = {.magic = ID_MAGIC};
        struct root *root = malloc(sizeof *root);
        pthread_attr_t attr;
        pthread_t thread;
        int r;

        _Static_assert(sizeof id <= sizeof *out, "an id fits");
        if (!root)
                return ncclSystemError;
        if (getrandom(&id.nonce, sizeof id.nonce, 0) != sizeof id.nonce)
                id.nonce = std_now_ns();
        root->nonce = id.nonce;
        root->fd = listen_any(&id.at);
        if (root->fd < 0) {
                free(root);
                return fail(NULL, ncclSystemError, "cannot listen for ranks: %s", strerror(errno));
        }
        memset(out, 0, sizeof *out);
        memcpy(out, &id, sizeof id);
        pthread_attr_init(&attr);
        pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
        pthread_attr_setstacksize(&attr, 128 << 10);
        r = pthread_create(&thread, &attr, root_thread, root);
        pthread_attr_destroy(&attr);
        if (r) {
                close(root->fd);
                free(root);
                return fail(NULL, ncclSystemError, "cannot start a thread");
        }
        return ncclSuccess;
}

/* --- ranks --- */

static struct boot *boot_new(int n)
{
        struct boot *b = calloc(1, sizeof *b);

        if (!b)
                return NULL;
        b->next_fd = b->prev_fd = -1;
        b->peers = calloc((size_t)n, sizeof *b->peers);
        b->listen_fd = listen_any(&b->at);
        pthread_mutex_init(&b->lock, NULL);
        if (!b->peers || b->listen_fd < 0) {
                free(b->peers);
                free(b);
                return NULL;
        }
        return b;
}

/* The connection that says hello with this tag and from this rank. */
static int take(struct comm *comm, struct boot *b, uint64_t tag, int from)
{
        uint64_t t_start = std_now_ns();
        int fd = -1;

        while (fd < 0 && !give_up(comm, t_start)) {
                struct pollfd pfd = {.fd = b->listen_fd, .events = POLLIN};
                struct hello h;

                pthread_mutex_lock(&b->lock);
                for (int i = 0; i < b->n_early && fd < 0; i++)
                        if (b->early[i].hello.tag == tag && b->early[i].hello.rank == from) {
                                fd = b->early[i].fd;
                                b->early[i] = b->early[--b->n_early];
                        }
                if (fd < 0 && poll(&pfd, 1, 0) > 0) {
                        int got = accept4(b->listen_fd, NULL, NULL, SOCK_CLOEXEC), one = 1;

                        if (got >= 0 && !transfer(comm, got, &h, sizeof h, false)) {
                                close(got);
                        } else if (got >= 0) {
                                setsockopt(got, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
                                if (h.tag == tag && h.rank == from)
                                        fd = got;
                                else if (b->n_early < 64)
                                        b->early[b->n_early].fd = got,
                                        b->early[b->n_early++].hello = h;
                                else
                                        close(got);
                        }
                }
                pthread_mutex_unlock(&b->lock);
                if (fd < 0)
                        poll(&pfd, 1, 20);
        }
        return fd;
}

/* Closes the ring: towards `next` whose listener is known, from the one before through `listener`.
 */
static ncclResult_t ring(struct comm *comm, const struct sockaddr_in *next, struct boot *listener,
                         uint64_t tag)
{
        struct hello h = {.tag = tag, .rank = comm->rank, .n = comm->n};
        struct boot *b = comm->boot;

        if (comm->n == 1)
                return ncclSuccess;
        b->next_fd = dial(next);
        if (b->next_fd < 0 || !transfer(comm, b->next_fd, &h, sizeof h, true))
                return fail(comm, ncclSystemError, "cannot reach the next rank: %s",
                            strerror(errno));
        b->prev_fd = take(comm, listener, tag, (comm->rank + comm->n - 1) % comm->n);
        if (b->prev_fd < 0)
                return fail(comm, comm->abort ? ncclInternalError : ncclRemoteError,
                            "the previous rank did not come");
        return ncclSuccess;
}

ncclResult_t boot_open(struct comm *comm, const ncclUniqueId *unique)
{
        struct hello h = {.rank = comm->rank, .n = comm->n};
        struct boot *b;
        struct id id;
        bool ok;
        int fd;

        memcpy(&id, unique, sizeof id);
        if (id.magic != ID_MAGIC)
                return fail(comm, ncclInvalidArgument, "not a unique id of ncclGetUniqueId");
        b = comm->boot = boot_new(comm->n);
        if (!b)
                return fail(comm, ncclSystemError, "cannot listen for other ranks");
        h.tag = id.nonce;
        comm->hash = init_hash(&(struct piece){unique, sizeof *unique}, 1);
        h.at = b->at;
        fd = dial(&id.at);
        if (fd < 0)
                return fail(comm, ncclSystemError,
                            "cannot reach the process that made the unique id: %s",
                            strerror(errno));
        ok = transfer(comm, fd, &h, sizeof h, true) &&
             transfer(comm, fd, b->peers, (size_t)comm->n * sizeof *b->peers, false);
        close(fd);
        if (!ok)
                return fail(comm, comm->abort ? ncclInternalError : ncclRemoteError,
                            "rank %d of %d: not all ranks came, or two have the same number",
                            comm->rank, comm->n);
        return ring(comm, &b->peers[(comm->rank + 1) % comm->n], b, h.tag);
}

ncclResult_t boot_join(struct comm *comm, struct comm *parent, const int *members, uint64_t tag)
{
        struct boot *b = comm->boot = boot_new(comm->n);
        ncclResult_t r;

        if (!b)
                return fail(comm, ncclSystemError, "cannot listen for other ranks");
        comm->hash = tag;
        r = ring(comm, &parent->boot->peers[members[(comm->rank + 1) % comm->n]], parent->boot,
                 tag);
        if (r)
                return r;
        b->peers[comm->rank] = b->at;
        return boot_allgather(comm, b->peers, sizeof *b->peers);
}

ncclResult_t boot_allgather(struct comm *comm, void *all, size_t bytes)
{
        struct boot *b = comm->boot;
        char *base = all;

        for (int step = 0; step < comm->n - 1; step++) {
                int out = (comm->rank - step + comm->n) % comm->n,
                    in = (out - 1 + comm->n) % comm->n;

                if (!transfer(comm, b->next_fd, base + (size_t)out * bytes, bytes, true) ||
                    !transfer(comm, b->prev_fd, base + (size_t)in * bytes, bytes, false))
                        return fail(comm, comm->abort ? ncclInternalError : ncclRemoteError,
                                    "rank %d of %d: lost a neighbour", comm->rank, comm->n);
        }
        return ncclSuccess;
}

void boot_close(struct comm *comm)
{
        struct boot *b = comm->boot;

        if (!b)
                return;
        comm->boot = NULL;
        for (int i = 0; i < b->n_early; i++)
                close(b->early[i].fd);
        if (b->next_fd >= 0)
                close(b->next_fd);
        if (b->prev_fd >= 0)
                close(b->prev_fd);
        close(b->listen_fd);
        pthread_mutex_destroy(&b->lock);
        free(b->peers);
        free(b);
}
