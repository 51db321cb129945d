/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/** capo_own_cost() - a recorded call's, ns; on the drain thread, once, ~100 us. 0: not known. */
double capo_own_cost(void);
