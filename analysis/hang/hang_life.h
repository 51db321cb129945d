/* SPDX-License-Identifier: Apache-2.0 */
/* Which processes run, which ended and how, and which logs are incomplete. */
#pragma once

#include "analysis/hang/hang_verdict.h"
#include "analysis/job/job.h"

/* What is known of a process besides its log. */
enum capo_hang_known {
        CAPO_HANG_BY_LOG,   /* nothing */
        CAPO_HANG_IS_ALIVE, /* it runs, and its log is current */
        CAPO_HANG_IS_STOPPED,
        CAPO_HANG_IS_DEAD, /* its log has how and when it ended */
};

/* The last HANG frame of an incomplete log, if the process recorded no call after it. */
struct hang_moment {
        uint64_t at_ns; /* since 1970; 0: none */
        uint64_t offset;
};

/**
 * hang_tell_lives() - fill life, ending and times of @out->processes, and the job's fields that
 * follow from them
 * @known, @now_ns: as in capo_hang_read()
 * @moments: zeroed array, by process; filled
 */
void hang_tell_lives(const struct capo_job *job, const uint8_t *known, uint64_t now_ns,
                     struct capo_hang_job *out, struct hang_moment *moments);
