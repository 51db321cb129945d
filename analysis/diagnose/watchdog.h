/* SPDX-License-Identifier: Apache-2.0 */
/* Parsed lines of PyTorch's watchdog: watchdog.c reads them, watchdog_judge.c judges. Private to
 * these two. */
#ifndef CAPO_WATCHDOG_H
#define CAPO_WATCHDOG_H

#include "analysis/diagnose/evidence.h"

enum { WATCH_GROUP = 64, WATCH_WORD = 40 };

/* One rank in one process group. -1: not known. */
struct watch {
        int32_t rank;
        char group[WATCH_GROUP]; /* "67", "0(default_pg)"; "": not known */
        int64_t stuck;           /* number of the call that timed out */
        char op[WATCH_WORD];
        int64_t in, out;
        int64_t enqueued, completed;
        struct capo_evidence_mark mark;
};

struct watches {
        struct capo_evidence *e;
        uint32_t text;
        struct watch *v;
        uint32_t n;
};

/** capo_watch_group() - add the finding about one group, if one of its ranks waits. Return: 0;
 * -ENOMEM. */
int capo_watch_group(const struct watches *w, const char *group);

/** capo_watch_undecided() - add a finding if ranks timed out or received a dump signal, and none
 * says what it waits in. Return: 0; -ENOMEM. */
int capo_watch_undecided(struct watches *w);

#endif
