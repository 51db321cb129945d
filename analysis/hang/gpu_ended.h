/* SPDX-License-Identifier: Apache-2.0 */
/* What the GPUs were seen to do while the hosts made no call: a host can be far ahead of its GPU,
 * and waits for the whole queue in no call that capo records. */
#pragma once

#include "analysis/hang/hang_verdict.h"
#include "core/log/unfinished.h"

/** hang_take_ended() - what @u says of that, of communicator @comm of @p; @t0: of the log. */
void hang_take_ended(struct capo_hang_process *p, uint32_t comm, uint64_t t0,
                     const struct capo_unfinished_call *u);

/** hang_ended_ns() - when the GPU of @p was last seen to end a call of @comm, or one on a stream
 * that the last ones of @comm are on. 0: it was not. */
uint64_t hang_ended_ns(const struct capo_hang_process *p, uint32_t comm);

/** hang_may_go_on() - can the GPU be busy at @now_ns with calls between the last that was seen to
 * end and the next that is timed? */
bool hang_may_go_on(const struct capo_hang_process *p, uint32_t comm, uint64_t now_ns);
