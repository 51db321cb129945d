/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files that make the verdict. */
#pragma once

#include "analysis/hang/culprits.h"
#include "analysis/hang/wait_graph.h"

/* Limits relative to job->after_ns. HANG_SHORT: a tenth is enough if more than time shows the
 * hang. HANG_LONG: four times as long for the creation of a communicator by all ranks, which is
 * slow in a large job or on a busy machine. */
#define HANG_SHORT 10
#define HANG_LONG  4

/* Ranks are read one after the other. A shorter wait may come from reading two of them at
 * different moments. */
#define HANG_MOMENT_NS 1000000000

/* Processes that end within this time may have ended for the same reason. */
#define HANG_TOGETHER_NS 500000000

/** hang_uses() - does that thread of @p make calls on communicator @comm, as far as known? */
bool hang_uses(const struct capo_hang_process *p, uint32_t comm, uint16_t thread);

/** hang_knows_threads() - is any call of @p on communicator @comm known, and thus a thread that
 * makes them? */
bool hang_knows_threads(const struct capo_hang_process *p, uint32_t comm);

/** hang_set_still() - set since when the accused ranks, or the whole job, made no progress. */
void hang_set_still(const struct capo_hang_job *job, struct capo_hang_verdict *v);

/** hang_may_be_queued() - is there a culprit whose GPU may be working off calls that are not timed,
 * while its host makes none? */
bool hang_may_be_queued(const struct capo_hang_job *job, const struct capo_hang_verdict *v);

/** hang_waits_on_worker() - have ranks waited for job->after_ns for a rank that makes other calls
 * meanwhile? Then @v becomes UNDECIDED. */
bool hang_waits_on_worker(const struct capo_hang_job *job, struct capo_hang_verdict *v);

/** hang_judge_tuned() - all ranks have entered a call that makes no progress: did NCCL choose the
 * same algorithm, protocol and channels on all of them?
 * @v: RUNNING, or the state of the GPUs is not known; becomes TUNED if the choices differ.
 * Different profiles count only if a GPU was seen to be stuck and the choices themselves are not
 * known. */
void hang_judge_tuned(const struct capo_hang_job *job, struct capo_hang_verdict *v);

/** hang_judge_lost() - was a process killed while all were in a call? */
void hang_judge_lost(const struct capo_hang_job *job, struct capo_hang_verdict *v);

/** hang_judge_ended() - which rank of a job ended first? For a job that is over, or in which no rank
 * waits.
 * @v: the verdict on the state before it ended. Becomes ENDED, or UNDECIDED if several ended
 * together. A verdict on a wait of @job->after_ns or more is kept, because the job hung before it
 * was ended. HEALTHY if all ranks ended by exit(0). */
void hang_judge_ended(const struct capo_hang_job *job, struct capo_hang_verdict *v);

/** hang_count_unseen() - number of ranks without any data. */
uint32_t hang_count_unseen(const struct capo_hang_job *job);

/** hang_prove_healthy() - keep HEALTHY only if it is proved; else UNDECIDED. Return: true if it is
 * UNDECIDED because nothing moves and the state of the GPUs is not known. */
bool hang_prove_healthy(const struct capo_hang_job *job, struct capo_hang_verdict *v);

/** hang_doubt() - find the first call that failed. "Certain" becomes "likely" if that call, or
 * something that is not recorded, may be the cause. A verdict becomes UNDECIDED if its culprit's
 * last calls are not known, or its GPU may be at work. */
void hang_doubt(const struct capo_hang_job *job, struct capo_hang_verdict *v);

/** hang_judge_inside() - all ranks are in a call: name hosts that do not return from it, or GPUs
 * that do not finish it. */
void hang_judge_inside(const struct capo_hang_job *job, struct capo_hang_verdict *v);

/** hang_all_are_in() - have all ranks, or their GPUs, entered the call? */
bool hang_all_are_in(const struct capo_hang_verdict *v);

/** hang_last_calls_unknown() - is the last call of a live process not known to have ended? */
bool hang_last_calls_unknown(const struct capo_hang_job *job);

/** hang_judge_stopped() - name a stopped process as the cause if otherwise only unfinished calls
 * and GPUs would be named, or nothing. */
void hang_judge_stopped(const struct capo_hang_job *job, struct capo_hang_verdict *v);

/** hang_judge_pause() - for a job in which no rank waits in a call, and none has made one for
 * @job->after_ns: a stopped process may be the reason. Becomes UNDECIDED. */
void hang_judge_pause(const struct capo_hang_job *job, struct capo_hang_verdict *v);
