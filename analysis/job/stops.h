/* SPDX-License-Identifier: Apache-2.0 */
/* Times in which a process did not run: it was stopped (SIGSTOP, a debugger, a frozen container) or
 * got no processor. The recorder notices when its own sleep took seconds. Call times do not show
 * it: the call in which the others wait may have begun in time, and it lasts equally long on the
 * GPUs of all ranks. */
#pragma once

#include "analysis/job/job.h"

enum { CAPO_STOPS_MOST = 64 }; /* per process; the recorder notes no more */

struct capo_stop {
        double from, to; /* ns since 1970 */
};

/** capo_stops_of() - the stops of @p, at most @room. Return: how many. */
uint32_t capo_stops_of(const struct capo_job_process *p, struct capo_stop *to, uint32_t room);

/** capo_stops_covers() - did @p not run for most of @from .. @to? */
bool capo_stops_covers(const struct capo_job_process *p, double from, double to);

/** capo_stop_waiting() - how long the other members of @c waited for member @k to run again, summed
 * in ns. Their silence proves it: each of them ran, made no call during the stop, and made the next
 * one soon after it. Return: 0 if that does not hold for one of them. */
double capo_stop_waiting(const struct capo_job *job, const struct capo_job_comm *c, uint32_t k,
                         const struct capo_stop *s);
