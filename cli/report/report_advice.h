/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "analysis/report/job_page.h"
#include "cli/base/cli_machine.h"

/** report_advise() - set the advice of page->allocation, of ranks on @gpus. Nothing where NCCL
 * cannot be asked. Seconds. */
void report_advise(struct capo_page *page, const struct cli_machine_words *where,
                   const struct capo_plan_gpu *gpus, uint32_t n);
