/* SPDX-License-Identifier: Apache-2.0 */
/* capo diff for two files of measurements: nccl-tests output before and after a change. */
#pragma once

#include "cli/base/cli_page.h"

/** diff_files_are() - is @path a file of measurements (not a log, and not a folder of logs)? */
bool diff_files_are(const char *path);

/** diff_files() - compare two of them and print the page, of rows within noise only how many unless
 * @all. Return: exit status of capo diff. */
int diff_files(const char *before, const char *after, double min_change, bool all,
               enum cli_form form);
