/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAPO_UNSEEN_H
#define CAPO_UNSEEN_H

#include <stdbool.h>

/** capo_recording_wanted() - do the settings ask for logs? For processes that have not called NCCL
 * and may never. */
bool capo_recording_wanted(void);

#endif
