/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of frames of a log, by name. For the files that write or read frames. */
#pragma once

enum capo_frame_type {
#define FRAME(id, number, since, meaning) CAPO_FRAME_##id = number,
#include "capo/log_frames.def"
        CAPO_FRAMES, /* one more than the last: readers step over it and all behind it */
};
