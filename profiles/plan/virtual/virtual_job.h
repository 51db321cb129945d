/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/** plan_fail() - report why this job cannot be answered; only the first report of all workers is
 * kept. */
void plan_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** plan_fail_wait() - let another thread of this process finish its report, before exit. */
void plan_fail_wait(void);

/** plan_gap() - note the call of a CUDA function without virtual implementation; once per name.
 * Returns cudaErrorNotSupported. */
int plan_gap(const char *name);
