/* SPDX-License-Identifier: Apache-2.0 */
/* All that a reader of logs needs, for programs outside capo. Inside, each file includes the part
 * that it uses, so that a changed list rebuilds few of them. */
#pragma once

#include "capo/algorithms.h"
#include "capo/frame_types.h"
#include "capo/kernels.h"
#include "capo/log_layout.h"
#include "capo/record.h"
