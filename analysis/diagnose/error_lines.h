/* SPDX-License-Identifier: Apache-2.0 */
/* What line_table.c needs of error_lines.c. */
#pragma once

#include "analysis/diagnose/evidence.h"

#define CAPO_TIMEOUT_LINE "Watchdog caught collective operation timeout"

/** capo_exception_line() - the exception of a traceback whose first line is @line: the first line
 * after it that is not indented. All lines may have the prefix before @at ("[rank0]: "). Return: that
 * line; @line if the traceback is cut. */
const char *capo_exception_line(const char *at, const char *line);

/** capo_torchrun_rank() - the rank of the block of torchrun's report that @line is in; -1: none. */
int32_t capo_torchrun_rank(const char *text, const char *line);

void capo_slurm_nodes_name(struct capo_evidence *e); /* add them to findings about nodes */
void capo_exceptions_read(struct capo_evidence *e);
