/* SPDX-License-Identifier: Apache-2.0 */
/* What the program itself asked for with single calls (ncclAllReduceConfig and the like). */
#ifndef CAPO_ASKED_H
#define CAPO_ASKED_H

#include "analysis/job/job.h"

struct capo_asked {
        char *text; /* "algSelection=RING_LL maxCTAs=4"; "" asked for nothing */
        uint64_t calls;
};

/**
 * capo_asked_text() - what the calls of a place asked for
 * @site: the text of a SITE frame (docs/internals/log-format.md); @n: its bytes; @length: of the
 * result Return: into @site; NULL: for nothing.
 */
const char *capo_asked_text(const char *site, size_t n, size_t *length);

/**
 * capo_job_asked() - of the calls @call of @bytes to @most that the logs keep one by one: what they
 * asked for
 * @comm: only on communicators of that name, as in the shell; NULL all
 * @out:  by falling number of calls; capo_asked_free() it. Empty where none asked for anything.
 *
 * Return: their number; -ENOMEM. A log that cannot be read any more has none.
 */
long capo_job_asked(const struct capo_job *job, unsigned call, uint64_t bytes, uint64_t most,
                    const char *comm, struct capo_asked **out);
void capo_asked_free(struct capo_asked *list, long n);

#endif
