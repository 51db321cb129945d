/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/** capo_doctor_misspelt() - call @say for each CAPO_* of the environment that is no setting, but
 * resembles one. */
void capo_doctor_misspelt(void (*say)(const char *name, const char *meant));
