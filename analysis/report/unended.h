/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that were not seen to end. */
#pragma once

struct capo_job;

/** capo_unended_share() - the part of the ranks' time for which a call was under way that was not
 * seen to end, as far as known; 0 to 1. Times on the GPU leave such calls out. */
double capo_unended_share(const struct capo_job *job);
