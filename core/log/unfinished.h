/* SPDX-License-Identifier: Apache-2.0 */
/* Which calls a dead process was in: what it had composed in its rings and not published (shim/record/recorder.h). */
#ifndef CAPO_UNFINISHED_H
#define CAPO_UNFINISHED_H

#include "core/log/segment.h"

/**
 * capo_unfinished() - the lines of INFO `unfinished` (include/capo/log_keys.def), before anything takes the segment over
 * @text: room for whole lines; what does not fit is left out
 *
 * A thread writes all of a call into its ring before the call, and the end behind it. A record at the head that is younger
 * than the one before is of this round; it has not returned when it has no end that is younger still. Members of a group
 * stay behind the head until the group has ended.
 *
 * Return: bytes of @text; 0: in none.
 */
size_t capo_unfinished(const struct capo_segment *seg, char *text, size_t room);

#endif
