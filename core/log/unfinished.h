/* SPDX-License-Identifier: Apache-2.0 */
/* The calls that a process is in, or was in when it died: records that it had composed in its rings
 * and not published (shim/record/recorder.h). Reading needs no help of the process, because a
 * thread writes the record before it enters the call and leaves it there until the call returns. */
#pragma once

#include "capo/record.h"
#include "core/log/segment.h"

/* What a line is about. */
enum capo_unfinished_where {
        CAPO_UNFINISHED_HOST,   /* the call had not returned */
        CAPO_UNFINISHED_MEMBER, /* it had, in a group that had not ended: NCCL has not begun it */
        CAPO_UNFINISHED_GROUP,  /* the last of those, once more */
        CAPO_UNFINISHED_ENDS, /* ncclGroupEnd() of that group had not returned: NCCL has all of its
                                 members */
        CAPO_UNFINISHED_RUNNING, /* the oldest of its communicator that the GPU was not seen to end
                                  */
        CAPO_UNFINISHED_GPU,     /* the oldest of those, once more */
        CAPO_UNFINISHED_BUSY,    /* the last of a quiet communicator: its stream had not ended. Not
                                    timed: work behind it on the stream may be what had not */
        CAPO_UNFINISHED_IDLE,    /* of a quiet communicator: all on its stream had ended, up to
                                    collective `seq` and message `peer` */
        CAPO_UNFINISHED_ENDED, /* not a call that stands: call `seq` of the communicator was seen to
                                  end on the GPU at t_begin. `bytes`: ns that its calls take there
                                */
        CAPO_UNFINISHED_LOST,  /* nor is this: the last call of this thread that found no room began
                                  at t_begin */
        CAPO_UNFINISHED_WHERES,
};

/** capo_unfinished_each() - @found each call of capo_unfinished(); times in ticks, not to keep. */
typedef void (*capo_unfinished_fn)(enum capo_unfinished_where where, const struct capo_record *r,
                                   void *arg);
void capo_unfinished_each(const struct capo_segment *seg, capo_unfinished_fn found, void *arg);

struct capo_ring;
/** capo_unfinished_inside() - is the thread of @ring inside an NCCL call? */
bool capo_unfinished_inside(const struct capo_segment *seg, const struct capo_ring *ring);

/** capo_unfinished() - the lines of INFO `unfinished` (include/capo/log_keys.def), before anything
 * takes the segment over
 * @text: room for whole lines; what does not fit is left out
 *
 * A thread writes the record of a call before the call and its end afterwards. A record at the head
 * that is younger than the one before belongs to this round. Its call has not returned if it has no
 * end that is younger still. Members of a group stay behind the head until the group has ended.
 *
 * Return: bytes of @text; 0: in none. */
size_t capo_unfinished(const struct capo_segment *seg, char *text, size_t room);

/* t_begin: ns since the epoch; t_end 0. Calls that create a communicator have in stream its
 * folded uid, in peer our rank, in bytes its ranks; 0 if not known. */
struct capo_unfinished_call {
        enum capo_unfinished_where where;
        struct capo_record record;
};

/** capo_unfinished_read() - a value of INFO `unfinished`, up to its newline. False: it is none. */
bool capo_unfinished_read(const char *line, struct capo_unfinished_call *out);
