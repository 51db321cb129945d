/* SPDX-License-Identifier: Apache-2.0 */
/* What the program itself asked for with single calls (ncclAllReduceConfig and the like). */
#pragma once

#include "analysis/job/job.h"

struct capo_asked {
        char *text; /* "algSelection=RING_LL maxCTAs=4"; "" asked for nothing */
        uint64_t calls;
};

/** capo_asked_text() - what the calls of a call site asked for
 * @site: the text of a SITE frame (docs/internals/log-format.md)
 * @n: its bytes
 * @length: bytes of the result
 * Return: a pointer into @site, without a zero behind it; NULL when they asked for nothing. */
const char *capo_asked_text(const char *site, size_t n, size_t *length);

/** capo_job_asked() - what the single calls in the logs asked for: calls of kind @call with @bytes
 * to @most bytes
 * @comm: only communicators whose name matches this shell pattern; NULL: all
 * @out: most calls first; empty when none asked for anything. For the life of the process.
 *
 * Return: the number of items. A log that can no longer be read adds nothing. */
long capo_job_asked(const struct capo_job *job, unsigned call, uint64_t bytes, uint64_t most,
                    const char *comm, struct capo_asked **out);
