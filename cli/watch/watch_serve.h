/* SPDX-License-Identifier: Apache-2.0 */
/* Serves the metrics of the last sample: over HTTP (--listen), as JSON lines (--socket). */
#ifndef CAPO_WATCH_SERVE_H
#define CAPO_WATCH_SERVE_H

#include <poll.h>

#include "cli/watch/watch_jobs.h"

enum { WATCH_SERVE_FDS = 2 };

struct watch_serve {
        int tcp, local;     /* listening sockets; -1: none */
        const char *socket; /* file of `local`, to be removed */
};

/** watch_serve_begin() - open the sockets; prints errors. Return: 0; -errno; -EDESTADDRREQ: no
 * address. */
int watch_serve_begin(struct watch_serve *s, const struct watch_options *o);
void watch_serve_finish(struct watch_serve *s);

/** watch_serve_poll() - fill the descriptors to wait for. Return: WATCH_SERVE_FDS. */
unsigned watch_serve_poll(const struct watch_serve *s, struct pollfd fds[WATCH_SERVE_FDS]);

/** watch_serve_answer() - answer one request per socket; each takes at most 2 s. */
void watch_serve_answer(struct watch_serve *s, const struct watch *w,
                        const struct pollfd fds[WATCH_SERVE_FDS]);

#endif
