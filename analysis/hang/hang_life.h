/* SPDX-License-Identifier: Apache-2.0 */
/* Which processes live, which have ended and how, and which logs are not whole. */
#ifndef CAPO_HANG_LIFE_H
#define CAPO_HANG_LIFE_H

#include "analysis/hang/hang_verdict.h"
#include "analysis/job/job.h"

/* What is known of a process beside its log. */
enum capo_hang_known {
        CAPO_HANG_BY_LOG,   /* nothing */
        CAPO_HANG_IS_ALIVE, /* and its log is as old as this moment */
        CAPO_HANG_IS_STOPPED,
        CAPO_HANG_IS_DEAD, /* its log says how and when */
};

/* The last HANG frame of a log that is not final, where the process recorded no call after it. */
struct hang_moment {
        uint64_t at_ns; /* since 1970; 0: there is none */
        uint64_t offset;
};

/**
 * hang_tell_lives() - fill life, ending and times of @out->processes, and what follows for the job
 * @known, @now_ns: as capo_hang_read() has them
 * @moments:        zeroed, by process; filled
 */
void hang_tell_lives(const struct capo_job *job, const uint8_t *known, uint64_t now_ns,
                     struct capo_hang_job *out, struct hang_moment *moments);

#endif
