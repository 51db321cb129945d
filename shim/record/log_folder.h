/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

/** capo_folder_choose() - name the log, when the segment is there, and make its folder if that can
 * be done now. Says why where there will be none. On the job's thread. */
void capo_folder_choose(void);

/** capo_folder_make() - the folder of logs, and the log's name in it. On the job's thread at the
 * start; where that failed and may not always fail, again on the drain thread before it makes the
 * log. Return: 0; -errno. */
int capo_folder_make(void);

/** capo_is_lasting() - @error (negative) is one that time does not mend. */
bool capo_is_lasting(int error);

/** capo_rest_goes() - where what the log lacks at the process's end is found, or that it is not. */
const char *capo_rest_goes(void);

/* In the child after fork(). */
void capo_folder_fork(void);
