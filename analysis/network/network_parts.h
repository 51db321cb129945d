/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of this module; others include analysis/network/network.h. */
#pragma once

#include "analysis/network/network.h"

/** fabric_links_make() - fill @f->links from its processes. */
void fabric_links_make(struct capo_fabric_job *f, const struct capo_job *job);

/** fabric_shares_make() - fill @f->shares: assign the traffic of all processes to calls. */
void fabric_shares_make(struct capo_fabric_job *f, const struct capo_job *job);

/** fabric_share_of() - the index in @f->shares of (@comm, @call), made if missing. */
uint32_t fabric_share_of(struct capo_fabric_job *f, uint32_t comm, uint8_t call);

/* The time of a call. */
struct fabric_span {
        uint64_t begin, end; /* CLOCK_MONOTONIC of the host */
        uint32_t share;      /* index in f->shares */
};

struct fabric_spans {
        struct fabric_span *span;
        size_t n;
};

/* The calls of one process: `were` for calls with a known time, `maybe` for the span in which a
 * call with an unknown time can have been. */
struct fabric_calls {
        struct fabric_spans were, maybe;
};

/** fabric_spans_read() - read the single calls of one log, and count them in their shares. A log
 * that cannot be read again has no calls. The caller frees the lists in @calls. */
void fabric_spans_read(struct capo_fabric_job *f, const struct capo_job *job, uint32_t process,
                       struct fabric_calls *calls);
