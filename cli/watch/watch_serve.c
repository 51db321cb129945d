/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <netdb.h>

#include "capo/msg.h"
#include "cli/watch/metrics.h"
#include "cli/watch/watch_serve.h"
#include "core/base/clock.h"
#include "core/base/others_file.h"
#include "core/base/xalloc.h"

#define PATIENCE_NS UINT64_C(10000000000) /* for a whole request and its answer */

enum { REQUEST = 8192, QUEUE = 64, ACCEPTED = 64, TOKEN_MOST = 4096 };

/* One connection. The request is read, then the reply is sent, whenever it is ready for that. */
struct client {
        int fd; /* -1: free */
        uint64_t since_ns;
        char head[REQUEST];
        size_t n_head;
        char *reply; /* NULL: the request is not complete */
        size_t n_reply, sent;
};

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

/* The token of --token, without the end of the line. */
static char *read_token(const char *path)
{
        _cleanup_free_ char *text = NULL;
        char why[200];
        struct stat st;
        size_t n;
        int r = capo_others_read(path, TOKEN_MOST, geteuid(), &text, &n, why, sizeof why);

        if (r == 0 && stat(path, &st) == 0 && (st.st_mode & (S_IRWXG | S_IRWXO)))
                r = capo_why(-EPERM, why, sizeof why, "has mode %03o, expected 600",
                             (unsigned)(st.st_mode & 0777));
        if (r == 0) {
                text[strcspn(text, "\r\n")] = 0;
                if (!*text)
                        r = capo_why(-EINVAL, why, sizeof why, "is empty");
        }
        if (r < 0) {
                capo_error("watch: --token %s: %s", path, why);
                return NULL;
        }
        return steal(&text);
}

int watch_serve_begin(struct watch_serve *s, const struct watch_options *o)
{
        *s = (struct watch_serve){.tcp = -1, .where = o->listen};
        if (!o->listen)
                return 0;
        s->clients = xcalloc(WATCH_SERVE_CLIENTS, sizeof *s->clients);
        for (unsigned i = 0; i < WATCH_SERVE_CLIENTS; i++)
                s->clients[i].fd = -1;
        if (o->token && !(s->token = read_token(o->token)))
                return -EINVAL;
        s->tcp = listen_tcp(o->listen);
        return s->tcp < 0 ? s->tcp : 0;
}

static void drop_client(struct client *c)
{
        if (c->fd >= 0)
                close(c->fd);
        free(c->reply);
        *c = (struct client){.fd = -1};
}

void watch_serve_finish(struct watch_serve *s)
{
        if (s->tcp >= 0)
                close(s->tcp);
        for (unsigned i = 0; s->clients && i < WATCH_SERVE_CLIENTS; i++)
                drop_client(&s->clients[i]);
        free(steal(&s->clients));
        free(steal(&s->token));
        s->tcp = -1;
}

unsigned watch_serve_poll(const struct watch_serve *s, struct pollfd fds[WATCH_SERVE_FDS])
{
        if (!s->clients)
                return 0;
        fds[0] = (struct pollfd){s->tcp, POLLIN, 0};
        for (unsigned i = 0; i < WATCH_SERVE_CLIENTS; i++) {
                const struct client *c = &s->clients[i];

                fds[1 + i] = (struct pollfd){c->fd, c->reply ? POLLOUT : POLLIN, 0};
        }
        return WATCH_SERVE_FDS;
}

/* The value of a header in a request that ends with an empty line; "": none. */
static void get_header(const char *head, const char *name, char *value, size_t room)
{
        size_t n = strlen(name);

        *value = 0;
        for (const char *line = strstr(head, "\r\n"); line; line = strstr(line, "\r\n")) {
                line += 2;
                if (!strncasecmp(line, name, n) && line[n] == ':') {
                        line += n + 1;
                        line += strspn(line, " \t");
                        snprintf(value, room, "%.*s", (int)strcspn(line, "\r\n"), line);
                        return;
                }
        }
}

/* The name of a Host header or of --listen, without its port and brackets. */
static void cut_port(const char *text, char *host, size_t room)
{
        const char *end = *text == '[' ? strchr(text, ']') : strrchr(text, ':');

        text += *text == '[';
        snprintf(host, room, "%.*s", (int)(end && end > text ? end - text : (long)strlen(text)),
                 text);
}

/* Does the request mean this server? A web page can make a browser on this machine ask a name of
 * its own that leads to 127.0.0.1; the name in the request then is not ours. Addresses are right,
 * and names whose first part is this node's. */
static bool is_host_ours(const struct watch_serve *s, const struct watch *w, const char *head)
{
        char value[300], host[300], own[300];
        unsigned char bytes[16];

        get_header(head, "Host", value, sizeof value);
        cut_port(value, host, sizeof host);
        cut_port(s->where, own, sizeof own);
        if (!*host || inet_pton(AF_INET, host, bytes) == 1 ||
            inet_pton(AF_INET6, host, bytes) == 1 || !strcasecmp(host, "localhost") ||
            !strcasecmp(host, own))
                return true;
        host[strcspn(host, ".")] = 0;
        snprintf(own, sizeof own, "%.*s", (int)strcspn(w->node, "."), w->node);
        return !strcasecmp(host, own);
}

/* In a time that does not depend on how much of the token is right. */
static bool has_token(const struct watch_serve *s, const char *head)
{
        static const char scheme[] = "Bearer ";
        char value[TOKEN_MOST + sizeof scheme];
        size_t n = s->token ? strlen(s->token) : 0;
        unsigned char wrong = 0;

        if (!s->token)
                return true;
        get_header(head, "Authorization", value, sizeof value);
        if (strncasecmp(value, scheme, strlen(scheme)) != 0 || strlen(value) != strlen(scheme) + n)
                return false;
        for (size_t i = 0; i < n; i++)
                wrong |= (unsigned char)(value[strlen(scheme) + i] ^ s->token[i]);
        return !wrong;
}

static bool asks_for(const char *head, const char *path)
{
        const char *at = strchr(head, ' ');

        return at && !strncmp(at + 1, path, strlen(path)) && strchr(" ?", at[1 + strlen(path)]);
}

struct answer {
        const char *status, *type, *text; /* text: NULL: the metrics */
        enum metrics_format format;
};

static struct answer choose_answer(const struct watch_serve *s, const struct watch *w,
                                   const char *head)
{
        static const char plain[] = "text/plain";
        const uint64_t lately = (uint64_t)(3 * w->options->every * 1e9) + 60 * UINT64_C(1000000000);
        char accept[1000];

        if (strncmp(head, "GET ", 4) && strncmp(head, "HEAD ", 5))
                return (struct answer){"405 Method Not Allowed", plain, "expected GET\n", 0};
        if (!is_host_ours(s, w, head))
                return (struct answer){
                        "421 Misdirected Request", plain,
                        "the Host of the request is not the name of this node; use that or an address\n",
                        0};
        if (asks_for(head, "/healthz"))
                return w->sampled_ns && capo_clock_of(CLOCK_REALTIME) < w->sampled_ns + lately
                               ? (struct answer){"200 OK", plain, "ok\n", 0}
                               : (struct answer){"503 Service Unavailable", plain,
                                                 "no sample for a long time\n", 0};
        if (!has_token(s, head))
                return (struct answer){"401 Unauthorized", plain, "expected a bearer token\n", 0};
        if (!asks_for(head, "/metrics"))
                return (struct answer){"404 Not Found", plain,
                                       "capo watch: the metrics are at /metrics\n", 0};
        get_header(head, "Accept", accept, sizeof accept);
        if (strcasestr(accept, "application/openmetrics-text"))
                return (struct answer){"200 OK", "application/openmetrics-text; version=1.0.0",
                                       NULL, METRICS_OPEN};
        return (struct answer){"200 OK", "text/plain; version=0.0.4", NULL, METRICS_TEXT};
}

static void reply_http(const struct watch_serve *s, const struct watch *w, struct client *c)
{
        struct answer a = choose_answer(s, w, c->head);
        _cleanup_free_ char *body = NULL;
        size_t n = 0;
        FILE *out = xmemstream(&body, &n);

        if (a.text)
                fputs(a.text, out);
        else
                metrics_print(w, NULL, a.format, out);
        xmemclose(out);
        out = xmemstream(&c->reply, &c->n_reply);
        fprintf(out,
                "HTTP/1.1 %s\r\nContent-Type: %s; charset=utf-8\r\nContent-Length: %zu\r\n"
                "Connection: close\r\n\r\n",
                a.status, a.type, n);
        if (strncmp(c->head, "HEAD ", 5) != 0)
                fwrite(body, 1, n, out);
        xmemclose(out);
}

/* Read what is there of the request. Return: 1: complete; 0: not yet; -errno: give up. */
static int read_request(struct client *c)
{
        while (c->n_head + 1 < sizeof c->head) {
                ssize_t got = recv(c->fd, c->head + c->n_head, sizeof c->head - 1 - c->n_head,
                                   MSG_DONTWAIT);

                if (got < 0 && errno == EINTR)
                        continue;
                if (got < 0)
                        return errno == EAGAIN ? 0 : -errno;
                if (got == 0)
                        return -EPIPE;
                c->n_head += (size_t)got;
                c->head[c->n_head] = 0;
                if (strstr(c->head, "\r\n\r\n"))
                        return 1;
        }
        return -E2BIG;
}

/* Send what can be sent. Return: 1: all was; 0: not yet; -errno: give up. */
static int send_reply(struct client *c)
{
        while (c->sent < c->n_reply) {
                ssize_t sent = send(c->fd, c->reply + c->sent, c->n_reply - c->sent,
                                    MSG_NOSIGNAL | MSG_DONTWAIT);

                if (sent < 0 && errno == EINTR)
                        continue;
                if (sent < 0)
                        return errno == EAGAIN ? 0 : -errno;
                c->sent += (size_t)sent;
        }
        return 1;
}

/* Go on with a connection as far as it can go now, and close it when it is done. */
static void serve_client(const struct watch_serve *s, const struct watch *w, struct client *c)
{
        int r = c->reply ? 1 : read_request(c);

        if (r > 0 && !c->reply)
                reply_http(s, w, c);
        if (r > 0)
                r = send_reply(c);
        if (r)
                drop_client(c);
}

/* A free place; with all in use, that of the oldest connection. */
static struct client *find_place(struct watch_serve *s)
{
        struct client *oldest = s->clients;

        for (struct client *c = s->clients; c < s->clients + WATCH_SERVE_CLIENTS; c++) {
                if (c->fd < 0)
                        return c;
                oldest = c->since_ns < oldest->since_ns ? c : oldest;
        }
        drop_client(oldest);
        return oldest;
}

void watch_serve_answer(struct watch_serve *s, const struct watch *w, const struct pollfd *fds)
{
        uint64_t now = capo_clock_mono();

        if (!s->clients)
                return;
        for (unsigned i = 0; i < WATCH_SERVE_CLIENTS; i++) {
                struct client *c = &s->clients[i];

                if (c->fd >= 0 && c->fd == fds[1 + i].fd && fds[1 + i].revents)
                        serve_client(s, w, c);
                else if (c->fd >= 0 && now - c->since_ns > PATIENCE_NS)
                        drop_client(c);
        }
        for (int n = 0, fd; fds[0].revents && n < ACCEPTED; n++) {
                struct client *c;

                fd = accept4(s->tcp, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
                if (fd < 0)
                        return;
                c = find_place(s);
                c->fd = fd;
                c->since_ns = capo_clock_mono();
                serve_client(s, w, c);
        }
}
