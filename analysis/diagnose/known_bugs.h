/* SPDX-License-Identifier: Apache-2.0 */
/* Known bugs by release and symptom; the rows are in known_bugs.def. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum capo_bug_of { CAPO_BUG_NCCL, CAPO_BUG_OFI, CAPO_BUG_TORCH, CAPO_BUG_MACHINE, CAPO_BUG_OFS };
enum capo_bug_effect { CAPO_BUG_HANG, CAPO_BUG_CRASH, CAPO_BUG_CORRUPT, CAPO_BUG_SLOW };

struct capo_known_bug {
        enum capo_bug_of of;
        int first, fixed; /* releases as in core/base/nccl_release.h; fixed: CAPO_NCCL_LAST: not
                             fixed */
        enum capo_bug_effect effect;
        const char *when, *needs, *symptom, *advice, *link;
};

extern const struct capo_known_bug capo_known_bugs[];
extern const size_t capo_n_known_bugs;

enum capo_bug_match {
        CAPO_BUG_NO,
        CAPO_BUG_MAYBE, /* the release and what else must hold, or the symptom alone */
        CAPO_BUG_FITS,  /* the release and the symptom */
};

/** capo_bug_in() - does release @release of its software have it? 0: no; MACHINE: always. */
bool capo_bug_in(const struct capo_known_bug *bug, int release);

/** capo_bugs_newest() - the newest NCCL release in the table; for later releases nothing is known.
 */
int capo_bugs_newest(void);

/** capo_bug_match() - how well a bug matches the evidence
 * @release: of the bug's software; 0 not known
 * @has: does the evidence contain this text? */
enum capo_bug_match capo_bug_match(const struct capo_known_bug *bug, int release,
                                   bool (*has)(const char *text, void *arg), void *arg);

/** capo_bug_needed() - "A|B & -C|D": has the evidence A or B, and neither C nor D? */
bool capo_bug_needed(const char *needs, bool (*has)(const char *text, void *arg), void *arg);

/** capo_bug_any() - does @has accept any text of @list ("a|b")? False for an empty list. @found:
 * set to that text, 128 bytes; may be NULL. */
bool capo_bug_any(const char *list, bool (*has)(const char *text, void *arg), void *arg,
                  char *found);

/** capo_bug_software() - "NCCL", "aws-ofi-nccl", ...; capo_bug_does() - "hang", "crash", ... */
const char *capo_bug_software(enum capo_bug_of of);
const char *capo_bug_does(enum capo_bug_effect effect);
