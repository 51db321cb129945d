/* SPDX-License-Identifier: Apache-2.0 */
/* What verdict.c and alone.c share. */
#ifndef CAPO_HANG_JUDGE_H
#define CAPO_HANG_JUDGE_H

#include "analysis/hang/wait_graph.h"

/* Limits relative to job->after_ns. HANG_SHORT: a tenth is enough if more than time shows the
 * hang. HANG_LONG: four times as long for the creation of a communicator by all ranks, which is
 * slow in a large job or on a busy machine. */
#define HANG_SHORT 10
#define HANG_LONG  4

/* Ranks are read one after the other. A shorter wait may come from reading two of them at
 * different moments. */
#define HANG_MOMENT_NS 1000000000

#define HANG_TOGETHER_NS 500000000 /* ends so close together have one cause */

/** hang_accuse() - one more culprit, if it is none yet; @v->accused has room for @process. Return:
 * 0; -ENOMEM. */
int hang_accuse(struct capo_hang_verdict *v, uint32_t process, enum capo_hang_why why,
                const struct capo_hang_call *call);

/** hang_acquit() - nobody is a culprit any more. */
void hang_acquit(struct capo_hang_verdict *v);

/** hang_sort_culprits() - by rank; those that others wait for elsewhere come last. */
void hang_sort_culprits(const struct capo_hang_job *job, struct capo_hang_verdict *v);

/** hang_uses() - does that thread of @p make calls on communicator @comm, as far as known? */
bool hang_uses(const struct capo_hang_process *p, uint32_t comm, uint16_t thread);

/** hang_knows_threads() - is a call of @p on communicator @comm known, and so a thread that makes
 * such calls? */
bool hang_knows_threads(const struct capo_hang_process *p, uint32_t comm);

/** hang_set_still() - since when what the accused ranks owe, or the job, has not moved. */
void hang_set_still(const struct capo_hang_job *job, struct capo_hang_verdict *v);

/** hang_waits_on_worker() - ranks have waited for job->after_ns for one that makes other calls
 * meanwhile: then @v is UNDECIDED. Return: it is. */
bool hang_waits_on_worker(const struct capo_hang_job *job, struct capo_hang_verdict *v);

/** hang_last(), hang_running() - its last call; its first that its GPU was seen to be in, or may be
 * in. NULL none. */
const struct capo_hang_call *hang_last(const struct capo_hang_process *p);
const struct capo_hang_call *hang_running(const struct capo_hang_process *p);

/** hang_made_as() - the collective that @p made as number @seq of @comm; NULL: not among its last
 * calls. */
const struct capo_hang_call *hang_made_as(const struct capo_hang_process *p, uint32_t comm,
                                          uint32_t seq);

/**
 * hang_judge_tuned() - all ranks have entered a call that makes no progress: did NCCL choose the
 * same way to run it on all of them?
 * @v: RUNNING, or nobody knows what the GPUs do; TUNED afterwards where it did not. Profiles that
 * differ count where a GPU was seen to stand only, and where nothing is known of the choices
 * themselves.
 *
 * Return: 0; -ENOMEM.
 */
int hang_judge_tuned(const struct capo_hang_job *job, struct capo_hang_verdict *v);

/** hang_judge_lost() - one was killed where all were in a call. Return: 0, also where there is
 * none; -ENOMEM. */
int hang_judge_lost(const struct capo_hang_job *job, struct capo_hang_verdict *v);

/**
 * hang_judge_ended() - which rank of a job ended first? For a job that is over, or in which no
 * rank waits.
 * @v: what stood when it ended. ENDED afterwards, or UNDECIDED where several ended together. A
 * verdict on a wait of @job->after_ns or more is kept: the job hung before it was ended. HEALTHY
 * where all ranks ended by exit(0).
 *
 * Return: 0; -ENOMEM.
 */
int hang_judge_ended(const struct capo_hang_job *job, struct capo_hang_verdict *v);

/** hang_count_unseen() - ranks that nothing is known of. */
uint32_t hang_count_unseen(const struct capo_hang_job *job);

/** hang_prove_healthy() - HEALTHY stays only where it is proved; else UNDECIDED. Return: it is, and
 * because nothing moves and nobody knows what the GPUs do. */
bool hang_prove_healthy(const struct capo_hang_job *job, struct capo_hang_verdict *v);

/** hang_doubt() - find the first call that failed. "Certain" becomes "likely" where that, or what
 * is not recorded, may be the cause. */
void hang_doubt(const struct capo_hang_job *job, struct capo_hang_verdict *v);

/** hang_judge_inside() - hosts that do not come back from a call that all are in, or GPUs. Return:
 * as above. */
int hang_judge_inside(const struct capo_hang_job *job, struct capo_hang_verdict *v);

/** hang_all_are_in() - all ranks are in the call, or their GPUs: none of them is late. */
bool hang_all_are_in(const struct capo_hang_verdict *v);

/** hang_last_calls_unknown() - is a living process not known to have ended its last call? */
bool hang_last_calls_unknown(const struct capo_hang_job *job);

/** hang_judge_stopped() - a process that is stopped is the cause where otherwise only calls and
 * GPUs that do not end would be named, or nobody. Return: 0; -ENOMEM. */
int hang_judge_stopped(const struct capo_hang_job *job, struct capo_hang_verdict *v);

/** hang_judge_pause() - of a job where nobody waits in a call, and nobody has made one for
 * @job->after_ns: a stopped process may be why. UNDECIDED afterwards. Return: 0; -ENOMEM. */
int hang_judge_pause(const struct capo_hang_job *job, struct capo_hang_verdict *v);

#endif
