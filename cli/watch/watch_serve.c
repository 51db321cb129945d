/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <netdb.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "capo/msg.h"
#include "cli/watch/metrics.h"
#include "cli/watch/watch_serve.h"
#include "core/base/clock.h"
#include "core/base/util.h"

#define PATIENCE_NS UINT64_C(2000000000)

enum { REQUEST = 8192, QUEUE = 16 };

static int listen_tcp(const char *where)
{
        struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found = NULL;
        const char *colon = strrchr(where, ':'), *port = colon ? colon + 1 : where;
        char host[256] = "127.0.0.1";
        int fd = -1, r, on = 1;

        if (colon && colon > where)
                snprintf(host, sizeof host, "%.*s", (int)(colon - where), where);
        if (*host == '[' && host[strlen(host) - 1] == ']') { /* [::1]:9401 */
                host[strlen(host) - 1] = 0;
                memmove(host, host + 1, strlen(host));
        }
        if (!*port || strspn(port, "0123456789") != strlen(port) || strlen(port) > 5 ||
            atoi(port) > 65535)
                return capo_fail(-EDESTADDRREQ, "watch: --listen %s: expected HOST:PORT", where);
        r = getaddrinfo(host, port, &hints, &found);
        if (r)
                return capo_fail(-EINVAL, "watch: --listen %s: %s", where, gai_strerror(r));
        for (struct addrinfo *a = found; a && fd < 0; a = a->ai_next) {
                fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
                if (fd < 0)
                        continue;
                setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
                if (bind(fd, a->ai_addr, a->ai_addrlen) < 0 || listen(fd, QUEUE) < 0) {
                        r = errno;
                        close(fd);
                        fd = -1;
                        errno = r;
                }
        }
        r = errno;
        freeaddrinfo(found);
        return fd >= 0 ? fd : capo_fail(-r, "watch: --listen %s: %s", where, strerror(r));
}

/* Replace the socket file of a killed watch, but not that of a running one. */
static int listen_local(const char *path)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), r;
        struct stat st;

        if (fd < 0 || strlen(path) >= sizeof address.sun_path) {
                r = fd < 0 ? errno : ENAMETOOLONG;
        } else {
                memcpy(address.sun_path, path, strlen(path));
                if (lstat(path, &st) == 0 && S_ISSOCK(st.st_mode) &&
                    connect(fd, (struct sockaddr *)&address, sizeof address) < 0 &&
                    errno == ECONNREFUSED)
                        unlink(path);
                errno = 0;
                if (bind(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
                    listen(fd, QUEUE) == 0)
                        return fd;
                r = errno;
        }
        if (fd >= 0)
                close(fd);
        return capo_fail(-r, "watch: --socket %s: %s", path, strerror(r));
}

int watch_serve_begin(struct watch_serve *s, const struct watch_options *o)
{
        *s = (struct watch_serve){.tcp = -1, .local = -1};
        if (o->listen && (s->tcp = listen_tcp(o->listen)) < 0)
                return s->tcp;
        if (o->socket && (s->local = listen_local(o->socket)) < 0) {
                watch_serve_finish(s);
                return -EINVAL;
        }
        s->socket = o->socket;
        return 0;
}

void watch_serve_finish(struct watch_serve *s)
{
        if (s->tcp >= 0)
                close(s->tcp);
        if (s->local >= 0) {
                close(s->local);
                unlink(s->socket);
        }
}

unsigned watch_serve_poll(const struct watch_serve *s, struct pollfd fds[WATCH_SERVE_FDS])
{
        fds[0] = (struct pollfd){s->tcp, POLLIN, 0};
        fds[1] = (struct pollfd){s->local, POLLIN, 0};
        return WATCH_SERVE_FDS;
}

/* Wait for @what on a non-blocking descriptor. False: timeout at @end_ns. */
static bool wait_for(int fd, short what, uint64_t end_ns)
{
        struct pollfd on = {fd, what, 0};
        uint64_t now = capo_clock_of(CLOCK_MONOTONIC);

        return now < end_ns && poll(&on, 1, (int)((end_ns - now) / 1000000) + 1) > 0;
}

static void send_all(int fd, const char *text, size_t n, uint64_t end_ns)
{
        while (n && wait_for(fd, POLLOUT, end_ns)) {
                ssize_t sent = send(fd, text, n, MSG_NOSIGNAL | MSG_DONTWAIT);

                if (sent < 0 && (errno == EAGAIN || errno == EINTR))
                        continue;
                if (sent <= 0)
                        return;
                text += sent;
                n -= (size_t)sent;
        }
}

/* Read the head of a request. False: there is none. */
static bool read_head(int fd, char head[REQUEST], uint64_t end_ns)
{
        size_t n = 0;

        *head = 0;
        while (n + 1 < REQUEST && !strstr(head, "\r\n\r\n") && wait_for(fd, POLLIN, end_ns)) {
                ssize_t got = recv(fd, head + n, REQUEST - 1 - n, MSG_DONTWAIT);

                if (got < 0 && (errno == EAGAIN || errno == EINTR))
                        continue;
                if (got <= 0)
                        break;
                n += (size_t)got;
                head[n] = 0;
        }
        return strstr(head, "\r\n\r\n");
}

static void answer_http(int fd, const struct watch *w, uint64_t end_ns)
{
        _cleanup_free_ char *text = NULL;
        char head[REQUEST], reply[256];
        bool get, open_format, found;
        size_t n = 0;
        FILE *out;

        if (!read_head(fd, head, end_ns) || !(out = open_memstream(&text, &n)))
                return;
        get = !strncmp(head, "GET ", 4);
        found = (get || !strncmp(head, "HEAD ", 5)) &&
                !strncmp(strchr(head, ' '), " /metrics", 9) && strchr(" ?", strchr(head, ' ')[9]);
        open_format = strcasestr(head, "application/openmetrics-text");
        if (found)
                metrics_print(w, NULL, open_format ? METRICS_OPEN : METRICS_TEXT, out);
        else
                fputs("capo watch: the metrics are at /metrics\n", out);
        if (fclose(out))
                return;
        snprintf(reply, sizeof reply,
                 "HTTP/1.1 %s\r\nContent-Type: %s; charset=utf-8\r\nContent-Length: %zu\r\n"
                 "Connection: close\r\n\r\n",
                 found ? "200 OK" : "404 Not Found",
                 !found        ? "text/plain"
                 : open_format ? "application/openmetrics-text; version=1.0.0"
                               : "text/plain; version=0.0.4",
                 n);
        send_all(fd, reply, strlen(reply), end_ns);
        if (get || !found)
                send_all(fd, text, n, end_ns);
}

static void answer_local(int fd, const struct watch *w, uint64_t end_ns)
{
        _cleanup_free_ char *text = NULL;
        size_t n = 0;
        FILE *out = open_memstream(&text, &n);

        if (!out)
                return;
        metrics_print(w, NULL, METRICS_LINES, out);
        if (fclose(out) == 0)
                send_all(fd, text, n, end_ns);
}

void watch_serve_answer(struct watch_serve *s, const struct watch *w,
                        const struct pollfd fds[WATCH_SERVE_FDS])
{
        for (unsigned i = 0; i < WATCH_SERVE_FDS; i++) {
                _cleanup_close_ int fd = -1;
                uint64_t end_ns = capo_clock_of(CLOCK_MONOTONIC) + PATIENCE_NS;

                if (!fds[i].revents)
                        continue;
                fd = accept4(i ? s->local : s->tcp, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
                if (fd < 0)
                        continue;
                if (i)
                        answer_local(fd, w, end_ns);
                else
                        answer_http(fd, w, end_ns);
        }
}
