/* SPDX-License-Identifier: Apache-2.0 */
/* Locks of a library that lives in somebody else's process. A thread of the job may be cancelled
 * (pthread_cancel) at any cancellation point, asynchronously even anywhere; one that ended with a
 * lock of ours held would stop all others for ever. So nobody can be cancelled while he holds one;
 * what was asked for meanwhile happens afterwards. */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#define CAPO_CANCEL_SIGNAL 32 /* by which glibc ends a thread that is cancelled */

/** capo_lock(), capo_unlock() - on the same thread, as often the one as the other; different locks
 * may nest. capo_trylock(): false where somebody has it; else it is held, as by capo_lock(). One
 * taken in another way must not be given back by capo_unlock(). */
void capo_lock(pthread_mutex_t *lock);
bool capo_trylock(pthread_mutex_t *lock);
void capo_unlock(pthread_mutex_t *lock);

/** capo_lock_brief(), capo_unlock_brief() - the same without system calls of their own, for what
 * runs per call of NCCL. Nothing in between may be a cancellation point (pthreads(7)). */
void capo_lock_brief(pthread_mutex_t *lock);
void capo_unlock_brief(pthread_mutex_t *lock);

/** capo_locked() - number of locks that this thread holds or is about to take. A signal handler
 * checks it before it waits for one. */
unsigned capo_locked(void);
