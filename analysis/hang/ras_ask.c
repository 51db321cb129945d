/* SPDX-License-Identifier: Apache-2.0 */
/* A client for RAS. Time and size of all it reads are limited; an answer from something else is
 * refused at its first line. */
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

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

/* Wait until the socket can be read or written. */
static int wait_ready(const struct asking *a, short what)
{
        uint64_t now = capo_clock_mono();
        struct pollfd p = {.fd = a->fd, .events = what};
        int r = now < a->end_ns ? poll(&p, 1, (int)((a->end_ns - now) / 1000000) + 1) : 0;

        if (r < 0 && errno == EINTR)
                return wait_ready(a, what);
        return r > 0   ? 0
               : r < 0 ? set_error(a, errno, NULL)
                       : set_error(a, ETIMEDOUT, "no answer in time (--timeout)");
}

static int connect_address(struct asking *a, const struct addrinfo *to)
{
        int error = 0, r;
        socklen_t size = sizeof error;

        a->fd = socket(to->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (a->fd < 0)
                return set_error(a, errno, NULL);
        if (connect(a->fd, to->ai_addr, to->ai_addrlen) < 0) {
                if (errno != EINPROGRESS)
                        return set_error(a, errno, NULL);
                r = wait_ready(a, POLLOUT);
                if (r < 0)
                        return r;
                if (getsockopt(a->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0 || error)
                        return set_error(a, error ? error : errno, NULL);
        }
        return 0;
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

static int send_text(const struct asking *a, const char *text)
{
        for (size_t n = strlen(text); n;) {
                int r = wait_ready(a, POLLOUT);
                ssize_t done = r < 0 ? 0 : send(a->fd, text, n, MSG_NOSIGNAL);

                if (r < 0)
                        return r;
                if (done < 0 && errno != EAGAIN && errno != EINTR)
                        return set_error(a, errno, NULL);
                n -= done > 0 ? (size_t)done : 0;
                text += done > 0 ? done : 0;
        }
        return 0;
}

static ssize_t read_socket(const struct asking *a, char *to, size_t room)
{
        for (;;) {
                int r = wait_ready(a, POLLIN);
                ssize_t n = r < 0 ? r : recv(a->fd, to, room, 0);

                if (r < 0)
                        return r;
                if (n >= 0)
                        return n;
                if (errno != EAGAIN && errno != EINTR)
                        return set_error(a, errno, NULL);
        }
}

/* Read byte by byte: what follows the line must stay in the socket. */
static int hear_line(const struct asking *a, char line[LINE])
{
        size_t n = 0;

        while (n < LINE - 1) {
                ssize_t r = read_socket(a, &line[n], 1);

                if (r < 0)
                        return (int)r;
                if (r == 0)
                        break;
                if (line[n++] == '\n') {
                        line[n - 1] = 0;
                        return 0;
                }
        }
        return set_error(a, EPROTO,
                         n ? "what answers there is not NCCL's RAS" : "it closed the connection");
}

static int hear_all(const struct asking *a, char **text)
{
        size_t n = 0, room = 0;

        for (;;) {
                ssize_t r;

                if (n + 1 >= room) {
                        char *larger = room >= MOST_BYTES
                                               ? NULL
                                               : xrealloc(*text, room = room ? 2 * room : 1 << 16);

                        if (!larger)
                                return set_error(a, room >= MOST_BYTES ? EFBIG : ENOMEM, NULL);
                        *text = larger;
                }
                r = read_socket(a, *text + n, room - n - 1);
                if (r < 0)
                        return (int)r;
                if (r == 0) {
                        (*text)[n] = 0;
                        return n ? 0
                                 : set_error(a, EPROTO, "it closed the connection without a word");
                }
                n += (size_t)r;
        }
}

static int run_protocol(const struct asking *a, double timeout_s, char **text)
{
        char line[LINE], timeout[32];
        int r = send_text(a, "CLIENT PROTOCOL 2\n");

        r = r < 0 ? r : hear_line(a, line);
        if (r == 0 && strncasecmp(line, "SERVER PROTOCOL ", 16) != 0)
                return set_error(a, EPROTO, "what answers there is not NCCL's RAS");
        /* the time RAS gives the other processes; it needs some more to build the answer */
        snprintf(timeout, sizeof timeout, "TIMEOUT %d\n", timeout_s > 3 ? (int)timeout_s - 2 : 1);
        r = r < 0 ? r : send_text(a, timeout);
        r = r < 0 ? r : hear_line(a, line);
        r = r < 0 ? r : send_text(a, "SET FORMAT json\n"); /* an error before 2.28.7, which then
                                                              answers in text */
        r = r < 0 ? r : hear_line(a, line);
        r = r < 0 ? r : send_text(a, "VERBOSE STATUS\n");
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
