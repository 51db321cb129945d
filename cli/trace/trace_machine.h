/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "cli/trace/trace.h"

/** trace_write_machine() - write the readings of the machine by a process. */
void trace_write_machine(struct trace *t, uint32_t process);
