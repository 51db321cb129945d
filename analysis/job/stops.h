/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times in which a process did not run: it was stopped (SIGSTOP, a debugger, a frozen container) or
 * had no processor. Its recorder knows by a nap that took seconds. The calls do not show that: the
 * one in which the others wait may have begun in time, and lasts as long on the GPUs of all ranks.
 */
#ifndef CAPO_STOPS_H
#define CAPO_STOPS_H

#include "analysis/job/job.h"

enum { CAPO_STOPS_MOST = 64 }; /* of a process: the recorder notes no more */

struct capo_stop {
        double from, to; /* ns since 1970 */
};

/** capo_stops_of() - those of @p, at most @room. Return: how many. */
uint32_t capo_stops_of(const struct capo_job_process *p, struct capo_stop *to, uint32_t room);

/** capo_stops_covers() - did @p not run for most of @from .. @to? */
bool capo_stops_covers(const struct capo_job_process *p, double from, double to);

/**
 * capo_stop_waiting() - how long the other members of @c waited for member @k to run again, summed
 *
 * Proved by their silence: each of them ran, made no call meanwhile, and made the next one soon
 * after it had run again. 0: one of them did not.
 */
double capo_stop_waiting(const struct capo_job *job, const struct capo_job_comm *c, uint32_t k,
                         const struct capo_stop *s);

#endif
