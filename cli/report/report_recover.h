/* SPDX-License-Identifier: Apache-2.0 */
/* What killed processes left in memory: capo report recovers it first, or does only that. */
#ifndef CAPO_REPORT_RECOVER_H
#define CAPO_REPORT_RECOVER_H

#include <stdbool.h>

#include "analysis/log/log_find.h"

enum report_recover {
        REPORT_RECOVER_FIRST, /* then the page */
        REPORT_RECOVER_NOT,
        REPORT_RECOVER_ONLY, /* no page from here on */
        REPORT_RECOVER_ALL,  /* as root: of every job */
        REPORT_RECOVER_LIST, /* only show them */
        REPORT_RECOVER_DROP, /* only remove what belongs to logs whose folder is gone */
};

/** report_recover_first() - what killed processes of this machine left in memory goes into their
 * logs in the folders of @paths. Return: true: there may be one more log now. */
bool report_recover_first(const struct capo_log_paths *paths);

/** report_recover_only() - capo report --recover: @what without a page. @dir: of the logs; NULL:
 * all. Return: an exit status, what failed is said. */
int report_recover_only(enum report_recover what, const char *dir);

#endif
