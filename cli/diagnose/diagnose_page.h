/* SPDX-License-Identifier: Apache-2.0 */
/* The page of capo diagnose, and its exit status. */
#pragma once

#include "cli/diagnose/diagnose_inputs.h"

/** diagnose_page(), diagnose_json() - print the page; @markdown: for pasting into an issue.
 * diagnose_bugs() - print the known bugs of an NCCL release, 0: all. Return: 0; -EIO. */
int diagnose_page(struct diagnose_inputs *in, bool markdown, FILE *out);
int diagnose_json(struct diagnose_inputs *in, FILE *out);
int diagnose_bugs(int release, bool json, FILE *out);

enum { UNDECIDED_EXIT = 3 };

/** diagnose_exit() - exit status: 0, 1 or 3. */
int diagnose_exit(const struct diagnose_inputs *in);
