/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAPO_CHECK_SLOW_LINKS_H
#define CAPO_CHECK_SLOW_LINKS_H

#include "cli/check/check.h"

/** check_slow_links() - PCIe below its maximum, errors of ports so far. */
void check_slow_links(struct capo_findings *f);

#endif
