/* SPDX-License-Identifier: Apache-2.0 */
/* Serves the metrics of the last sample: over HTTP (--listen). */
#pragma once

#include <poll.h>

#include "cli/watch/watch_jobs.h"

enum { WATCH_SERVE_CLIENTS = 32, WATCH_SERVE_FDS = 1 + WATCH_SERVE_CLIENTS };

struct watch_serve {
        int tcp;                /* listening socket; -1: none */
        const char *where;      /* --listen */
        char *token;            /* NULL: none is asked for */
        struct client *clients; /* WATCH_SERVE_CLIENTS; NULL: nothing is served */
};

/** watch_serve_begin() - open the socket; prints errors. Return: 0; -errno; -EDESTADDRREQ: no
 * address. watch_serve_finish() in any case. */
int watch_serve_begin(struct watch_serve *s, const struct watch_options *o);

void watch_serve_finish(struct watch_serve *s);

/** watch_serve_poll() - fill the descriptors to wait for. Return: how many: 0, WATCH_SERVE_FDS. */
unsigned watch_serve_poll(const struct watch_serve *s, struct pollfd fds[WATCH_SERVE_FDS]);

/** watch_serve_answer() - go on with all connections; never waits. If there are too many, the
 * oldest is closed. @fds: from watch_serve_poll(). */
void watch_serve_answer(struct watch_serve *s, const struct watch *w, const struct pollfd *fds);
