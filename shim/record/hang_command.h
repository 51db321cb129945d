/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAPO_HANG_COMMAND_H
#define CAPO_HANG_COMMAND_H

#include <stdbool.h>

/** capo_hang_command_begin() - keep what `capo hang` needs of the environment, before the program
 * changes it. */
void capo_hang_command_begin(void);

/** capo_hang_command_found() - is there a capo command beside this library? */
bool capo_hang_command_found(void);

/** capo_hang_command_start() - `capo hang --after SECONDS FOLDER`, its page into @out; not waited
 * for. */
void capo_hang_command_start(const char *folder, const char *out, unsigned seconds);

#endif
