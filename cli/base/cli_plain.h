/* SPDX-License-Identifier: Apache-2.0 */
/* Text output of all verbs passes through core/base/plain_text.h. */
#pragma once

#include <stdio.h>

/** cli_plain_stdout() - filter stdout from now on; call it before anything is printed. */
void cli_plain_stdout(void);

/** cli_plain_file() - a filtered stream that writes to @fd and owns it. Return: NULL with errno
 * set. */
FILE *cli_plain_file(int fd);

/** cli_plain_why_not() - errno of the last failed write of these streams; 0: none failed. */
int cli_plain_why_not(void);
