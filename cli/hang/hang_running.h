/* SPDX-License-Identifier: Apache-2.0 */
/* The verdict on a running job, for pages of other verbs. */
#pragma once

/** hang_of_running() - the verdict on the job that @words mean (as in capo hang), in one line without
 * its newline. NULL: none of it runs here, or nothing is seen to stand. free() it. */
char *hang_of_running(int n, char **words);
