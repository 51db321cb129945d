/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "cli/check/check.h"

/** check_slow_links() - PCIe below its maximum, errors of ports so far. */
void check_slow_links(struct capo_findings *f);
