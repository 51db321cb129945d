/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/** capo_own_cost() - what a recorded call costs here, ns; on the drain thread, once, about 100 us.
 * 0: not known. */
double capo_own_cost(void);
