/* SPDX-License-Identifier: Apache-2.0 */
/* What the files that join NCCL and libfabric share among themselves; analysis/network/network.h is
 * what others see. */
#ifndef CAPO_FABRIC_PARTS_H
#define CAPO_FABRIC_PARTS_H

#include "analysis/network/network.h"

/** fabric_links_make() - fill @f->links from its processes. Return: 0; -ENOMEM. */
int fabric_links_make(struct capo_fabric_job *f, const struct capo_job *job);

/** fabric_shares_make() - fill @f->shares: the traffic of all processes, to the calls it was for.
 * Return: 0; -ENOMEM. */
int fabric_shares_make(struct capo_fabric_job *f, const struct capo_job *job);

/** fabric_share_of() - index in @f->shares of (@comm, @call), made when it is not there. Return: 0;
 * -ENOMEM. */
int fabric_share_of(struct capo_fabric_job *f, uint32_t comm, uint8_t call, uint32_t *out);

/* When a call was. */
struct fabric_span {
        uint64_t begin, end; /* CLOCK_MONOTONIC of the host */
        uint32_t share;      /* index in f->shares */
};

struct fabric_spans {
        struct fabric_span *span;
        size_t n;
};

/* The calls of one process: when they were, as far as that is known, and when those can have been
 * of which it is not. */
struct fabric_calls {
        struct fabric_spans were, maybe;
};

/** fabric_spans_read() - the single calls of one log; a log that cannot be read a second time has
 * none. They are counted in their shares. The lists of @calls are the caller's to free. Return: 0;
 * -ENOMEM. */
int fabric_spans_read(struct capo_fabric_job *f, const struct capo_job *job, uint32_t process,
                      struct fabric_calls *calls);

#endif
