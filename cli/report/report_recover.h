/* SPDX-License-Identifier: Apache-2.0 */
/* Recovers the memory of killed processes: before the report, or instead of it. */
#pragma once

#include "analysis/log/log_find.h"

enum report_recover {
        REPORT_RECOVER_FIRST, /* then print the page */
        REPORT_RECOVER_NOT,
        REPORT_RECOVER_ONLY, /* no page; values from here on print none */
        REPORT_RECOVER_ALL,  /* as root: for every job */
        REPORT_RECOVER_LIST, /* only list them */
        REPORT_RECOVER_DROP, /* only remove memory of logs whose folder no longer exists */
};

/** report_recover_first() - add what killed processes on this machine left in memory to their logs
 * in the folders of @paths. Return: true: there may be a new log. */
bool report_recover_first(const struct capo_log_paths *paths);

/** report_recover_only() - capo report --recover: do @what without a page. @dir: folder of the
 * logs; NULL: all. Return: an exit status; failures are printed. */
int report_recover_only(enum report_recover what, const char *dir);
