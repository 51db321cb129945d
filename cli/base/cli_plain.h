/* SPDX-License-Identifier: Apache-2.0 */
/* The way out: whatever a verb prints or writes as text goes through core/base/plain_text.h. */
#ifndef CAPO_CLI_PLAIN_H
#define CAPO_CLI_PLAIN_H

#include <stdio.h>

/** cli_plain_stdout() - from here on; before anything is printed. */
void cli_plain_stdout(void);

/** cli_plain_file() - a stream that writes to @fd, which it takes, plain text. Return: NULL with
 * errno set. */
FILE *cli_plain_file(int fd);

/** cli_plain_why_not() - errno of the last write of all these streams that failed; 0: none has. */
int cli_plain_why_not(void);

#endif
