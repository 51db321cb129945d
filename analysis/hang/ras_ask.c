/* SPDX-License-Identifier: Apache-2.0 */
/* A client for RAS. Time and size of all it reads are limited; an answer from something else is
 * refused at its first line. */
#include <netdb.h>

#include "core/base/clock.h"
#include "core/base/xalloc.h"
#include "analysis/hang/ras.h"

enum { MOST_BYTES = 1 << 28, LINE = 256 };

struct asking {
        const char *where;
        int fd;
        uint64_t end_ns; /* CLOCK_MONOTONIC */
        char *why;
        size_t room;
};

static int set_error(const struct asking *a, int error, const char *what)
{
        snprintf(a->why, a->room, "hang: --ras %s: %s%s", a->where, what ? what : strerror(error),
                 error == ECONNREFUSED ? " (port 28028 unless NCCL_RAS_ADDR says otherwise)" : "");
        return -error;
}

/* The next call on the socket waits until the time is up. */
static int limit_wait(const struct asking *a)
{
        uint64_t now = capo_clock_mono(), left_us = now < a->end_ns ? (a->end_ns - now) / 1000 : 0;
        struct timeval t = {(time_t)(left_us / 1000000), (suseconds_t)(left_us % 1000000)};

        setsockopt(a->fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t);
        setsockopt(a->fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
        return left_us ? 0 : set_error(a, ETIMEDOUT, "no answer in time (--timeout)");
}

static int connect_address(struct asking *a, const struct addrinfo *to)
{
        int r;

        a->fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (a->fd < 0)
                return set_error(a, errno, NULL);
        do
                r = limit_wait(a);
        while (r == 0 && (r = connect(a->fd, to->ai_addr, to->ai_addrlen)) < 0 &&
               (errno == EINPROGRESS || errno == EALREADY || errno == EINTR));
        return r == -1 ? set_error(a, errno, NULL) : r;
}

/* Parse "host", "host:port", "[v6]:port" or "v6", and resolve it. */
static int resolve_address(struct asking *a, struct addrinfo **out)
{
        struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
        _cleanup_free_ char *copy = xstrdup(a->where);
        char *host = copy, *port = NULL, default_port[8];
        int r;

        snprintf(default_port, sizeof default_port, "%d", RAS_PORT);
        if (*copy == '[' && strchr(copy, ']')) {
                port = strchr(copy, ']');
                host++;
                *port++ = 0;
                port = *port == ':' ? port + 1 : NULL;
        } else if (strchr(copy, ':') && strchr(copy, ':') == strrchr(copy, ':')) {
                port = strchr(copy, ':');
                *port++ = 0;
        }
        if (!*host || *host == '[' || (port && (!*port || port[strspn(port, "0123456789")])))
                return set_error(a, EDOM, "a host, or host:port");
        if (port && (strlen(port) > 5 || atoi(port) < 1 || atoi(port) > 65535))
                return set_error(a, EDOM, "expected a port from 1 to 65535");
        r = getaddrinfo(host, port ? port : default_port, &hints, out);
        return r ? set_error(a, EHOSTUNREACH, gai_strerror(r)) : 0;
}

static ssize_t move_bytes(const struct asking *a, bool sends, void *bytes, size_t n)
{
        for (;;) {
                int r = limit_wait(a);
                ssize_t done = r < 0   ? r
                               : sends ? send(a->fd, bytes, n, MSG_NOSIGNAL)
                                       : recv(a->fd, bytes, n, 0);

                if (r < 0 || done >= 0)
                        return done;
                if (errno != EAGAIN && errno != EINTR)
                        return set_error(a, errno, NULL);
        }
}

/* Send a line, and read one byte by byte: what follows it must stay in the socket. */
static int exchange_line(const struct asking *a, const char *text, char line[LINE])
{
        ssize_t r = move_bytes(a, true, (void *)(uintptr_t)text, strlen(text));
        size_t n = 0;

        while (r > 0 && n < LINE - 1 && (r = move_bytes(a, false, &line[n], 1)) > 0) {
                if (line[n++] == '\n') {
                        line[n - 1] = 0;
                        return 0;
                }
        }
        return r < 0 ? (int)r
                     : set_error(a, EPROTO,
                                 n ? "what answers there is not NCCL's RAS"
                                   : "it closed the connection");
}

static int hear_all(const struct asking *a, char **text)
{
        char part[1 << 16];
        size_t size, all = 0;
        FILE *out = xmemstream(text, &size);
        ssize_t n;

        while ((n = move_bytes(a, false, part, sizeof part)) > 0 &&
               (all += (size_t)n) <= MOST_BYTES)
                fwrite(part, 1, (size_t)n, out);
        xmemclose(out);
        if (n > 0)
                return set_error(a, EFBIG, NULL);
        return n < 0 || all ? (int)n
                            : set_error(a, EPROTO, "it closed the connection without a word");
}

static int run_protocol(const struct asking *a, double timeout_s, char **text)
{
        char line[LINE], timeout[32], last[] = "VERBOSE STATUS\n";
        int r = exchange_line(a, "CLIENT PROTOCOL 2\n", line);

        if (r == 0 && strncasecmp(line, "SERVER PROTOCOL ", 16) != 0)
                return set_error(a, EPROTO, "what answers there is not NCCL's RAS");
        /* the time RAS gives the other processes; it needs some more to build the answer */
        snprintf(timeout, sizeof timeout, "TIMEOUT %d\n", timeout_s > 3 ? (int)timeout_s - 2 : 1);
        r = r ?: exchange_line(a, timeout, line);
        /* an error before 2.28.7, which then answers in text */
        r = r ?: exchange_line(a, "SET FORMAT json\n", line);
        r = r ?: (int)move_bytes(a, true, last, strlen(last));
        return r < 0 ? r : hear_all(a, text);
}

int ras_ask(const char *where, double timeout_s, char **text, char *why, size_t room)
{
        struct asking a = {.where = where,
                           .fd = -1,
                           .end_ns = capo_clock_mono() + (uint64_t)(timeout_s * 1e9),
                           .why = why,
                           .room = room};
        struct addrinfo *found = NULL;
        int r = resolve_address(&a, &found);

        *text = NULL;
        for (const struct addrinfo *to = found; to; to = to->ai_next) {
                r = connect_address(&a, to);
                if (r == 0 || r == -ETIMEDOUT)
                        break;
                capo_closep(&a.fd);
                a.fd = -1;
        }
        if (found)
                freeaddrinfo(found);
        if (r == 0)
                r = run_protocol(&a, timeout_s, text);
        capo_closep(&a.fd);
        if (r < 0)
                free(steal(text));
        return r;
}
